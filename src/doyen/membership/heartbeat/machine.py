"""Gossiped heartbeats: each member counts its own, sends others what it heard, and misses counts that stand still.
[RENESSE: van Renesse, Minsky, Hayden, "A Gossip-Style Failure Detection Service", Middleware 1998]

Each period a member raises its own counter and sends a random other one some of the counters it knows.  A counter that
has not grown for `fail_after` means failed; a failed member is remembered as long again at the least (`failed_kept`),
so that stale gossip cannot bring it back.  There is no probe and no refutation: a member that is heard of again had
not failed, and such false positives count as its unhealthiness.

Deviation [RENESSE §3]: the paper sends the whole list.  Here a message takes as many counters as a datagram holds, the
  freshest first and the others in turn, so that messages do not grow with the group; `fail_after` does, slowly.
Deviation: a counter is ordered below the member's incarnation, so that a member that restarts counts on.
Deviation: a member that is overdue by half is shown as suspected; it is still present.
Deviation [RENESSE §3]: the paper broadcasts now and then to find lost parts.  Here seeds, and members held for failed,
  are sent a message now and then instead.
"""

from collections import OrderedDict
from collections.abc import Container, Sequence
from heapq import heappop, heappush
from itertools import islice
from math import ceil, log2
from random import Random
from typing import Any, ClassVar, Final

from msgspec.msgpack import Encoder

from doyen.core.clock import Duration, Instant
from doyen.core.commands import LeaveGroup
from doyen.core.effects import Out
from doyen.core.ids import Address, Incarnation, NodeId
from doyen.core.kinds import Membership
from doyen.core.machine import Hears, hears
from doyen.core.seeds import OwnAddressChanged, SeedsChanged
from doyen.core.view import Member, MembershipView, MemberWanted, Status, ViewChanged, ViewEditor
from doyen.membership.fading import CountsAreHalved, Fading
from doyen.membership.heartbeat.config import HeartbeatConfig
from doyen.membership.heartbeat.messages import Beat, Beats, PeriodBegins
from doyen.membership.swim.dissemination import LENGTH_BYTES, PAYLOAD_MAX
from doyen.membership.swim.messages import INCARNATION_MAX, host_and_port
from doyen.membership.swim.roster import Acquaintances

_encode = Encoder().encode
LEAVE_COUNT: Final = 4  # Members that are notified of a leave.
PRESENT_MAX: Final = 20_000  # A member beyond this number is not believed to exist.
TOMBSTONES_MAX: Final = 10_000


class _Known:
    """The last beat of one member, when its counter grew, and the bytes that the beat takes."""

    __slots__ = ("beat", "heard_at", "size")

    def __init__(self, beat: Beat, heard_at: Instant) -> None:
        self.beat, self.heard_at, self.size = beat, heard_at, len(_encode(beat))


class Turns:
    """Gives each name a turn, in an order that is shuffled anew each round."""

    __slots__ = ("_rng", "_round")

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._round: list[NodeId] = []  # The names that wait for their turn in this round, the next one last.

    def first(self, names: Sequence[NodeId], present: Container[NodeId]) -> NodeId | None:
        """Return the name whose turn it is; names that are not present have none, and all may be such."""
        for begins_round in (False, True):
            if begins_round:
                self._round = list(names)
                self._rng.shuffle(self._round)
            while self._round:
                if self._round[-1] in present:
                    return self._round[-1]
                self._round.pop()
        return None

    def end(self) -> None:
        """End the turn of the first name."""
        self._round.pop()


