"""What running nodes tell keeps its fields, and the commands that need one keep their exit codes.

`live.json` has one line for each command that asks a node, each event of an agent, of a runner and of `doyen up`, each
page of a node's HTTP, and each exit code.  Fields may come, none may go; exit codes stay.

    pytest tests/holds/test_live.py                       compare with what is kept
    HOLDS_REWRITE=1 pytest tests/holds/test_live.py       write it anew
"""

import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, Final

import golden
import pytest
import reach
from lines import ELECTIONS
from test_commands import fields

pytestmark = pytest.mark.live
FILE: Final = "live.json"
DOYEN: Final = [sys.executable, "-m", "doyen"]
PATIENCE_S: Final = 40.0


def until(holds: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not (found := holds()):
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.05)
    return found


class Process:
    """One `doyen` in a process of its own, and the JSON lines that it has told so far."""

    def __init__(self, *arguments: str, stream: str = "stdout") -> None:
        pipes: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: subprocess.PIPE}
        self.process = subprocess.Popen([*DOYEN, *arguments], text=True, **pipes)
        self.told: list[dict[str, Any]] = []
        self._reader = Thread(target=self._read, args=(getattr(self.process, stream),), daemon=True)
        self._reader.start()

    def _read(self, lines: Any) -> None:
        for line in lines:
            if line.startswith("{"):
                self.told.append(json.loads(line))

    def of(self, event: str, **fields: Any) -> dict[str, Any] | None:
        """Return the first event of that kind that has these values, if it was told yet."""
        for told in [*self.told]:
            if told.get("event") == event and all(told.get(name) == value for name, value in fields.items()):
                return told
        return None

    def wait_for(self, event: str, **fields: Any) -> dict[str, Any]:
        found: dict[str, Any] = until(lambda: self.of(event, **fields), f"{event} {fields}")
        return found

    def ends(self) -> int:
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.ends()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


@contextmanager
def started(*arguments: str, stream: str = "stdout") -> Iterator[Process]:
    process = Process(*arguments, stream=stream)
    try:
        yield process
    finally:
        process.close()


def agent(group: str, name: str, *flags: str) -> Any:
    return started("agent", "--group", group, "--name", name, "--preset", "local", "--status-every", "0.2", *flags)


def names(*told: Any) -> list[str]:
    """Return the fields of answers, sorted; where keys are names of members or states, `*` stands for them."""
    found = {
        re.sub(r"^(members|compared|codes|nodes)\.[^.[]+", r"\1.*", field) for one in told for field in fields(one)
    }
    return sorted(field for field in found if not field.startswith("refused."))  # By reason, and there may be none.


def answer(text: str) -> list[str]:
    return names(*map(json.loads, text.splitlines()))


def events(process: Process, kind: str) -> dict[str, list[str]]:
    """Return the fields of all events by their name."""
    kinds = {told["event"] for told in process.told}
    return {f"event {name} of {kind}": names(*(t for t in process.told if t["event"] == name)) for name in kinds}


def asked(found: dict[str, Any], line: str) -> dict[str, Any]:
    """Ask a running node; keep the exit code and the fields of the answer."""
    code, out, err = reach.command(*line.split(), "--json")
    found[f"exit code of doyen {line}"] = code
    found[f"fields of doyen {line}"] = answer(out)
    assert out, err
    told: dict[str, Any] = json.loads(out.splitlines()[0])
    return told


