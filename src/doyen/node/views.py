"""Asks other members what they see, and answers them, for the page of a node.  Loaded when somebody asks.

    bee ──Ask 7, from member 0──▶ ant      a page of bee's is open
        ◀─Told 7: names cat, term 3, sees 64 members, here are 0 to 39──
    bee ──Ask 7, from member 40─▶ ant

An answer is one datagram: a long view is asked for in parts, so that nobody is sent more than he asks for.  Questions
and answers are bounded, and a member that never answers (version 0.1) is asked rarely.
Nothing is sent from here (decision 170).
"""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from doyen.core.clock import FOREVER, Duration, Instant, ms, seconds
from doyen.core.codec import payload_max, pieces
from doyen.core.ids import NAME_MAX, Name, NodeId
from doyen.errors import RemoteProtocolError
from doyen.node.shown import members
from doyen.node.stack import Stack

if TYPE_CHECKING:
    from doyen.node.agent import Agent

CHANNEL: Final = "views"
ASK_EVERY: Final[Duration] = ms(500)  # The least time between two questions to one member.
ASK_SILENT_EVERY: Final[Duration] = seconds(5)  # The same, of a member that has left three questions unanswered.
ANEW_AFTER: Final[Duration] = seconds(2)  # Nobody looked for this long: what is known here is of then, not of now.
ANSWERED_WITHIN: Final[Duration] = seconds(1)  # Until then a question that was asked anew is not called unanswered.
LEADER_TRIES: Final = 2
LEADER_TRY_S: Final = 0.25  # How long the leader has to say whether it acts.
ANSWERS_MAX: Final = 200  # Answers in one second, to whomever.
ROWS_MAX: Final = 256
SEEN_MAX: Final = 1024  # Members in one row.
BY_MAX: Final = 3  # Accusers that are named.
HEAD_BYTES: Final = 120  # What an answer has besides its members.

Text: Any = Annotated[str, Meta(max_length=NAME_MAX)]
Count: Any = Annotated[int, Meta(ge=0, le=2**40)]


class Ask(Struct, frozen=True, array_like=True, tag="?"):
    """Asks for the receiver's view, from its member of that number on."""

    number: Count
    election: Text = ""
    first: Annotated[int, Meta(ge=0, le=SEEN_MAX)] = 0


class Seen(Struct, frozen=True, array_like=True):
    """One member, as another sees it."""

    name: Name
    state: Text
    since_ms: Count
    rtt_us: Count | None = None
    suspicions: Count = 0
    by: Annotated[tuple[Text, ...], Meta(max_length=BY_MAX)] = ()


class Told(Struct, frozen=True, array_like=True, tag="!"):
    """The answer: the leader that the sender names, and a part of its members."""

    number: Count
    election: Text
    leader: Text | None
    term: Count | None
    acts: bool | None  # None: another leads, and only that one knows.
    lease_ms: Count | None  # What is left of the sender's own lease.
    total: Count
    first: Count
    seen: Annotated[tuple[Seen, ...], Meta(max_length=SEEN_MAX)]


class Row(Struct, kw_only=True):
    """The view of one member."""

    asked_at: Instant = -FOREVER
    unanswered: int = 0
    number: int = 0  # Of the last question.
    heard_at: Instant | None = None
    leader: str | None = None
    term: int | None = None
    acts: bool | None = None
    lease_left_s: float | None = None  # When it answered.
    total: int = 0
    next_first: int = 0  # Where the next part begins.
    seen: dict[str, Seen] = {}

    def awaited(self, now: Instant) -> bool:
        """Return whether it was asked anew just now, after nobody had asked for a while: what is here is old."""
        anew = self.heard_at is None or self.asked_at - self.heard_at > ANEW_AFTER
        return anew and self.unanswered == 1 and now - self.asked_at < ANSWERED_WITHIN


_decode = msgspec.msgpack.Decoder(Ask | Told).decode


