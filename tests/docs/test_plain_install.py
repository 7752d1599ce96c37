"""Every how-to works as it is written on a plain install: wheels, a fresh environment, another folder, several hosts.

The snippets of all pages are run from the tree by `test_docs.py`.  Here each page's packages are installed as it says,
and nothing else leads to the code.  Where a page speaks of hosts, they are network namespaces, and names resolve late.
"""

import json
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hosts import Started, named, needs_root, processes, until
from plain import BLOCK, ROOT, Installs, bare, to_install

from doyen_lab.netns import Namespaces

HOW_TO = ROOT / "docs" / "how-to"
PAGES = sorted(HOW_TO.glob("*.md"))
NAMES = ("ant", "bee", "cat")
NAMES_LATE_S = 3.0
PATIENCE_S = 60.0


def on_hosts(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test of a page on several hosts."""
    return needs_root(pytest.mark.root(pytest.mark.soak(test)))


@pytest.fixture(scope="session")
def installs(tmp_path_factory: pytest.TempPathFactory) -> Installs:
    return Installs(tmp_path_factory.mktemp("plain"))


def run_page(page: Path, installs: Installs, folder: Path) -> int:
    """Run a page's commands and snippets, in order, in an empty folder; return how many there were."""
    bin_folder = installs.environment(to_install(page))
    environment = bare(bin_folder, DOYEN_RUNTIME_DIR=str(folder / "run"), XDG_STATE_HOME=str(folder / "state-home"))
    if "in a checkout" in page.read_text():
        (folder / "scenarios").symlink_to(ROOT / "scenarios")
    count, snippets = 0, ""
    for kind, body in BLOCK.findall(page.read_text()):
        if kind == "console":
            for line in body.splitlines():
                if line.startswith("$ "):
                    run_in(folder, environment, ["bash", "-c", line[2:]], f"{page.name}: {line[2:]}")
                    count += 1
        elif kind == "python":
            snippets, count = snippets + body, count + 1
    if snippets:
        (folder / "snippets.py").write_text(f"{snippets}\nimport doyen; print(doyen.__file__)\n")
        said = run_in(folder, environment, [str(bin_folder / "python"), "snippets.py"], f"{page.name}: its snippets")
        assert said.splitlines()[-1].startswith(str(bin_folder.parent)), "it runs the installed code"
    return count


def run_in(folder: Path, environment: dict[str, str], command: list[str], what: str) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0 and done.stdout.strip(), f"{what}\n{done.stdout[-500:]}\n{done.stderr[-1500:]}"
    return done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_says_what_to_install(page: Path) -> None:
    assert any(re.match("doyen", package) for package in to_install(page)), page.name


@pytest.mark.live
def test_one_page_runs_on_a_plain_install(installs: Installs, tmp_path: Path) -> None:
    assert run_page(HOW_TO / "discover.md", installs, tmp_path) >= 1


@pytest.mark.soak
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_page_runs_on_a_plain_install(page: Path, installs: Installs, tmp_path: Path) -> None:
    assert run_page(page, installs, tmp_path) >= 1


# ── Hosts ───────────────────────────────────────────────────────────────────────────────────────────────────


def block(page: str, kind: str, containing: str = "") -> str:
    """Return the page's first block of that kind that has these words."""
    found = re.findall(rf"^```{kind}\n(.*?)^```", (HOW_TO / page).read_text(), re.MULTILINE | re.DOTALL)
    return next(body for body in found if containing in body)


class Hosts:
    """Three hosts, ant, bee and cat, with a plain install; their names resolve once `name_them` was called."""

    def __init__(self, network: Namespaces, running: Started, bin_folder: Path) -> None:
        self.running, self.bin = running, bin_folder
        self.nodes = dict(zip(NAMES, network.nodes, strict=True))
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

    def one_takes_over_from_the_other(self, words: str) -> None:
        """One process says these words, and no other; it is killed, and one of the rest says them."""
        until(lambda: self.running.saying(words), f"nobody says {words!r}", PATIENCE_S)
        time.sleep(1.5)  # A second one would begin now.
        acting = self.running.saying(words)
        assert len(acting) == 1, f"{acting} say {words!r}\n{self.running.told()}"
        first = acting.pop()
        self.running.kill(first)
        self.running.log(first).rename(self.running.folder / f"{first}.killed")
        until(lambda: self.running.saying(words), f"nobody else says {words!r}\n{self.running.told()}", PATIENCE_S)
        assert len(self.running.saying(words)) == 1


@pytest.fixture
def hosts_for(installs: Installs, tmp_path: Path) -> Iterator[Callable[[str], Hosts]]:
    """Give three hosts that have what a page says to install."""
    with ExitStack() as stack:

        def make(page: str) -> Hosts:
            bin_folder = installs.environment(to_install(HOW_TO / page))
            network = stack.enter_context(Namespaces(3))
            return Hosts(network, stack.enter_context(processes(tmp_path, bare(bin_folder))), bin_folder)

        yield make


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


HostsFor = Callable[[str], Hosts]
SERVES = "echo $HOST serves; exec sleep 120"


@on_hosts
@pytest.mark.parametrize("way", ["fixed addresses", "a name in DNS", "something that writes a file", "a network with"])
def test_discover_each_way_of_the_table(way: str, hosts_for: HostsFor, tmp_path: Path) -> None:
    row = next(line for line in (HOW_TO / "discover.md").read_text().splitlines() if line.startswith(f"| {way}"))
    hosts = hosts_for("discover.md")
    first, seeds = hosts.nodes["ant"].ipv4, tmp_path / "seeds"
    given = re.findall(r"`([^`]*)`", row)[0].replace("10.0.0.2", first).replace("/etc/doyen/seeds", str(seeds))
    for name in NAMES:
        hosts.start(name, ["doyen", "run", "--group", "orders", *shlex.split(given), "--", "sh", "-c", SERVES])
    time.sleep(NAMES_LATE_S)
    hosts.name_them(together="orders.internal")
    seeds.write_text(f"# Late.\n{first}:7600\n")
    hosts.one_takes_over_from_the_other("serves")


@on_hosts
def test_cron_asks_first_or_runs_once(hosts_for: HostsFor, tmp_path: Path) -> None:
    hosts = hosts_for("cron.md")
    hosts.name_them()
    ran = tmp_path / "ran"
    job = script(tmp_path / "report", f"echo $HOST >> {ran}")

    def line(containing: str) -> str:
        schedule_and_line = block("cron.md", "text", containing).strip().replace("\\%", "%")
        written = schedule_and_line.split(maxsplit=5)[5]
        return written.replace("/opt/doyen/bin/doyen", str(hosts.bin / "doyen")).replace("/opt/jobs/report", job)

    for name in NAMES:
        seeds = [word for other in NAMES for word in ("--seed", other)]
        hosts.start(name, ["doyen", "agent", "--group", "cron", "--name", name, *seeds], f"{name}-agent")
    until(
        lambda: sum(hosts.ask(name, "doyen leader --group cron --mine").returncode == 0 for name in NAMES) == 1,
        "no host leads",
        PATIENCE_S,
    )
    ran.touch()
    time.sleep(5)  # All three have met.
    ran.write_text("")
    assert sorted(hosts.ask(name, line("--mine")).returncode == 0 for name in NAMES) == [False, False, True]
    assert len(ran.read_text().split()) == 1
    ran.write_text("")
    for name in NAMES:
        hosts.start(name, ["sh", "-c", line("--once")])
    until(lambda: sum(hosts.running.all[name].poll() == 0 for name in NAMES) == 2, "two end without it", PATIENCE_S)
    assert len(ran.read_text().split()) == 1


@on_hosts
def test_systemd_starts_three_voters(hosts_for: HostsFor, tmp_path: Path) -> None:
    hosts = hosts_for("systemd.md")
    keys, state = tmp_path / "keys", "/var/lib/doyen"
    assert hosts.ask("ant", f"doyen keys new --file {keys}").returncode == 0
    (line,) = re.findall(r"^ExecStart=(.*)$", block("systemd.md", "ini"), re.MULTILINE)
    serve = script(tmp_path / "serve", SERVES)
    for name in NAMES:
        config = hosts.folder(name) / "reports.toml"
        text = block("systemd.md", "toml").replace("/etc/doyen/reports.keys", str(keys))
        config.write_text(text.replace(state, str(hosts.folder(name) / "state")))
        moved = {"/opt/doyen/bin/doyen": "doyen", "/etc/doyen/reports.toml": str(config), "/opt/reports/serve": serve}
        began = hosts.ask(name, f"doyen state init --config {config} --name {name}")
        assert began.returncode == 0, began.stderr
        hosts.start(name, [moved.get(word, word) for word in shlex.split(line)], DOYEN_NAME=name)
    time.sleep(NAMES_LATE_S)
    assert not hosts.running.saying("serves")
    hosts.name_them(".example")
    hosts.one_takes_over_from_the_other("serves")


@on_hosts
def test_containers_elect_one_though_their_name_comes_late(hosts_for: HostsFor, tmp_path: Path) -> None:
    hosts = hosts_for("containers.md")
    (line,) = re.findall(r"^ENTRYPOINT (.*)$", block("containers.md", "dockerfile"), re.MULTILINE)
    serve = script(tmp_path / "serve", SERVES)
    for name in NAMES:
        hosts.start(name, [serve if word == "/opt/serve" else word for word in json.loads(line)])
    time.sleep(NAMES_LATE_S)
    assert not hosts.running.saying("serves")
    hosts.name_them(together="reports.internal")
    hosts.one_takes_over_from_the_other("serves")


@on_hosts
def test_django_runs_a_command_on_one_host(hosts_for: HostsFor, tmp_path: Path) -> None:
    hosts = hosts_for("django.md")
    hosts.name_them(".example")
    settings = block("django.md", "text", "DOYEN = ").replace("...,", "")
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "jobs.py").write_text(
        "import os, time\ndef close_day():\n    print(os.environ['HOST'], 'closes', flush=True)\n    time.sleep(120)\n"
    )
    manage = tmp_path / "manage.py"
    manage.write_text(
        f"import sys\nfrom django.conf import settings\nfrom django.core.management import execute_from_command_line\n"
        f"{settings}\nsettings.configure(INSTALLED_APPS=INSTALLED_APPS, DOYEN=DOYEN)\n"
        "execute_from_command_line(sys.argv)\n"
    )
    line = block("django.md", "text", "--function").splitlines()[1].replace("manage.py", str(manage))
    for name in NAMES:
        hosts.start(name, shlex.split(line))
    hosts.one_takes_over_from_the_other("closes")


@on_hosts
def test_celery_beat_sends_from_one_host(hosts_for: HostsFor) -> None:
    hosts = hosts_for("schedulers.md")
    hosts.name_them(".example")
    line = block("schedulers.md", "text", "LeaderScheduler").replace("/var/lib/beat/schedule", "./schedule")
    for name in NAMES:
        (hosts.folder(name) / "doyen_tasks.py").write_text(block("schedulers.md", "python", "app.conf.doyen"))
        hosts.start(name, [*shlex.split(line), "--pidfile=", "--loglevel", "info"], PYTHONPATH=str(hosts.folder(name)))
    hosts.one_takes_over_from_the_other("Sending due task tick")
