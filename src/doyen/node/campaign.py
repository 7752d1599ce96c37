"""One election from the application's side: wait to lead, lead, be stopped.

    node.lead()                 async context: waits until elected; the body is cancelled when leadership is lost
    async for term in terms()   forever: each pass is one leadership, and `async with term` is its body
    node.prepare()              async context: waits until this node would lead next; the body is cancelled when not

Whose turn it is, and how the body of a turn is stopped, is in `term`.
`lead()` raises `LeadershipLost`; a term of `terms()` ends its body quietly, and the loop goes on (decision 71).
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import TYPE_CHECKING, Final

from doyen.core.clock import FOREVER, Duration, Instant, parse_duration, to_seconds
from doyen.core.commands import ChangeVoters, Command, PassOn, Resign, Stand
from doyen.core.ids import NodeId, node_id
from doyen.core.ids import Term as TermId
from doyen.core.leadership import BatonPassed, ChangeEnded, Electors, HandOverDue, HeirNamed
from doyen.errors import LeadershipLost, LocalProtocolError
from doyen.node.events import Bell, LeaderInfo
from doyen.node.reign import Reign
from doyen.node.term import UNSURE, Standby, Term

if TYPE_CHECKING:
    from doyen.node.node import Node

log = logging.getLogger("doyen")

DESCRIBED_S: Final = 1.0  # How long a leader that is named may take to say what it is.
BODY_PATIENCE_S: Final = 5.0  # How long cancelled bodies may take to end before the others are notified.


class Leading:
    """Waits to be elected on entering, and raises `LeadershipLost` if leadership ends before its body."""

    def __init__(self, campaign: "Campaign", timeout_s: float | None) -> None:
        self._campaign, self._timeout_s = campaign, timeout_s
        self._term: Term | None = None

    async def win(self) -> Term:
        """Wait until this node is elected; raise `TimeoutError` if that takes too long."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._campaign.won()
        except TimeoutError:
            leader = self._campaign.leader
            who = "nobody" if leader is None else leader.name
            raise TimeoutError(f"not elected within {self._timeout_s:g} s: {who} leads") from None

    async def __aenter__(self) -> Term:
        self._term = await self.win()
        self._term.raises = True
        return await self._term.__aenter__()

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> bool:
        assert self._term is not None
        return await self._term.__aexit__(kind)


