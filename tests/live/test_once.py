"""`doyen run --once`: of several runners one runs the command, and the others end with 0."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from doyen.core.commands import Kept
from doyen.core.ids import NodeId
from doyen.errors import DoyenError
from doyen.membership.occasions import Memory
from doyen.net.storage import Storage
from doyen.node.config import NodeConfig
from doyen.node.control import ask, local_nodes
from doyen.runner.once import Place, kept_beside
from doyen_lab.netns import Namespaces

pytestmark = pytest.mark.live
DOYEN = [sys.executable, "-m", "doyen"]


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        made = [stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(count)]
        for each in made:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in made]


class Runners:
    """Runners of one group, each with a port and a state directory of its own, as on hosts of their own."""

    def __init__(self, place: Path, stack: ExitStack) -> None:
        self.place, self._stack = place, stack
        ports = free_ports(3)
        self.at = {name: f"127.0.0.1:{port}" for name, port in zip(("ant", "bee", "cat"), ports, strict=True)}
        self.hosts: dict[str, str] = {}  # The network namespaces of those that have one.
        self.ran = place / "ran"

    def start(
        self, name: str, *flags: str, script: str = "", named: bool = True, seeds: bool = True
    ) -> "subprocess.Popen[str]":
        """Start a runner whose command waits for the file `go` and notes the runner's name."""
        script = script or f"while [ ! -e {self.place}/go ]; do sleep 0.02; done; echo {name} >> {self.ran}"
        others = [f"--seed={at}" for other, at in self.at.items() if seeds and other != name]
        line = ["ip", "netns", "exec", self.hosts[name]] if name in self.hosts else []
        line += [*DOYEN, "run", "--json", "--group", "once", "--preset", "local", "--election", "hybrid"]
        line += [f"--bind={self.at[name]}", *others, *(["--name", name] if named else [])]
        line += [*flags, "--", "sh", "-c", f"echo began {name} >> {self.place}/began; {script}"]
        environment = os.environ | {"XDG_STATE_HOME": str(self.place / f"state-{name}")}
        process = subprocess.Popen(line, stderr=subprocess.PIPE, text=True, env=environment)
        self._stack.enter_context(process)
        self._stack.callback(process.kill)
        return process

    def go(self) -> None:
        (self.place / "go").touch()

    def runs(self) -> list[str]:
        return self.ran.read_text().split() if self.ran.exists() else []

    def began(self) -> list[str]:
        file = self.place / "began"
        return file.read_text().split()[1::2] if file.exists() else []

    def members(self) -> list[str]:
        """Return the members that every runner names; none while they differ."""
        seen = []
        for _, path in local_nodes("once"):
            with suppress(DoyenError, OSError):
                seen.append([m["name"] for m in ask(path, "members")["members"] if m["state"] == "alive"])
        return seen[0] if len(seen) > 1 and all(names == seen[0] for names in seen) else []


@pytest.fixture
def runners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runners]:
    monkeypatch.setenv("DOYEN_RUNTIME_DIR", str(tmp_path / "run"))
    with ExitStack() as stack:
        yield Runners(tmp_path, stack)


def until(holds: Callable[[], bool], within_s: float = 20) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def ended(process: "subprocess.Popen[str]") -> tuple[int, dict[str, dict[str, Any]]]:
    """Return the exit code, and what it said, by event."""
    _, error = process.communicate(timeout=30)
    said = [json.loads(line) for line in error.splitlines() if line.startswith("{")]
    return process.returncode, {line["event"]: line for line in said}


def test_of_three_one_runs_it_and_all_end_with_0_and_remember(runners: Runners) -> None:
    record = [f"--record={runners.place}/flight"]
    flags = {"ant": record, "bee": [], "cat": []}
    processes = {name: runners.start(name, "--once", "monday", *flags[name]) for name in flags}
    until(lambda: len(runners.members()) == 3 and len(runners.began()) == 1)
    runners.go()
    codes, said = {}, {}
    for name, process in processes.items():
        codes[name], said[name] = ended(process)
    assert set(codes.values()) == {0}
    (runner,) = runners.runs()
    others = sorted(set(processes) - {runner})
    assert said[runner]["told"]["told"] == others and not said[runner]["told"]["silent"]
    for name in others:
        assert said[name]["done"]["by"] == runner
        assert said[name]["done"]["text"].startswith(f"by {runner} at ")
    assert "at least once" in said[runner]["once"]["text"]
    assert "nobody who remembers is up" in said[runner]["once"]["text"]
    assert said[runner]["once"]["state"] == str(runners.place / f"state-{runner}" / "doyen" / "once-once")
    replayed = subprocess.run([*DOYEN, "replay", f"{runners.place}/flight"], capture_output=True, text=True)
    assert replayed.returncode == 0 and "the same" in replayed.stdout and "command" in replayed.stdout
    # One that was told remembers, when it starts again and nobody else is there; another occasion is another matter.
    late = runners.start(others[0], "--once", "monday", seeds=False)
    other_day = runners.start(others[1], "--once", "tuesday", "--remember", "200ms", seeds=False)
    code, said_late = ended(late)
    assert (code, said_late["done"]["by"]) == (0, runner)
    assert ended(other_day)[0] == 0
    assert runners.runs() == [runner, others[1]]
    time.sleep(0.2)
    assert ended(runners.start(others[1], "--once", "tuesday", seeds=False))[0] == 0
    assert runners.runs() == [runner, others[1], others[1]], "it was to be forgotten after 200 ms"


