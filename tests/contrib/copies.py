"""Copies of one program as real processes: one of them acts; it is killed, and the next acts."""

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PATIENCE_S = 25.0


def free_ports(count: int) -> list[int]:
    """Return ports of loopback that nobody has."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports: list[int] = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def until(holds: Callable[[], Any], what: str) -> Any:
    end = time.monotonic() + PATIENCE_S
    while not (found := holds()):
        assert time.monotonic() < end, what
        time.sleep(0.03)
    return found


class Copies:
    """The processes of one test, by name; each appends its name to the file `acts` whenever it acts."""

    def __init__(self, folder: Path, names: tuple[str, ...]) -> None:
        self.folder, self.acts = folder, folder / "acts"
        self.acts.touch()
        self.addresses = dict(zip(names, [f"127.0.0.1:{port}" for port in free_ports(len(names))], strict=True))
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, command: list[str], **environment: str) -> None:
        """Start one; its environment says who it is, where it listens, and where the others are."""
        given = os.environ | environment
        given |= {"NAME": name, "BIND": self.addresses[name], "SEEDS": ",".join(self.addresses.values())}
        given |= {"ACTS": str(self.acts), "DOYEN_RUNTIME_DIR": str(self.folder / "run")}
        with (self.folder / f"{name}.log").open("wb") as log:
            self.running[name] = subprocess.Popen(
                command, env=given, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )

    def acted(self, since: int = 0) -> list[str]:
        return self.acts.read_text().split()[since:]

    def kill(self, name: str) -> None:
        self.running[name].kill()
        self.running.pop(name).wait()

    def one_acts_and_the_next_after_it(self) -> tuple[str, str]:
        """Wait for several acts, kill whoever acts, wait for another's; return both names."""
        until(lambda: len(self.acted()) >= 3, "nobody acts")
        (first,) = {*self.acted()}
        self.kill(first)
        before = len(self.acted())
        until(lambda: len(self.acted(before)) >= 3, "nobody took over")
        (second,) = {*self.acted(before)}
        assert second != first
        return first, second


@contextmanager
def copies(folder: Path, *names: str) -> Iterator[Copies]:
    made = Copies(folder, names)
    try:
        yield made
    except AssertionError as error:
        logs = "\n".join(f"── {log.name}\n{log.read_text()[-3000:]}" for log in sorted(folder.glob("*.log")))
        raise AssertionError(f"{error}\n{logs}") from error
    finally:
        for process in made.running.values():
            process.terminate()
        for process in made.running.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
