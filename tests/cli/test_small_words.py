"""What commands say where something small is wrong: in one line, and true."""

import logging
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import doyen
from doyen.cli import doctor, main
from doyen.core.ids import NodeId, Term
from doyen.errors import ConfigError
from doyen.node.campaign import Campaign, why_not_in
from doyen.node.control import REQUEST_MAX, ask
from doyen.runner.runner import left_to


def said(line: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    with pytest.raises(SystemExit) as end:
        main(line)
    assert isinstance(end.value.code, int)
    return end.value.code, capsys.readouterr().err


def test_long_arguments_are_refused_in_our_words(capsys: pytest.CaptureFixture[str]) -> None:
    code, err = said(["pass-on", "x" * 10_000], capsys)
    assert (code, err) == (
        1,
        "doyen: a baton has at most 512 bytes, not 10,000: hand on where it is kept\n",
    )
    code, err = said(["voters", "add", "x" * 10_000], capsys)
    assert code == 2 and "cannot be a member's name: give 1 to 64 printable bytes" in err and err.count("\n") == 1


def test_a_request_that_is_too_long_is_not_sent_and_not_read(tmp_path: Path) -> None:
    path = tmp_path / "ant.sock"
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(path))
        door.listen()
        with pytest.raises(ConfigError, match="what is asked is too long: a request has at most 4096 bytes"):
            ask(path, "resign", to="x" * REQUEST_MAX)


def test_a_node_says_in_our_words_that_a_request_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    monkeypatch.setenv("DOYEN_RUNTIME_DIR", str(tmp_path))
    answers: list[bytes] = []

    def send(path: Path) -> None:
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(str(path))
            line.sendall(b'{"do":"' + b"x" * 3 * REQUEST_MAX + b'"}\n')
            answers.append(line.recv(4096))

    async def run() -> None:
        async with doyen.join("g", name="ant", preset="local", bind="127.0.0.1:0"):
            sender = threading.Thread(target=send, args=(tmp_path / "g" / "ant.sock",))
            sender.start()
            while sender.is_alive():
                await asyncio.sleep(0.01)

    asyncio.run(run())
    assert b"what is asked is too long: a request has at most 4096 bytes" in answers[0]


def test_a_closed_standard_input_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", None)
    code, err = said(["pass-on", "-"], capsys)
    assert (code, err) == (2, "doyen: - reads what to hand on from standard input, which is closed\n")


def test_a_voter_that_is_named_twice_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = f"agent --group g --election quorum --voters ant,ant,bee --name ant --state {tmp_path} --newcomer"
    code, err = said(line.split(), capsys)
    assert code == 2 and "--voters has ant twice: a majority is counted of different voters" in err


@pytest.mark.parametrize(
    ("number", "mine", "words"),
    [
        (None, None, "ant does not lead"),
        (9, None, "term 9 has not begun"),
        (3, None, "ant does not lead in term 3"),
        (3, 3, "nothing acts in term 3 here"),
        (2, None, "a later term has begun"),
        (2, 3, "a later term has begun"),
    ],
)
def test_why_nothing_is_handed_on_in_a_term_is_true(number: int | None, mine: int | None, words: str) -> None:
    assert why_not_in(number, "ant", None if mine is None else Term(mine, NodeId("ant")), 3) == words


def test_prepare_says_that_an_election_names_no_heir(caplog: pytest.LogCaptureFixture) -> None:
    reign: Any = SimpleNamespace(machine=SimpleNamespace(baton=None), kind=SimpleNamespace(title="gossip (hybrid)"))
    campaign: Any = SimpleNamespace(_node=SimpleNamespace(name="ant"), _reign=reign, baton=None)
    with caplog.at_level(logging.WARNING, "doyen"):
        Campaign.prepare(campaign)
        assert caplog.messages == ["ant: prepare() waits for ever: gossip (hybrid) names no heir, only quorum does"]
        campaign.baton = b""
        Campaign.prepare(campaign)
    assert len(caplog.messages) == 1


def test_a_runner_that_ends_does_not_deny_that_voters_are_left() -> None:
    assert left_to(["bee"], ["bee", "cat"]) == left_to(["bee"], []) == "handed over"
    assert left_to([], ["bee", "cat"]) == "resigned; the other voters elect the next"
    assert left_to([], []) == "no other member is here to take over"


def test_doctor_counts_packets_that_are_not_sealed_and_finds_who_leads_alone() -> None:
    (found,) = doctor.refusals("g/ant", {"clear": 7})
    assert found.verdict == "wrong" and found.what == "g/ant: 7 × clear" and "--key-file" in found.advice
    told = {"alone": "seed bee:1 did not answer within 10s", "silent_seeds": ["bee:1"], "waits_for": "", "advice": ""}
    first, second = doctor.not_met("g/ant", told)
    assert (first.verdict, first.what) == ("wrong", "g/ant leads alone: seed bee:1 did not answer within 10s")
    assert "--seed HOST" in first.advice and second.what == "g/ant: seed bee:1 has not answered"
    (found,) = doctor.not_met("g/ant", told | {"alone": "nobody was found", "silent_seeds": []})
    assert found.verdict == "note"


def test_top_is_refused_where_what_it_draws_would_go_to_a_file() -> None:
    """Textual draws on stderr: `doyen top 2>errors` left an empty screen."""
    pytest.importorskip("textual")
    ours, theirs = os.openpty()
    try:
        line = [sys.executable, "-m", "doyen", "top", "--group", "nobody"]
        done = subprocess.run(line, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, text=True, timeout=60)
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 2 and "needs a terminal" in done.stderr
