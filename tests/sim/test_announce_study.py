"""What the chapter leaves to future work, measured; and that every option of the study bites.  [LE §5.7]"""

from typing import Any

import pytest

from doyen.core.config import options
from doyen.errors import ConfigError
from doyen_papers.analysis.announce import value
from doyen_papers.analysis.setting import Setting
from doyen_papers.studies.announce import Extensions, Summary, simulate, study


def run(runs: int = 60, *, extensions: Extensions = Extensions(), **given: Any) -> Summary:  # noqa: B008
    return study(Setting(**given), runs=runs, seed=5, jobs=1, extensions=extensions)


def mean(summary: Summary, name: str) -> float:
    found = getattr(summary, name)
    assert found is not None, f"{name} never happened"
    result: float = found.mean
    return result


def test_with_a_perfect_rank_map_le_s_behaves_as_le_m() -> None:
    mapped = run(120, nodes=30, loss_model="none", extensions=Extensions(rank_map="perfect"))
    earliest = run(120, variant="le-m", nodes=30, loss_model="none")
    for name in ("tmax", "messages"):
        a, b = getattr(mapped, name), getattr(earliest, name)
        assert abs(a.mean - b.mean) < 4 * (a.stderr**2 + b.stderr**2) ** 0.5, (name, a, b)
    assert mean(mapped, "tmax") < 0.1 < mean(run(nodes=30, loss_model="none"), "tmax")


def test_a_likely_rank_map_lies_between_none_and_perfect() -> None:
    none, likely, perfect = (
        run(150, nodes=30, loss_model="none", extensions=Extensions(rank_map=how))  # type: ignore[arg-type]
        for how in ("none", "likely", "perfect")
    )
    assert mean(perfect, "tmax") < mean(likely, "tmax") < mean(none, "tmax")
    assert mean(perfect, "messages") < mean(likely, "messages") < mean(none, "messages")


@pytest.mark.parametrize("loss", [0.0, 0.3])
@pytest.mark.parametrize("k", [2, 3, 12])
def test_k_leaders_are_agreed_upon(k: int, loss: float) -> None:
    summary = run(30, nodes=10, loss=loss, extensions=Extensions(leader_count=k))
    assert summary.converged == 30


@pytest.mark.parametrize("engine", ["machine", "kernel"])
def test_an_election_that_takes_no_time_has_its_announcers_in_one_interval(engine: Any) -> None:
    summary = study(Setting(variant="le-a", nodes=5, delay_s=0.0), runs=2, seed=1, jobs=1, engine=engine)
    assert summary.leaders is not None and summary.leaders.mean == 5.0


def test_more_leaders_take_more_messages() -> None:
    one, three = (run(nodes=20, loss=0.2, extensions=Extensions(leader_count=k)) for k in (1, 3))
    assert mean(one, "messages") < mean(three, "messages")


def test_bye_shortens_re_establishment() -> None:
    silent = run(nodes=10, event="leader-departs", listen_s=3.0, loss=0.1)
    polite = run(
        nodes=10, event="leader-departs", listen_s=3.0, loss=0.1, extensions=Extensions(bye=True, bye_loss=0.1)
    )
    assert mean(polite, "reestablishment") < mean(silent, "reestablishment") - 1.5


def test_enough_byes_reach_everybody() -> None:
    few, enough = (
        run(nodes=10, event="leader-departs", listen_s=5.0, loss=0.4, extensions=Extensions(bye=True, bye_loss=loss))
        for loss in (0.0, 0.4)
    )
    assert mean(enough, "messages") > mean(few, "messages") + 1  # They cost messages,
    assert mean(enough, "reestablishment") < mean(few, "reestablishment")  # and are worth it.


def test_a_query_finds_the_leader_sooner_than_its_next_announcement() -> None:
    waiting = run(variant="le-a", nodes=10, event="joiner-worse", announce_s=5.0, loss=0.0)
    asking = run(
        variant="le-a", nodes=10, event="joiner-worse", announce_s=5.0, loss=0.0, extensions=Extensions(query_s=0.3)
    )
    assert 0.15 < mean(asking, "reestablishment") <= 0.2  # One round trip, or an announcement that came first.
    assert mean(waiting, "reestablishment") > 1.5


