"""What happens to a message between two nodes: delay, loss, duplication, reordering, partitions, clogs.

Every knob is a field with a unit, and every fault that fires is counted (`Faults`).  The plain case, a complete
graph with one fixed delay and independent loss, is decided by `Network.plain` and handled by the engine with one
queue entry per multicast; everything else goes through `routes`, receiver by receiver and hop by hop.
"""

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from hashlib import shake_128
from math import log1p
from typing import Literal

from msgspec import Struct

from doyen.core.clock import Duration, Instant, ms
from doyen.errors import ConfigError
from doyen.sim.streams import Stream, Streams
from doyen.sim.topology import Topology

DelayModel = Literal["constant", "uniform", "exponential", "normal", "pareto"]
LossModel = Literal["none", "uncorrelated", "correlated", "load", "links", "bursts"]


class Delay(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One hop's travel time."""

    model: DelayModel = "constant"
    mean: Duration = ms(100)  #: Of the distribution; of `uniform`, the middle.
    spread: Duration = 0  #: uniform: half its width; normal: standard deviation; pareto: scale of its tail.

    def __post_init__(self) -> None:
        if self.mean < 0 or self.spread < 0:
            raise ConfigError(f"network.delay: mean and spread must be 0 or more, got {self}")
        if self.model == "uniform" and self.spread > self.mean:
            raise ConfigError(f"network.delay: uniform needs spread <= mean, or delays are negative, got {self}")

    def draw(self, rng: Stream) -> Duration:
        match self.model:
            case "constant":
                return self.mean
            case "uniform":
                return self.mean + int((2.0 * rng.random() - 1.0) * self.spread)
            case "exponential":
                return int(-log1p(-rng.random()) * self.mean)
            case "normal":
                return max(0, int(rng.normalvariate(self.mean, self.spread)))
            case "pareto":  # mean + a tail of shape 3, whose own mean is `spread`.
                return self.mean + int(self.spread * 2.0 * ((1.0 - rng.random()) ** (-1 / 3) - 1.0))


class Loss(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which messages do not arrive."""

    model: LossModel = "none"
    prob: float = 0.0  #: Per hop; `links`: the mean over links, each link drawing its own from [0, 2·prob].
    capacity: float = 2000.0  #: load: so many messages together add one more chance `prob` of being lost.
    window: Duration = ms(100)  #: load: messages sent within this time arrive together.
    burst_count: float = 5.0  #: bursts: mean length of a burst, in messages of one sender, all lost.

    def __post_init__(self) -> None:
        if not 0 <= self.prob <= 1:
            raise ConfigError(f"network.loss: prob {self.prob} is not a probability: give a number from 0 to 1")
        if self.model == "links" and self.prob > 0.5:
            raise ConfigError(f"network.loss: links needs prob <= 0.5 (each draws from [0, 2·prob]), got {self.prob}")
        if self.capacity <= 0 or self.window < 0 or self.burst_count < 1:
            raise ConfigError(f"network.loss: need capacity > 0, window >= 0, burst_count >= 1, got {self}")


class NetworkConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    delay: Delay = Delay()
    loss: Loss = Loss()
    duplicate_prob: float = 0.0  #: A message arrives twice.
    reorder_prob: float = 0.0  #: A message is held back by up to `reorder_by`, so that later ones overtake it.
    reorder_by: Duration = ms(200)
    corrupt_prob: float = 0.0  #: A message arrives damaged: the receiver's decoder drops it, and counts it.

    def __post_init__(self) -> None:
        for name in ("duplicate_prob", "reorder_prob", "corrupt_prob"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"network: {name} {getattr(self, name)} is not a probability: give 0 to 1")


class Faults(Counter[str]):
    """How often each fault fired: a knob that never bites shows as zero."""


class Network:
    """The links of one run.  Nodes are numbers here: their index in the simulation."""

    def __init__(self, config: NetworkConfig, topology: Topology, streams: Streams) -> None:
        self.config, self.topology = config, topology
        self.faults = Faults()
        self._streams = streams
        self._by_sender: dict[tuple[str, int], Stream] = {}
        self._mask_counts: Counter[int] = Counter()
        self._mask_key = streams.base("multicast loss").to_bytes(8, "little")
        self._link_loss: dict[tuple[int, int], float] = {}
        self._in_burst: dict[int, bool] = {}
        self._sent_at: deque[Instant] = deque()  # load: sends within the last window, and in flight.
        self.cuts: dict[str, frozenset[tuple[int, int]]] = {}  # Named sets of one-way links that carry nothing.
        self.clogs: dict[str, frozenset[tuple[int, int]]] = {}  # Links that hold what they are given.
        self._cut: frozenset[tuple[int, int]] = frozenset()
        self._clogged: frozenset[tuple[int, int]] = frozenset()
        self._tables: dict[float, bytes] = {}

    @property
    def plain(self) -> bool:
        """One fixed delay for all, and loss that needs no memory: a multicast is one event."""
        config = self.config
        return (
            self.topology.complete
            and config.delay.model == "constant"
            and config.loss.model in ("none", "uncorrelated", "correlated", "load")
            and not (config.duplicate_prob or config.reorder_prob or config.corrupt_prob)
            and not (self.cuts or self.clogs)
        )

    # Faults that come and go.

    def cut(self, name: str, links: Iterable[tuple[int, int]]) -> None:
        self.cuts[name] = frozenset(links)
        self._cut = frozenset().union(*self.cuts.values())
        self.topology.forget_routes()

    def heal(self, name: str) -> None:
        self.cuts.pop(name, None)
        self._cut = frozenset().union(*self.cuts.values())
        self.topology.forget_routes()

    def clog(self, name: str, links: Iterable[tuple[int, int]]) -> None:
        self.clogs[name] = frozenset(links)
        self._clogged = frozenset().union(*self.clogs.values())

    def release(self, name: str) -> None:
        self.clogs.pop(name, None)
        self._clogged = frozenset().union(*self.clogs.values())

    def is_cut(self, sender: int, receiver: int) -> bool:
        return (sender, receiver) in self._cut

    def is_clogged(self, sender: int, receiver: int) -> bool:
        return (sender, receiver) in self._clogged

    # The plain case.

    def note_send(self, now: Instant) -> None:
        """load: every send counts, whoever hears it."""
        self._sent_at.append(now)

    def mask(self, sender: int, position: int, size: int, sent_at: Instant) -> bytearray:
        """Who of an audience of `size` hears a multicast: 1 or 0 by position; the sender's own is 0."""
        prob = self.config.loss.prob
        model = self.config.loss.model
        if model == "none" or prob == 0.0:
            mask = bytearray(b"\1") * size
        elif model == "correlated":
            lost = self._stream("loss", sender).random() < prob
            mask = bytearray(size) if lost else bytearray(b"\1") * size
            self.faults["loss"] += (size - 1) * lost
        else:
            if model == "load":
                prob = self._loaded(sent_at)
            mask = self._independent(sender, size, prob)
            mask[position] = 1
            self.faults["loss"] += mask.count(0)
        mask[position] = 0
        return mask

    def _independent(self, sender: int, size: int, prob: float) -> bytearray:
        """One byte of chance per receiver; the one value in 256 that cannot decide alone gets a full draw."""
        count = self._mask_counts[sender]
        self._mask_counts[sender] = count + 1
        key = self._mask_key + sender.to_bytes(4, "little") + count.to_bytes(6, "little")
        mask = bytearray(shake_128(key).digest(size).translate(self._table(prob)))
        at = mask.find(2)
        while at >= 0:
            mask[at] = self._stream("loss", sender).random() >= (prob * 256) % 1.0
            at = mask.find(2, at)
        return mask

    def _table(self, prob: float) -> bytes:
        table = self._tables.get(prob)
        if table is None:
            if len(self._tables) > 1000:
                self._tables.clear()
            whole = int(prob * 256)
            table = self._tables[prob] = (b"\0" * whole + b"\2" + b"\1" * 255)[:256]
        return table

    def _loaded(self, sent_at: Instant) -> float:
        """Ours, for the chapter's "adjusted loss": 1 − (1−l)^(1 + (m−1)/capacity), m messages arriving together."""
        loss, times = self.config.loss, self._sent_at
        while times and times[0] <= sent_at - loss.window:
            times.popleft()
        together = sum(1 for time in times if time <= sent_at)
        if loss.prob >= 1.0:
            return 1.0
        return 1.0 - float((1.0 - loss.prob) ** (1.0 + (together - 1) / loss.capacity))

    # The general case.

    def route(self, sender: int, receiver: int, now: Instant) -> tuple[int, list[Duration]]:
        """How many hops were travelled, and after how long the message arrives: never, once, or twice."""
        if (sender, receiver) in self._cut:
            self.faults["cut"] += 1
            return 0, []
        path = self.topology.path(sender, receiver, self._cut)
        if path is None:
            self.faults["no route"] += 1
            return 0, []
        delays = self._stream("delay", sender)
        total = 0
        for hop, (a, b) in enumerate(path, start=1):
            if self._lost_on(a, b, sender, now):
                return hop, []
            total += self.config.delay.draw(delays)
        return len(path), self._disturb(sender, total)

    def tree(self, sender: int, receivers: Sequence[int], now: Instant) -> tuple[int, dict[int, list[Duration]]]:
        """A multicast along shortest paths: each tree edge is travelled, and may lose it, once."""
        loss = self.config.loss
        if loss.model == "correlated" and self._stream("loss", sender).random() < loss.prob:
            self.faults["loss"] += len(receivers)
            return 1, {}
        delays = self._stream("delay", sender)
        reached: dict[int, int | None] = {sender: 0}
        hops, arrivals = 0, {}
        for receiver in receivers:
            path = None if (sender, receiver) in self._cut else self.topology.path(sender, receiver, self._cut)
            if path is None:
                self.faults["cut"] += 1
                continue
            for a, b in path:
                if b in reached:
                    continue
                before = reached[a]
                if before is None:
                    reached[b] = None
                    continue
                hops += 1
                lost = loss.model != "correlated" and self._lost_on(a, b, sender, now)
                reached[b] = None if lost else before + self.config.delay.draw(delays)
            total = reached[receiver]
            if total is not None:
                arrivals[receiver] = self._disturb(sender, total)
        return hops, arrivals

    def _lost_on(self, a: int, b: int, sender: int, now: Instant) -> bool:
        loss = self.config.loss
        prob = loss.prob
        match loss.model:
            case "none":
                return False
            case "load":
                prob = self._loaded(now)
            case "links":
                if (a, b) not in self._link_loss:
                    self._link_loss[a, b] = 2.0 * prob * self._streams.of("link loss", a * 1_000_003 + b).random()
                prob = self._link_loss[a, b]
            case "bursts":
                return self._in_a_burst(sender)
        if self._stream("loss", sender).random() < prob:
            self.faults["loss"] += 1
            return True
        return False

    def _in_a_burst(self, sender: int) -> bool:
        """Gilbert's two states: in the bad one everything is lost; the share of bad messages is `prob`."""
        loss, rng = self.config.loss, self._stream("loss", sender)
        bad = self._in_burst.get(sender, False)
        leave = 1.0 / loss.burst_count
        enter = 1.0 if loss.prob >= 1.0 else min(1.0, leave * loss.prob / (1.0 - loss.prob))
        bad = rng.random() >= leave if bad else rng.random() < enter
        self._in_burst[sender] = bad
        self.faults["loss"] += bad
        return bad

    def _disturb(self, sender: int, delay: Duration) -> list[Duration]:
        config = self.config
        if config.corrupt_prob and self._stream("corrupt", sender).random() < config.corrupt_prob:
            self.faults["corrupt"] += 1
            return []
        if config.reorder_prob and self._stream("reorder", sender).random() < config.reorder_prob:
            self.faults["reorder"] += 1
            delay += 1 + int(self._stream("reorder", sender).random() * config.reorder_by)
        if config.duplicate_prob and self._stream("duplicate", sender).random() < config.duplicate_prob:
            self.faults["duplicate"] += 1
            return [delay, delay + 1 + int(self._stream("duplicate", sender).random() * config.delay.mean)]
        return [delay]

    def _stream(self, purpose: str, sender: int) -> Stream:
        stream = self._by_sender.get((purpose, sender))
        if stream is None:
            stream = self._by_sender[purpose, sender] = self._streams.of(purpose, sender)
        return stream
