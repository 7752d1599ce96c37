"""`doyen advise --measure`: the file that it writes, and what it refuses."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest

from doyen.cli import main
from doyen.errors import ConfigError
from doyen.node.rebuilt import plain_config
from doyen.testing import Cluster
from doyen_papers.analysis.measured import Interval, Measured
from doyen_papers.cli import measure
from doyen_papers.cli.settings_file import changed, difference, write
from doyen_papers.studies.advised import Option, Promised, no_better, told_apart

BEFORE = """\
# Ours.
group = "orders"   # the only one

[swim]
period = "2s"  # as agreed
helper_count = 2

[pole]
lease = "3s"
"""


def test_one_table_changes_and_all_else_stays_to_the_byte() -> None:
    after = changed(BEFORE, "swim", {"period": "1s", "ack_timeout": "50ms"}, Path("x"))
    assert after == BEFORE.replace('"2s"  #', '"1s"  #').replace("[swim]\n", '[swim]\nack_timeout = "50ms"\n')
    shown = difference(BEFORE, after, Path("x")).splitlines()
    assert [line for line in shown if line[0] in "+-"][2:] == [
        '-period = "2s"  # as agreed',
        '+ack_timeout = "50ms"',
        '+period = "1s"  # as agreed',
    ]
    assert changed(after, "swim", {"period": "1s"}, Path("x")) == after


def test_a_table_that_is_not_there_is_added_also_to_an_empty_file() -> None:
    assert changed("", "swim", {"period": "1s"}, Path("x")) == '[swim]\nperiod = "1s"\n'
    assert changed('group = "g"\n', "swim", {"period": "1s"}, Path("x")) == 'group = "g"\n\n[swim]\nperiod = "1s"\n'


@pytest.mark.parametrize(
    "text",
    [
        'swim = { period = "2s" }\n',
        'swim.period = "2s"\n',
        '[swim]\nperiod = """\n2s"""\n',
        '[swim]\n"period" = "2s"\n',
        "group = \n",
    ],
)
def test_what_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--apply x"):
        changed(text, "swim", {"period": "1s"}, Path("x"))


def test_a_file_keeps_its_rights_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text(BEFORE)
    file.chmod(0o640)
    write(file, "new\n")
    assert file.read_text() == "new\n" and file.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("advise", 2, "--nodes N, or --measure 60s"),
        ("advise --nodes 5 --apply x.toml", 2, "--measure 60s"),
        ("advise --measure 1s", 2, "too short: give at least 5s"),
        ("advise --measure 60s --group nobody", 1, "no node of group 'nobody' runs here"),
    ],
)
def test_bad_input_gets_one_line(
    line: str,
    code: int,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DOYEN_RUNTIME_DIR", str(tmp_path / "run"))
    with pytest.raises(SystemExit) as end:
        main(line.split())
    out, said = capsys.readouterr()
    assert end.value.code == code and out == ""
    assert said.count("\n") == 1 and said.startswith("doyen: ") and words in said
    assert not list(tmp_path.iterdir())


# ── What is advised ─────────────────────────────────────────────────────────────────────────────────────────────


def promised(departures: float, detection_s: float = 1.0, sent: float = 100.0) -> Promised:
    most = Interval(detection_s, detection_s, detection_s)
    return Promised(
        detection_median_s=detection_s,
        detection_most_s=most,
        takeover_median_s=detection_s,
        takeover_most_s=most,
        bound_s=detection_s,
        departures_per_year=Interval(0.0, 0.0, departures),
        bytes_per_s=sent,
    )


def test_timers_of_today_stay_unless_others_keep_the_wishes_better() -> None:
    few_runs = promised(0.16, 1.33, 285), promised(4900, 1.75, 80.6)  # Seen with --simulate 10.
    assert no_better(*few_runs, per_year=1, soon_enough=None)
    assert no_better(promised(0.31, 1.30), promised(0.065, 1.72), 1, None)  # Both keep it, and today's sooner.
    assert not no_better(promised(0.31, 1.72), promised(0.5, 1.30), 1, None)
    assert not no_better(promised(7, 1.30), promised(0.5, 1.72), 1, None)
    assert not no_better(promised(0.1, 2.0), promised(5, 1.0), 1, False)  # Today's are too slow for the wish.
    assert no_better(promised(0.1, 1.0, 285), promised(0.5, 2.0, 80), 1, True)  # They keep all that was asked for.
    assert not no_better(promised(7, 1.0, 285), promised(0.5, 2.0, 80), 1, True)


def test_a_picture_leaves_out_what_too_few_departures_were_simulated_for() -> None:
    config = Cluster(["ant", "bee", "cat"], election="gossip", preset="local").world.config
    highs = [8000.0, 500.0, 15.0, 26.0, 0.04, 5000.0]  # Seen with --simulate 20; the fourth is today's.
    curve = [
        Option(config=config, bound_s=float(at), departures_per_year=Interval(0.0, 0.0, high))
        for at, high in enumerate(highs)
    ]
    assert [option.departures_per_year.high for option in told_apart(curve, curve[3])] == [8000.0, 500.0, 26.0, 0.04]


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three members of `fast`, on a network that lost nothing while it was measured."""
    found = Measured(
        seconds=60,
        node="ant",
        members=("ant", "bee", "cat"),
        heard=("ant", "bee", "cat"),
        loss=Interval(0.0, 0.0, 0.013),
        trials=150,
        by_answers=False,
        round_trip_s=Interval(0.001, 0.001, 0.001),
        round_trip_sd_s=0.0002,
        round_trip_most_s=0.002,
        round_trips=150,
        pause_most_s=0.001,
        pauses=150,
        write_most_s=0.0,
        writes=0,
        drifts=(),
        bytes_per_s=100.0,
    )
    config = plain_config(Cluster(["ant", "bee", "cat"], election="fast", preset="local").world.config, durable=False)
    told = {"group": "orders", "kind": "le-s", "config": msgspec.json.decode(msgspec.json.encode(config))}
    told |= {"node": "ant", "names": ["ant", "bee", "cat"], "others": {"bee": {}, "cat": {}}}
    monkeypatch.setattr(measure, "find_node", lambda group, name: Path("ant"))
    monkeypatch.setattr(measure, "ask", lambda path, do, **more: told)
    monkeypatch.setattr(measure, "measured", lambda first, last: found)
    monkeypatch.setattr(measure.time, "sleep", lambda s: None)
    clock = iter(range(0, 10**6, 10))
    monkeypatch.setattr(measure.time, "monotonic", lambda: next(clock))


