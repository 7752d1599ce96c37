"""The other end of the control socket: which nodes are found, and what is said of those that do not answer."""

import asyncio
import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import doyen
from doyen.cli import main, resign
from doyen.cli.local import ON_ITS_MACHINE, UNKNOWN
from doyen.errors import TransportError
from doyen.node.control import CONNECTIONS_MAX, ask, find_node, find_nodes, local_nodes
from doyen.node.registration import make_private, runtime_dir, runtime_dirs
from doyen.runner.ward import environment


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DOYEN_RUNTIME_DIR", str(tmp_path))
    return tmp_path


@contextmanager
def node(path: Path, answer: dict[str, Any] | None) -> Iterator[None]:
    """Says the same to every question; None: nothing, as one that is stopped."""
    path.parent.mkdir(parents=True, exist_ok=True)

    def serve() -> None:
        while True:
            try:
                line, _ = door.accept()
            except OSError:
                return
            with line:
                if b'"watch"' not in (line.makefile("rb").readline() or b'"watch"'):  # It ends where one would watch.
                    line.sendall(json.dumps({"ok": True, "result": answer}).encode() + b"\n")

    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(path))
        door.listen()
        thread = threading.Thread(target=serve, daemon=True)
        if answer is not None:
            thread.start()
        try:
            yield
        finally:
            door.shutdown(socket.SHUT_RDWR)
            path.unlink()
            if answer is not None:
                thread.join()


def said(name: str, *, leads: bool = False) -> dict[str, Any]:
    return {"group": "g", "node": name, "leader": "bee", "term": 3, "since_s": 1.0, "is_me": leads}


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    assert isinstance(end.value.code, int)
    return end.value.code


def test_a_node_that_is_stopped_does_not_answer(runtime: Path) -> None:
    with node(runtime / "g/ant.sock", None), pytest.raises(TransportError, match=r"ant does not answer within 0\.05 s"):
        ask(find_node("g", None), "status", timeout_s=0.05)


