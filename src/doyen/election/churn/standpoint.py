"""Holds what one node knows: its view, how it ranks members, and the elections that it has heard of."""

from collections.abc import Callable
from functools import lru_cache, partial
from math import ceil
from typing import Final, TypeAlias

from doyen.core.clock import Duration, Instant
from doyen.core.hashes import sha3_256
from doyen.core.ids import Incarnation, NodeId
from doyen.core.view import Member, MembershipView, Status
from doyen.election.churn.config import CTolerantConfig
from doyen.election.churn.messages import LISTED_MAX, ElectionId, HandedOver
from doyen.errors import LocalProtocolError
from doyen.membership.reliable import Presence

Rank: TypeAlias = Callable[[NodeId], int | float]  # Lower is better; ties go by another rank, or to the lower name.
Health: TypeAlias = Callable[[Member], int]  # How unhealthy a member is: 0 is well.

NAMES_MAX: Final = 1000  # Bytes of names in one response: it must fit a datagram.
AUTO_SHARE: Final = 0.1  # [CTOL §III-A] At or under 5 % of loss, c never exceeds 10 % of N.

PASSES_MAX: Final = 8  # A member that is chosen more often than this, though it declines, is needed.
WISHES_MAX: Final = 32  # The most members known to decline, and the fewest that are asked in order to spread that.
SURE: Final = 0.5  # Confidence from which the estimate of c stands alone.


@lru_cache(maxsize=65536)
def hash_rank(node: NodeId, salt: bytes = b"") -> int:
    """Return the SHA3-256 of the salt and the name: the same on every machine and in every version."""
    return int.from_bytes(sha3_256(salt + node.encode()).digest(), "big")


def salted(group: str, election: str) -> Rank:
    """Return the hash of that group's election of that name.

    Deviation [CTOL]: the paper hashes the name alone, so that one member would lead all elections of all groups.
    """
    return partial(hash_rank, salt=f"{group}\0{election}\0".encode())


def suspicions(member: Member) -> int:
    """[CTOL §IV-C] Return how often a member was suspected, as its membership protocol counts."""
    return member.suspicion_count


