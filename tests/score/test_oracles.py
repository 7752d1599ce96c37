"""Scores and leaders of [POLE], by formula: the reference values, any share of requests, and what files get wrong."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from doyen.cli import app
from doyen.core.ids import NodeId
from doyen.errors import ConfigError
from doyen.score.oracles import (
    CONSENSUS,
    HISTORY,
    LATENCY,
    ORACLES,
    REQUEST,
    ROTATING,
    WORST_CASE,
    Oracle,
    Part,
    Situation,
    quantised,
)
from doyen_papers.score.oracles import Scores, composite, preference, score_all
from doyen_papers.studies.pole_places import deployment

P1, P2, P3, P4, P5 = (NodeId(f"p{i}") for i in range(1, 6))


def own(value: float | None, *, higher_wins: bool = True) -> Oracle:
    return Oracle("own", (Part(lambda situation: value, higher_wins),))


def after_crash(name: str, oracle: Oracle, share: float | None = None, *, drop: bool = False) -> Scores:
    place = deployment(name)
    if share is not None:
        place = place.with_share(share)
    return score_all(oracle, place.matrix(), place.rates(), exclude=P5, reattribute=not drop)


@pytest.mark.parametrize(
    ("name", "oracle", "p1", "p23", "p4"),
    [
        ("1", CONSENSUS, 53.26, 9.88, 9.88),
        ("1", LATENCY, 96.70, 30.927, 38.86),
        ("1", WORST_CASE, 130.32, 63.14, 86.94),
        ("3", CONSENSUS, 77.06, 53.26, 53.26),
        ("3", LATENCY, 106.04, 96.70, 74.307),
        ("3", WORST_CASE, 154.12, 130.32, 106.52),
        ("two-dc", CONSENSUS, 20.75, 20.75, 20.75),
        ("two-dc", LATENCY, 31.125, 31.125, 31.125),
        ("two-dc", WORST_CASE, 41.5, 41.5, 41.5),
    ],
)
def test_reference_values(name: str, oracle: Oracle, p1: float, p23: float, p4: float) -> None:
    found = after_crash(name, oracle).scores
    assert [found[P1], found[P2], found[P3], found[P4]] == pytest.approx([p1, p23, p23, p4], abs=0.0005)


def test_reference_values_with_the_leaders_clients_dropped() -> None:
    found = after_crash("1", LATENCY, drop=True).scores
    assert [found[P1], found[P2], found[P4]] == pytest.approx([89.976, 33.16, 44.656], abs=1e-9)


def test_two_data_centres_before_the_crash() -> None:
    place = deployment("two-dc")
    assert score_all(LATENCY, place.matrix(), place.rates()).scores[P5] == pytest.approx(10.375)


@pytest.mark.parametrize(
    ("oracle", "leaders"),
    [
        (HISTORY, "p4 p4 p4"),
        (ROTATING, "p1 p1 p1"),
        (CONSENSUS, "p4 p4 p4"),
        (WORST_CASE, "p3 p4 p4"),
        (LATENCY, "p3 p4 p4"),
        (REQUEST, "p4 p4 p4"),
    ],
    ids=lambda x: x.name if isinstance(x, Oracle) else "",
)
def test_leaders_with_even_rates(oracle: Oracle, leaders: str) -> None:
    assert [after_crash(name, oracle).leader for name in "123"] == leaders.split()


@pytest.mark.parametrize(
    ("name", "at", "before", "after"),
    [("1", 0.9129, P3, P1), ("3", 0.5307, P4, P3), ("two-dc", 0.5, P2, P4)],
)
def test_latency_changes_its_leader_at_this_share(name: str, at: float, before: NodeId, after: NodeId) -> None:
    step = 0.0001
    assert after_crash(name, LATENCY, at - step).leader == before
    assert after_crash(name, LATENCY, at + step).leader == after
    if name != "two-dc":
        return
    assert after_crash(name, LATENCY, at).leader == after


@given(st.sampled_from(("1", "2", "3", "two-dc")), st.floats(0, 1))
def test_scores_are_means_over_data_centres_at_any_share(name: str, share: float) -> None:
    """Written again from the topology: θ_l is θ_c and the shares' round trips; latency elects the least of them."""
    place = deployment(name).with_share(share)
    found = after_crash(name, LATENCY, share)
    least = {}
    for server in (P1, P2, P3, P4):
        trips = sorted(place.between(server, other) for other in (P1, P2, P3, P4))
        means = [
            part * place.between(server, servers[0])
            for (_, servers), part in zip(place.centres, place.shares, strict=True)
        ]
        least[server] = trips[2] + sum(means)
        assert found.scores[server] == pytest.approx(least[server], abs=1e-6)
    assert least[found.leader] <= min(least.values()) + 0.001


