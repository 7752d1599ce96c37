"""What is called from outside: one JSON object, real exit codes, one line that names the culprit, never a traceback."""

import json
from math import inf
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doyen.cli import main
from doyen.cli.options import flag_of
from doyen.core.config import options
from doyen_papers.analysis.setting import Setting

FIGURES = ("tmax", "messages", "rounds", "avg_rounds", "reestablishment", "inconsistent", "leaders")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    out, err = capsys.readouterr()
    code = end.value.code
    return (code if isinstance(code, int) else 0), out, err


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    code, out, err = run(capsys, *arguments, "--json")
    assert (code, err) == (0, "")
    assert out.count("\n") == 1
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.mark.parametrize("engine", ["machine", "kernel"])
def test_sim_announce_answers_with_every_documented_field(capsys: pytest.CaptureFixture[str], engine: str) -> None:
    flags = "sim announce --variant le-s --nodes 6 --loss .4 --loss-model uncorrelated --timer uniform --announce 1s"
    flags += f" --listen inf --suppress 1s --delay 100ms --event start --runs 5 --seed 2 --jobs 1 --engine {engine}"
    found = answer(capsys, *flags.split())
    for name in FIGURES:
        assert name in found
        assert found[name] is None or set(found[name]) == {"mean", "stderr"}
    assert set(found["first_round"]) == {"tmax", "messages"}
    assert found["converged"] == found["runs"] == 5
    assert found["engine"] == engine
    assert ("trace_hash" in found) == (engine == "machine")
    assert found["reestablishment"] is None


def test_a_single_run_has_no_standard_error_and_loss_1_never_converges(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, "sim", "announce", "--runs", "1")["tmax"]["stderr"] is None
    for engine in ("machine", "kernel"):
        deaf = answer(capsys, "sim", "announce", "--loss", "1", "--nodes", "4", "--runs", "3", "--engine", engine)
        assert deaf["tmax"] is None and deaf["converged"] == 0


def test_the_same_seed_gives_the_same_answer_whatever_the_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    one, two, other = (
        answer(capsys, "sim", "announce", "--nodes", "8", "--loss", ".3", "--runs", "9", "--jobs", jobs, "--seed", seed)
        for jobs, seed in (("1", "4"), ("2", "4"), ("1", "5"))
    )
    assert one == two
    assert one["trace_hash"] != other["trace_hash"]


@pytest.mark.parametrize(
    ("flags", "value"),
    [
        ("--nodes 100 --loss .4 --loss-model uncorrelated --quantity tmax", 5.65032964),
        ("--nodes 100 --loss .4 --loss-model uncorrelated --quantity leadership-delay", 5.75032964),
        ("--nodes 10 --loss-model none --quantity messages", 3.82896825),
        ("--variant le-a --nodes 100 --loss .4 --quantity messages", 106.2096),
        ("--variant sup-al-spread --nodes 30 --loss .4 --quantity messages", 30),
        ("--variant sup-al-spread --nodes 30 --quantity tmax", 30 / 31),
        ("--nodes 9 --loss-model none --listen 3s --quantity inconsistent --departure-every 32s", 0.1),
        ("--nodes 9 --loss-model none --listen 3s --quantity inconsistent --join-every 55s", 0.01),
        (
            "--nodes 9 --listen 3s --event leader-departs --loss .4 --loss-model correlated --quantity reestablishment",
            3.2,
        ),
        ("--nodes 10 --listen 3s --event leader-departs --loss .4 --quantity reestablishment --as-printed", 3.2),
        ("--nodes 10 --listen 3.5s --event false-departure --loss .4 --quantity reestablishment", 1.16666667),
    ],
)
def test_analyze_announce(capsys: pytest.CaptureFixture[str], flags: str, value: float) -> None:
    assert answer(capsys, "analyze", "announce", *flags.split())["value"] == pytest.approx(value, rel=1e-6)