class Standpoint:
    """The knowledge of one node, shared by its parts as initiator and as member."""

    def __init__(
        self,
        me: NodeId,
        incarnation: Incarnation,
        config: CTolerantConfig,
        rank: Rank,
        tie: Rank | None,
        health: Health,
        number: int,
    ) -> None:
        self.me, self.incarnation, self.config = me, incarnation, config
        self.rank, self.tie, self.health = rank, tie, health
        self.number = number  # The greatest term heard of.
        self.best: ElectionId | None = None  # The greatest election heard of.
        self.handed_over: HandedOver | None = None  # The last time that a leader said why it hands over.
        self.view: MembershipView | None = None
        self.estimated: int | None = None  # c as the estimator sees it,
        self.confidence = 0.0  # and how sure it is.
        self.timeout: Duration = config.response_timeout  # TIMEOUT: as configured, or as measured.
        self.eligible, self.resigned = True, False
        self.pass_count = 0  # Times that this node was chosen and declined, one soon after the other,
        self.declined_until: Instant = 0  # and until when the next is soon.
        self.unwilling: dict[
            NodeId, Instant
        ] = {}  # Others that do not wish to lead, and until when that is remembered.

    def check_heir(self, to: NodeId | None) -> None:
        """Raise what the resignation of a leader would raise."""
        others = self.others()
        if to is not None and to not in others:
            raise LocalProtocolError(f"cannot hand over to {to}: it is no other member that is present here")
        if not others:
            raise LocalProtocolError("nobody else is here to lead: wait for another member, or leave")

    @property
    def declined(self) -> bool:
        """Return whether this node does not wish to lead, as long as another can."""
        return self.resigned or not self.eligible

    def passes_on(self, now: Instant) -> bool:
        """Return whether this node declines to lead though chosen: while others may wish to, and `PASSES_MAX` times."""
        if not self.declined or all(node in self.unwilling for node in self.others()):
            return False
        self.pass_count = self.pass_count + 1 if now < self.declined_until else 1
        self.declined_until = now + self.config.final_timeout
        return self.pass_count <= PASSES_MAX

    def wishes(self) -> tuple[NodeId, ...]:
        """Return who does not wish to lead: this node, and those that said so."""
        mine = (self.me,) if self.declined and self.others() else ()
        return (*mine, *self.unwilling)

    def hear_wishes(self, asker: NodeId, unwilling: tuple[NodeId, ...], now: Instant) -> None:
        """Remember whether an initiator wishes to lead, while one election leads to the next.

        Else two that decline would choose each other forever.  What it says of others is not remembered: passed on
        from one to the next, it would never be forgotten.
        """
        kept = {node: until for node, until in self.unwilling.items() if until > now and node != asker}
        if asker in unwilling and asker != self.me:
            kept[asker] = now + self.config.final_timeout
        self.unwilling = dict(list(kept.items())[1 - WISHES_MAX :])

    def is_present(self, member: Member) -> bool:
        """Return whether a member is present; a suspected one is, else c would be exceeded most of the time."""
        return member.present

    def is_dead(self, node: NodeId) -> bool:
        """Return whether a node is known, and known to be gone; a node never heard of is not dead."""
        return self.view is not None and node in self.view and node != self.me and not self.view[node].present

    def lists(self, node: NodeId) -> bool:
        """Return whether the view holds a node present, so that its end would be noticed; of itself a node is sure."""
        return node == self.me or self.view is None or (node in self.view and self.view[node].present)

    def others(self) -> list[NodeId]:
        if self.view is None:
            return []
        me = self.me
        return [m.node for m in self.view.members.values() if m.node != me and self.is_present(m)]

    def presence(self, node: NodeId) -> Presence:
        if self.view is None or node not in self.view:
            return "absent"
        member = self.view[node]
        return "present" if member.present else "left" if member.status is Status.LEFT else "absent"

    def audience(self) -> list[NodeId]:
        """Return all members that have not left; one that seems to have failed may be here all the same."""
        if self.view is None:
            return []
        return [m.node for m in self.view.members.values() if m.node != self.me and m.status is not Status.LEFT]

    def known(self) -> list[NodeId]:
        """Return the members that are present, this node first."""
        return [self.me, *self.others()]

    def missing_max(self) -> int:
        """Return c: as configured, or as estimated."""
        given = self.config.missing_max
        if given != "auto":
            return given
        known = len(self.known())
        wanted = self.estimated or 0
        if self.confidence < SURE:
            wanted = max(wanted, ceil(AUTO_SHARE * known))
        return max(0, min(wanted, known - 1 - self.config.failure_max))

    def asked_count(self) -> int:
        """Return c+f+1, the number of members that an initiator asks."""
        return self.missing_max() + self.config.failure_max + 1

    def order(self, node: NodeId, rank: int | float | None = None) -> tuple[int | float, int | float, NodeId]:
        """Return what members are sorted by: the rank as this node knows it, or as it was told."""
        return self.rank(node) if rank is None else rank, 0 if self.tie is None else self.tie(node), node

    def fit(self) -> list[NodeId]:
        """Return the other members that could lead at once: not suspected, healthy, and willing."""
        found = () if self.view is None else self.view.members.values()
        return [
            member.node
            for member in found
            if member.status is Status.ALIVE
            and member.node != self.me
            and member.node not in self.unwilling
            and not (self.config.preferred and self.health(member))
        ]

    def answer(
        self, candidate_count: int, unhealthy_count: int, without: tuple[NodeId, ...] = ()
    ) -> tuple[tuple[NodeId, ...], tuple[tuple[NodeId, int], ...]]:
        """[CTOL Alg. 3, lines 29–30] Return x candidates and y excluded members: exclude first, then take x."""
        excluded: tuple[tuple[NodeId, int], ...] = ()
        if unhealthy_count and self.view is not None:
            counts = [(m.node, self.health(m)) for m in self.view.members.values() if self.is_present(m)]
            sick = [(node, count) for node, count in counts if count >= 1 and node != self.me]
            sick.sort(key=lambda item: (-item[1], self.order(item[0])))
            excluded = tuple(sick[: min(unhealthy_count, LISTED_MAX)])
        unhealthy = {node for node, _ in excluded}
        unwilling = {*without, *self.wishes()}
        willing = [node for node in self.known() if node not in unwilling] or self.known()  # Somebody must.
        names = sorted((node for node in willing if node not in unhealthy), key=self.order)
        candidates = names[: min(candidate_count, LISTED_MAX)]
        return _fitting(candidates, excluded)


def _fitting(
    candidates: list[NodeId], excluded: tuple[tuple[NodeId, int], ...]
) -> tuple[tuple[NodeId, ...], tuple[tuple[NodeId, int], ...]]:
    """Return what fits a datagram: the unhealthy first, then the best candidates, at least one of them."""
    room, kept_out, kept = NAMES_MAX, 0, 0
    for node, _ in excluded:
        room -= len(node.encode()) + 6
        kept_out += room >= 100
    for node in candidates:
        room -= len(node.encode()) + 12
        kept += room >= 0 or not kept
    return tuple(candidates[:kept]), excluded[:kept_out]
