"""Recordings of several hosts on one clock: the truth of the run is known, and what is told of it must be that."""

import re
import shutil
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from doyen.cli import main
from doyen.errors import ConfigError, TransportError
from doyen.net.recording.format import MAGIC, Effect, encode, frame
from doyen.net.recording.reader import Reader
from doyen.postmortem.document import document
from doyen.postmortem.gather import flights_of, postmortem
from doyen.postmortem.incident import Table, incident_of
from doyen.postmortem.picture import Incident
from doyen.postmortem.recorded import Flight
from doyen.testing import Cluster

from .recordings import CLOCKS, Recorded

HOSTILE = '</script><script>alert("x")</script>'


def pause_the_leader(cluster: Cluster) -> None:
    first = cluster.run_until_leader()
    cluster.run_for("2s")
    cluster.pause(first)
    cluster.run_for("3s")
    cluster.resume(first)
    cluster.run_for("1s")


def cut_the_leader_off(cluster: Cluster) -> None:
    first = cluster.run_until_leader()
    cluster.run_for("2s")
    cluster.partition({first}, rest=True)
    cluster.run_for("6s")
    cluster.heal()
    cluster.run_for("4s")


def kill_the_leader(cluster: Cluster) -> None:
    first = cluster.run_until_leader()
    cluster.run_for("1s")
    cluster.kill(first)
    cluster.run_for("3s")
    cluster.restart(first)
    cluster.run_for("2s")


