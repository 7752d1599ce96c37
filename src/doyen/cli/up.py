"""`doyen up`: a local cluster to watch."""

import asyncio
import socket
import sys
import time

import click

import doyen
from doyen.cli.local import table
from doyen.cli.options import DurationText
from doyen.cli.output import print_json
from doyen.core.clock import Instant
from doyen.net.driver import boot_time_ns
from doyen.node.lines import BAD, GOOD, paint
from doyen.node.reign import clock_text
from doyen.node.signals import on_ending_signal
from doyen.testing.processes import LocalCluster

NAMES = [
    *("ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen"),
    *("ibis", "jay", "kit", "lynx", "mole", "newt", "owl", "pug"),
]
PAUSE_S = 3.0  # Between the acts.
UNCHANGED_S = 0.5  # How long all must have named one leader before it is shown.


@click.command("up", help="Start real processes on loopback: they elect a leader, lose it, and elect again.")
@click.option("--nodes", type=click.IntRange(2, len(NAMES)), default=5, show_default=True, help="How many processes.")
@click.option(
    "--for",
    "duration_s",
    type=DurationText(as_seconds=True),
    default=None,
    help="End after this time, e.g. 20s [never].",
)
@click.option("--json", "as_json", is_flag=True, help="Write JSON lines.")
def command(nodes: int, duration_s: float | None, as_json: bool) -> None:
    sys.exit(asyncio.run(_Show(NAMES[:nodes], as_json).run(duration_s)))


class _Show:
    def __init__(self, names: list[str], as_json: bool) -> None:
        self.names, self.as_json = names, as_json
        flags = ["--election", "hybrid", "--preset", "local", "--no-find-local", "--group-size", str(len(names))]
        self.cluster = LocalCluster("demo", None, flags=[*flags, "--status-every", "0.5"])

    async def run(self, duration_s: float | None) -> int:
        ended = asyncio.Event()
        on_ending_signal(lambda _: ended.set())
        story = asyncio.create_task(self._tell_story())
        waiting = asyncio.create_task(ended.wait())
        try:
            async with self.cluster:
                await asyncio.wait({story, waiting}, timeout=duration_s, return_when=asyncio.FIRST_COMPLETED)
                story.cancel()
                (outcome,) = await asyncio.gather(story, return_exceptions=True)
                if isinstance(outcome, Exception):
                    raise outcome
        finally:
            waiting.cancel()
        codes = {m.name: m.process.returncode for m in self.cluster.members.values()}
        self._say(
            "stopped", "  ".join(f"{name} {_code(code)}" for name, code in codes.items()), boot_time_ns(), codes=codes
        )
        return 0

    async def _tell_story(self) -> None:
        if not self.as_json:
            click.echo(
                f'doyen {doyen.__version__} · group "demo" · {len(self.names)} processes on loopback · '
                "election gossip (hybrid) · no key: packets are NOT authenticated (doyen keys new)\n"
            )
            click.echo("Ctrl-C stops.  Try meanwhile: doyen explain --group demo     doyen watch --group demo\n")
        begun = await self._start(*self.names)
        pids = {m.name: m.pid for m in self.cluster.members.values()}
        self._say("started", "  ".join(f"{name} ({pid})" for name, pid in pids.items()), begun, pids=pids)
        await self._elected(begun, "after the last start")
        self._table()
        while True:
            await asyncio.sleep(PAUSE_S)
            victim = self.cluster.agreed()
            if victim is None:
                await self._elected(boot_time_ns(), "of disagreement")
                continue
            killed = self.cluster.kill(victim)
            self._say("SIGKILL", f"→ {victim}, the leader", killed, victim=victim)
            await self.cluster.members[victim].process.wait()
            await self._elected(killed, "without a leader", mourn=True)
            self._table()
            await asyncio.sleep(PAUSE_S)
            begun = await self._start(victim)
            self._say("restart", victim, begun, member=victim)
            await self._elected(begun, "after its start", joined=victim)

    async def _start(self, *names: str) -> Instant:
        """Start them, each with the address of one that runs, or of the first; return when the last was started."""
        seed = next((member.address for member in self.cluster.alive() if member.address), None)
        for name in names:
            begun = boot_time_ns()
            if seed is None:
                seed = f"127.0.0.1:{_free_port()}"
                await self.cluster.start(name, "--bind", seed)
            else:
                await self.cluster.start(name, "--seed", seed)
        await self.cluster.until_started()
        return begun

    async def _elected(self, since: Instant, what: str, *, mourn: bool = False, joined: str | None = None) -> None:
        """Show the leader once all agree; the line has the time at which they came to agree, not that of the show."""
        reached = await self.cluster.agreement(30, unchanged_s=UNCHANGED_S)
        leader = self.cluster.agreed()
        assert leader is not None, "nothing was read since all agreed"
        living = len(self.cluster.alive())
        waited_ms = max(0, reached - since) / 1e6
        term = self.cluster.members[leader].term
        news = f"{leader} · term {term}" if joined is None else f"{joined} · {leader} leads (term {term})"
        text = f"{news} · {waited_ms:.0f} ms {what} · all {living} {'survivors ' if mourn else ''}agree"
        fields = {"leader": leader, "term": term, "after_s": waited_ms / 1e3, "members": living}
        self._say("elected" if joined is None else "joined", text, reached, **fields)

    def _table(self) -> None:
        if self.as_json:
            return
        rows: list[tuple[str, ...]] = [("MEMBER", "PID", "STATE", "SEES LEADER", "SENT", "GOT")]
        for m in self.cluster.members.values():
            star = " ★" if m.leader == m.name and m.alive else ""
            seen = "itself" if m.leader == m.name else (m.leader or "–")
            state, seen = (m.status, seen) if m.alive else ("dead", "–")
            rows.append((m.name + star, str(m.pid), state, seen, str(m.sent), str(m.received)))
        tones = [BAD if not m.alive else GOOD if m.leader == m.name else "" for m in self.cluster.members.values()]
        table(rows, indent="   ", tones=tones)

    def _say(self, what: str, text: str, happened: Instant, **fields: object) -> None:
        at = time.time() - (boot_time_ns() - happened) / 1e9
        if self.as_json:
            print_json({"event": what.lower(), "at": at, **fields})
        else:
            tone = {"elected": GOOD, "SIGKILL": BAD}.get(what, "")
            click.echo(f" {clock_text(at)}  {paint(f'{what:9}', tone, sys.stdout)} {text}")
        sys.stdout.flush()


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _code(code: int | None) -> str:
    return "killed" if code == -9 else f"exit {code}"