def advised(*flags: str, capsys: pytest.CaptureFixture[str]) -> tuple[Any, str]:
    """Return what is told as JSON, and then what is said to people."""
    said = []
    for more in ("--json", "--simulate=10"):
        with pytest.raises(SystemExit) as end:
            main(["advise", "--measure", "60s", "--simulate", "10", *flags, more])
        assert end.value.code == 0
        said.append(capsys.readouterr().out)
    return json.loads(said[0]), said[1]


@pytest.mark.usefixtures("quiet")
def test_what_its_own_figures_show_to_be_worse_is_neither_advised_nor_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, picture = tmp_path / "node.toml", tmp_path / "out.svg"
    flags = ["--per-year", "1e-9", "--apply", str(file), "--plot", str(picture)]
    told, said = advised(*flags, capsys=capsys)
    assert told["changes"] == {} and told["advised"] == told["today"] and told["applied"] is None
    assert "today's timers stay" in told["notes"][0] and "simulate more than 10 takeovers" in told["notes"][1]
    assert "nothing was written: today's timers stay" in said and not file.exists()
    root = ElementTree.parse(picture).getroot()
    assert [circle[0].text for circle in root.iter("{http://www.w3.org/2000/svg}circle")] == ["today, kept"]


@pytest.mark.parametrize("wish", [(), ("--detection", "100ms")])
@pytest.mark.parametrize(
    ("pause_s", "words"), [(1.5, "e.g. --detection 8s"), (300.0, "measure again when less else runs")]
)
@pytest.mark.usefixtures("quiet")
def test_a_network_too_slow_for_todays_interval_gets_one_line_that_says_what_to_do(
    wish: tuple[str, ...],
    pause_s: float,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    quick = measure.measured({}, {})
    monkeypatch.setattr(measure, "measured", lambda first, last: msgspec.structs.replace(quick, pause_most_s=pause_s))
    with pytest.raises(SystemExit) as end:
        main(["advise", "--measure", "60s", "--simulate", "10", *wish])
    said = capsys.readouterr()
    assert end.value.code == 2 and said.out == ""
    assert "today's interval of [announce] is too short for this network" in said.err and words in said.err


@pytest.mark.usefixtures("quiet")
def test_what_is_better_is_written_and_both_points_are_on_the_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, picture = tmp_path / "node.toml", tmp_path / "out.svg"
    told, _ = advised("--per-year", "1e5", "--apply", str(file), "--plot", str(picture), capsys=capsys)
    assert told["advised"]["detection_most_s"]["high"] < told["today"]["detection_most_s"]["high"]
    assert told["changes"]["listen_timeout"][1] in file.read_text()
    root = ElementTree.parse(picture).getroot()
    assert [circle[0].text for circle in root.iter("{http://www.w3.org/2000/svg}circle")] == ["today", "advised"]


def marked(picture: Path) -> dict[str, tuple[str, str]]:
    """Return the points of a picture by name."""
    root = ElementTree.parse(picture).getroot()
    circles = root.iter("{http://www.w3.org/2000/svg}circle")
    return {str(circle[0].text): (circle.attrib["cx"], circle.attrib["cy"]) for circle in circles}


def curve(picture: Path) -> list[tuple[str, str]]:
    """Return the spots of the line at the upper end of the confidence."""
    root = ElementTree.parse(picture).getroot()
    lines = {path[0].text: path.attrib["d"] for path in root.iter("{http://www.w3.org/2000/svg}path")}
    words = lines["at the upper end of its confidence"].replace("M", "").replace("L", "").split()
    return list(zip(words[::2], words[1::2], strict=True))


@pytest.mark.usefixtures("quiet")
def test_slower_timers_are_not_advised_where_todays_keep_what_was_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, picture = tmp_path / "node.toml", tmp_path / "out.svg"
    wishes = ["--detection", "5s", "--per-year", "1e5"]
    told, said = advised(*wishes, "--apply", str(file), "--plot", str(picture), capsys=capsys)
    assert told["today"]["bound_s"] < 5 and told["today"]["departures_per_year"]["high"] < 1e5
    assert told["changes"] == {} and told["advised"] == told["today"] and not file.exists()
    assert told["notes"][0] == "today's timers stay: they keep what was asked for" and "nothing was written" in said


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize(
    ("wishes", "points"),
    [
        (["--per-year", "1e5"], ["today", "advised"]),
        (["--detection", "200ms", "--per-year", "1e7"], ["today", "advised"]),
        (["--detection", "5s", "--per-year", "1e5"], ["today, kept"]),
    ],
)
def test_the_marked_point_is_on_the_curve_and_the_curve_is_a_trade_off(
    wishes: list[str], points: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "out.svg"
    told, _ = advised(*wishes, "--plot", str(picture), capsys=capsys)
    found, line = marked(picture), curve(picture)
    assert [*found] == points
    if "--detection" in wishes:
        assert told["advised"]["bound_s"] < float(wishes[1].removesuffix("ms").removesuffix("s"))
    assert found[points[-1]] in line
    heights = [float(y) for _, y in line]
    assert len(line) > 2 and sorted(set(heights)) == heights  # More patience: later, and fewer departures (lower).


def test_where_a_node_is_alone_nothing_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = {"node": "ant", "group": "orders", "names": ["ant"], "others": {}}
    monkeypatch.setattr(measure, "find_node", lambda group, name: Path("ant"))
    monkeypatch.setattr(measure, "ask", lambda path, do, **more: told)
    monkeypatch.setattr(measure.time, "sleep", lambda s: pytest.fail("it measured"))
    with pytest.raises(SystemExit) as end:
        main(["advise", "--measure", "60s"])
    words = "ant is alone in orders, so there is no network to measure: start another member first"
    assert end.value.code == 1 and capsys.readouterr().err == f"doyen: {words}\n"