@pytest.fixture(scope="module")
def paused(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return Recorded(tmp_path_factory.mktemp("paused")).run(pause_the_leader)


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return Recorded(tmp_path_factory.mktemp("cut"), election="gossip").run(cut_the_leader_off)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return Recorded(tmp_path_factory.mktemp("killed"), election="gossip").run(kill_the_leader)


@pytest.fixture(scope="module")
def flights(paused: Recorded) -> list[Flight]:
    return flights_of(paused.paths)


def begins(incident: Incident) -> dict[str, list[float]]:
    """Return when each began to act, in seconds of the common clock."""
    found: dict[str, list[float]] = {}
    for span in sorted(incident.lanes.spans, key=lambda span: span.begin):
        if span.kind == "leads":
            found.setdefault(span.lane, []).append(span.begin)
    return found


# Clocks.


def test_true_offsets_lie_within_the_stated_error(paused: Recorded, flights: list[Flight]) -> None:
    table = Table(flights)
    reference = table.flights[table.clocks.reference].node
    for number, flight in enumerate(table.flights):
        for share in range(11):
            local = flight.begin + (flight.end - flight.begin) * share // 10
            truth = CLOCKS[reference].local(paused.true(flight.node, local))
            error = table.clocks.error(number, local)
            assert error < 3e6 and abs(table.clocks.common(number, local) - truth) <= error + 2


def test_without_messages_wall_clocks_are_taken_and_that_is_said(flights: list[Flight]) -> None:
    mute = [replace(flight, sent={}, received={}) for flight in flights]
    found = incident_of(mute)
    assert [clock.error_s for clock in found.clocks].count(None) == 2
    assert sum("its wall clock is taken" in note for note in found.notes) == 2


@pytest.mark.parametrize("wrong", ["ant", "bee", "cat"])
def test_a_wall_clock_that_is_off_is_said_and_that_of_most_is_shown(flights: list[Flight], wrong: str) -> None:
    set_ = [
        replace(flight, at=CLOCKS[flight.node].true(flight.now) / 1e9 + 18_000.0 * (flight.node == wrong))
        for flight in flights
    ]
    found = incident_of(set_)
    for clock in found.clocks:
        assert clock.wall_off_s == pytest.approx(18_000.0 if clock.node == wrong else 0.0, abs=0.1)
    said = [note for note in found.notes if "wall clock" in note]
    assert len(said) == 1 and said[0].startswith(f"the wall clock of {wrong} is 5.0 h ahead of that of ")
    assert found.lanes.epoch == pytest.approx(0.0, abs=1.0)  # All began at the true second 0.


def restart_all(cluster: Cluster) -> None:
    cluster.run_until_leader()
    cluster.run_for("5s")
    for name in cluster.names:
        cluster.kill(name)
    cluster.run_for("1h")
    for name in cluster.names:
        cluster.restart(name)
    pause_the_leader(cluster)


@pytest.mark.parametrize("election", ["quorum", "gossip"])
def test_an_earlier_run_in_the_older_segment_costs_no_bounds(tmp_path: Path, election: str) -> None:
    run = Recorded(tmp_path, election=election).run(restart_all)
    alone = postmortem([path for path in run.paths if ".2." in path.name])
    for name in run.names:
        (tmp_path / "kept" / f"{name}.1.rec").rename(tmp_path / "kept" / f"{name}.2.rec.1")
    found = postmortem(run.paths)
    assert len(found.clocks) == 6 and run.together_s == 0
    assert found.verdicts[0].sentence == alone.verdicts[0].sentence == "two acted at once for 0.00 s"
    errors = {clock.node: clock.error_s for clock in found.clocks if clock.error_s is not None}
    assert errors == pytest.approx({clock.node: clock.error_s for clock in alone.clocks}, abs=1e-4)
    acts = sorted((span.begin, span.lane) for span in found.lanes.spans if span.kind == "leads")
    assert acts[0][0] < 5 and acts[1][0] > 3600  # The earlier run is drawn where it was.


# Who acted.


def test_a_quorum_whose_leader_is_stopped_never_has_two(paused: Recorded, flights: list[Flight]) -> None:
    found = incident_of(flights)
    verdict = found.verdicts[0]
    assert paused.together_s == verdict.together_s == verdict.at_most_s == 0
    assert verdict.sentence == "two acted at once for 0.00 s" and not verdict.breaks
    truth = {name: times for name, times in paused.began.items() if times}
    told = begins(found)
    assert told.keys() == truth.keys() and len(told) == 2
    first = min(min(times) for times in truth.values())
    zero = min(min(times) for times in told.values())
    for name, times in truth.items():
        assert told[name][0] - zero == pytest.approx(times[0] - first, abs=0.01)
    stopped = [span for span in found.lanes.spans if span.kind == "paused"]
    assert len(stopped) == 1 and stopped[0].end is not None
    assert stopped[0].end - stopped[0].begin == pytest.approx(3.0, abs=0.15)  # From its next timer on.


def test_two_sides_of_a_cut_acted_at_once_for_as_long_as_they_did(cut: Recorded) -> None:
    found = postmortem(cut.paths)
    verdict = found.verdicts[0]
    assert cut.together_s > 3
    assert verdict.at_least_s - 0.01 <= cut.together_s <= verdict.at_most_s + 0.01
    assert verdict.together_s == pytest.approx(cut.together_s, abs=0.02)
    assert "allows it" in verdict.sentence
    assert [window.kind for window in found.lanes.windows] == ["bad"] * len(verdict.when)


def test_a_verdict_says_who_led_and_has_no_recording(cut: Recorded) -> None:
    leaders = {span.lane for span in postmortem(cut.paths).lanes.spans if span.kind == "leads"}
    for path in cut.paths:
        name = flights_of([path])[0].node
        verdict = postmortem([other for other in cut.paths if other != path]).verdicts[0]
        assert (f"no recording was given of {name}, named leader" in verdict.sentence) is (name in leaders)
        assert bool(verdict.lacks) is (name in leaders)
    assert len(leaders) == 2 and postmortem(cut.paths).verdicts[0].lacks == ()


def test_a_verdict_says_that_a_leaders_recording_is_cut_off(cut: Recorded) -> None:
    for flight in (found := flights_of(cut.paths)):
        flight.cut_off_bytes = 7
        leads = any(stretch.kind == "leads" and stretch.end == flight.end for stretch in flight.stretches)
        said = incident_of(found).verdicts[0].lacks
        assert [f"while {flight.node} leads" in one and "is cut off at" in one for one in said] == [True] * leads
        flight.cut_off_bytes = 0


def test_a_verdict_says_that_a_recording_is_cut_off_before_others_named_its_node(
    paused: Recorded, tmp_path: Path
) -> None:
    """What it did then is not told; whoever is never named leader after its end needs no such word."""
    leaders = {name for name, times in paused.began.items() if times}
    seen = set()
    for path in paused.paths:
        whole = path.read_bytes()
        for share in (0.8, 0.6, 0.4, 0.2, 0.1):
            short = tmp_path / path.name
            short.write_bytes(whole[: int(len(whole) * share)])
            (flight,) = flights_of([short])
            if flight.cut_off_bytes and not any(stretch.kind == "leads" for stretch in flight.stretches):
                break
        else:
            continue
        seen.add(flight.node)
        verdict = postmortem([short, *(other for other in paused.paths if other != path)]).verdicts[0]
        wanted = f"{flight.node} was named leader at"
        told = any(wanted in lack and "may have acted" in lack for lack in verdict.lacks)
        assert told is (flight.node in leaders), verdict
    assert seen & leaders and seen - leaders


def test_a_killed_process_and_the_next_of_its_name_share_a_lane(killed: Recorded) -> None:
    found = postmortem(killed.paths)
    assert len(killed.paths) == 4 and len(found.clocks) == 4
    assert [lane.id for lane in found.lanes.lanes] == ["ant", "bee", "cat"]
    first = min(killed.began, key=lambda name: min(killed.began[name], default=99))
    down = [span for span in found.lanes.spans if span.kind == "down" and span.lane == first and span.end is not None]
    assert any(span.end - span.begin == pytest.approx(3.0, abs=0.3) for span in down if span.end is not None)
    assert found.verdicts[0].together_s == pytest.approx(killed.together_s, abs=0.05)


def test_what_each_node_would_have_explained_is_there_for_every_instant(flights: list[Flight]) -> None:
    found = incident_of(flights)
    leader = max(begins(found), key=lambda name: begins(found)[name][-1])
    for name in ("ant", "bee", "cat"):
        last = [said for said in found.said if said.lane == name][-1]
        assert f"{leader}" in last.sentence and "because it has the best score" in last.sentence
        assert dict(last.lines)["decided"]
    arrows = found.lanes.arrows
    assert any("names" in arrow.label for arrow in arrows)
    assert {arrow.sender for arrow in arrows} | {arrow.receiver for arrow in arrows} == {"ant", "bee", "cat"}


@pytest.mark.parametrize("run", ["cut", "killed", "paused"])
def test_what_a_leader_explains_is_what_its_bar_shows(run: str, request: pytest.FixtureRequest) -> None:
    found = postmortem(request.getfixturevalue(run).paths)
    bars = [span for span in found.lanes.spans if span.kind in ("leads", "named")]
    assert {span.kind for span in bars} == ({"leads"} if run == "paused" else {"leads", "named"})
    for span in bars:
        at = (span.begin + (span.end or found.lanes.end)) / 2
        said = [said.sentence for said in found.said if said.lane == span.lane and said.at <= at][-1]
        assert ("does not act yet" in said) is (span.kind == "named"), (span, said)


def test_a_message_that_was_sent_and_never_received_is_drawn_as_lost(flights: list[Flight]) -> None:
    before = incident_of(flights).lanes.arrows
    assert before and all(arrow.heard is not None and arrow.heard > arrow.sent - 3e-3 for arrow in before)
    sent = {message.identifier for flight in flights for message in flight.decided if message.to is not None}
    deaf = [
        replace(flight, received={key: at for key, at in flight.received.items() if key not in sent}, decided=heard)
        for flight in flights
        for heard in ([message for message in flight.decided if message.to is not None],)
    ]
    lost = [arrow for arrow in incident_of(deaf).lanes.arrows if arrow.heard is None]
    assert lost and all(arrow.sender != arrow.receiver for arrow in lost)


# The file.


def test_the_file_holds_all_and_runs_only_its_own_script(flights: list[Flight]) -> None:
    nasty = [
        replace(flight, path=HOSTILE, noted=[replace(noted, label=HOSTILE, why=HOSTILE) for noted in flight.noted])
        for flight in flights
    ]
    text = document(incident_of(nasty, HOSTILE))
    assert text.count("<script") == 2 and text.count("</script>") == 2
    assert "http://" not in text.replace('"http://www.w3.org', "") and "https://" not in text
    policy = re.search(r"script-src '(sha256-[^']+)'", text)
    script = re.search(r'<script type="module">(.*?)</script>', text, re.S)
    assert policy is not None and script is not None
    assert policy[1] == "sha256-" + b64encode(sha256(script[1].encode()).digest()).decode()
    assert "default-src 'none'" in text


# Files that cannot be used.


def run(capsys: pytest.CaptureFixture[str], *arguments: Any) -> tuple[int, str, str]:
    code = 0
    try:
        main(["postmortem", *map(str, arguments)])
    except SystemExit as ended:
        code = int(ended.code or 0)
    said = capsys.readouterr()
    return code, said.out, said.err


def test_the_command_prints_the_verdict_and_writes_the_file(
    paused: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, *paused.paths, "-o", tmp_path / "incident.html")
    assert (code, err) == (0, "") and out.startswith("two acted at once for 0.00 s\n")
    assert (tmp_path / "incident.html").read_text().startswith("<!DOCTYPE html>")


def test_a_bad_file_gets_one_line(paused: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = paused.paths[:2]
    junk, short = tmp_path / "junk", tmp_path / "short"
    junk.write_bytes(b"\x7fELF" * 100)
    short.write_bytes(first.read_bytes()[:40])
    bent = tmp_path / "bent"
    data = bytearray(first.read_bytes())
    data[len(data) // 2] ^= 1
    bent.write_bytes(data)
    twice = shutil.copy(first, tmp_path / "twice")
    for files, words in {
        (first, junk): "is not a recording of doyen",
        (first, short): "damaged|ends before",
        (second, bent): "damaged",
        (first, tmp_path / "absent"): "is not there",
        (first, twice): "are recordings of one process",
    }.items():
        code, out, err = run(capsys, *files)
        assert code in (1, 2) and out == "" and err.count("\n") == 1 and re.search(words, err), err
    code, _, err = run(capsys, first, second, "-o", tmp_path / "no" / "such" / "place")
    assert code == 2 and "--output" in err
    before = second.read_bytes()
    code, _, err = run(capsys, first, second, "-o", second)
    assert code == 2 and "is there already, and is not a postmortem" in err and second.read_bytes() == before
    older = second.with_name(f"{second.name}.1")  # It is read, too, though nobody has named it.
    older.write_bytes(b"the older segment")
    code, _, err = run(capsys, first, second, "-o", older)
    assert code == 2 and "is not a postmortem" in err and older.read_bytes() == b"the older segment"


def test_a_reign_goes_on_over_the_end_of_a_segment(tmp_path: Path) -> None:
    def play(cluster: Cluster) -> None:
        pause_the_leader(cluster)
        cluster.run_for("20s")

    ring = Recorded(tmp_path, record_max=72 << 10).run(play)
    found = flights_of(ring.paths)
    long = [flight for flight in found if len(flight.segments) == 2]
    assert len(found) == 3 and long, "somebody has two segments"
    for flight in found:
        acts = [(stretch.kind, stretch.term) for stretch in flight.stretches]
        assert len(acts) == len({*acts})  # One bar for one reign.
    assert any(stretch.begin < flight.end - 15e9 for flight in long for stretch in flight.stretches)
    assert incident_of(found).verdicts[0].at_most_s == 0


def test_a_recording_that_runs_otherwise_gets_one_line(
    paused: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Reader(paused.paths[0]) as reader:
        header, items = reader.header, [*reader.inputs()]
    items[20] = replace(items[20], effects=[Effect("multicast", "e", encode("another"))])
    bent = tmp_path / "bent.rec"
    bent.write_bytes(MAGIC + b"".join(frame(encode(part)) for part in (header, *items)))
    code, out, err = run(capsys, bent, paused.paths[1])
    assert code == 1 and out == "" and err.count("\n") == 1 and "but replayed" in err


def test_recordings_of_two_groups_are_refused(flights: list[Flight]) -> None:
    with pytest.raises(ConfigError, match="is of the group 'other'"):
        incident_of([flights[0], replace(flights[1], group="other")])


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(TransportError, match="not a recording"):
        flights_of([tmp_path / "empty"])
