"""This process in a group, for as long as a context lasts: what `doyen.join(...)` returns."""

import asyncio
import logging
import os
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import ExitStack
from typing import Any
from weakref import WeakSet

import msgspec

from doyen.core.clock import Duration, Instant, parse_duration, to_seconds
from doyen.core.commands import ChangeNote
from doyen.core.ids import Term as TermId
from doyen.core.kinds import Choice, ElectionChoice
from doyen.core.leadership import BatonPassed, ChangeEnded, HandOverDue, HeirNamed
from doyen.core.rank import shortest
from doyen.errors import ConfigError, LocalProtocolError, TransportError
from doyen.membership.notes import check_words
from doyen.node import shown
from doyen.node.agent import Agent
from doyen.node.callbacks import Callback, check_callback, follow
from doyen.node.campaign import Campaign, Leading
from doyen.node.config import NodeConfig
from doyen.node.control import Control
from doyen.node.events import Bell, Event, LeaderInfo, MemberInfo, Subscription, View
from doyen.node.explain import Explanation, explain
from doyen.node.premises import premises
from doyen.node.registry import ElectionName, find_election
from doyen.node.scoring import Scorekeeper
from doyen.node.sigterm import forget, leave_on_sigterm
from doyen.node.stack import NOTES
from doyen.node.term import Standby, Term

log = logging.getLogger("doyen")

QUIET = ("updated", "accused")  # Events that say too little to be told to an application.