class Heartbeat(Membership):
    """One member.  `_fresh` orders the others by when their counters last grew: one that stands still comes first."""

    MESSAGES: ClassVar[Any] = Beats

    def __init__(
        self,
        node: NodeId,
        config: HeartbeatConfig,
        out: Out,
        rng: Random,
        *,
        incarnation: int = 1,
        address: Address | None = None,
        seeds: Sequence[Address] = (),
        known: Acquaintances | None = None,
        payload_max: int = PAYLOAD_MAX,
    ) -> None:
        self.node, self.config, self.incarnation = node, config, Incarnation(incarnation)
        self._out, self._rng, self._address, self._payload_max = out, rng, address, payload_max
        self._editor = ViewEditor()
        self._count = 0
        self._seeds = tuple(seed for seed in seeds if seed != address)
        self._fresh: OrderedDict[NodeId, _Known] = OrderedDict()  # Present others, the longest silent first.
        self._names: list[NodeId] = []  # The same, to draw from; see `_forget_name`.
        self._name_at: dict[NodeId, int] = {}
        self._gone: OrderedDict[NodeId, _Known] = OrderedDict()  # Failed or left, the oldest first.
        self._forget_heap: list[tuple[Instant, NodeId]] = []
        self._turns = Turns(rng)  # Of counters in messages.
        self._farewells: dict[NodeId, tuple[Beat, int]] = {}  # Members that left, and how often that is still sent.
        self._suspected: set[NodeId] = set()
        self._fading = Fading(self._editor, config.unhealthy_half_life)
        self._period_no = 0
        self._left = False
        self._changed: list[NodeId] = []
        self._initial = known

    # Inputs.

    def start(self, now: Instant) -> None:
        self._editor.put(Member(node=self.node, incarnation=self.incarnation, address=self._address))
        self._changed.append(self.node)
        for member in self._initial.members.values() if self._initial is not None else ():
            if member.node != self.node:
                self._hear(_beat_of(member), now)
        self._initial = None
        self._out.set_timer(PeriodBegins(), now + int(self._rng.random() * self.config.period))
        if not self._fresh:
            self._try_seeds(self._seeds)
        self._report()

    def on_message(self, sender: NodeId, message: Beats, now: Instant) -> None:
        for beat in message.beats:
            if beat.node == self.node:
                self._hear_of_myself(beat)
            else:
                self._hear(beat, now)
        if message.reply and not self._left:
            self._send(sender, reply=False)
        if self._changed:
            self._report()

    def on_seeds_changed(self, fact: SeedsChanged, now: Instant) -> None:
        """Try these seeds from now on, and at once if this node is alone."""
        before, self._seeds = self._seeds, tuple(seed for seed in fact.seeds if seed != self._address)
        if not self._fresh and not self._left:
            self._try_seeds([seed for seed in self._seeds[:64] if seed not in before])

    def on_own_address_changed(self, fact: OwnAddressChanged, now: Instant) -> None:
        """Say the new address, as a new incarnation: of one that is known, only the count is read."""
        if not self._left and fact.address != self._address:
            self._address, self.incarnation = fact.address, Incarnation(self.incarnation + 1)
            self._put(self.node, self.incarnation, Status.ALIVE, self._address)
            self._report()

    def on_member_wanted(self, fact: MemberWanted, now: Instant) -> None:
        """Exchange counters with a node that leads and is not present here."""
        if not self._left and fact.node != self.node and fact.node not in self._fresh:
            self._send(fact.node, reply=True)

    def on_timer(self, timer: Any, now: Instant) -> None:
        if self._left:
            return
        if timer.__class__ is CountsAreHalved:
            self._changed += self._fading.halve(now, self._out)
        else:
            self._period_no += 1
            self._count += 1
            self._check(now)
            self._gossip()
            self._out.set_timer(PeriodBegins(), now + self.config.period)
        if self._changed:
            self._report()

    def leave(self, now: Instant) -> None:
        if self._left:
            return
        self._left = True
        self._put(self.node, self.incarnation, Status.LEFT, self._address)
        self._count += 1
        goodbye = Beats((self._own(left=True),))
        names = self._names.copy()
        self._rng.shuffle(names)
        for name in names[:LEAVE_COUNT]:
            self._out.send(self._where(name), goodbye)
        self._report()

    HEARS: ClassVar[Hears] = (
        hears(SeedsChanged, on_seeds_changed)
        | hears(OwnAddressChanged, on_own_address_changed)
        | hears(MemberWanted, on_member_wanted)
        | hears(LeaveGroup, lambda self, command, now: self.leave(now))
    )

    # Queries.

    @property
    def view(self) -> MembershipView:
        return self._editor.view

    @property
    def present_count(self) -> int:
        return len(self._fresh) + (not self._left)

    # Hearing.

    def _hear(self, beat: Beat, now: Instant) -> None:
        found = self._fresh.get(beat.node)
        if found is not None:
            if not _newer(beat, found.beat):
                return
            if beat.left:
                found.beat = beat
                self._lose(beat.node, found, Status.LEFT, now)
                self._tell_farewell(beat)
                return
            restarted = beat.incarnation != found.beat.incarnation
            self._fresh[beat.node] = _Known(beat, now)
            self._fresh.move_to_end(beat.node)
            if restarted or beat.node in self._suspected:
                self._suspected.discard(beat.node)
                self._put(beat.node, beat.incarnation, Status.ALIVE, _address(beat))
            return
        dead = self._gone.get(beat.node)
        if dead is not None:
            if not _newer(beat, dead.beat):
                return
            if beat.left:
                dead.beat = beat
                self._put(beat.node, beat.incarnation, Status.LEFT, None)
                self._tell_farewell(beat)
                return
            falsely = beat.incarnation == dead.beat.incarnation
            del self._gone[beat.node]
            self._gain(beat, now)
            self._put(beat.node, beat.incarnation, Status.ALIVE, _address(beat), blame=falsely, now=now)
        elif not beat.left and self.present_count < PRESENT_MAX:  # Anybody can make up names.
            self._gain(beat, now)
            self._put(beat.node, beat.incarnation, Status.ALIVE, _address(beat))

    def _hear_of_myself(self, beat: Beat) -> None:
        """Go on above an earlier incarnation whose count was lost, as long as there is anything above."""
        if beat.incarnation + 1 >= INCARNATION_MAX:
            return
        if (beat.incarnation, beat.count) > (self.incarnation, self._count) and not self._left:
            self.incarnation = Incarnation(beat.incarnation + 1)
            self._put(self.node, self.incarnation, Status.ALIVE, self._address)

    def _tell_farewell(self, beat: Beat) -> None:
        self._farewells[beat.node] = (beat, 2 + ceil(3 * log2(self.present_count + 1)))

    # Missing.

    def _check(self, now: Instant) -> None:
        """Find members that have failed or are overdue; as `_fresh` is in order, only the first are looked at."""
        fail_after = self.config.fail_after(self.present_count)
        while self._fresh:
            node, found = next(iter(self._fresh.items()))
            if now - found.heard_at < fail_after:
                break
            self._lose(node, found, Status.FAILED, now)
        for node, found in self._fresh.items():
            if now - found.heard_at < fail_after // 2:
                break
            if node not in self._suspected:
                self._suspected.add(node)
                self._put(node, found.beat.incarnation, Status.SUSPECTED, None)
        while self._forget_heap and self._forget_heap[0][0] <= now:
            _, node = heappop(self._forget_heap)
            dead = self._gone.get(node)
            if dead is not None and dead.heard_at + self._forget_after() <= now:
                del self._gone[node]
                self._editor.drop(node)
                self._fading.nodes.discard(node)
                self._changed.append(node)

    def _gain(self, beat: Beat, now: Instant) -> None:
        self._fresh[beat.node] = _Known(beat, now)
        self._name_at[beat.node] = len(self._names)
        self._names.append(beat.node)

    def _lose(self, node: NodeId, found: _Known, status: Status, now: Instant) -> None:
        del self._fresh[node]
        self._suspected.discard(node)
        at, last = self._name_at.pop(node), self._names.pop()
        if last != node:  # The last name takes its place.
            self._names[at], self._name_at[last] = last, at
        found.heard_at = now
        self._gone[node] = found
        heappush(self._forget_heap, (now + self._forget_after(), node))
        if len(self._gone) > TOMBSTONES_MAX:
            oldest, _ = self._gone.popitem(last=False)
            self._editor.drop(oldest)
        self._put(node, found.beat.incarnation, status, None)

    def _forget_after(self) -> Duration:
        """[RENESSE §3] Return T_cleanup, at least 2·T_fail: stale gossip must not bring a dead member back."""
        return max(self.config.failed_kept, 2 * self.config.fail_after(self.present_count))

    # Gossip.

    def _gossip(self) -> None:
        config = self.config
        if self._names:
            self._send(self._names[int(self._rng.random() * len(self._names))], reply=False)
        lost = config.reconnect_periods and self._period_no % config.reconnect_periods == 0
        if lost or not self._names:
            self._try_absent()

    def _try_absent(self) -> None:
        absent = [n for n in islice(reversed(self._gone), 64) if self.view[n].status is Status.FAILED]
        drawn = int(self._rng.random() * (len(absent) + len(self._seeds)))
        if drawn < len(absent):
            self._send(absent[drawn], reply=True)
        elif self._seeds and not (self._names and any(self._is_seed(n) for n in self._names[:64])):
            self._try_seeds([self._seeds[drawn - len(absent)]])

    def _try_seeds(self, seeds: Sequence[Address]) -> None:
        for seed in seeds:
            self._out.send(seed, Beats((self._own(),), True))

    def _is_seed(self, node: NodeId) -> bool:
        return self.view[node].address in self._seeds

    def _send(self, to: NodeId, *, reply: bool) -> None:
        """Send farewells first, then the freshest counters, then those whose turn it is, so that none is left out."""
        config, own = self.config, self._own()
        room = self._payload_max - len(_encode(Beats((own,), reply))) - LENGTH_BYTES
        beats, sent = [own], {to}
        for node in islice(list(self._farewells), config.entries_max // 4):
            beat, times = self._farewells[node]
            size = len(_encode(beat))
            if size > room:
                break
            beats.append(beat)
            room -= size
            if times > 1:
                self._farewells[node] = (beat, times - 1)
            else:
                del self._farewells[node]
        for node in islice(reversed(self._fresh), config.entries_max // 2):
            found = self._fresh[node]
            if found.size > room:
                break
            if node not in sent:
                sent.add(node)
                beats.append(found.beat)
                room -= found.size
        for _ in range(config.entries_max):
            turn = self._turns.first(self._names, self._fresh)
            if turn is None or self._fresh[turn].size > room or len(beats) >= config.entries_max:
                break
            self._turns.end()
            if turn not in sent:
                sent.add(turn)
                beats.append(self._fresh[turn].beat)
                room -= self._fresh[turn].size
        self._out.send(self._where(to), Beats(tuple(beats), reply))

    def _own(self, *, left: bool = False) -> Beat:
        return Beat(self.node, self.incarnation, self._count, left, *host_and_port(self._address))

    def _where(self, to: NodeId) -> NodeId | Address:
        member = self.view.members.get(to)
        return to if member is None or member.address is None else member.address

    # The view.

    def _put(
        self,
        node: NodeId,
        incarnation: Incarnation,
        status: Status,
        address: Address | None,
        *,
        blame: bool = False,
        now: Instant = 0,
    ) -> None:
        before = self.view.members.get(node)
        count = (0 if before is None else before.suspicion_count) + blame
        if blame:
            self._fading.nodes.add(node)
            self._fading.begin(now, self._out)
        if address is None and before is not None:
            address = before.address
        self._editor.put(
            Member(node=node, incarnation=incarnation, status=status, address=address, suspicion_count=count)
        )
        self._changed.append(node)

    def _report(self) -> None:
        changed = tuple(dict.fromkeys(self._changed))
        self._changed.clear()
        self._out.emit(ViewChanged(self.view, changed))


def _newer(beat: Beat, known: Beat) -> bool:
    return (beat.incarnation, beat.count, beat.left) > (known.incarnation, known.count, known.left)


def _address(beat: Beat) -> Address | None:
    return Address(beat.host, beat.port) if beat.host else None


def _beat_of(member: Member) -> Beat:
    return Beat(member.node, member.incarnation, 0, False, *host_and_port(member.address))
