"""`doyen.join(...)`: this process in a group, for as long as a context lasts.

async with doyen.join("orders", seeds=["10.0.0.2"]) as node:
    async with node.lead() as term:
        await work()
"""

import asyncio
import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from doyen.agent.config import NodeConfig
from doyen.agent.layers import by_path, configure
from doyen.agent.node import Agent
from doyen.agent.stack import NOTES
from doyen.agent.told import Told
from doyen.api.campaign import Campaign, Leading, Term
from doyen.api.choices import Choice, Election, Membership
from doyen.api.control import Control
from doyen.api.events import Event, MemberInfo, Subscription
from doyen.api.explain import Explanation, explain
from doyen.api.scoring import Score, as_function, measured
from doyen.core.clock import Duration, Instant, parse_duration, to_seconds
from doyen.core.ids import Term as TermId
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.rank import ScoreGiven, ScoreWanted, shortest
from doyen.core.view import Status, ViewChanged
from doyen.errors import ConfigError, LocalProtocolError
from doyen.membership.notes import NotesChanged, check_words
from doyen.membership.swim.roundtrip import RoundTripEstimated

log = logging.getLogger("doyen")

#: A score is told anew when it has changed by this part, so that jitter makes no traffic.
SCORE_STEP = 0.01


def join(
    group: str,
    *,
    name: str | None = None,
    bind: str | None = None,
    advertise: str | None = None,
    multicast: str | None = None,
    interface: str | None = None,
    seeds: Sequence[str] = (),
    membership: str | Membership = "auto",
    election: str | Election = "hybrid",
    elections: Mapping[str, str | Election] | Sequence[str] = (),
    voters: Sequence[str] = (),
    newcomer: bool = False,
    score: Score | None = None,
    score_every: str | float = "5s",
    eligible: bool = True,
    meta: Mapping[str, str] | None = None,
    key: str | Path | None = None,
    state: str | Path | None = None,
    preset: str = "lan",
    config: str | Path | None = None,
    leave_on_sigterm: bool = True,
    control: bool = True,
    **fields: Any,
) -> "Node":
    """A node that is not there yet: `async with` it.  Every field of a configuration file may be given by name too.

    `election` and `membership` are names (`"hybrid"`) or values (`doyen.Hybrid(missing_max=3)`); `key` is the group's
    key file, `state` a directory for what must survive restarts, `config` a TOML file that all of this wins over.
    """
    given: dict[str, Any] = {"group": group, "eligible": eligible, "newcomer": newcomer, "preset": preset, **fields}
    for field, value in {
        "name": name,
        "bind": bind,
        "advertise": advertise,
        "multicast": multicast,
        "interface": interface,
        "key_file": None if key is None else str(key),
        "state": None if state is None else str(state),
    }.items():
        if value is not None:
            given[field] = value
    given["seeds"], given["voters"] = tuple(seeds), tuple(voters)
    if meta is not None:
        check_words(meta)
        given["meta"] = tuple(f"{word}={value}" for word, value in meta.items())
    if score is not None and "rank" not in given:
        given["rank"] = "score"
    if isinstance(elections, Mapping):
        named = {name: _chosen(choice, given) for name, choice in elections.items()}
        given["elections"] = tuple(f"{name}={kind}" for name, kind in named.items())
    else:
        given["elections"] = tuple(elections)
    given["election"], given["membership"] = _chosen(election, given), _chosen(membership, given)
    return Node(
        configure(
            by_path(given),
            file=None if config is None else Path(config),
            environment={},
            called=lambda option: option.name,
        ),
        score=as_function(score),
        score_every=parse_duration(score_every),
        leave_on_sigterm=leave_on_sigterm,
        control=control,
    )


def _chosen(choice: str | Choice, given: dict[str, Any]) -> str:
    """The protocol's name; what the choice says about it goes to its table."""
    if isinstance(choice, str):
        return choice
    if not isinstance(choice, Choice):
        raise ConfigError(f"{choice!r} is neither a name nor a choice like doyen.Hybrid()")
    table = given.setdefault(choice.table, {})
    table.update(choice.fields)
    return choice.kind


