"""`doyen up`: a local cluster to watch."""

import asyncio
import sys
import time

import click

import doyen
from doyen.cli.local import table
from doyen.cli.options import DurationText
from doyen.cli.output import print_json
from doyen.core.clock import Instant, ms
from doyen.election.announce.config import AnnounceConfig
from doyen.net.driver import boot_time_ns
from doyen.node.reign import clock_text
from doyen.node.signals import on_ending_signal
from doyen.testing.processes import LocalCluster, multicast_on_loopback

NAMES = [
    *("ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen"),
    *("ibis", "jay", "kit", "lynx", "mole", "newt", "owl", "pug"),
]
PAUSE_S = 3.0  # Between the acts.


@click.command("up", help="A local cluster: real processes on loopback that elect a leader, lose it, and elect again.")
@click.option("--nodes", type=click.IntRange(2, len(NAMES)), default=5, show_default=True, help="How many processes.")
@click.option(
    "--for", "duration_s", type=DurationText(as_seconds=True), default=None, help="End after so long, e.g. 20s [never]."
)
@click.option("--json", "as_json", is_flag=True, help="What is shown, as JSON lines.")
def command(nodes: int, duration_s: float | None, as_json: bool) -> None:
    # [LE §5.4.4] T_A ≥ T_S + Δ, T_L = 3·T_A.
    config = AnnounceConfig(
        announce_interval=ms(400), listen_timeout=ms(1200), suppress_interval=ms(300), group_size=nodes
    )
    sys.exit(asyncio.run(_Show(config, NAMES[:nodes], as_json).run(duration_s)))


class _Show:
    def __init__(self, config: AnnounceConfig, names: list[str], as_json: bool) -> None:
        self.config, self.names, self.as_json = config, names, as_json
        self.cluster = LocalCluster("demo", config, flags=multicast_on_loopback())

    async def run(self, duration_s: float | None) -> int:
        ended = asyncio.Event()
        on_ending_signal(ended.set)
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
        self._say("stopped", "  ".join(f"{name} {_code(code)}" for name, code in codes.items()), codes=codes)
        return 0

    async def _tell_story(self) -> None:
        n, t = len(self.names), self.config
        if not self.as_json:
            click.echo(
                f'doyen {doyen.__version__} · group "demo" · {n} processes on loopback · announce-listen LE-S '
                f"(T_A {t.announce_interval // 10**6} ms, T_L {t.listen_timeout // 10**6} ms, "
                f"T_S {t.suppress_interval // 10**6} ms) · no key: packets are NOT authenticated\n"
            )
            click.echo("Ctrl-C stops.  Try meanwhile: doyen explain --group demo     doyen watch --group demo\n")
        for name in self.names:
            await self.cluster.start(name)
        await self.cluster.until_started()
        begun = boot_time_ns()
        pids = {m.name: m.pid for m in self.cluster.members.values()}
        self._say("started", "  ".join(f"{name} ({pid})" for name, pid in pids.items()), pids=pids)
        await self._elected(begun, "after the last start")
        self._table()
        while True:
            await asyncio.sleep(PAUSE_S)
            victim = self.cluster.agreed()
            if victim is None:
                await self._elected(boot_time_ns(), "of disagreement")
                continue
            killed = self.cluster.kill(victim)
            self._say("SIGKILL", f"→ {victim}, the leader", victim=victim)
            await self.cluster.members[victim].process.wait()
            await self._elected(killed, "without a leader", mourn=True)
            self._table()
            await asyncio.sleep(PAUSE_S)
            await self.cluster.start(victim)
            self._say("restart", f"{victim}: the best of all, it will lead again", member=victim)
            await self.cluster.until_started()
            await self._elected(boot_time_ns(), "after its return", on=victim)

    async def _elected(self, since: Instant, what: str, *, mourn: bool = False, on: str | None = None) -> None:
        reached = await self.cluster.agreement(30, on=on, unchanged_s=2 * self.config.announce_interval / 1e9)
        leader = self.cluster.agreed()
        living = self.cluster.alive()
        waited_ms = max(0, reached - since) / 1e6
        who = f"all {len(living)} {'survivors ' if mourn else ''}agree"
        term = max(member.term for member in living)
        self._say(
            "elected",
            f"{leader} · term {term} · {waited_ms:.0f} ms {what} · {who}",
            leader=leader,
            term=term,
            after_s=waited_ms / 1e3,
            members=len(living),
        )

    def _table(self) -> None:
        if self.as_json:
            return
        rows: list[tuple[str, ...]] = [("MEMBER", "PID", "STATE", "SEES LEADER", "SENT", "GOT")]
        for m in self.cluster.members.values():
            star = " ★" if m.leader == m.name and m.alive else ""
            seen = "itself" if m.leader == m.name else (m.leader or "–")
            state, seen = (m.status, seen) if m.alive else ("dead", "–")
            rows.append((m.name + star, str(m.pid), state, seen, str(m.sent), str(m.received)))
        table(rows, indent="   ")

    def _say(self, what: str, text: str, **fields: object) -> None:
        if self.as_json:
            print_json({"event": what.lower(), "at": time.time(), **fields})
        else:
            click.echo(f" {clock_text(time.time())}  {what:9} {text}")
        sys.stdout.flush()


def _code(code: int | None) -> str:
    return "killed" if code == -9 else f"exit {code}"