class Node:
    """This process in a group.  Everything here is for one event loop; `doyen.sync` is for threads."""

    def __init__(
        self,
        config: NodeConfig,
        *,
        score: Callable[[], Any] | None = None,
        score_every: Duration = 5_000_000_000,
        leave_on_sigterm: bool = True,
        control: bool = True,
        on_elected: Callback | None = None,
        on_lost: Callback | None = None,
        occasion: str | None = None,
        will: bool = False,
    ) -> None:
        if will and not config.has_lease():
            raise ConfigError("True ends a lease early, and no election here has one: election='quorum'", field="will")
        self._will = will
        for field, callback in (("on_elected", on_elected), ("on_lost", on_lost)):
            check_callback(field, callback)
            if callback is not None and config.election == "none":
                raise ConfigError("would never be called: the group elects nobody", field=field)
        self.on_elected, self.on_lost = on_elected, on_lost
        self.config, self._with_control, self._occasion = config, control, occasion
        self.ended = asyncio.Event()  # Once it has left, or failed.
        self._scores: Scorekeeper | None = None
        if score is not None:
            self._scores = Scorekeeper(
                score, score_every, config.group, tell=self._tell_score, answer=self._answer_score
            )
        self.leaves_on_sigterm = leave_on_sigterm
        self._campaigns: dict[str, Campaign] = {}
        self._subscriptions: WeakSet[Subscription] = WeakSet()  # A reader that is gone takes its own along.
        self._bell = Bell()  # Rung when anything that is shown may have changed.
        self._tasks: set[asyncio.Task[None]] = set()
        self.listeners: list[Callable[[Event], None]] = []  # Called with every event; set before joining.
        self.left = False
        self._leaving: asyncio.Task[None] | None = None
        self._agent: Agent | None = None
        self._process = 0
        self._loop: asyncio.AbstractEventLoop

    def __repr__(self) -> str:
        where = f" {self.name!r} at {self.address}" if self._agent is not None and self._process else ""
        own = self._campaigns.get("")
        stands = "not joined" if not where else "ended" if not self.running else "" if own is None else own.in_words()
        return f"<doyen.Node{where} in {self.group!r}{stands and ': '}{stands}>"

    # Life.

    async def __aenter__(self) -> "Node":
        if self._agent is not None:
            raise LocalProtocolError("a node joins once: make another, doyen.join(…)")
        self._loop, self._process = asyncio.get_running_loop(), os.getpid()
        where = premises()
        self.config = where.fit(self.config, self)
        self._agent = agent = Agent(
            self.config, self._on_event, on_failure=self._on_failure, occasion=self._occasion, premises=where
        )
        agent.listeners += self.listeners
        agent.on_may_act = self._on_may_act
        if self._scores is not None and self.config.eligible:
            agent.ask_score = self._scores.ask
        agent.hand_over = self._hand_over
        agent.on_charter = self._on_charter
        scored = self._scores is not None or self.config.standing
        config = self.config
        for unused in (config.unused_score() if scored else "", config.unused_voters(), config.unused_shared()):
            if unused:
                log.warning("%s: %s", self.config.group, unused)
        try:
            await agent.start()
            agent.driver.on_close(self._on_closed)
            if agent.attached.http is not None:
                agent.attached.http.owner = self
            if self._with_control and where.has_users:
                await Control.attach(self)
            for name, reign in agent.stack.reigns.items():
                self._campaigns[name] = Campaign(self, reign)
            if self.leaves_on_sigterm and where.has_users:
                leave_on_sigterm(self, self._on_sigterm)
            if self._will and where.has_users:
                self._keep_will(agent)
            if self._scores is not None:
                await self._scores.start()
            if self.on_elected is not None or self.on_lost is not None:
                self.spawn(follow(self.own_election, self.on_elected, self.on_lost))
        except BaseException:  # Also a cancellation: nothing of it stays.
            agent.driver.close()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._process == os.getpid():
            await self.leave()

    async def leave(self) -> None:
        """Leave in order: stop the bodies that act as leader, notify the others, then fall silent.

        A task of its own does it, for the caller may be a body that is stopped by it.
        """
        if self._agent is None:
            return
        self.check_loop()
        with ExitStack() as asked:
            for campaign in self._campaigns.values():
                asked.enter_context(campaign.asked())
            if self._leaving is None:
                self.left = all(campaign.before_handing_over is None for campaign in self._campaigns.values())
                self._leaving = self._loop.create_task(self._leave())
            await asyncio.shield(self._leaving)

    async def _leave(self) -> None:
        try:
            if not self.left:  # A leader to the last: what is to be stopped has its time while the lease is renewed.
                for campaign in self._campaigns.values():
                    await campaign.stop_acting()
        finally:
            self.left = True
        self.ended.set()
        try:
            for campaign in self._campaigns.values():
                campaign.stir("left")
            await asyncio.gather(*(campaign.bodies_ended() for campaign in self._campaigns.values()))
        finally:
            await self.agent.leave()
        others = [*self._tasks]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _on_closed(self) -> None:
        """End everything that waits for this node, which is silent from here on."""
        forget(self)
        if self._scores is not None:
            self._scores.close()
        failure = self.agent.driver.failure
        self._put(
            Event(
                kind="stopped",
                at=time.time(),
                clock=self.clock(),
                reason="" if failure is None else f"failed: {failure}",
            )
        )
        for subscription in self._subscriptions:
            subscription.close()
        self._bell.ring()
        for campaign in self._campaigns.values():
            campaign.stir("left" if failure is None else f"this node failed: {failure}")
            campaign.close()

    def _keep_will(self, agent: Agent) -> None:
        from doyen.node.will import Keeper, WillWriter  # Few have one.

        keeper = Keeper(agent.name)
        agent.driver.on_close(keeper.end)
        WillWriter(agent, keeper.will, check=keeper.check).begin()

    def _on_sigterm(self, left: Callable[[], None]) -> None:
        async def leave() -> None:
            try:
                await self.leave()
            finally:
                left()

        def begin() -> None:
            self._ending = self._loop.create_task(leave())  # Not one of those that leaving ends.
            self._ending.add_done_callback(lambda task: task.cancelled() or task.exception())  # `SystemExit` is meant.

        if not self._loop.is_running():
            left()
        else:
            self._loop.call_soon_threadsafe(begin)

    @property
    def agent(self) -> Agent:
        """The running node below this object; raises `LocalProtocolError` before the node has joined."""
        if self._agent is None:
            raise LocalProtocolError("this node has not joined yet: async with doyen.join(…) as node")
        return self._agent

    @property
    def running(self) -> bool:
        """Return whether this node takes part in its group: it has joined, and has neither left nor failed."""
        return (
            not self.left
            and self._agent is not None
            and self._agent.driver.running
            and self._process == os.getpid()  # A fork is nobody's member.
        )

    def check_running(self) -> None:
        """Raise an error that says why this node does not run."""
        failure = self.agent.driver.failure
        if failure is not None:
            raise TransportError(f"this node has failed: {failure}") from failure
        if self._process != os.getpid():
            raise LocalProtocolError("this process was forked from the one that joined: call doyen.join(…) here, too")
        if not self.running:
            raise LocalProtocolError("this node has left, it leads nothing any more: make another, doyen.join(…)")

    def check_loop(self) -> None:
        """Raise `LocalProtocolError` in another event loop or process than the one that joined."""
        if self._process != os.getpid() or asyncio.get_running_loop() is not self._loop:
            raise LocalProtocolError(
                "this node lives in another event loop or process: use it there, or doyen.sync.join(…) for threads"
            )

    @property
    def failure(self) -> BaseException | None:
        """Return what stopped this node, if something did: a bug, or its disk."""
        return self.agent.driver.failure

    # Who is here.

    @property
    def name(self) -> str:
        """The name of this process in its group."""
        return self.agent.name

    @property
    def group(self) -> str:
        """The name of the group."""
        return self.config.group

    @property
    def address(self) -> str:
        """Return where this process listens."""
        return str(self.agent.driver.transport.address)

    def members(self) -> list[MemberInfo]:
        """Return the members that this node knows, itself included; those that failed or left stay for a while."""
        return shown.members(self.agent.stack, self.clock())

    async def wait_for_members(self, count: int, timeout: str | float | None = None) -> list[MemberInfo]:
        """Wait until `count` members are present, this one included, and return them; or raise `TimeoutError`.

        A member is present while it is alive or suspected.
        """
        if self.agent.stack.membership is None:
            raise LocalProtocolError("no membership keeps a list of members: join with membership='swim'")
        timeout_s = None if timeout is None else to_seconds(parse_duration(timeout))
        present: list[MemberInfo] = []
        try:
            async with asyncio.timeout(timeout_s):
                async for view in self.views():
                    present = [member for member in view.members if member.state in ("alive", "suspected")]
                    if len(present) >= count:
                        return present
        except TimeoutError:
            names = ", ".join(member.name for member in present)
            raise TimeoutError(f"{len(present)} of {count} members present after {timeout_s:g} s: {names}") from None
        self.check_running()
        raise LocalProtocolError("this node has left: make another, doyen.join(…)")

    async def views(self) -> AsyncGenerator[View, None]:
        """Yield what this node sees of its group: now, and whenever it has changed, until the node stops.

        A reader that is slow misses what was in between, never the latest.
        """
        self.check_loop()
        seen: View | None = None
        while True:
            view = shown.view(self.agent.stack, self.clock())
            if seen is None or shown.differ(view, seen):
                seen = view
                yield view
            elif not self.agent.driver.running:
                return
            else:
                await self._bell.wait()

    async def tell(self, meta: Mapping[str, str]) -> None:
        """Let the others know this of the process from now on, at most 512 bytes.

        A membership carries it to all; without one the others know the words of their leader.
        """
        check_words(meta)
        self.check_running()
        self.agent.stack.describe(dict(meta))

    def events(self) -> AsyncGenerator[Event, None]:
        """Yield what holds, marked `already`, and then every event until the node stops.

        A reader that is too slow loses the oldest, and learns how many.
        """
        running = self.agent.driver.running
        subscription = Subscription(shown.already(self.agent.stack, self.clock()) if running else [])
        if running:
            self._subscriptions.add(subscription)
        else:
            subscription.close()
        return subscription.read()

    # Who leads: the group's own election.

    def election(self, name: str, election: ElectionName | ElectionChoice | None = None) -> Campaign:
        """Return a named election of this group; begin it here if need be, of the group's own kind by default."""
        if isinstance(election, Choice) and election.given():
            raise ConfigError(f"{election!r}: a node's timers are given when it joins; here {election.kind!r} will do")
        kind = election.kind if isinstance(election, Choice) else election
        if name not in self._campaigns:
            self.check_running()
            begun = name if kind is None else f"{name}={kind}"
            config = msgspec.structs.replace(self.config, elections=(*self.config.elections, begun))  # Checks it.
            reign = self.agent.add_election(name, config.election_kinds()[name])
            self.config = config
            self._campaigns[name] = Campaign(self, reign)
            if self.config.eligible and self._scores is not None and self._scores.told is not None:
                self.agent.give_score(reign.channel, 0, shortest(self._scores.told))
        elif kind is not None and find_election(kind) is not self.agent.stack.reigns[name].kind:
            is_now = self.agent.stack.reigns[name].kind.title
            raise LocalProtocolError(f"the election {name!r} is {is_now} here, not {kind}")
        return self._campaigns[name]

    @property
    def own_election(self) -> Campaign:
        """Return the group's own election, the one without a name; raises `LocalProtocolError` where there is none."""
        if "" not in self._campaigns:
            has = ", ".join(self.agent.config.named_elections()) or "none yet"
            raise LocalProtocolError(f"this node has no election of its own: name one ({has}), node.election(NAME)")
        return self._campaigns[""]

    @property
    def is_leader(self) -> bool:
        """Return whether this process may act as leader of the group's own election at this very instant.

        With a weak election it may be true in two processes, while the network is split, and for a moment around starts
        and failures.
        """
        return "" in self._campaigns and self.own_election.is_leader

    @property
    def leader(self) -> LeaderInfo | None:
        """The leader that this node names in the group's own election, or None."""
        return self.own_election.leader

    @property
    def term(self) -> TermId | None:
        """The number and the leader of the term that this node names in the group's own election, or None."""
        return self.own_election.term

    @property
    def heir(self) -> str | None:
        """The next leader of the group's own election, as the present one says; None: not known, or no quorum."""
        return self.own_election.heir

    def prepare(self) -> Standby:
        """Wait until this node is the heir; the body is cancelled when another is, or when this node leads."""
        return self.own_election.prepare()

    async def wait_for_leader(self, timeout: str | float | None = None) -> LeaderInfo:
        """Wait until this node names a leader that has said what it is, and return it; or raise `TimeoutError`.

        A leader that does not say it within a second is returned as it is known.
        """
        return await self.own_election.wait_for_leader(timeout)

    def lead(self, timeout: str | float | None = None) -> Leading:
        """Wait until this node is elected (or `TimeoutError`); the body is cancelled when leadership is lost."""
        return self.own_election.lead(timeout)

    def terms(self) -> AsyncGenerator[Term, None]:
        """Yield one leadership after another, until the node leaves; enter each with `async with term`."""
        return self.own_election.terms()

    async def resign(self, cooldown: str | float = "30s", to: str | None = None) -> None:
        """Give leadership up, to the best of the others or to `to`, and do not contend before `cooldown` is over."""
        await self.own_election.resign(cooldown, to)

    # For campaigns.

    def clock(self) -> Instant:
        """Return the instant by this node's clock, `CLOCK_BOOTTIME`, in nanoseconds."""
        return self.agent.driver.clock()

    # What happens.

    def _on_may_act(self, election: str) -> None:
        campaign = self._campaigns.get(election)
        if campaign is not None:
            campaign.wake()

    def _on_event(self, event: Event) -> None:
        if event.kind in ("elected", "lost"):
            campaign = self._campaigns.get(event.election)
            if campaign is not None:
                campaign.stir(event.reason if event.kind == "lost" else "")
        elif event.leader is not None:  # It was described.
            campaign = self._campaigns.get(event.election)
            if campaign is not None:
                campaign.wake()
        if event.kind not in QUIET:
            self._put(event)
        self._bell.ring()

    @property
    def round_trip_s(self) -> float | None:
        """Return the mean round trip of the membership's pings."""
        return self.agent.round_trip_s

    def explain(self, election: str = "") -> Explanation:
        """Explain in words why the present leader leads."""
        if election not in self.agent.stack.reigns:
            raise LocalProtocolError(f"this node takes part in no election {election!r}")
        return explain(self, self.agent.stack.reigns[election])

    def _put(self, event: Event) -> None:
        for subscription in self._subscriptions:
            subscription.put(event)

    def _on_failure(self, error: BaseException) -> None:
        """End every leadership first of all: its bodies must stop."""
        self.ended.set()
        for campaign in self._campaigns.values():
            campaign.end_terms(f"this node failed: {error}")

    def _hand_over(self, election: str, due: HandOverDue) -> None:
        """Hand over as the election asks, once what acts on this leadership has stopped."""
        campaign = self._campaigns.get(election)
        if campaign is not None:
            self.spawn(campaign.hand_over(due))

    def _on_charter(self, election: str, fact: BatonPassed | ChangeEnded | HeirNamed) -> None:
        campaign = self._campaigns.get(election)
        if campaign is not None:
            campaign.note(fact)

    # Its score.

    def _tell_score(self, value: float) -> None:
        driver = self.agent.driver
        if not driver.running:
            return
        for reign in self.agent.stack.reigns.values() if self.config.eligible else ():
            self.agent.give_score(reign.channel, 0, shortest(value))
        if NOTES in self.agent.stack.machines:
            driver.tell(ChangeNote(score=value), channel=NOTES)

    def _answer_score(self, channel: str, number: int, value: float) -> None:
        self.agent.give_score(channel, number, value)

    # Small things.

    def spawn(self, work: Any) -> None:
        """Run a coroutine in a task of its own, which ends with the node and begins after the present step."""

        async def after_this_step() -> None:
            try:
                await asyncio.sleep(0)  # An eager task would run within the step that asks for it.
                await work
            finally:
                work.close()

        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(after_this_step())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