class Node:
    """This process in a group.  Everything here is for one event loop; `doyen.sync` is for threads."""

    def __init__(
        self,
        config: NodeConfig,
        *,
        score: Callable[[], Any] | None = None,
        score_every: Duration = 5_000_000_000,
        leave_on_sigterm: bool = True,
        tell: Callable[[Told], None] | None = None,
        control: bool = True,
    ) -> None:
        self.config, self._tell, self._with_control = config, tell, control
        self.ended = asyncio.Event()  # Once it has left, or failed.
        self._score, self._score_every_s = score, to_seconds(score_every)
        self._leave_on_sigterm = leave_on_sigterm
        self._campaigns: dict[str, Campaign] = {}
        self._subscriptions: set[Subscription] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timers: set[asyncio.TimerHandle] = set()
        self._since: dict[str, tuple[Status, Instant]] = {}
        self._told_score: float | None = None
        self._signalled = self._left = False
        self._leaving: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self.round_trip_s: float | None = None  # Of the membership's pings, on average.
        self.agent: Agent

    # Life.

    async def __aenter__(self) -> "Node":
        self.agent = Agent(self.config, self._tell, on_failure=self._on_failure)
        self.agent.observers.append(self._on_fact)
        self.agent.answers_scores = self._score is None
        await self.agent.start()
        if self._with_control:
            await Control.attach(self)
        for name, reign in self.agent.stack.reigns.items():
            self._campaigns[name] = Campaign(self, reign)
        self._catch_sigterm()
        if self._score is not None:
            await self._tell_score()
            self._spawn(self._keep_scoring())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.leave()

    async def leave(self) -> None:
        """In order: whoever acts as leader is stopped, the others are told, and then there is silence.

        A task of its own does it, for whoever asks may be a body that is stopped by it.
        """
        if self._leaving is None:
            self._left = True
            self._leaving = asyncio.get_running_loop().create_task(self._leave())
        await asyncio.shield(self._leaving)

    async def _leave(self) -> None:
        self.ended.set()
        for campaign in self._campaigns.values():
            campaign.stir("left")
        await self.agent.leave()
        self._put(Event(kind="stopped", at=time.time()))
        for campaign in self._campaigns.values():
            campaign.stir("left")
        for subscription in self._subscriptions:
            subscription.close()
        for timer in self._timers:
            timer.cancel()
        if self._signalled:
            asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)
            self._signalled = False
        others = [*self._tasks]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    @property
    def running(self) -> bool:
        return not self._left and hasattr(self, "agent") and self.agent.driver.running

    @property
    def failure(self) -> BaseException | None:
        """What stopped this node, if something did: a bug, or its disk."""
        return self.agent.driver.failure

    # Who is here.

    @property
    def name(self) -> str:
        return self.agent.name

    @property
    def group(self) -> str:
        return self.config.group

    @property
    def address(self) -> str:
        """Where this process listens."""
        return str(self.agent.driver.transport.address)

    def members(self) -> list[MemberInfo]:
        """As this node believes, itself included; those that failed or left are shown for a while."""
        stack, now = self.agent.stack, self.clock()
        leaders = {reign.leader for name, reign in stack.reigns.items() if name == ""}
        shown = []
        for member in stack.members():
            note, due = stack.note(member.node), stack.refute_by(member.node)
            since, trip = self._since.get(member.node), stack.round_trip(member.node)
            shown.append(
                MemberInfo(
                    name=member.node,
                    address=None if member.address is None else str(member.address),
                    state=member.status.value,
                    since_s=0.0 if since is None else (now - since[1]) / 1e9,
                    score=None if note is None else note.score,
                    eligible=note is None or note.eligible,
                    health=2.0 ** -min(member.suspicion_count, 60),
                    incarnation=member.incarnation,
                    software="" if note is None else note.software,
                    meta={} if note is None else note.words,
                    suspected_by=stack.accusers(member.node),
                    refute_within_s=None if due is None else max(0.0, (due - now) / 1e9),
                    rtt_s=None if trip is None or not member.present else to_seconds(trip),
                    me=member.node == self.name,
                    leads=member.node in leaders,
                )
            )
        return shown

    async def tell(self, meta: Mapping[str, str]) -> None:
        """What the others should know of this process from now on: at most 512 bytes, gossiped to all."""
        check_words(meta)
        if NOTES not in self.agent.stack.machines:
            raise LocalProtocolError("no membership carries it: join with membership='swim'")
        self.agent.driver.command(NOTES, "say", words=dict(meta))

    def events(self) -> AsyncIterator[Event]:
        """From now on; a reader that is too slow loses the oldest, and is told how many."""
        subscription = Subscription()
        self._subscriptions.add(subscription)
        return self._read(subscription)

    async def _read(self, subscription: Subscription) -> AsyncIterator[Event]:
        try:
            async for event in subscription.read():
                yield event
        finally:
            self._subscriptions.discard(subscription)

    # Who leads: the group's own election.

    def election(self, name: str, election: str | Election | None = None) -> Campaign:
        """A named election of this group; begun here if it is not yet, of the group's own kind unless said."""
        if name not in self._campaigns:
            kind = election if isinstance(election, str) else None if election is None else election.kind
            own = "hybrid" if self.config.election == "none" else self.config.election
            reign = self.agent.stack.add_election(name, kind or own)
            self._campaigns[name] = Campaign(self, reign)
        return self._campaigns[name]

    @property
    def _own(self) -> Campaign:
        if "" not in self._campaigns:
            raise LocalProtocolError("this node joined without an election of its own: name one, node.election(NAME)")
        return self._campaigns[""]

    @property
    def is_leader(self) -> bool:
        return "" in self._campaigns and self._own.is_leader

    def leader(self) -> str | None:
        return self._own.leader()

    @property
    def term(self) -> TermId | None:
        return self._own.term

    def lead(self, timeout: str | float | None = None) -> Leading:
        return self._own.lead(timeout)

    def terms(self) -> AsyncIterator[Term]:
        return self._own.terms()

    async def resign(self, cooldown: str | float = "30s", to: str | None = None) -> None:
        await self._own.resign(cooldown, to)

    # For campaigns.

    def clock(self) -> Instant:
        return self.agent.driver.clock()

    def later(self, wait_s: float, what: Callable[[], None]) -> None:
        self._timers.add(asyncio.get_running_loop().call_later(wait_s, what))

    # What happens.

    def _on_fact(self, channel: str, fact: Any, now: Instant) -> None:
        campaign = self._campaign_on(channel)
        match fact:
            case LeaderElected(term):
                if campaign is not None:
                    campaign.stir()
                self._tell_of_election("elected", channel, term, str(self.agent.chronicle(channel).why))
            case LeaderLost(term, reason):
                if campaign is not None:
                    campaign.stir(reason)
                self._tell_of_election("lost", channel, term, reason)
            case ScoreWanted(number) if self._score is not None:
                self._spawn(self._answer_score(channel, number))
            case ViewChanged(view, changed):
                for node in changed:
                    self._on_member(view.members.get(node), node, now)
            case RoundTripEstimated(mean, _):
                self.round_trip_s = to_seconds(mean)
            case NotesChanged(changed):
                for node in changed:
                    self._put(Event(kind="changed", at=time.time(), member=node))

    def explain(self, election: str = "") -> Explanation:
        """Why this one leads, in words."""
        if election not in self.agent.stack.reigns:
            raise LocalProtocolError(f"this node takes part in no election {election!r}")
        return explain(self, self.agent.chronicle(self.agent.stack.reigns[election].channel))

    def _campaign_on(self, channel: str) -> Campaign | None:
        name = channel.removeprefix("election").removeprefix("/")
        return self._campaigns.get(name) if channel.startswith("election") else None

    def _tell_of_election(self, kind: str, channel: str, term: TermId, reason: str) -> None:
        name = channel.removeprefix("election").removeprefix("/")
        self._put(Event(kind=kind, at=time.time(), election=name, leader=term.leader, term=term.number, reason=reason))

    def _on_member(self, member: Any, node: str, now: Instant) -> None:
        before = self._since.get(node)
        if member is None:
            self._since.pop(node, None)
        elif before is None or before[0] is not member.status:
            self._since[node] = (member.status, now)
            back = before is None or before[0] in (Status.FAILED, Status.LEFT)
            kind = {Status.ALIVE: "joined" if back else "alive"}.get(member.status, member.status.value)
            by = self.agent.stack.accusers(member.node)
            reason = f"by {', '.join(by)}" if by and member.status is Status.SUSPECTED else ""
            self._put(Event(kind=kind, at=time.time(), member=node, reason=reason))

    def _put(self, event: Event) -> None:
        for subscription in self._subscriptions:
            subscription.put(event)

    def _on_failure(self, error: BaseException) -> None:
        """First of all: whoever acts as leader on this node's word must stop."""
        self.ended.set()
        for campaign in self._campaigns.values():
            for term in tuple(campaign._active):
                term.end(f"this node failed: {error}")

    # Its score.

    async def _keep_scoring(self) -> None:
        while True:
            await asyncio.sleep(self._score_every_s)
            await self._tell_score()

    async def _tell_score(self) -> None:
        assert self._score is not None
        value = await self._measure()
        told = self._told_score
        if value is None or (told is not None and abs(value - told) <= SCORE_STEP * abs(told)):
            return
        self._told_score = value
        driver = self.agent.driver
        if not driver.running:
            return
        for reign in self.agent.stack.reigns.values():
            driver.tell(ScoreGiven(0, shortest(value)), channel=reign.channel)
        if NOTES in self.agent.stack.machines:
            driver.command(NOTES, "say", score=value)

    async def _answer_score(self, channel: str, number: int) -> None:
        value = await self._measure()
        if value is not None and self.running:
            self.agent.driver.tell(ScoreGiven(number, value), channel=channel)

    async def _measure(self) -> float | None:
        """None where the application's function fails: an election must not stop for it."""
        try:
            value = await measured(self._score)  # type: ignore[arg-type]
        except Exception:
            log.exception("%s: the score function failed; the last score stands", self.config.group)
            return None
        return value if abs(value) < 2.0**62 else None

    # Small things.

    def _spawn(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _catch_sigterm(self) -> None:
        """Leaves in order, then ends as it would have; not where the application has its own way with the signal."""
        if not self._leave_on_sigterm:
            return
        try:
            if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
                return
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._on_sigterm)
        except (ValueError, NotImplementedError, RuntimeError):  # Not the main thread: somebody else's business.
            return
        self._signalled = True

    def _on_sigterm(self) -> None:
        async def leave_and_end() -> None:
            await self.leave()
            os.kill(os.getpid(), signal.SIGTERM)  # Its default action, which ends the process.

        self._ending = asyncio.get_running_loop().create_task(leave_and_end())  # Not one of those that leaving ends.