def test_suppress_then_query_sends_fewer_messages_than_query_and_takes_longer() -> None:
    at_once = run(variant="le-a", nodes=30, loss=0.0, extensions=Extensions(query_s=0.4))
    suppressed = run(variant="le-s", nodes=30, loss=0.0, extensions=Extensions(query_s=0.4))
    assert mean(suppressed, "messages") < mean(at_once, "messages") / 2
    assert mean(suppressed, "tmax") > mean(at_once, "tmax")


def test_ageing_speeds_agreement_under_loss() -> None:
    plain, aged = (
        run(150, nodes=10, event="leader-departs", listen_s=3.0, loss=0.4, extensions=Extensions(ageing_s=age))
        for age in (float("inf"), 1.5)
    )
    assert plain.trace_hash != aged.trace_hash
    assert mean(aged, "reestablishment") != mean(plain, "reestablishment")


def test_sup_al_by_receipt_yields_several_leaders_or_none_and_is_caught() -> None:
    summary = run(300, variant="sup-al-receipt", nodes=4, delay_s=0.3, loss=0.3)
    assert summary.converged < 300
    outcomes = set()
    for seed in range(300):
        for loss in (0.3, 0.99):
            setting = Setting(variant="sup-al-receipt", nodes=3, delay_s=0.3, loss=loss)
            outcomes.add(simulate(setting, seed).leaders)
    assert 0 in outcomes  # A defers to B, B to C, C to A: nobody leads.
    assert outcomes & {2, 3}


def test_sup_al_redraw_lets_only_some_announce_and_spread_all() -> None:
    redraw = run(nodes=30, variant="sup-al-redraw", loss_model="none")
    spread = run(nodes=30, variant="sup-al-spread", loss_model="none")
    assert mean(redraw, "messages") < 10
    assert mean(spread, "messages") == 30
    assert mean(spread, "tmax") == pytest.approx(30 / 31, abs=0.02)  # The last of N uniform draws.


def test_alone_one_leads_at_once() -> None:
    summary = run(3, nodes=1, loss=1.0)
    assert (mean(summary, "tmax"), mean(summary, "messages"), summary.converged) == (0, 1, 3)
    assert mean(run(3, nodes=1, event="leader-departs", listen_s=3.0), "reestablishment") == 0


@pytest.mark.parametrize("model", ["none", "correlated", "uncorrelated"])
def test_survivors_notice_when_the_closed_form_says(model: str) -> None:
    given: dict[str, Any] = {"nodes": 10, "loss": 0.3, "loss_model": model, "event": "leader-departs", "listen_s": 3.0}
    notice = run(200, **given).notice
    assert notice is not None and notice.stderr is not None
    assert abs(notice.mean - value(Setting(**given), "notice")) < 3.5 * notice.stderr


def test_at_loss_1_nothing_converges() -> None:
    summary = run(3, nodes=5, loss=1.0)
    assert summary.tmax is None and summary.converged == 0


CHANGED: dict[str, Any] = {
    "variant": "le-m", "nodes": 21, "loss": 0.5, "loss_model": "correlated", "timer": "exponential", "announce_s": 0.9,
    "listen_s": 1.5, "suppress_s": 0.7, "delay_s": 0.2, "event": "joiner-worse",
}  # fmt: skip


@pytest.mark.parametrize("option", [option.name for option in options(Setting)])
def test_each_option_alone_changes_the_run_and_its_figures(option: str) -> None:
    base = {"nodes": 20, "loss": 0.4}
    if option.startswith("load_"):
        base |= {"loss_model": "load", "load_capacity": 20.0}  # type: ignore[dict-item]
        other = base | {option: {"load_capacity": 5.0, "load_window_s": 1.0}[option]}
    else:
        other = base | {option: CHANGED[option]}
    before, after = run(40, **base), run(40, **other)
    assert before.trace_hash != after.trace_hash
    assert (before.tmax, before.messages) != (after.tmax, after.messages)


@pytest.mark.parametrize(
    ("given", "extensions", "culprit"),
    [
        ({"variant": "sup", "event": "leader-departs"}, {}, "event"),
        ({"variant": "le-m", "event": "joiner-better"}, {}, "event"),
        ({"loss_model": "load", "delay_s": 0.0}, {}, "delay_s"),
        ({"delay_s": 0.1}, {"query_s": 0.15}, "query_s"),
        ({"variant": "al"}, {"bye": True}, "variant"),
    ],
)
def test_questions_without_sense_are_refused(given: dict[str, Any], extensions: dict[str, Any], culprit: str) -> None:
    with pytest.raises(ConfigError) as error:
        run(1, extensions=Extensions(**extensions), **given)
    assert error.value.field == culprit
