"""The process of `doyen run`: a node, and a guarded command that runs while the node leads."""

import asyncio
import shlex
import sys
import time
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from doyen.core.clock import Duration, at_most, format_duration, ms, to_seconds
from doyen.node.campaign import Campaign
from doyen.node.config import NodeConfig
from doyen.node.node import Node
from doyen.node.reign import clock_text
from doyen.node.signals import on_ending_signal
from doyen.runner.ward import MARGIN, Ward

_RISKS: Final = {
    "weak": "on the other side of a partition, or while this process is stopped",
    "timed": "while this one ends, for up to --grace ({}), or while this process is stopped",
}


def stay(config: NodeConfig, words: Sequence[str], grace: Duration, wait_s: float | None, as_json: bool) -> int:
    return asyncio.run(_Runner(config, words, grace, wait_s, as_json).run())


class _Runner:
    def __init__(
        self, config: NodeConfig, words: Sequence[str], grace: Duration, wait_s: float | None, as_json: bool
    ) -> None:
        self.config, self.words, self.grace, self.wait_s, self.as_json = config, words, grace, wait_s, as_json
        kind = config.election_kind()
        assert kind is not None, "the command line refuses a group without an election"
        self.kind = kind
        self.lease = kind.lease(config.table(kind.table))
        self.ward: Ward | None = None

    async def run(self) -> int:
        node = Node(self.config, leave_on_sigterm=False)
        loop = asyncio.get_running_loop()
        on_ending_signal(node.ended.set)
        async with node:
            self._say_promise()
            node.own_election.before_handing_over = self._stop_and_wait
            work = loop.create_task(self._work(node))
            ended = loop.create_task(node.ended.wait())
            await asyncio.wait({work, ended}, return_when=asyncio.FIRST_COMPLETED)
            ended.cancel()
            if work.done() and (work.exception() is None or not node.ended.is_set()):
                return work.result()
            await node.own_election.stop_acting()  # First the command, then the word to the others.
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            return 0 if node.failure is None else 1

    async def _work(self, node: Node) -> int:
        campaign = node.own_election
        while True:
            began = time.monotonic()
            leader = campaign.leader()
            if not campaign.is_leader:
                term_text = f" (term {campaign.term.number})" if campaign.term else ""
                self._say("waiting", f"{leader} leads{term_text}" if leader else "nobody leads yet", leader=leader)
            try:
                async with asyncio.timeout(self.wait_s):
                    term = await campaign.won()
            except TimeoutError:
                self._say("gave up", f"not elected within {self.wait_s:g} s: {campaign.leader() or 'nobody'} leads")
                return 75
            until = campaign.lease_until()
            if until is not None and until - node.clock() < 2 * MARGIN:
                await asyncio.sleep(0.01)  # About to end, or to be renewed.
                term.release()
                continue
            code = await self._guarded(node, campaign, term, time.monotonic() - began)
            term.release()
            if code is not None:
                return code

    async def _guarded(self, node: Node, campaign: Campaign, term: Any, waited_s: float) -> int | None:
        """Run the command; return its own exit code, or None if it was stopped because leadership is over."""
        ward = self.ward = Ward(self.words, grace=self.grace, lease=self.lease)
        await ward.start(term.number, campaign.lease_until())
        self._say(
            "elected",
            f"(term {term.number}) after {waited_s:.1f} s; started {shlex.join(self.words)} (DOYEN_TERM={term.number})",
            term=term.number,
            after_s=waited_s,
        )
        pause_s = min(0.1, (self.lease or ms(2000)) / 20 / 1e9)
        over = asyncio.get_running_loop().create_task(ward.ended())
        lost_at = 0.0
        while not over.done():
            if term.lost and not lost_at:
                lost_at = time.monotonic()
                ward.stop()
            elif not term.lost:
                ward.extend(campaign.lease_until())
            await asyncio.wait({over}, timeout=pause_s)
        self.ward = None
        code = over.result()
        if ward.was_late:
            self._say("late", f"leadership was about to end before {self.words[0]} could begin. waiting again")
            return None
        if not ward.stopped_because and (ward.has_exited or not lost_at):
            self._say("ended", f"{self.words[0]} (pid {ward.pid}), exit code {code}", code=code, pid=ward.pid)
            return code
        why = term.reason or ward.stopped_because
        took = f" in {time.monotonic() - lost_at:.1f} s" if lost_at else ""
        self._say(
            "lost",
            f"leadership at {clock_text(time.time())}: {why}. SIGTERM sent; it ended{took} ({code}). waiting again",
            reason=why,
            code=code,
            term=term.number,
        )
        return None

    async def _stop_and_wait(self) -> None:
        ward = self.ward
        if ward is not None and not ward.is_over:
            ward.stopped_because = ward.stopped_because or "handed over"
            ward.stop()
            await ward.ended()

    def _say_promise(self) -> None:
        worst = self.config.worst_case(self.kind)
        self._say(
            "preset",
            f"{self.config.preset}: a leader that falls silent is noticed within {at_most(worst.detection)}, "
            f"the next leads within {at_most(worst.failover)}, if nothing is lost",
            detection_s=to_seconds(worst.detection),
            failover_s=to_seconds(worst.failover),
        )
        promise = self.config.promise(self.kind)
        if not promise.strong:
            risk = f"a second {self.words[0]} may run {_RISKS[promise.sort].format(format_duration(self.grace))}"
            if not self.config.looks_for_others():
                risk += ", or on any other host: without --seed, --seeds-file or --multicast nobody is looked for there"
            text = f"--election {self.config.election}: {risk}. promise: {promise.in_short}"
            self._say("note", text, strong=False, promise=promise.sort)

    def _say(self, what: str, text: str, **fields: Any) -> None:
        if self.as_json:
            line = msgspec.json.encode({"event": what, "at": time.time(), "text": text, **fields}).decode()
        else:
            line = f"doyen: {what}{':' * (what in ('waiting', 'note', 'ended', 'late'))} {text}"
        print(line, file=sys.stderr, flush=True)
