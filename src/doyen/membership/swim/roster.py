"""Keeps everybody that a node knows: the view that it shows, sums over it, and tombstones of members it forgot.

No step costs more with the size of the group than a walk down a tree, apart from moving pointers in a list.
"""

from collections import OrderedDict
from collections.abc import Iterable
from heapq import heappop, heappush
from random import Random
from typing import NamedTuple

from doyen.core.clock import FOREVER, Instant
from doyen.core.ids import Incarnation, NodeId
from doyen.core.view import Member, MembershipView, Status, ViewEditor
from doyen.membership.fading import Fading
from doyen.membership.swim.config import SwimConfig
from doyen.membership.swim.digests import Digests
from doyen.membership.swim.messages import NOBODY, STATUS, WORD, Update, Word, update_of

_ALIVE, _SUSPECTED = Status.ALIVE, Status.SUSPECTED


class Acquaintances:
    """The members that are known from the start: built once, and shared by all nodes of a simulation."""

    __slots__ = ("digests", "members")

    def __init__(self, members: Iterable[Member]) -> None:
        self.members = {member.node: member for member in members}
        self.digests = Digests()
        for member in self.members.values():
            self.digests.add(member.node, member.incarnation)


class Tombstone(NamedTuple):
    """The state in which a forgotten member was last known, and until when it cannot return as it was."""

    incarnation: int
    word: int
    until: Instant


class Roster:
    """The members that one node knows."""

    __slots__ = (
        "_config",
        "_editor",
        "_reap_heap",
        "digests",
        "fading",
        "failed",
        "me",
        "members",
        "tombstones",
        "view",
    )

    def __init__(self, me: Member, config: SwimConfig, known: Acquaintances | None = None) -> None:
        self._config, self._editor = config, ViewEditor()
        self.view: MembershipView = self._editor.view
        self.members = self._editor.members  # Those of the view; they are written by the editor alone.
        self.me = me.node
        self.failed: list[NodeId] = []  # In the order in which they failed; members that left are not among them.
        self.tombstones: OrderedDict[NodeId, Tombstone] = OrderedDict()
        self.fading = Fading(self._editor, config.unhealthy_half_life)
        self._reap_heap: list[tuple[Instant, NodeId, int]] = []
        if known is None:
            self.digests = Digests()
        else:
            self.digests = known.digests.copy()
            self._editor.put_new(known.members)
        own = known.members.get(me.node) if known is not None else None
        if own is None:
            self.digests.add(me.node, me.incarnation)
        elif own.incarnation != me.incarnation:
            self.digests.change(me.node, own.incarnation, me.incarnation)
        self._editor.put(me)

    # Queries.

    @property
    def present_count(self) -> int:
        return len(self.digests.ordered)

    @property
    def absent_count(self) -> int:
        return len(self.view) - self.present_count

    def record(self, node: NodeId) -> tuple[int, int] | None:
        """Return (incarnation, word) of a member as it is believed or remembered."""
        member = self.members.get(node)
        if member is not None:
            return member.incarnation, WORD[member.status]
        stone = self.tombstones.get(node)
        return None if stone is None else (stone.incarnation, stone.word)

    def update(self, node: NodeId, by: NodeId = NOBODY) -> Update | None:
        """Return what this node says of a member."""
        member = self.members.get(node)
        if member is not None:
            return update_of(member, by)
        stone = self.tombstones.get(node)
        return None if stone is None else Update(node, Incarnation(stone.incarnation), stone.word)

    def random_present(self, rng: Random, count: int, leave_out: frozenset[NodeId]) -> list[NodeId]:
        """Return `count` distinct other members that are alive, or as many as a bounded number of draws finds."""
        ordered, found = self.digests.ordered, []
        others = len(ordered) - 1
        if others <= 3 * count:
            everybody = [n for _, n in ordered if self._fit(n, leave_out)]
            rng.shuffle(everybody)
            return everybody[:count]
        for _ in range(4 * count + 8):
            node = ordered[int(rng.random() * len(ordered))][1]
            if node not in found and self._fit(node, leave_out):
                found.append(node)
                if len(found) == count:
                    break
        return found

    def _fit(self, node: NodeId, leave_out: frozenset[NodeId]) -> bool:
        return node != self.me and node not in leave_out and self.members[node].status is Status.ALIVE

    # Changes.

    def put(self, update: Update, now: Instant) -> Member:
        """Write the state of a member to the view; no other method does."""
        node, incarnation, status = update.node, update.incarnation, STATUS[update.word]
        before = self.members.get(node)
        present = status is _ALIVE or status is _SUSPECTED
        if before is None:
            address, count, was = update.address, 0, None
            self.tombstones.pop(node, None)
        else:
            address, count, was = before.address, before.suspicion_count, before.status
            if update.host and (address is None or update.host != address.host or update.port != address.port):
                address = update.address
        if status is _SUSPECTED and was is not _SUSPECTED:
            count += 1
            self.fading.nodes.add(node)
        member = Member(node=node, incarnation=incarnation, status=status, address=address, suspicion_count=count)
        if before is None or not present or not (was is _ALIVE or was is _SUSPECTED):
            self._count(before, member, present)
        elif incarnation != before.incarnation:
            self.digests.change(node, before.incarnation, incarnation)
        self._editor.put(member)
        if not present:
            kept = self._config.failed_kept if status is Status.FAILED else self._config.left_kept
            heappush(self._reap_heap, (now + kept, node, incarnation))
        return member

    def _count(self, before: Member | None, after: Member, present: bool) -> None:
        """Note who is gone, and who has come."""
        node, status = after.node, None if before is None else before.status
        if (status is Status.FAILED) != (after.status is Status.FAILED):
            (self.failed.remove if status is Status.FAILED else self.failed.append)(node)
        if before is not None and (status is Status.ALIVE or status is Status.SUSPECTED):
            self.digests.remove(node, before.incarnation)
        elif present:
            self.digests.add(node, after.incarnation)

    def reap(self, now: Instant) -> list[NodeId]:
        """Forget members that were absent for long, and the oldest beyond `absent_max`; tombstones stay behind."""
        forgotten = []
        while self._reap_heap and (self._reap_heap[0][0] <= now or self.absent_count > self._config.absent_max):
            _, node, incarnation = heappop(self._reap_heap)
            member = self.view.members.get(node)
            if member is None or member.present or member.incarnation != incarnation:
                continue  # It has returned, or has died again.
            if member.status is Status.FAILED:
                self.failed.remove(node)
            self._editor.drop(node)
            self.fading.nodes.discard(node)
            self.tombstones[node] = Tombstone(incarnation, WORD[member.status], now + self._config.tombstone_kept)
            forgotten.append(node)
        stones = self.tombstones
        while stones and (len(stones) > self._config.absent_max or next(iter(stones.values())).until <= now):
            stones.popitem(last=False)
        return forgotten

    def reap_at(self) -> Instant:
        """Return when the next member or tombstone is to be forgotten; FOREVER: there is none."""
        times = [self._reap_heap[0][0]] if self._reap_heap else []
        if self.tombstones:
            times.append(next(iter(self.tombstones.values())).until)
        return min(times, default=FOREVER)


def is_dead(word: int) -> bool:
    return word in (Word.FAILED, Word.LEFT)
