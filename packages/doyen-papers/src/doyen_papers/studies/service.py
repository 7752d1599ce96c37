"""A leader-based replicated service, as far as its timing goes.  [POLE §2.1, §4]

    client ─▶ server ──Forward──▶ leader ──Proposal──▶ all ──Accepted──▶ leader ──Commit──▶ all
                                    └──Done──▶ server ─▶ client        once a quorum, itself included, has accepted

Writes only; the hop from the client to its server, the disk and the processor take no time.  A new leader recovers
first: it learns from a quorum what each has (`Learn`, `Learned`), pulls the history that it lacks, and pushes its own
until a quorum has it.  Who lacks history gets a snapshot, over TCP: min(940 Mbit/s, window/RTT), one at a time.
"""

from collections.abc import Iterable
from typing import Any, ClassVar, Final

from msgspec import Struct

from doyen.core.clock import Duration, Instant, ms
from doyen.core.commands import Command
from doyen.core.effects import Out
from doyen.core.ids import NodeId
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.machine import Hears, hears
from doyen.core.order import order

NIC_BITS_PER_S: Final = 940e6  # [POLE §4.1] Measured with no delay.
WINDOW_BYTES: Final = 2_000_000  # Ours: Figure 3 is lost, and the text gives no window.
SNAPSHOT_LAG: Final = 1000  # Transactions: who lacks more gets a snapshot.
RETRY: Final[Duration] = ms(500)


def tcp_bits_per_s(rtt_ms: float, window_bytes: float = WINDOW_BYTES) -> float:
    """[POLE Fig. 3] Return what one connection carries."""
    return NIC_BITS_PER_S if rtt_ms <= 0 else min(NIC_BITS_PER_S, 8 * window_bytes / (rtt_ms / 1e3))


class Forward(Struct, frozen=True, array_like=True, tag="f"):
    request: int


class Proposal(Struct, frozen=True, array_like=True, tag="p"):
    zxid: int


class Accepted(Struct, frozen=True, array_like=True, tag="a"):
    zxid: int


class Commit(Struct, frozen=True, array_like=True, tag="c"):
    zxid: int


class Done(Struct, frozen=True, array_like=True, tag="d"):
    request: int


class Learn(Struct, frozen=True, array_like=True, tag="l"):
    epoch: int


class Learned(Struct, frozen=True, array_like=True, tag="L"):
    epoch: int
    zxid: int


class Pull(Struct, frozen=True, array_like=True, tag="u"):
    epoch: int


class State(Struct, frozen=True, array_like=True, tag="s"):
    """History up to this transaction; `size` of it in bytes is on the wire before this arrives."""

    epoch: int
    zxid: int
    size: int


class Synced(Struct, frozen=True, array_like=True, tag="y"):
    epoch: int
    zxid: int


class Serving(Struct, frozen=True, array_like=True, tag="v"):
    epoch: int


class Request(Command, frozen=True):
    """Serve that request of a client."""

    number: int


class ComeBack(Command, frozen=True):
    """Take part again after a crash."""


class LearnAgain(Struct, frozen=True):
    epoch: int


class Recovered(Struct, frozen=True):
    """The new leader serves."""

    epoch: int


class Served(Struct, frozen=True):
    """A request of a client of this server is done."""

    request: int
    arrived_at: Instant


