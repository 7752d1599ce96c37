"""Hosts with a plain install, as the how-to pages speak of them: network namespaces whose names resolve when told."""

import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hosts import Started, named, needs_root, until
from plain import ROOT

from doyen_lab.netns import Namespaces

HOW_TO = ROOT / "docs" / "how-to"
NAMES = ("ant", "bee", "cat")
PATIENCE_S = 60.0
SERVES = "echo $HOST serves; exec sleep 120"


def on_hosts(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test of a page on several hosts."""
    return needs_root(pytest.mark.root(pytest.mark.soak(test)))


def block(page: str, kind: str, containing: str = "") -> str:
    """Return the page's first block of that kind that has these words."""
    found = re.findall(rf"^```{kind}\n(.*?)^```", (HOW_TO / page).read_text(), re.MULTILINE | re.DOTALL)
    return next(body for body in found if containing in body)


def script(path: Path, text: str) -> str:
    """Write a shell script; return its path."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


class Hosts:
    """Hosts with a plain install; their names resolve once `name_them` was called."""

    def __init__(self, network: Namespaces, running: Started, bin_folder: Path, names: tuple[str, ...]) -> None:
        self.network, self.running, self.bin, self.names = network, running, bin_folder, names
        self.nodes = dict(zip(names, network.nodes, strict=True))
        self._names = running.folder / "hosts"
        self._names.write_text("")

    def name_them(self, suffix: str = "", *, together: str = "") -> None:
        """Let names resolve from now on: of each host, with that ending, and one that all of them share."""
        lines = [f"{node.ipv4} {name}{suffix}" for name, node in self.nodes.items()]
        lines += [f"{node.ipv4} {together}" for node in self.nodes.values() if together]
        self._names.write_text("".join(f"{line}\n" for line in lines))

    def folder(self, name: str) -> Path:
        place = self.running.folder / name
        place.mkdir(exist_ok=True)
        return place

    def environment(self, name: str) -> dict[str, str]:
        place = self.folder(name)
        return {"DOYEN_RUNTIME_DIR": str(place / "run"), "XDG_STATE_HOME": str(place), "HOST": name}

    def start(self, name: str, command: list[str], label: str = "", **environment: str) -> None:
        words = ["sh", "-c", 'cd "$0" && exec "$@"', str(self.folder(name)), *command]
        self.running.start(
            label or name, named(self.nodes[name], self._names, words), self.environment(name) | environment
        )

    def ask(self, name: str, line: str) -> "subprocess.CompletedProcess[str]":
        """Run a shell's line on that host, as cron would."""
        command = named(self.nodes[name], self._names, ["sh", "-c", line])
        environment = self.running.base | self.environment(name)
        return subprocess.run(
            command, env=environment, cwd=self.folder(name), capture_output=True, text=True, check=False, timeout=90
        )

    def told(self, name: str, line: str) -> str:
        """Run a line that must succeed, and return what it says."""
        done = self.ask(name, line)
        assert done.returncode == 0, f"{name}: {line}\n{done.stdout}{done.stderr}"
        return done.stdout

    def leading(self) -> list[str]:
        """Return the hosts that lead, as each says of itself."""
        return [name for name in self.names if self.ask(name, "doyen leader --mine").returncode == 0]

    def one_takes_over_from_the_other(self, words: str) -> str:
        """One process says these words, and no other; it is killed, and one of the rest says them: return the first."""
        until(lambda: self.running.saying(words), f"nobody says {words!r}", PATIENCE_S)
        time.sleep(1.5)  # A second one would begin now.
        acting = self.running.saying(words)
        assert len(acting) == 1, f"{acting} say {words!r}\n{self.running.told()}"
        first = acting.pop()
        self.running.kill(first)
        self.running.log(first).rename(self.running.folder / f"{first}.killed")
        until(lambda: self.running.saying(words), f"nobody else says {words!r}\n{self.running.told()}", PATIENCE_S)
        assert len(self.running.saying(words)) == 1
        return first


HostsFor = Callable[..., Hosts]