def test_where_no_closed_form_exists_the_simulation_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(
        capsys, "analyze", "announce", "--nodes", "10", "--loss", ".4", "--quantity", "messages", "--json"
    )
    assert (code, out) == (2, "")
    assert "doyen sim announce" in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        ("sim announce --loss 1.5", "--loss 1.5"),
        ("sim announce --loss nan", "--loss nan"),
        ("sim announce --loss x", "--loss"),
        ("sim announce --nodes 0", "--nodes 0"),
        ("sim announce --nodes 2.5", "--nodes"),
        ("sim announce --announce 0s", "--announce"),
        ("sim announce --announce inf", "--announce"),
        ("sim announce --announce 1parsec", "--announce"),
        ("sim announce --listen -1s", "--listen"),
        ("sim announce --variant le-x", "--variant"),
        ("sim announce --runs 0", "--runs"),
        ("sim announce --jobs -2", "--jobs"),
        ("sim announce --engine kernel --jobs -2", "--jobs"),
        ("sim announce --engine kernel --variant al --event leader-departs", "--engine kernel"),
        ("sim announce --engine kernel --bye", "--engine"),
        ("sim announce --engine kernel --variant sup-al-redraw", "--engine"),
        ("analyze announce --variant sup-al-receipt --quantity messages", "doyen sim announce"),
        ("analyze announce --variant sup-al-spread --quantity rounds", "doyen sim announce"),
        ("sim announce --variant le-m --event joiner-better", "--event"),
        ("sim announce --variant sup --event leader-departs", "--event"),
        ("sim announce --query 100ms", "--query"),
        ("sim announce --leader-count 0", "--leader-count"),
        ("sim announce --trace /no/such/folder/x", "/no/such/folder/x"),
        ("analyze announce --quantity hope", "--quantity"),
        ("analyze announce --event leader-departs --quantity reestablishment", "listen"),
        ("analyze announce --loss 1 --quantity tmax", "loss"),
        ("analyze announce --listen 3s --quantity inconsistent --departure-every 0s", "--departure-every 0s"),
        ("analyze announce --listen 3s --quantity inconsistent --join-every 0s", "--join-every 0s"),
        (
            "analyze announce --delay 0s --listen 2s --loss .3 --event false-departure --quantity reestablishment",
            "doyen sim announce",
        ),
        ("analyze announce --quantity tmax --join-every 9s", "--join-every is for --quantity inconsistent"),
        ("sim ctolerant --candidates 0", "--candidates"),
        ("sim ctolerant --unhealthy -1", "--unhealthy"),
        ("sim ctolerant --notify-retries -1", "--notify-retries"),
        ("sim ctolerant --timeout 0.1ns", "--timeout"),
        ("sim ctolerant --seconds 5", "--seconds is for --record"),
        ("sim ctolerant --nodes 4 --drop 0 --record x --seconds nan", "--seconds nan"),
        ("sim ctolerant --nodes 4 --drop 0 --record x --seconds -1", "--seconds -1"),
        ("sim ctolerant --nodes 4 --drop 0 --record /no/such/folder/x", "/no/such/folder/x"),
        ("sim membership --nodes 999999999", "--nodes 999999999"),
        ("advise --nodes 5 --loss 2", "loss"),
        ("up --nodes 99", "--nodes"),
        ("up --for soon", "--for"),
        ("papers run le/fig9.9", "le/fig9.9"),
        ("nonsense", "nonsense"),
        ("sim announce --no-such-flag", "--no-such-flag"),
    ],
)
def test_bad_input_is_one_line_that_names_it(capsys: pytest.CaptureFixture[str], arguments: str, culprit: str) -> None:
    code, out, err = run(capsys, *arguments.split())
    assert code == 2, err
    assert out == "" and err.count("\n") == 1 and err.startswith("doyen: ")
    assert culprit in err


odd = st.sampled_from(
    ["", "-1", "0", "1", "1e9", "nan", "inf", "-inf", "1s", "200ms", "1e-12s", "99999999999999999999", "é", "none"]
)
FLAGS = [flag_of(option) for option in options(Setting)] + [
    "--runs",
    "--seed",
    "--jobs",
    "--query",
    "--ageing",
    "--bye-loss",
]


@settings(max_examples=150, deadline=None)
@given(command=st.sampled_from(["sim", "analyze"]), flags=st.dictionaries(st.sampled_from(FLAGS), odd, max_size=3))
def test_any_flag_with_any_value_is_answered_or_refused(command: str, flags: dict[str, str]) -> None:
    if flags.get("--nodes") in ("1e9", "99999999999999999999") or flags.get("--runs") == "99999999999999999999":
        return  # Refused elsewhere; a million honest nodes would only take long.
    arguments = [command, "announce", "--json"]
    if command == "sim":
        arguments += ["--runs", "1", "--jobs", "1", "--nodes", "3"]
    arguments += [part for pair in flags.items() for part in pair]
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code in (0, 2)


def test_unknown_loss_model_values_list_the_choices(capsys: pytest.CaptureFixture[str]) -> None:
    _, _, err = run(capsys, "sim", "announce", "--loss-model", "foggy")
    assert "uncorrelated" in err and "load" in err


def test_infinity_is_null_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert Setting().listen_s == inf
    assert answer(capsys, "sim", "announce", "--runs", "1")["listen_s"] is None