def test_pole_5_the_fattest_among_the_fastest() -> None:
    fattest = composite((LATENCY, 10.0), (HISTORY, 1.0))
    assert after_crash("1", fattest).leader == P4  # 30.9 and 38.9 ms are one class, zxids are equal, p4 is the highest.
    place = deployment("1")
    found = score_all(
        fattest, place.matrix(), place.rates(), exclude=P5, reattribute=True, history={P2: 7, P1: 9, P3: 5, P4: 6}
    )
    assert found.leader == P2  # p1 is fatter, but two classes slower.


def test_class_edges_belong_to_the_class_above() -> None:
    def standing(value: float) -> tuple[float, ...]:
        return composite((own(value, higher_wins=False), 10.0)).standing(Situation(me=P1, voters=(P1,)))

    assert [standing(v)[0] for v in (0.0, 9.999, 10.0, 29.9999999, 30.0)] == [0.0, 0.0, -1.0, -3.0, -3.0]


def test_pole_3_3_rotating_takes_turns_by_epoch() -> None:
    voters = (P1, P2, P3, P4, P5)
    turns = [
        [me for me in voters if ROTATING.standing(Situation(me=me, voters=voters, epoch=epoch)) == (1.0,)]
        for epoch in range(1, 8)
    ]
    assert turns == [[P1], [P2], [P3], [P4], [P5], [P1], [P2]]
    assert score_all(ROTATING, deployment("1").matrix(), {}, exclude=P5, epoch=5).leader == P4  # Its turn, but dead.


@pytest.mark.parametrize("oracle", [CONSENSUS, LATENCY, WORST_CASE], ids=lambda o: o.name)
def test_too_few_entries_are_below_every_measured_score(oracle: Oracle) -> None:
    alone = Situation(me=P1, voters=(P1, P2, P3, P4, P5), rtt={P2: 1.0}, rates={P1: 1000.0})
    slow = Situation(me=P2, voters=alone.voters, rtt={P1: 5000.0, P3: 9000.0}, rates={P2: 0.0})
    assert oracle.score(alone) is None
    assert oracle.standing(alone) == () < oracle.standing(slow)


def test_jitter_below_the_quantum_decides_nothing() -> None:
    def consensus(oracle: Oracle, trip: float) -> tuple[float, ...]:
        return oracle.standing(Situation(me=P1, voters=(P1, P2, P3), rtt={P2: trip, P3: 50.0}))

    assert consensus(CONSENSUS, 9.8800001) == consensus(CONSENSUS, 9.8799999)
    assert consensus(CONSENSUS, 9.88) > consensus(CONSENSUS, 9.99)
    coarse = quantised(CONSENSUS, 1.0)
    assert consensus(coarse, 9.88) == consensus(coarse, 9.99)
    with pytest.raises(ConfigError, match="quantum"):
        quantised(CONSENSUS, -1.0)


def test_a_list_a_callable_and_a_quality_factor_are_oracles() -> None:
    trips, rates = deployment("1").matrix(), deployment("1").rates()
    assert score_all(preference([P2, P1]), trips, rates, exclude=P5).leader == P2
    assert score_all(preference([P5, P1]), trips, rates, exclude=P5).leader == P1
    assert score_all(own(1.0), trips, rates).leader == P5  # All equal.


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), float("-inf")])
def test_a_score_that_is_none_is_below_all(value: float | None) -> None:
    assert own(value).standing(Situation(me=P1, voters=(P1,))) == ()


@pytest.mark.parametrize("names", [(), (LATENCY, 0.0), (LATENCY, float("nan"))])
def test_composites_that_make_no_sense(names: tuple[object, ...]) -> None:
    with pytest.raises(ConfigError):
        composite(*([names] if names else []))  # type: ignore[list-item]


# The command.