class Campaign:
    """One election of a node: the group's own, or one of its named ones."""

    def __init__(self, node: "Node", reign: Reign) -> None:
        self._node, self._reign = node, reign
        self._active: set[Term] = set()
        self._bell = Bell()
        self._lease_watch: asyncio.TimerHandle | None = None
        self._cooling: asyncio.TimerHandle | None = None
        self._handover: asyncio.Task[None] | None = None
        self._askers: set[asyncio.Task[object] | None] = set()  # Who wait for bodies to end.
        # Awaited before others are notified: what acts on this leadership stops before the next begins (decision 72).
        self.before_handing_over: Callable[[], Awaitable[None]] | None = None
        self._handing_over = False  # Nobody begins to act on it any more.
        self.standbys: set[Standby] = set()
        self._asked = count(1)  # Numbers of what the election was asked to do.
        self._answers: dict[int, str | None] = {}  # What came of that: None: nothing yet; "": it is done; else why not.

    def __repr__(self) -> str:
        return f"<doyen.Campaign {self.name!r} of {self._node.name!r}: {self.in_words()}>"

    def in_words(self) -> str:
        """Return who leads, in a few words."""
        term = self._reign.term
        if self.is_leader:
            return f"this node leads, term {0 if self._reign.mine is None else self._reign.mine.number}"
        return "nobody leads" if term is None else f"{term.leader} leads, term {term.number}"

    @property
    def name(self) -> str:
        """The name of this election; the group's own has the name ""."""
        return self._reign.name

    @property
    def is_leader(self) -> bool:
        """Return whether this node may act as leader at this very instant; with a weak election two nodes may."""
        return self._node.running and self._reign.is_leader(self._node.clock())

    @property
    def leader(self) -> LeaderInfo | None:
        """The leader that this node names, or None; a node that has ended names nobody."""
        if not self._node.running:
            return None
        return self._node.agent.stack.leader_info(self._reign)

    @property
    def term(self) -> TermId | None:
        """The number and the leader of the term that this node names, or None."""
        return self._reign.term

    async def wait_for_leader(self, timeout: str | float | None = None) -> LeaderInfo:
        """Wait until this node names a leader that has said what it is, and return it; or raise `TimeoutError`.

        A leader that does not say it within a second is returned as it is known.
        """
        timeout_s = None if timeout is None else to_seconds(parse_duration(timeout))
        leader: LeaderInfo | None = None
        try:
            async with asyncio.timeout(timeout_s):
                while (leader := self.leader) is None:
                    self._node.check_running()
                    await self.changed()
                with suppress(TimeoutError):
                    async with asyncio.timeout(DESCRIBED_S):
                        while self._node.running and not self._node.agent.stack.is_described(self._reign):
                            await self.changed()
        except TimeoutError:
            if leader is None:
                raise TimeoutError(f"nobody leads after {timeout_s:g} s: node.explain() says why") from None
        return self.leader or leader

    @property
    def heir(self) -> str | None:
        """The name of the next leader, as the present one says; None: not known, or no quorum."""
        return None if self._reign.machine is None or not self._node.running else self._reign.machine.heir

    def prepare(self) -> Standby:
        """Wait until this node is the heir; the body is cancelled when another is, or when this node leads."""
        if self._reign.machine is not None and self.baton is None:  # Only a quorum's leader names an heir.
            kind = self._reign.kind.title
            log.warning("%s: prepare() waits for ever: %s names no heir, only quorum does", self._node.name, kind)
        return Standby(self)

    async def is_next(self, standby: Standby) -> None:
        """Wait until this node would lead next, and then watch whether it still does."""
        while not (self.heir == self._node.name and not self.is_leader):
            self._node.check_running()
            await self.changed()
        self.standbys.add(standby)

    def _look_at_standbys(self) -> None:
        """End what is over; a heir stays one while nobody leads, and until the next leader has named another."""
        if self.is_leader or not self._node.running or self.heir not in (None, self._node.name):
            for standby in tuple(self.standbys):
                self.standbys.discard(standby)
                standby.end(self.is_leader)

    @property
    def baton(self) -> bytes | None:
        """Return what is handed on; None: this election hands nothing on."""
        return None if self._reign.machine is None else self._reign.machine.baton

    async def pass_on(self, baton: bytes, term: Term) -> None:
        """Hand this on in that term; see `Term.pass_on`."""
        machine = self._reign.machine
        assert machine is not None
        machine.check_baton(baton)
        number = next(self._asked)
        if await self._answer(PassOn(number, baton), number, lambda: term.lost) is None:
            raise LeadershipLost(term.number, term.reason + UNSURE)

    async def pass_on_in(self, number: int | None, baton: bytes) -> int:
        """Hand this on in the term of that number, for a process that acts on it; without one, in the present term.

        Return the number.  Raises what `Term.pass_on` raises.
        """
        machine, mine = self._reign.machine, self._reign.mine
        assert machine is not None
        machine.check_baton(baton)
        terms = [term for term in self._active if not term.lost and number in (None, term.number)]
        if not terms and (number is not None or mine is None):
            raise LeadershipLost(number or 0, why_not_in(number, self._node.name, mine, self._reign.term_max))
        term = terms[0] if terms or mine is None else Term(self, mine)
        await self.pass_on(baton, term)
        return term.number

    def electors(self) -> Electors | None:
        """Return the voters that count, as this node knows them; None: there are none."""
        return None if self._reign.machine is None else self._reign.machine.electors(self._node.clock())

    async def change_voters(self, add: str | None = None, remove: str | None = None) -> Electors:
        """Add a voter, remove one, or replace one by another; return the voters that count then.

        Raises `LocalProtocolError` if that cannot be: this node does not lead, the new voter does not answer, another
        change is under way.  Raises `LeadershipLost` if leadership is lost before; the next leader may complete it.
        """
        machine, before = self._reign.machine, self.electors()
        self._node.check_running()
        if machine is None or before is None:
            raise LocalProtocolError("this election has no voters: only a quorum's has (election='quorum')")
        if add is not None and add in before.voters:
            raise LocalProtocolError(f"{add} votes already: {', '.join(before.voters)}")
        if remove is not None and remove not in before.voters:
            raise LocalProtocolError(f"{remove} does not vote: {', '.join(before.voters)} do")
        voters = frozenset(before.voters) - {remove} | ({node_id(add)} if add is not None else set())
        machine.check_voters(voters)
        number, mine = next(self._asked), self._reign.mine
        assert mine is not None
        refused = await self._answer(ChangeVoters(number, voters), number, lambda: not self.holds(mine))
        if refused is None:
            raise LeadershipLost(mine.number, "the voters may or may not have changed: doyen voters shows them")
        if refused:
            raise LocalProtocolError(f"the voters stay as they are: {refused}")
        after = self.electors()
        assert after is not None
        return after

    async def _answer(self, command: Command, number: int, over: Callable[[], bool]) -> str | None:
        """Give the election a command, and wait for what comes of it; None: leadership is over before."""
        self._answers[number] = None
        try:
            self._node.agent.driver.tell(command, channel=self._reign.channel)
            while self._answers[number] is None and not over():
                await self.changed()
            return self._answers[number]
        finally:
            del self._answers[number]

    def note(self, fact: BatonPassed | ChangeEnded | HeirNamed) -> None:
        """Note what the election has done."""
        match fact:
            case BatonPassed(numbers):
                self._answers |= dict.fromkeys(self._answers.keys() & {*numbers}, "")
            case ChangeEnded(number, refused) if number in self._answers:
                self._answers[number] = refused
        self._look_at_standbys()
        self.wake()

    def lease_until(self) -> Instant | None:
        """Return the end of the lease on `CLOCK_BOOTTIME`, if nothing further is heard; None: there is no lease."""
        return self._reign.lease_until()

    def lead(self, timeout: str | float | None = None) -> Leading:
        """Wait until this node is elected (or `TimeoutError`); the body is cancelled when leadership is lost."""
        return Leading(self, None if timeout is None else to_seconds(parse_duration(timeout)))

    async def terms(self) -> AsyncGenerator[Term, None]:
        """Yield one leadership after another, until the node leaves."""
        done: TermId | None = None
        while True:
            try:
                term = await self.won(after=done)
            except LocalProtocolError:
                if self._node.left:
                    return
                raise
            yield term
            done = term._term if not term.lost else None  # Who comes back while it still leads waits for the next.

    async def resign(self, cooldown: str | float = "30s", to: str | None = None) -> None:
        """Give leadership up, to the best of the others or to `to`, and do not contend again before `cooldown` is over.

        Returns once this node no longer leads; nothing happens if it did not.
        """
        wait = parse_duration(cooldown)
        target = None if to is None else node_id(to)
        self._node.check_running()
        machine = self._reign.machine
        if machine is None or not self._reign.kind.resigns:
            raise LocalProtocolError(f"{self._reign.kind.name} elections have no resignation: leave instead")
        if self._reign.mine is None:
            return
        machine.check_heir(target)
        with self.asked():
            # A task of its own, for it may stop the one that asks; an eager one may have ended before it is known here.
            if self._handover is None or self._handover.done():
                self._handover = asyncio.get_running_loop().create_task(self._hand_over(target, wait))
            await asyncio.shield(self._handover)

    async def hand_over(self, due: HandOverDue) -> None:
        """Hand over to a better member, unless that one is gone by now; this node may be elected again at once."""
        with suppress(LocalProtocolError):
            goes_on = self._handover is not None and not self._handover.done()
            if not goes_on and self._reign.mine is not None and self._reign.machine is not None:
                self._reign.machine.check_heir(due.to)
                self._handover = asyncio.get_running_loop().create_task(self._hand_over(due.to, 0, due.because))
                await asyncio.shield(self._handover)

    async def _hand_over(self, to: NodeId | None, wait: Duration, because: str = "") -> None:
        try:
            await self.stop_acting(because or "resigned")
            if self._node.running and self._reign.mine is not None:
                keeps_time = self._reign.kind.keeps_cool_down
                command = Resign(to, wait if keeps_time else None, because)
                self._node.agent.driver.tell(command, channel=self._reign.channel)
                if self._reign.kind.stands_again:
                    self._cool_down(wait)
            while self._node.running and self._reign.mine is not None:
                await self.changed()
        finally:
            self._handing_over = False
            self.wake()

    async def stop_acting(self, because: str = "resigned") -> None:
        """Stop all bodies of this leadership and let none begin, before others are notified."""
        self._handing_over = True
        if self.before_handing_over is not None:
            await self.before_handing_over()
        for term in tuple(self._active):
            if term.task is not None and not self.awaits(term.task):
                term.end(because)
        await self.bodies_ended()

    def _cool_down(self, wait: Duration) -> None:
        if self._cooling is not None:  # Of an earlier resignation: this one's counts.
            self._cooling.cancel()
        if wait < FOREVER:
            self._cooling = asyncio.get_running_loop().call_later(to_seconds(wait), self._stand)

    def _stand(self) -> None:
        if self._node.running:
            self._node.agent.driver.tell(Stand(), channel=self._reign.channel)

    # For the node and its terms.

    def holds(self, term: TermId) -> bool:
        """Return whether this node may act in that term, or in a later one of its own."""
        return self.is_leader and self._reign.mine is not None and self._reign.mine.number >= term.number

    async def won(self, after: TermId | None = None) -> Term:
        """Wait until this node leads in another term than `after`, and return it."""
        while True:
            self._node.check_running()
            mine = self._reign.mine
            if mine is not None and mine != after and self.is_leader and not self._handing_over:
                term = Term(self, mine)
                self._active.add(term)
                self._watch_lease()
                return term
            await self.changed()

    async def changed(self) -> None:
        """Wait until this election has changed."""
        self._node.check_loop()
        await self._bell.wait()

    def ended(self, term: Term) -> None:
        """Note that the body of a term has ended."""
        self._active.discard(term)
        self.wake()

    @contextmanager
    def asked(self) -> Iterator[None]:
        """Note that the present task asks for an end: its own body is stopped last, and not waited for."""
        asking = asyncio.current_task()
        self._askers.add(asking)
        self.wake()
        try:
            yield
        finally:
            self._askers.discard(asking)
            for term in tuple(self._active):
                if term.task is asking:
                    term.stop_if_over()

    def awaits(self, task: asyncio.Task[object] | None) -> bool:
        """Return whether that task waits for bodies to end, so that it is not stopped itself."""
        return task in self._askers

    async def bodies_ended(self) -> None:
        """Wait for the bodies that run in tasks, for `BODY_PATIENCE_S` at most."""
        try:
            async with asyncio.timeout(BODY_PATIENCE_S):
                while any(term.task is not None and not self.awaits(term.task) for term in self._active):
                    await self.changed()
        except TimeoutError:
            log.warning("%s: a body goes on %g s after it was cancelled", self._node.name, BODY_PATIENCE_S)

    def close(self) -> None:
        """Cancel the timers of this election."""
        for timer in (self._lease_watch, self._cooling):
            if timer is not None:
                timer.cancel()

    def stir(self, reason: str = "") -> None:
        """End the terms that are over, and wake the tasks that wait for a change."""
        if self._active and not self.is_leader:
            why = reason or self._reign.lost_because or ("lease over" if self._reign.mine else "outranked")
            self.end_terms(why)
        self._look_at_standbys()
        self.wake()
        self._watch_lease()

    def end_terms(self, reason: str) -> None:
        """Stop every body that acts on this leadership."""
        for term in tuple(self._active):
            term.end(reason)

    def wake(self) -> None:
        """Wake the tasks that wait for a change."""
        self._bell.ring()

    def _watch_lease(self) -> None:
        """Set a timer for the end of the lease: a body must stop by then, whatever is heard."""
        if self._lease_watch is not None:
            self._lease_watch.cancel()
            self._lease_watch = None
        until = self._reign.lease_until() if self._active else None
        if until is not None:
            wait_s = max(0.0, (until - self._node.clock()) / 1e9)
            self._lease_watch = asyncio.get_running_loop().call_later(wait_s, self.stir)


def why_not_in(number: int | None, me: str, mine: TermId | None, latest: int) -> str:
    """Return why nothing acts in the term of that number on this node, which knows of terms up to the latest."""
    if number is None or number > latest:
        return f"{me} does not lead" if number is None else f"term {number} has not begun"
    if mine is not None and mine.number == number:
        return f"nothing acts in term {number} here"
    return "a later term has begun" if number < latest else f"{me} does not lead in term {number}"