def test_whichever_node_of_this_machine_leads_it_is_mine(runtime: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ExitStack() as nodes:
        nodes.enter_context(node(runtime / "g/ant.sock", said("ant")))
        assert run("leader", "--mine") == 3
        nodes.enter_context(node(runtime / "g/bee.sock", said("bee", leads=True)))
        assert run("leader", "--mine") == 0
        assert run("leader", "--mine", "--name", "ant") == 3
    said_so = capsys.readouterr().out.splitlines()
    assert said_so[0] == f"bee has been named leader of g for 1 s (term 3); {UNKNOWN}"  # Nobody here can ask it.
    assert said_so[1] == "bee has led g for 1 s (term 3)"


def test_a_leader_that_does_not_act_yet_is_called_so(runtime: Path, capsys: pytest.CaptureFixture[str]) -> None:
    why = "2 of the 3 members expected answer"
    waits = {"acts": False, "waits_for": why}
    status = {"members": [], "sealed": True, "membership": "swim", "leader_since_s": 1.0}
    with (
        node(runtime / "g/ant.sock", said("ant") | status | {"acts": None, "waits_for": ""}),
        node(runtime / "g/bee.sock", said("bee") | waits),
    ):  # The first that is asked follows; the leader is asked for what only it knows.
        assert run("leader") == 0
        assert f"bee is named leader, but does not act yet: {why}" in capsys.readouterr().out
        assert run("leader", "--mine") == 3
        assert run("leader", "--json") == 0
        assert waits.items() <= json.loads(capsys.readouterr().out.splitlines()[-1]).items()
        for command in ("members", "watch"):
            assert run(command) == 0
            assert f"bee is named leader (term 3), but does not act yet: {why}" in capsys.readouterr().out


def test_a_leader_on_another_machine_is_believed_whether_it_acts(
    runtime: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = {"members": [], "sealed": True, "membership": "swim", "leader_since_s": 1.0}
    told = said("ant") | status | {"sentence": 'bee leads "g" (term 3).', "lines": [], "history": []}
    words = {
        True: {
            "leader": "bee has led g for 1 s (term 3)",
            "members": "g · 0 members · bee has led for 1 s (term 3)",
            "explain": 'bee leads "g" (term 3).',
            "watch": "bee leads (term 3)",
        },
        False: {
            "leader": f"bee is named leader, but does not act yet: {ON_ITS_MACHINE} (g, term 3)",
            "members": f"bee is named leader (term 3), but does not act yet: {ON_ITS_MACHINE}",
            "explain": f'bee is named leader of "g" (term 3), and does not act yet: {ON_ITS_MACHINE}.',
            "watch": f"bee is named leader (term 3), but does not act yet: {ON_ITS_MACHINE}",
        },
        None: {
            "leader": f"bee has been named leader of g for 1 s (term 3); {UNKNOWN}",
            "members": f"bee has been named leader for 1 s (term 3); {UNKNOWN}",
            "explain": f'bee is named leader of "g" (term 3), and {UNKNOWN}.',
            "watch": f"bee is named leader (term 3); {UNKNOWN}",
        },
    }
    for acts, shown in words.items():
        with node(runtime / "g/ant.sock", told | {"acts": acts}):
            for command, text in shown.items():
                assert run(command) == 0
                assert text in capsys.readouterr().out.splitlines()[0], (acts, command)


def test_any_name_can_be_asked_to_resign(runtime: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with node(runtime / "g/bee%3a1.sock", said("bee:1", leads=True)):
        assert run("resign", "--name", "bee:1") == 0
    assert capsys.readouterr().out.startswith("bee:1 resigned")


def test_who_leads_next_is_waited_for_a_while(
    runtime: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter(
        [said("ant", leads=True), said("ant") | {"leader": None}, said("ant") | {"leader": None}, said("ant")]
    )
    monkeypatch.setattr(resign, "ask", lambda *_, **__: next(answers))
    with node(runtime / "g/ant.sock", said("ant")):
        assert run("resign") == 0
    assert capsys.readouterr().out == "ant resigned (term 3); bee leads\n"


def test_watch_says_that_its_node_has_ended(runtime: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with node(runtime / "g/ant.sock", said("ant") | {"acts": True}):
        assert run("watch") == 0
    out, err = capsys.readouterr()
    assert "bee leads (term 3)" in out and "ant has ended" in err


def test_who_leaves_must_be_named_where_several_run(runtime: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with node(runtime / "g/ant.sock", said("ant")), node(runtime / "g/bee.sock", said("bee")):
        assert run("leave") == 2
    assert "--name is missing: here run ant, bee" in capsys.readouterr().err


def test_cron_finds_what_a_session_started_and_the_reverse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOYEN_RUNTIME_DIR")
    place = Path(f"/tmp/doyen-{os.getuid()}")
    there = place.exists()
    place.mkdir(mode=0o700, exist_ok=True)
    group = f"from-cron-{os.getpid()}"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    try:
        with node(place / group / "ant.sock", said("ant")), node(tmp_path / "doyen" / group / "bee.sock", said("bee")):
            assert {path.stem for path in find_nodes(group, None)} == {"ant", "bee"}
            monkeypatch.delenv("XDG_RUNTIME_DIR")
            assert "ant" in {path.stem for path in find_nodes(group, None)}
    finally:
        (place / group).rmdir()
        if not there:
            place.rmdir()


def test_a_place_that_somebody_else_has_made_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOYEN_RUNTIME_DIR")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with node(tmp_path / "doyen/g/ant.sock", said("ant")):
        assert local_nodes("g")
        monkeypatch.setattr(os, "getuid", lambda: 4_000_000)
        assert not runtime_dirs() and not local_nodes("g")


def test_what_belongs_to_another_user_is_called_so(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (runtime / "g").mkdir()
    monkeypatch.setattr(
        os, "access", lambda path, how: Path(path).exists() and (Path(path).name != "g" or how == os.F_OK)
    )
    for group in ("g", None):
        with pytest.raises(TransportError, match="another user's"):
            find_nodes(group, None)


EVIL = "bee\x1b[2J\n\x9b31mants lead\x7f\u202e"


def test_no_escape_that_others_chose_reaches_a_terminal(runtime: Path, capfdbinary: Any) -> None:
    member = {
        "name": EVIL,
        "address": EVIL,
        "state": "alive",
        "since_s": 1.0,
        "score": None,
        "health": 1.0,
        "me": False,
    }
    member |= {"rtt_s": None, "software": EVIL, "leads": True, "eligible": True, "meta": {EVIL: EVIL}}
    told = said("ant") | {"leader": EVIL, "address": EVIL, "waits_for": EVIL, "error": EVIL}
    told |= {"members": [member], "sealed": True, "membership": "swim", "leader_since_s": 1.0, "seeds": [EVIL]}
    told |= {"text": EVIL, "lines": [EVIL], "voters": [EVIL], "earlier": [EVIL], "configured": [], "answering": None}
    told |= {"may_fail": None, "number": 1}
    shown = 0
    with node(runtime / "g/ant.sock", told):
        for command in ("members", "leader", "leader --address", "watch", "voters show", "leave", "resign"):
            for json_too in ([], ["--json"]):
                with suppress(SystemExit, KeyError):
                    main([*command.split(), *json_too])
                out, err = capfdbinary.readouterr()
                text = (out + err).decode()
                shown += "[2J" in text
                assert all(c == "\n" or c.isprintable() for c in text), (command, text)
                assert "\n\x9b" not in text and not any(line.startswith("ants lead") for line in text.splitlines())
    assert shown >= 8  # It was shown, harmless.


def test_no_escape_that_others_chose_reaches_a_log(caplog: pytest.LogCaptureFixture) -> None:
    from doyen.net import driver  # Its logger is every node's.

    driver.log.warning("dropped a datagram from %s", EVIL)
    (record,) = caplog.records
    assert record.getMessage() == r"dropped a datagram from bee\x1b[2J\n\x9b31mants lead\x7f\u202e"


def test_a_link_in_the_place_of_the_runtime_directory_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DOYEN_RUNTIME_DIR")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    (tmp_path / "run").mkdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "run/doyen").symlink_to(tmp_path / "elsewhere")
    with node(tmp_path / "elsewhere/g/ant.sock", said("ant")):
        assert not local_nodes("g") and tmp_path / "run/doyen" not in runtime_dirs()
        assert runtime_dir() != tmp_path / "run/doyen"
        with pytest.raises(OSError, match="is not this user's alone"):
            make_private(tmp_path / "run/doyen/g")
        (tmp_path / "run/doyen").unlink()
        (tmp_path / "elsewhere").rename(tmp_path / "run/doyen")
        (tmp_path / "elsewhere").mkdir()
        assert local_nodes("g")
        (tmp_path / "run/doyen").chmod(0o770)  # Others may have put something there.
        assert not local_nodes("g")
        (tmp_path / "run/doyen").chmod(0o700)
        (tmp_path / "run/doyen").rename(tmp_path / "back")
        (tmp_path / "elsewhere").rmdir()
        (tmp_path / "back").rename(tmp_path / "elsewhere")


def test_a_command_does_not_get_the_nodes_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOYEN_HTTP_TOKEN", "0123456789abcdef")
    monkeypatch.setenv("DOYEN_GROUP", "g")
    given = environment(7)
    assert "DOYEN_HTTP_TOKEN" not in given and (given["DOYEN_GROUP"], given["DOYEN_TERM"]) == ("g", "7")


@pytest.mark.live
def test_watchers_that_are_gone_take_up_no_connection(runtime: Path) -> None:
    async def main() -> None:
        async with doyen.join("g", name="ant", leave_on_sigterm=False) as ant:
            path = runtime / "g/ant.sock"
            for _ in range(CONNECTIONS_MAX + 1):
                reader, writer = await asyncio.open_unix_connection(path)
                writer.write(b'{"do":"watch"}\n')
                assert await reader.readline()  # It is told what holds already.
                writer.close()
                await writer.wait_closed()
            watching, writer = await asyncio.open_unix_connection(path)
            writer.write(b'{"do":"watch"}\n')
            assert (await asyncio.to_thread(ask, path, "status"))["node"] == "ant"
            await ant.leave()
        async with asyncio.timeout(10):
            assert b'"stopped"' in (await watching.read()).splitlines()[-1]
        writer.close()
        await writer.wait_closed()

    asyncio.run(main())