class Replica:
    """One server."""

    MESSAGES: ClassVar[Any] = (
        Forward | Proposal | Accepted | Commit | Done | Learn | Learned | Pull | State | Synced | Serving
    )

    def __init__(self, me: NodeId, voters: Iterable[NodeId], out: Out, *, snapshot_bytes: int, outdated: bool) -> None:
        self.me, self.voters = me, tuple(sorted(voters, key=order))
        self._out, self._snapshot_bytes = out, snapshot_bytes
        self.zxid = 0  # The last accepted.
        self.synced = not outdated  # An outdated one takes no part until it has got what it lacks,
        self.away = outdated  # and nobody sends it that before it is back.
        self.leader: NodeId | None = None
        self.epoch = 0
        self.serving = False
        self._waiting: dict[int, Instant] = {}  # Requests of its clients, and when they came.
        self._accepted: dict[int, set[NodeId]] = {}  # As leader: by zxid.
        self._requests: dict[int, tuple[NodeId, int]] = {}  # As leader: by zxid, whose and which.
        self._learned: dict[NodeId, int] = {}
        self._in_sync: set[NodeId] = set()
        self._pulling = False

    @property
    def quorum(self) -> int:
        return len(self.voters) // 2 + 1

    # Inputs.

    def start(self, now: Instant) -> None:
        pass

    def on_request(self, command: Request, now: Instant) -> None:
        self._waiting[command.number] = now
        self._forward(command.number, now)

    def on_come_back(self, command: ComeBack, now: Instant) -> None:
        """[POLE §4.4] Return after having been killed, when the leader is about to crash."""
        self.away = False

    def on_leader_elected(self, fact: LeaderElected, now: Instant) -> None:
        changed = fact.term.leader != self.leader
        self.leader, self.epoch = fact.term.leader, fact.term.number
        if self.leader == self.me and changed:
            self._recover(now)
        elif changed:
            self.serving = False

    def on_leader_lost(self, fact: LeaderLost, now: Instant) -> None:
        if fact.term.leader == self.leader:
            self.leader, self.serving = None, False

    HEARS: ClassVar[Hears] = (
        hears(Request, on_request)
        | hears(ComeBack, on_come_back)
        | hears(LeaderElected, on_leader_elected)
        | hears(LeaderLost, on_leader_lost)
    )

    def on_timer(self, timer: Any, now: Instant) -> None:
        if timer.epoch == self.epoch and self.leader == self.me and not self.serving:
            self._ask(now)

    def on_message(self, sender: NodeId, message: Any, now: Instant) -> None:
        match message:
            case Forward() if self.serving:
                self._propose(sender, message.request, now)
            case Proposal() if self.synced and sender == self.leader:
                self.zxid = max(self.zxid, message.zxid)
                self._out.send(sender, Accepted(message.zxid))
            case Accepted() if self.serving:
                self._on_accepted(sender, message.zxid, now)
            case Done():
                self._on_done(message.request, now)
            case Learn() if message.epoch >= self.epoch and not self.away:
                self.leader, self.epoch = sender, message.epoch  # The service may hear of it before the election does.
                self._out.send(sender, Learned(message.epoch, self.zxid if self.synced else -1))
            case Learned() if message.epoch == self.epoch and self.leader == self.me:
                self._learned[sender] = message.zxid
                self._catch_up(now)
            case Pull():
                self._out.send(sender, State(message.epoch, self.zxid, self._snapshot_bytes))
            case State():
                self.zxid, self.synced = max(self.zxid, message.zxid), True
                if self.leader == self.me:
                    self._pulling = False
                    self._catch_up(now)
                else:
                    self._out.send(sender, Synced(message.epoch, message.zxid))
            case Synced() if message.epoch == self.epoch and self.leader == self.me:
                self._in_sync.add(sender)
                self._serve_if_in_sync(now)
            case Serving() if sender == self.leader:
                self._forward_waiting(now)

    # Requests.

    def _forward(self, number: int, now: Instant) -> None:
        if self.leader == self.me and self.serving:
            self._propose(self.me, number, now)
        elif self.leader is not None and self.leader != self.me:
            self._out.send(self.leader, Forward(number))

    def _propose(self, origin: NodeId, request: int, now: Instant) -> None:
        self.zxid += 1
        self._requests[self.zxid] = (origin, request)
        self._accepted[self.zxid] = set()
        self._out.multicast(Proposal(self.zxid))
        self._on_accepted(self.me, self.zxid, now)

    def _on_accepted(self, sender: NodeId, zxid: int, now: Instant) -> None:
        accepted = self._accepted.get(zxid)
        if accepted is None:
            return
        accepted.add(sender)
        if len(accepted) >= self.quorum:
            del self._accepted[zxid]
            origin, request = self._requests.pop(zxid)
            self._out.multicast(Commit(zxid))
            if origin == self.me:
                self._on_done(request, now)
            else:
                self._out.send(origin, Done(request))

    def _on_done(self, request: int, now: Instant) -> None:
        arrived_at = self._waiting.pop(request, None)
        if arrived_at is not None:
            self._out.emit(Served(request, arrived_at))

    def _forward_waiting(self, now: Instant) -> None:
        """Forward the requests that waited, in the order of their arrival: a leader serves again."""
        for number in list(self._waiting):
            self._forward(number, now)

    # Recovery.

    def _recover(self, now: Instant) -> None:
        self._accepted.clear()
        self._requests.clear()
        self._learned, self._in_sync, self._pulling = {}, set(), False
        self.serving = False
        self._ask(now)
        self._learned[self.me] = self.zxid if self.synced else -1
        self._catch_up(now)

    def _ask(self, now: Instant) -> None:
        self._out.multicast(Learn(self.epoch))
        self._out.set_timer(LearnAgain(self.epoch), now + RETRY)

    def _catch_up(self, now: Instant) -> None:
        """Pull what is missing, then push, once a quorum has answered."""
        if self.serving or self._pulling or len(self._learned) < self.quorum:
            return
        fattest = max(self._learned, key=lambda node: (self._learned[node], order(node)))
        if not self.synced or self._learned[fattest] - self.zxid > SNAPSHOT_LAG:
            self._pulling = True
            self._out.send(fattest, Pull(self.epoch))
            return
        self.zxid = max(self.zxid, self._learned[fattest])  # A few transactions cost nothing here.
        self._in_sync.add(self.me)
        for node, zxid in self._learned.items():
            if node in self._in_sync:
                continue
            if zxid < 0 or self.zxid - zxid > SNAPSHOT_LAG:
                if self._learned[node] != -2:
                    self._learned[node] = -2  # On its way.
                    self._out.send(node, State(self.epoch, self.zxid, self._snapshot_bytes))
            else:
                self._in_sync.add(node)
        self._serve_if_in_sync(now)

    def _serve_if_in_sync(self, now: Instant) -> None:
        if not self.serving and len(self._in_sync) >= self.quorum:
            self.serving = True
            self._out.emit(Recovered(self.epoch))
            self._out.multicast(Serving(self.epoch))
            self._forward_waiting(now)
