"""The process of `doyen run`: a node, and a guarded command that runs while the node leads."""

import asyncio
import logging
import shlex
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from doyen.core.clock import Duration, Instant, at_most, format_duration, ms, to_seconds
from doyen.core.plain import plain, plain_json
from doyen.net.will import Will
from doyen.node.campaign import Campaign
from doyen.node.config import NodeConfig
from doyen.node.events import Event
from doyen.node.lines import TONES, paint
from doyen.node.node import Node
from doyen.node.reign import clock_text
from doyen.node.signals import on_ending_signal
from doyen.node.term import Term
from doyen.node.will import WillWriter
from doyen.runner.ward import MARGIN, Ward, notice

if TYPE_CHECKING:
    from doyen.runner.once import Occasion, Once

_ABOUT: Final = ("waiting", "note", "ended", "late", "once", "told", "warning")  # A colon follows these words.
LATE_S: Final = 1.0  # A watcher that hears of an end this much later says when it was.
_RISKS: Final = {
    "weak": "across a partition, around failures, or while this one is stopped",
    "timed": "while this one ends (up to {}), or while this process is stopped",
}


def stay(
    config: NodeConfig,
    words: Sequence[str],
    grace: Duration,
    wait_s: float | None,
    as_json: bool,
    once: dict[str, Any] | None = None,
    will: bool = True,
) -> int:
    if once is None:
        return asyncio.run(_Runner(config, words, grace, wait_s, as_json, will=will).run())
    from doyen.runner.once import Once, Place  # Few run once.

    place = Place(config)
    try:
        runs = msgspec.convert(once, Once)
        return asyncio.run(_Runner(place.config, words, grace, wait_s, as_json, runs, will=will).run())
    finally:
        place.free()


class _Warnings(logging.Handler):
    """Says the node's warnings as the runner says everything else: JSON lines stay JSON lines."""

    def __init__(self, say: Callable[[str, str], None]) -> None:
        super().__init__(logging.WARNING)
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        self._say("warning", record.getMessage())