def page(address: str, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def first_events(address: str) -> list[str]:
    """Return the names of events that a watcher over HTTP is told at first, each with its fields."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as watcher:
        watcher.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        text = ""
        while not re.search(r"event: elected.*?\n\n", text, re.DOTALL):
            more = watcher.recv(65536).decode()
            assert more, f"it ended: {text}"
            text += more
    told = re.findall(r"event: (\w+)\ndata: (.*)\n", text)
    return sorted({f"{event} {field}" for event, data in told for field in fields(json.loads(data))})


def a_group(found: dict[str, Any], folder: Path) -> None:
    """Two members: one is asked everything, the other one is killed at last."""
    state, key = str(folder / "state"), str(folder / "keys")
    reach.command("keys", "new", "--file", key)
    common = ("--election", "hybrid", "--key-file", key)
    told = ("--meta", "zone=eu", "--also-elect", "mail=le-s", "--state", state, "--http", "127.0.0.1:0")
    with agent("orders", "ant", *common, *told) as ant:
        address = ant.wait_for("started")["address"]
        with agent("orders", "bee", *common, "--also-elect", "mail=le-s", "--seed", address) as bee:
            bee.wait_for("started")

            def members(name: str) -> Any:
                answer = json.loads(reach.command("members", "--name", name, "--json")[1] or "{}")
                return len(answer.get("members", ())) == 2 and answer["leader"]

            until(lambda: members("ant") and members("ant") == members("bee"), "two members that agree")
            leader = members("ant")
            other = "bee" if leader == "ant" else "ant"
            until(lambda: bee.of("status", leader=leader), "a status line of bee with a leader")
            asked(found, "members --name ant")
            asked(found, "leader --name ant")
            asked(found, "leader --name ant --election mail")
            asked(found, "explain --name ant")
            asked(found, "explain --name ant --history")
            asked(found, "watch --name ant --for 300ms")
            asked(found, "join 127.0.0.1:9 --name ant")
            for line, key_of in (
                (f"leader --name {leader} --mine", "leader"),
                (f"leader --name {other} --mine", "other"),
            ):
                found[f"exit code of doyen leader --mine, of the {key_of}"] = reach.command(*line.split())[0]
            found["exit code of doyen resign, of the other"] = reach.command("resign", "--name", other)[0]
            found["exit code of doyen resign, to nobody"] = reach.command("resign", "--name", leader, "--to", "x")[0]
            found["exit code of doyen leader, no such election"] = reach.command("leader", "--election", "x")[0]
            code, out, _ = reach.command("resign", "--name", leader, "--cooldown", "1s", "--json")
            found["exit code of doyen resign, of the leader"], found["fields of doyen resign"] = code, answer(out)
            until(lambda: members("ant") == other, "the other leads")
            served = ant.wait_for("started")["http"].removeprefix("http://")
            for path in ("/leader", "/members", "/health", "/"):
                found[f"page {path}"] = names(json.loads(page(served, path)[1]))
            found["status of page /nothing"] = page(served, "/nothing")[0]
            found["status of page /leader?election=nothing"] = page(served, "/leader?election=nothing")[0]
            found["page /metrics"] = sorted(set(re.findall(r"^# TYPE (\S+ \S+)$", page(served, "/metrics")[1], re.M)))
            found["page /events"] = first_events(served)
            bee.process.kill()
            ant.wait_for("member", member="bee", member_status="failed")
            until(lambda: members("ant") == "ant" or ant.of("elected", leader="ant"), "ant leads alone")
        found["exit code of doyen state show"], out, _ = reach.command("state", "show", state, "--json")
        found["fields of doyen state show"] = answer(out)
        found["exit code of doyen leave"], out, _ = reach.command("leave", "--name", "ant", "--json")
        found["fields of doyen leave"] = answer(out)
        found["exit code of an agent that was told to leave"] = ant.ends()
        found.update(events(ant, "agent"))


def answers(group: str) -> bool:
    return reach.command("leader", "--group", group)[0] == 0


def every_election(found: dict[str, Any], folder: Path) -> None:
    """One member of each election, to ask why it leads; all at once."""
    with ExitStack() as stack:
        alone = {}
        for kind in ELECTIONS:
            more = ("--voters", "solo", "--state", str(folder / "pole"), "--newcomer") if kind == "pole" else ()
            alone[kind] = stack.enter_context(agent(kind, "solo", "--election", kind, *more))
        for kind, process in alone.items():
            process.wait_for("elected", leader="solo")
            until(partial(answers, kind), f"an answer of {kind}")
            asked(found, f"explain --group {kind}")
            asked(found, f"leader --group {kind}")
        asked(found, "members --group announce")
        found["exit code of doyen members, of which group"] = reach.command("members")[0]
        taken = alone["pole"].wait_for("started")["address"]
        mine = subprocess.run([*DOYEN, "agent", "--group", "g", "--bind", taken], capture_output=True, timeout=30)
        found["exit code of doyen agent, the port is taken"] = mine.returncode
        alone["pole"].process.terminate()
        alone["le-s"].process.send_signal(signal.SIGINT)
        found["exit code of doyen agent after SIGTERM"] = alone["pole"].ends()
        found["exit code of doyen agent after SIGINT"] = alone["le-s"].ends()
    retired = str(folder / "pole")
    found["exit code of doyen state show, of pole"], out, _ = reach.command("state", "show", retired, "--json")
    found["fields of doyen state show, of pole"] = answer(out)
    within = next(str(path) for path in sorted(Path(retired).iterdir()) if path.is_dir())
    found["exit code of doyen state reset"] = reach.command("state", "reset", within)[0]
    code, out, _ = reach.command("state", "reset", within, "--new-identity", "--json")
    found["exit code of doyen state reset --new-identity"], found["fields of doyen state reset"] = code, answer(out)


def cpu_s(pid: int) -> float:
    """Return the CPU time that a process has had, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def runners(found: dict[str, Any], folder: Path) -> None:
    """`doyen run` and `doyen up`, all at once."""

    def runner(group: str, *words: str, flags: tuple[str, ...] = ()) -> Any:
        return started("run", "--preset", "local", "--json", "--group", group, *flags, "--", *words, stream="stderr")

    with ExitStack() as stack:
        enter = stack.enter_context
        lonely = ("--name", "a", "--election", "pole", "--voters", "a,b,c", "--volatile", "--wait", "300ms")
        done = enter(runner("done", "true"))
        seven = enter(runner("seven", "sh", "-c", "exit 7"))
        killed = enter(runner("killed", "sh", "-c", "kill -9 $$"))
        waiting = enter(runner("waiting", "true", flags=lonely))
        ended = enter(runner("ended", "sleep", "60"))
        interrupted = enter(runner("interrupted", "sleep", "60"))
        up = enter(started("up", "--nodes", "2", "--for", "3s", "--json"))
        stopped = enter(started("up", "--nodes", "2", "--json"))
        long = enter(started("sim", "announce", "--nodes", "50", "--runs", "100000", "--jobs", "1"))
        watched = enter(agent("watched", "solo", "--election", "le-s"))
        ended.wait_for("elected")
        ended.process.terminate()
        interrupted.wait_for("elected")
        interrupted.process.send_signal(signal.SIGINT)
        watched.wait_for("started")
        watcher = enter(started("watch", "--group", "watched", "--json"))
        until(lambda: watcher.told, "the first line of watch")
        watcher.process.send_signal(signal.SIGINT)
        stopped.wait_for("sigkill")
        stopped.process.send_signal(signal.SIGINT)
        until(lambda: cpu_s(long.process.pid) > 3, "a simulation that is under way")
        long.process.send_signal(signal.SIGINT)
        for name, process in {
            "sim after SIGINT": long,
            "run, a command that is done": done,
            "run, a command that ends with 7": seven,
            "run, a command that is killed": killed,
            "run, nobody elected in time": waiting,
            "run after SIGTERM": ended,
            "run after SIGINT": interrupted,
            "watch after SIGINT": watcher,
            "up --for": up,
            "up after SIGINT": stopped,
        }.items():
            found[f"exit code of doyen {name}"] = process.ends()
        for process in (done, ended):
            found.update(events(process, "run"))
        found.update(events(stopped, "up"))


def everything(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, act in enumerate((a_group, every_election, runners)):
        place = folder / str(number)  # The path of a socket must be short.
        place.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            reach.shut_off(patch, place)
            act(found, place)
    return found


def test_running_nodes_tell_what_they_told(tmp_path_factory: pytest.TempPathFactory) -> None:
    found = everything(tmp_path_factory.mktemp("live"))
    if golden.REWRITE:  # What is told every time; the rest goes by the time that things take.
        again = [everything(tmp_path_factory.mktemp("live")) for _ in range(3)]
        always = {name: value for name, value in found.items() if all(name in other for other in again)}
        for name, value in always.items():
            if isinstance(value, list):
                always[name] = [field for field in value if all(field in other[name] for other in again)]
        golden.write(FILE, always)
    kept = golden.read(FILE)
    assert golden.lost(kept, found) == []
    assert len(kept) >= 70
    codes = {code for name, code in kept.items() if name.startswith("exit code")}
    assert codes >= {0, 1, 2, 3, 7, 75, 130, 137}