@pytest.mark.root
def test_a_runner_that_is_killed_is_replaced_and_a_host_out_of_reach_repeats_it(runners: Runners) -> None:
    with Namespaces(2) as network:
        hosts = dict(zip(("ant", "bee"), network.nodes, strict=True))
        runners.hosts = {name: host.name for name, host in hosts.items()}
        runners.at = {name: f"{host.ipv4}:7600" for name, host in hosts.items()}
        processes = {name: runners.start(name, "--once", "monday") for name in hosts}
        until(lambda: runners.members() == ["ant", "bee"] and len(runners.began()) == 1)
        (killed,) = runners.began()
        (other,) = {"ant", "bee"} - {killed}
        processes[killed].kill()
        until(lambda: runners.began() == [killed, other])
        again = runners.start(killed, "--once", "monday")
        until(lambda: runners.members() == ["ant", "bee"])
        link = ["ip", "-n", hosts[killed].name, "link", "set", hosts[killed].interface]
        subprocess.run([*link, "down"], check=True)
        runners.go()
        code, said = ended(processes[other])
        assert (code, runners.runs()[0]) == (0, other)
        assert (said["told"]["told"], said["told"]["silent"]) == ([], [killed])
        assert f"not by {killed}: it may be run there again" in said["told"]["text"]
        assert ended(again)[0] == 0  # It leads on its own side, and nobody there knows.
        assert runners.runs() == [other, killed]


def test_without_a_key_a_failure_is_tried_by_the_next_and_a_late_starter_is_told(runners: Runners) -> None:
    """The occasion lasts until the last runner has ended: here one lingers; after that it is run again."""
    failing = f"while [ ! -e {runners.place}/go ]; do sleep 0.02; done; exit 3"
    first = runners.start("ant", "--once", script=failing, seeds=False)
    until(lambda: runners.began() == ["ant"])
    second = runners.start("bee", "--once", "--linger", "60s")
    until(lambda: runners.members() == ["ant", "bee"])
    runners.go()
    code, said = ended(first)
    assert code == 3 and "the next runner tries" in said["ended"]["text"]
    until(lambda: runners.runs() == ["bee"])
    code, said = ended(runners.start("cat", "--once", named=False))
    assert (code, said["done"]["by"]) == (0, "bee")
    second.terminate()
    assert second.wait(10) == 0
    assert ended(runners.start("cat", "--once", named=False, seeds=False))[0] == 0
    assert runners.runs() == ["bee", "cat"]


def test_the_disk_is_asked_for_this_group_and_for_runners_of_any_name(tmp_path: Path) -> None:
    for group, name, done in (("reports", "ant", "monday"), ("mail", "bee", "tuesday")):
        storage = Storage(tmp_path / name)
        storage.save("occasions", storage.encode("occasions", Memory(group, (Kept(done, NodeId(name), 1, 2),))))
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "occasions.state").write_text("damaged")
    assert kept_beside(tmp_path, "reports", "dog") == (Kept("monday", NodeId("ant"), 1, 2),)
    assert kept_beside(tmp_path, "reports", "ant") == ()


def test_a_runner_without_a_name_takes_a_free_one_and_the_same_next_time(tmp_path: Path) -> None:
    config = NodeConfig(group="g", state=str(tmp_path), election="hybrid")
    first, second = Place(config), Place(config)
    names = [place.config.name for place in (first, second)]
    assert len({*names}) == 2 and sorted(path.name for path in tmp_path.iterdir()) == sorted(names)
    first.free()
    assert Place(config).config.name == names[0]
    assert Place(msgspec.structs.replace(config, name="ant")).config.name == "ant"


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--once", ""], "'' cannot name an occasion"),
        (["--once", "a\nb"], "cannot name an occasion"),
        (["--once", "k" * 101], "1 to 100 printable bytes"),
        (["--remember", "1h"], "--remember says what --once is to do"),
        (["--linger", "1s"], "--linger says what --once is to do"),
        (["--once", "--remember", "1h"], "--remember needs a key"),
        (["--once=k", "--remember", "0"], "is no time to remember"),
        (["--once=k", "--remember", "inf"], "is no time to remember"),
        (["--once=k", "--linger", "inf"], "would never end"),
        (["--once=k", "--election", "le-a", "--membership", "none"], "keeps no list of members"),
    ],
)
def test_what_makes_no_sense_is_refused(flags: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    from doyen.cli import main

    with pytest.raises(SystemExit) as end:
        main(["run", "--group", "g", *flags, "--", "true"])
    assert end.value.code == 2
    assert complaint in capsys.readouterr().err