class Views:
    """The views of other members, as far as they have come here; and the answers to their questions."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        site = stack.site
        self._room = payload_max(stack.config.group, site.node, CHANNEL) - HEAD_BYTES
        self.rows: dict[str, dict[NodeId, Row]] = {}  # By election, and by member.
        self._second, self._answer_count = 0, 0

    def questions(self, election: str, names: list[NodeId], now: Instant) -> list[tuple[NodeId, Ask]]:
        """Return whom to ask now, and what."""
        rows = self.rows.setdefault(election, {})
        for gone in rows.keys() - set(names):  # Names come and go: those that are here must have a place.
            del rows[gone]
        found = []
        for name in names:
            row = rows.get(name)
            if row is None:
                if len(rows) >= ROWS_MAX:
                    continue
                row = rows[name] = Row(seen={})
            pause = ASK_SILENT_EVERY if row.unanswered >= 3 else ASK_EVERY
            if now - row.asked_at >= pause:
                row.asked_at, row.unanswered, row.number = now, row.unanswered + 1, row.number + 1
                found.append((name, Ask(row.number, election)))
        return found

    def question(self, election: str, name: NodeId, now: Instant) -> Ask:
        """Return a question to one member, however lately it was asked."""
        row = self.rows.setdefault(election, {}).setdefault(name, Row(seen={}))
        row.asked_at, row.unanswered, row.number = now, row.unanswered + 1, row.number + 1
        return Ask(row.number, election)

    def on_message(self, sender: NodeId, data: bytes, now: Instant) -> list[Any]:
        """Return what the sender is to be told, or asked, next."""
        try:
            message = _decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise RemoteProtocolError("message", f"on {CHANNEL!r}: {error}") from None
        if isinstance(message, Ask):
            return self._told(message, now)
        return self._on_told(sender, message, now)

    def _told(self, ask: Ask, now: Instant) -> list[Told]:
        if now // seconds(1) != self._second:
            self._second, self._answer_count = now // seconds(1), 0
        self._answer_count += 1
        reign = self._stack.reigns.get(ask.election)
        if self._answer_count > ANSWERS_MAX or (reign is None and ask.election):
            return []
        shown = members(self._stack, now)[:SEEN_MAX]
        seen = [
            Seen(
                NodeId(info.name),
                info.state,
                max(0, int(info.since_s * 1000)),
                None if info.rtt_s is None else int(info.rtt_s * 1e6),
                self._suspicions(info.health),
                info.suspected_by[:BY_MAX],
            )
            for info in shown
        ]
        part = next(pieces(seen[ask.first :], self._room), ())
        lease = None if reign is None or reign.mine is None else reign.lease_until()
        return [
            Told(
                ask.number,
                ask.election,
                None if reign is None else reign.leader,
                None if reign is None or reign.term is None else reign.term.number,
                None if reign is None else reign.acts(now),
                None if lease is None else max(0, (lease - now) // ms(1)),
                len(seen),
                ask.first,
                part,
            )
        ]

    @staticmethod
    def _suspicions(health: float) -> int:
        return 0 if health >= 1 else round(1 / health).bit_length() - 1

    def _on_told(self, sender: NodeId, told: Told, now: Instant) -> list[Ask]:
        row = self.rows.get(told.election, {}).get(sender)
        if row is None or row.number != told.number:  # Nobody asked, or it is late.
            return []
        if told.first not in (0, row.next_first):  # No part that was asked for.
            return []
        if told.first == 0:
            row.seen = {}
        row.unanswered, row.heard_at, row.total = 0, now, min(told.total, SEEN_MAX)
        row.leader, row.term, row.acts = told.leader, told.term, told.acts
        row.lease_left_s = None if told.lease_ms is None else told.lease_ms / 1000
        row.seen |= {seen.name: seen for seen in told.seen}
        row.next_first = told.first + len(told.seen)
        more = told.seen and len(row.seen) < row.total and row.next_first < row.total
        if not more:
            row.next_first = 0
        return [Ask(told.number, told.election, row.next_first)] if more else []


async def leader_acts(agent: "Agent", election: str) -> bool | None:
    """Return whether the leader acts, by its own word, for which it is asked; None: it did not answer.

    A leader of an earlier version that does not know the question does not answer either.
    """
    reign, driver = agent.stack.reigns[election], agent.driver
    leader = reign.leader
    if leader is None or leader == agent.name:
        return reign.acts(driver.clock())
    if driver.addresses.reach(leader) is None:
        return None  # The members of this election need not know where each other is.
    for _ in range(LEADER_TRIES):
        asked_at = driver.clock()
        driver.ask(CHANNEL, leader, agent.views.question(election, leader, asked_at))
        for _ in range(25):
            await asyncio.sleep(LEADER_TRY_S / 25)
            row = agent.views.rows.get(election, {}).get(leader)
            if row is not None and row.heard_at is not None and row.heard_at >= asked_at:
                return row.acts if row.leader == leader else None
    return None