def files(tmp_path: Path, name: str = "1") -> list[str]:
    place = deployment(name)
    lines = ["," + ",".join(place.servers)]
    lines += [f"{a}," + ",".join(str(value) for value in row.values()) for a, row in place.matrix().items()]
    (tmp_path / "rtt.csv").write_text("\n".join(lines) + "\n")
    rates = [f"{node},{rate!r}" for node, rate in place.rates().items()]
    (tmp_path / "rates.csv").write_text("node,rate\n" + "\n".join(rates) + "\n")
    return ["--rtt", str(tmp_path / "rtt.csv"), "--rates", str(tmp_path / "rates.csv")]


def scored(arguments: list[str]) -> dict[str, object]:
    done = CliRunner().invoke(app, ["score", "pole", *arguments, "--json"])
    assert done.exit_code == 0, done.output
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_the_command_gives_the_reference_values(tmp_path: Path) -> None:
    given_ = files(tmp_path)
    found = scored([*given_, "--oracle", "latency", "--exclude", "p5", "--reattribute"])
    assert found["leader"] == "p3"
    assert found["scores"] == pytest.approx({"p1": 96.70, "p2": 30.927, "p3": 30.927, "p4": 38.86}, abs=0.0005)
    dropped = scored([*given_, "--oracle", "latency", "--exclude", "p5"])
    assert dropped["scores"] == pytest.approx({"p1": 89.976, "p2": 33.16, "p3": 33.16, "p4": 44.656}, abs=1e-9)
    everybody = scored([*given_, "--oracle", "consensus"])
    assert set(everybody["scores"]) == {"p1", "p2", "p3", "p4", "p5"}  # type: ignore[call-overload]


@pytest.mark.parametrize("oracle", ["consensus", "latency", "worst-case", "request"])
def test_the_command_agrees_with_the_formulas(oracle: str, tmp_path: Path) -> None:
    found = scored([*files(tmp_path, "3"), "--oracle", oracle, "--exclude", "p5", "--reattribute"])
    ours = after_crash("3", ORACLES[oracle])
    assert found == {"scores": pytest.approx(ours.scores), "leader": ours.leader}


@pytest.mark.parametrize(
    ("rtt", "rates", "more", "says"),
    [
        (",a,b\na,0,1\nb,1,0\n", "a,1\nb,1\n", ["--exclude", "c"], "--exclude c"),
        (",a,b\na,0,1\nb,1,0\n", "a,1\nb,1\n", ["--reattribute"], "--reattribute"),
        (",a,b\na,0,1\nb,1,0\n", "a,1\nb,1\n", ["--quantum", "-1"], "--quantum"),
        (",a,b\na,0,1\n", "a,1\n", [], "no row for b"),
        (",a,b\na,0,1\nb,x,0\n", "a,1\n", [], "line 3, column a"),
        (",a,b\na,0,1\nb,-1,0\n", "a,1\n", [], "line 3, column a"),
        (",a,b\na,5,1\nb,1,0\n", "a,1\n", [], "line 2, column a"),
        (",a,b\na,0,1\na,1,0\n", "a,1\n", [], "there twice"),
        (",a,a\na,0,1\n", "a,1\n", [], "line 1"),
        ("", "a,1\n", [], "is empty"),
        (",a,b\na,0,1\nb,1,0\n", "a,1\nc,1\n", [], "'c' is not in the matrix"),
        (",a,b\na,0,1\nb,1,0\n", "a,nan\n", [], "line 1"),
    ],
)
def test_whatever_is_wrong_is_named(rtt: str, rates: str, more: list[str], says: str, tmp_path: Path) -> None:
    (tmp_path / "rtt.csv").write_text(rtt)
    (tmp_path / "rates.csv").write_text(rates)
    arguments = ["--rtt", str(tmp_path / "rtt.csv"), "--rates", str(tmp_path / "rates.csv"), "--oracle", "latency"]
    with pytest.raises(ConfigError) as raised:
        CliRunner().invoke(app, ["score", "pole", *arguments, *more], catch_exceptions=False, standalone_mode=False)
    assert says.replace("'", '"') in str(raised.value).replace("'", '"')


def test_who_has_crashed_is_in_no_situation_and_one_knows_of_oneself_that_one_has_not() -> None:
    found = Situation(me=P1, voters=(P1, P2, P3), rtt={P2: 1.0, P3: 2.0}, rates={P1: 1.0, P2: 2.0, P3: 3.0})
    left = found.without(P2)
    assert (left.rtt, left.rates, left.voters) == ({P3: 2.0}, {P1: 1.0, P3: 3.0}, found.voters)
    assert found.without(None) is found is found.without(P1)