class _Runner:
    def __init__(
        self,
        config: NodeConfig,
        words: Sequence[str],
        grace: Duration,
        wait_s: float | None,
        as_json: bool,
        once: "Once | None" = None,
        *,
        will: bool = True,
    ) -> None:
        self.once = once
        self.occasion: Occasion | None = None
        self.config, self.words, self.grace, self.wait_s, self.as_json = config, words, grace, wait_s, as_json
        kind = config.election_kind()
        assert kind is not None, "the command line refuses a group without an election"
        self.kind = kind
        self.lease = kind.lease(config.table(kind.table))
        self.will: Will | None = None
        if will and self.lease is not None:
            try:
                self.will = Will()
            except (AttributeError, OSError) as error:
                self._say("note", f"a runner that is killed has no will here, its lease is waited out: {error}")
        self.ward: Ward | None = None
        self.last: Ward | None = None  # The one whose shadow may still keep a will.
        self.node: Node
        self.signal = ""  # Which one ended this process.
        self.waits: str | None = None  # What was said last about whom it waits for; None: it does not wait.

    async def run(self) -> int:
        try:
            return await self._run()
        finally:
            if self.last is not None:
                await self.last.dismiss()

    async def _run(self) -> int:
        key = None if self.once is None else self.once.key
        node = self.node = Node(self.config, leave_on_sigterm=False, occasion=key)
        loop = asyncio.get_running_loop()
        on_ending_signal(self._end)
        node.listeners.append(self._on_event)
        logging.getLogger("doyen").addHandler(_Warnings(self._say))
        async with node:
            self._say_promise()
            if self.will is not None:
                WillWriter(node.agent, self.will, elections=("",)).begin()
            if self.once is not None:
                self._begin_occasion(self.once, node)
            node.own_election.before_handing_over = self._stop_and_wait
            work = loop.create_task(self._work(node))
            ended = loop.create_task(node.ended.wait())
            await asyncio.wait({work, ended}, return_when=asyncio.FIRST_COMPLETED)
            ended.cancel()
            if work.done() and (work.exception() is None or not node.ended.is_set()):
                return work.result()
            ward = self.ward
            await node.own_election.stop_acting()  # First the command, then the word to the others.
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            others = [member.name for member in node.members() if not member.me and member.state == "alive"]
            electors = node.own_election.electors()  # Voters need no list of members.
            voters = [] if electors is None else [name for name in electors.voters if name != node.name]
        await self._say_end(ward, others, voters)
        return 0 if node.failure is None else 1

    async def _work(self, node: Node) -> int:
        campaign = node.own_election
        while True:
            if self.occasion is not None and self.occasion.done.done():
                return self._done_elsewhere(None)
            began = time.monotonic()
            if not campaign.is_leader:
                named = campaign.term
                self._say_who_leads(None if named is None else named.leader, None if named is None else named.number)
            try:
                async with asyncio.timeout(self.wait_s):
                    term = await self._won(campaign)
            except TimeoutError:
                named = campaign.term
                who = "nobody" if named is None else named.leader
                self._say("gave up", f"not elected within {self.wait_s:g} s: {who} leads")
                return 75
            self.waits = None
            if term is None or not await self._undone():
                return self._done_elsewhere(term)
            until = campaign.lease_until()
            too_late = notice(self.grace, self.lease) + MARGIN  # It would be stopped as soon as it began.
            if term.lost or (until is not None and until - node.clock() < too_late):
                await asyncio.sleep(0.01)  # About to end, or to be renewed.
                term.release()
                continue
            code = await self._guarded(node, campaign, term, time.monotonic() - began)
            if code == 0:
                await self._tell()
            term.release()
            if code is not None:
                return code

    async def _guarded(self, node: Node, campaign: Campaign, term: Any, waited_s: float) -> int | None:
        """Run the command; return its own exit code, or None if it was stopped because leadership is over."""
        ward = self.ward = Ward(self.words, grace=self.grace, lease=self.lease, will=self.will)
        await ward.start(term.number, campaign.lease_until(), campaign.baton)
        self.last = ward
        self._say(
            "elected",
            f"(term {term.number}) after {waited_s:.1f} s of waiting; "
            f"started {shlex.join(self.words)} (DOYEN_TERM={term.number})",
            term=term.number,
            after_s=waited_s,
        )
        pause_s = min(0.1, (self.lease or ms(2000)) / 20 / 1e9)
        over = asyncio.get_running_loop().create_task(ward.ended())
        lost = False
        while not over.done():
            if term.lost and not lost:
                lost = True
                ward.stop()
            elif not term.lost:
                ward.extend(campaign.lease_until())
            await asyncio.wait({over}, timeout=pause_s)
        self.ward = None
        code = over.result()
        if ward.was_late:
            self._say("late", f"leadership was about to end before {self.words[0]} could begin. waiting again")
            await ward.dismiss()
            return None
        if not ward.stopped_because and (ward.has_exited or not lost):
            next_tries = "; the next runner tries" if self.occasion is not None and code else ""
            at = _wall(ward.ended_at, node)
            when = f" at {clock_text(at)}" if time.time() - at > LATE_S else ""  # This process was stopped meanwhile.
            text = f"{self.words[0]} (pid {ward.pid}){when}, exit code {code}{next_tries}"
            self._say("ended", text, code=code, pid=ward.pid, at=at)
            return code
        why = term.reason or ward.stopped_because
        stopped_at, at = _wall(ward.stopped_at, node), _wall(ward.ended_at, node)
        ended = "it was killed" if ward.stopped_at is None else f"SIGTERM sent; it ended in {at - stopped_at:.1f} s"
        self._say(
            "lost",
            f"leadership at {clock_text(stopped_at)}: {why}. {ended} ({code}). waiting again",
            reason=why,
            code=code,
            term=term.number,
            at=at,
        )
        await ward.dismiss()
        return None

    # Once.

    def _begin_occasion(self, once: "Once", node: Node) -> None:
        from doyen.runner.once import Occasion

        self.occasion = Occasion(once, node)
        self.occasion.begin()
        if once.key:
            kept = format_duration(once.remember)
            text = f"{once.key!r} is run at least once; a success is remembered for {kept} in {self.config.state}"
        else:
            text = "run at least once while runners of this group are there; a later one runs it again (--once KEY)"
        risks = "the runner dies before it has told the others, if a host is out of reach, or if nobody who remembers"
        self._say("once", f"{text}. a repeat is possible if {risks} is up", key=once.key, state=self.config.state)

    async def _won(self, campaign: Campaign) -> Term | None:
        """Wait until this node is elected; return None if the occasion was done elsewhere meanwhile."""
        if self.occasion is None:
            return await campaign.won()
        won = asyncio.get_running_loop().create_task(campaign.won())
        try:
            waits: set[asyncio.Future[Any]] = {won, self.occasion.done}
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            return won.result() if won.done() else None
        finally:
            won.cancel()

    async def _undone(self) -> bool:
        """Ask the others whether the occasion was done; those that do not answer are named."""
        if self.occasion is None:
            return True
        silent = await self.occasion.ask()
        if silent:
            self._say(
                "note", f"{', '.join(silent)} did not say whether it was done: it may be run twice", silent=silent
            )
        return silent is not None

    def _done_elsewhere(self, term: Term | None) -> int:
        from doyen.runner.once import done_text

        assert self.occasion is not None
        if term is not None:
            term.release()
        done = self.occasion.done.result()
        self._say("done", f"{done_text(done)}: not run here", by=done.by, done_at=done.at / 1e9)
        return 0

    async def _tell(self) -> None:
        """Notify the others of the success, and stay for those that come late."""
        if self.occasion is None or self.once is None:
            return
        told = await self.occasion.tell()
        text = f"known by {', '.join(told.told)}" if told.told else "no other runner was there"
        if told.silent:
            text += f"; not by {', '.join(told.silent)}: it may be run there again"
        self._say("told", text, told=told.told, silent=told.silent)
        await asyncio.sleep(self.once.linger_s)

    async def _stop_and_wait(self) -> None:
        ward = self.ward
        if ward is not None and not ward.is_over:
            ward.stopped_because = ward.stopped_because or "handed over"
            ward.stop()
            await ward.ended()

    def _on_event(self, event: Event) -> None:
        if event.kind == "waiting":
            self._say("waiting", event.reason)
        elif event.kind == "elected" and not event.election and self.waits is not None:
            if event.leader != self.node.name:  # Else it says itself that it waits, or begins.
                self._say_who_leads(event.leader, event.term)

    def _say_who_leads(self, leader: str | None, term: int | None) -> None:
        """Say for whom it waits, unless that was said last."""
        text = "nobody leads yet" if leader is None else f"{leader} leads (term {term})"
        if text != self.waits:
            self.waits = text
            self._say("waiting", text, leader=leader)

    def _end(self, came: signal.Signals) -> None:
        self.signal = came.name
        self.node.ended.set()

    async def _say_end(self, ward: Ward | None, others: Sequence[str], voters: Sequence[str]) -> None:
        """Say what became of the command and of leadership, once this node has left."""
        by = f"by {self.signal}" if self.signal else "by doyen leave" if self.node.failure is None else "by a failure"
        if ward is None:
            text = f"{self.words[0]} was not running here"
        else:
            code, left = await ward.ended(), left_to(others, voters)
            text = f"{left}; {self.words[0]} (pid {ward.pid}) had ended before ({code})"
        self._say("stopped", f"{by}: {text}", signal=self.signal)

    def _say_promise(self) -> None:
        worst = self.config.worst_case(self.kind)
        self._say(
            "preset",
            f"{self.config.preset}: {'a killed process is noticed at once; ' if self.config.link else ''}"
            f"the worst case is a host that falls silent: noticed within {at_most(worst.detection)}, "
            f"the next leads within {at_most(worst.failover)}, if nothing is lost",
            detection_s=to_seconds(worst.detection),
            failover_s=to_seconds(worst.failover),
        )
        promise = self.config.promise(self.kind)
        if not promise.strong:
            risk = f"a second {self.words[0]} may run {_RISKS[promise.sort].format(format_duration(self.grace))}"
            if not self.config.looks_for_others():
                risk += "; no other host is looked for (--seed)"
            text = f"{self.kind.title}: {risk}"
            self._say("note", text, strong=False, promise=promise.sort, promise_text=promise.in_short)

    def _say(self, what: str, text: str, **fields: Any) -> None:
        if self.as_json:
            line = plain_json(msgspec.json.encode({"event": what, "at": time.time(), "text": text, **fields})).decode()
        else:
            line = f"doyen: {paint(what, TONES.get(what, ''), sys.stderr)}{':' * (what in _ABOUT)} {plain(text)}"
        print(line, file=sys.stderr, flush=True)


def left_to(others: Sequence[str], voters: Sequence[str]) -> str:
    """Return what became of leadership, where these members are here, or these voters are left."""
    if others:
        return "handed over"
    return "resigned; the other voters elect the next" if voters else "no other member is here to take over"


def _wall(at: Instant | None, node: Node) -> float:
    """Return an instant of the node's clock on the clock that people read; now, where it is not known."""
    return time.time() - (0.0 if at is None else to_seconds(node.clock() - at))
