"""Carries a message between two nodes: delay, loss, duplication, reordering, partitions, clogs.

Every knob is a field with a unit, and every fault that fires is counted (`Network.faults`).  The plain case, a complete
graph with one fixed delay and independent loss, is decided by `Network.plain` and handled by the engine with one
queue entry per multicast; everything else goes through `routes`, receiver by receiver and hop by hop.
"""

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from hashlib import shake_128
from math import floor, log, log1p
from typing import Annotated, Final, Literal, TypeAlias, get_args

from msgspec import Meta
from msgspec.structs import replace

from doyen.core.clock import FOREVER, Duration, Instant, format_duration, ms
from doyen.core.config import Config, Doc, Pause, Probability, Scale, need
from doyen.core.rank import FLOAT_MAX
from doyen.sim.streams import Stream, Streams
from doyen.sim.topology import Topology

DelayModel = Literal["constant", "uniform", "exponential", "normal", "pareto"]
LossModel = Literal["none", "uncorrelated", "correlated", "load", "links", "bursts"]
Obstacle = Literal["cut", "block", "clog"]
Burst: TypeAlias = Annotated[float, Meta(ge=1, le=FLOAT_MAX)]

OBSTACLES: Final[tuple[Obstacle, ...]] = get_args(Obstacle)
_UNDECIDED: Final = 2

Pairs = frozenset[tuple[int, int]]
Path = list[tuple[int, int]]


class Delay(Config, frozen=True, kw_only=True):
    """One hop's travel time."""

    model: Annotated[DelayModel, Doc("The distribution; `normal` is cut off at 0.")] = "constant"
    mean: Annotated[Pause, Doc("Of the distribution; uniform: the middle; pareto: the least.")] = ms(100)
    spread: Annotated[Pause, Doc("uniform: half the width; normal: standard deviation; pareto: the tail's mean.")] = 0
    link_spread: Annotated[Pause, Doc("Each link has a mean of its own, drawn once from mean ± link_spread.")] = 0

    def check(self) -> None:
        above = f"is more than mean ({format_duration(self.mean)})"
        spread, link_spread = format_duration(self.spread), format_duration(self.link_spread)
        positive = self.model != "uniform" or self.spread <= self.mean
        need(positive, "spread", f"{spread} {above}: uniform delays would be negative")
        need(self.link_spread <= self.mean, "link_spread", f"{link_spread} {above}: some delays would be negative")

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


class Loss(Config, frozen=True, kw_only=True):
    """The rule by which messages are lost."""

    model: Annotated[LossModel, Doc("Per receiver; per multicast; growing with load; per link; in bursts.")] = "none"
    prob: Annotated[Probability, Doc("Per hop; `links`: the mean over links, each drawing from [0, 2·prob].")] = 0.0
    capacity: Annotated[Scale, Doc("load: this many messages together add one more chance `prob` of loss.")] = 2000.0
    window: Annotated[Pause, Doc("load: messages sent within this time arrive together.")] = ms(100)
    burst_count: Annotated[Burst, Doc("bursts: the mean length of a burst, in messages of one sender, all lost.")] = 5.0

    def check(self) -> None:
        drawn = self.model != "links" or self.prob <= 0.5
        need(drawn, "prob", f"{self.prob} is too much for links: each draws from [0, 2·prob]")
        least = self.prob / (1 - self.prob) if self.model == "bursts" and self.prob < 1 else 0.0
        need(
            self.burst_count >= least,
            "burst_count",
            f"{self.burst_count} is too short to lose a share of {self.prob}: give at least "
            f"prob/(1-prob) = {least:.3g}",
        )


class NetworkConfig(Config, frozen=True, kw_only=True):
    """The faults of links, all the time."""

    delay: Delay = Delay()
    loss: Loss = Loss()
    duplicate_prob: Annotated[Probability, Doc("A message arrives twice.")] = 0.0
    reorder_prob: Annotated[
        Probability, Doc("A message is held back by up to `reorder_by`, so that later ones overtake it.")
    ] = 0.0
    reorder_by: Annotated[Pause, Doc("The longest that a message is held back.")] = ms(200)
    fifo: Annotated[bool, Doc("Nothing overtakes on the way from one node to another, as over TCP.")] = False
    corrupt_prob: Annotated[Probability, Doc("A message arrives damaged: its receiver drops and counts it.")] = 0.0

    def check(self) -> None:
        need(not (self.fifo and self.reorder_prob), "fifo", "contradicts reorder_prob: choose one")

    def without_faults(self) -> "NetworkConfig":
        """Return the same delays, with nothing lost, doubled, damaged or overtaken on purpose."""
        return replace(self, loss=Loss(), duplicate_prob=0.0, reorder_prob=0.0, corrupt_prob=0.0)


class _Blocks:
    """Random bytes for one purpose, by sender, block after block: without a stream to seed and to keep."""

    __slots__ = ("_blocks", "_key")

    def __init__(self, base: int) -> None:
        self._key = base.to_bytes(8, "little")
        self._blocks: dict[int, tuple[int, bytes, int]] = {}  # By sender: its number, the block, and how much was used.

    def draw(self, sender: int, size: int) -> bytes:
        """Return the next random bytes of a sender; one that sends much gets larger blocks, which cost less."""
        number, block, used = self._blocks.get(sender, _NO_BLOCK)
        end = used + size
        if end > len(block):
            number, used, end = number + 1, 0, size
            key = self._key + (sender + (number << 32)).to_bytes(10, "little")
            block = shake_128(key).digest(max(size, min(2 * len(block), _BLOCK_MAX)))
        self._blocks[sender] = number, block, end
        return block[used:end]


_NO_BLOCK: Final = (-1, b"", 0)
_BLOCK_MAX: Final = 4096


class Network:
    """The links of one run.  Nodes are numbers here: their index in the simulation."""

    def __init__(self, config: NetworkConfig, topology: Topology, streams: Streams) -> None:
        self.config, self.topology = config, topology
        self.faults: Counter[str] = Counter()  # How often each fault fired.
        self._streams = streams
        self._by_sender: dict[tuple[str, int], Stream] = {}
        self._evenly: dict[int, tuple[Stream, Stream]] = {}  # By sender: of losses and of delays, where all is even.
        self._for_multicasts = _Blocks(streams.base("multicast loss"))
        self._for_unicasts = _Blocks(streams.base("unicast loss"))
        self._link_loss: dict[tuple[int, int], float] = {}
        self._in_burst: dict[int, bool] = {}
        self._sent_at: deque[Instant] = deque()  # load: sends within the last window, and in flight.
        self.unbroken = True  # Whether there are no obstacles.
        self._obstacles: dict[Obstacle, dict[str, Pairs]] = {"cut": {}, "block": {}, "clog": {}}  # Each by name.
        self._cut: Pairs = frozenset()  # One-way links that carry nothing; routes avoid them.
        self._blocked: Pairs = frozenset()  # Who does not reach whom, whatever the route.
        self._clogged: Pairs = frozenset()  # Who is held up on the way to whom.
        self.delay_of: dict[tuple[int, int], Duration] = {}  # Per link, where it differs from the common mean.
        self._last_arrival: dict[tuple[int, int], Instant] = {}  # fifo: nothing overtakes this.
        self._tables: dict[float, bytes] = {}
        self._judged: NetworkConfig | None = None  # By `is_even`, with this outcome, and what a hop does then:
        self._even, self._hop = False, (0, 0, -1.0)  # mean and half width of its delay, and its loss (-1: none).

    @property
    def plain(self) -> bool:
        """Return whether all have one fixed delay, and loss needs no memory: then a multicast is one event."""
        config = self.config
        return (
            self.topology.complete
            and config.delay.model == "constant"
            and not config.delay.link_spread
            and config.loss.model in ("none", "uncorrelated", "correlated", "load")
            and not (config.duplicate_prob or config.reorder_prob or config.corrupt_prob)
            and not (config.fifo or self.delay_of)
            and self.unbroken
        )

    # Faults that come and go.

    def obstruct(self, kind: Obstacle, name: str, pairs: Iterable[tuple[int, int]]) -> None:
        """Put an obstacle between the pairs, one way, until that name is cleared."""
        self._obstacles[kind][name] = frozenset(pairs)
        self._refresh()

    def clear(self, name: str) -> None:
        """End the obstacle of that name."""
        for named in self._obstacles.values():
            named.pop(name, None)
        self._refresh()

    def obstacles(self) -> dict[Obstacle, list[str]]:
        """Return the names of the obstacles that there are, by kind."""
        return {kind: [*named] for kind, named in self._obstacles.items() if named}

    def _refresh(self) -> None:
        self._cut, self._blocked, self._clogged = (
            frozenset().union(*self._obstacles[kind].values()) for kind in OBSTACLES
        )
        self.unbroken = not any(self._obstacles.values())
        self.topology.forget_routes()

    def reaches(self, sender: int, receiver: int) -> bool:
        """Return whether there is a way at all, as things are now; chance apart."""
        pair = (sender, receiver)
        if pair in self._blocked or pair in self._clogged or (self.topology.complete and pair in self._cut):
            return False
        return self.topology.path(sender, receiver, self._cut) is not None

    def is_clogged(self, sender: int, receiver: int) -> bool:
        return (sender, receiver) in self._clogged

    def cut_since(self, sender: int, receiver: int, path: Path | None) -> bool:
        """Return whether a message that is under way has lost its way."""
        if (sender, receiver) in self._blocked:
            return True
        return bool(self._cut) and any(hop in self._cut for hop in path or [(sender, receiver)])

    # The plain case.

    def note_send(self, now: Instant) -> None:
        """Note a send for the loss model `load`, which counts all of them."""
        self._sent_at.append(now)

    def mask(self, sender: int, position: int, size: int, sent_at: Instant) -> bytearray:
        """Return which of an audience of `size` hear a multicast: 1 or 0 by position; the sender's own is 0."""
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
            mask = self._independent(self._for_multicasts, sender, size, prob)
            mask[position] = 1
            self.faults["loss"] += mask.count(0)
        mask[position] = 0
        return mask

    def heard_in_a_row(self, sender: int) -> int:
        """Draw how many of a sender's unicasts over one plain hop are heard before one is lost: one draw per loss, and
        none per message.  It is not for `load`, which depends on time."""
        loss = self.config.loss
        if loss.model == "none" or loss.prob == 0.0:
            return FOREVER
        if loss.prob >= 1.0:
            return 0
        u = (int.from_bytes(self._for_unicasts.draw(sender, 8), "little") + 0.5) / 2**64
        return floor(log(u) / log1p(-loss.prob))

    def loses_loaded(self, sender: int, now: Instant) -> bool:
        """Return whether one delivery over one plain hop is lost, by the loss model `load`."""
        return self._stream("loss", sender).random() < self._loaded(now)

    def _independent(self, blocks: "_Blocks", sender: int, size: int, prob: float) -> bytearray:
        """Draw one random byte per delivery; the one value in 256 that cannot decide alone gets a full draw."""
        mask = bytearray(blocks.draw(sender, size).translate(self._table(prob)))
        at = mask.find(_UNDECIDED)
        while at >= 0:
            mask[at] = self._stream("loss", sender).random() >= (prob * 256) % 1.0
            at = mask.find(_UNDECIDED, at)
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
        """Return the loss under load, ours for "adjusted loss": 1 − (1−l)^(1 + (m−1)/capacity), of m together."""
        loss, times = self.config.loss, self._sent_at
        while times and times[0] <= sent_at - loss.window:
            times.popleft()
        together = sum(1 for time in times if time <= sent_at)
        if loss.prob >= 1.0:
            return 1.0
        return 1.0 - float((1.0 - loss.prob) ** (1.0 + (together - 1) / loss.capacity))

    # The general case.

    def route(self, sender: int, receiver: int, now: Instant) -> tuple[int, list[Duration], Path]:
        """Return how many hops were travelled, after how long it arrives (never, once, or twice), and which way."""
        if self.unbroken and self.is_even():
            hops, delay, way = self.route_evenly(sender, receiver)
            return hops, [] if delay < 0 else [delay], way
        path = self._path(sender, receiver)
        if path is None:
            return 0, [], []
        in_burst = self._in_a_burst(sender)
        total = 0
        for hop, (a, b) in enumerate(path, start=1):
            if in_burst or self._lost_on(a, b, sender, now):
                return hop, [], path
            total += self._delay_on(a, b, sender)
        return len(path), self._disturb(sender, receiver, total, now), path

    def is_even(self) -> bool:
        """Return whether all hops lose and delay alike, and nothing else happens on them: radio, mostly."""
        config = self.config
        if config is not self._judged:
            self._judged = config
            loss, delay = config.loss, config.delay
            self._hop = delay.mean, delay.spread, -1.0 if loss.model == "none" else loss.prob
            self._even = (
                loss.model in ("none", "uncorrelated")
                and delay.model == "uniform"
                and not delay.link_spread
                and not (config.duplicate_prob or config.reorder_prob or config.corrupt_prob or config.fifo)
            )
        return self._even and not self.delay_of

    def route_evenly(self, sender: int, receiver: int) -> tuple[int, Duration, Path]:
        """Do what `route` does, with the same draws, where all hops are alike; a delay of -1: it never arrives."""
        topology = self.topology
        path = topology.paths.get((sender, receiver)) or topology.path(sender, receiver)
        if path is None:
            self.faults["no route"] += 1
            return 0, -1, []
        mean, spread, prob = self._hop
        streams = self._evenly.get(sender)
        if streams is None:
            streams = self._evenly[sender] = self._stream("loss", sender), self._stream("delay", sender)
        loses, draws, hop, total = streams[0].random, streams[1].random, 0, 0
        for _ in path:
            hop += 1
            if prob >= 0.0 and loses() < prob:
                self.faults["loss"] += 1
                return hop, -1, path
            total += mean + int((2.0 * draws() - 1.0) * spread)
        return hop, total, path

    def tree(
        self, sender: int, receivers: Sequence[int], now: Instant
    ) -> tuple[int, dict[int, tuple[list[Duration], Path]]]:
        """Draw a multicast along shortest paths: each edge of the tree is travelled, and may lose it, once."""
        model = self.config.loss.model
        lost_by_all = model == "correlated" and self._stream("loss", sender).random() < self.config.loss.prob
        if lost_by_all or self._in_a_burst(sender):
            self.faults["loss"] += len(receivers) if lost_by_all else 0
            return 1, {}
        reached: dict[int, int | None] = {sender: 0}
        hops, arrivals = 0, {}
        for receiver in receivers:
            path = self._path(sender, receiver)
            if path is None:
                continue
            for a, b in path:
                if b in reached:
                    continue
                before = reached[a]
                if before is None:
                    reached[b] = None
                    continue
                hops += 1
                lost = model != "correlated" and self._lost_on(a, b, sender, now)
                reached[b] = None if lost else before + self._delay_on(a, b, sender)
            total = reached[receiver]
            if total is not None:
                arrivals[receiver] = (self._disturb(sender, receiver, total, now), path)
        return 1 if self.topology.complete else hops, arrivals  # A complete graph is one shared medium.

    def _path(self, sender: int, receiver: int) -> Path | None:
        if (sender, receiver) in self._blocked or (self.topology.complete and (sender, receiver) in self._cut):
            self.faults["cut"] += 1
            return None
        path = self.topology.path(sender, receiver, self._cut)
        if path is None:
            self.faults["no route"] += 1
        return path

    def _delay_on(self, a: int, b: int, sender: int) -> Duration:
        drawn = self.config.delay.draw(self._stream("delay", sender))
        if not self.delay_of and not self.config.delay.link_spread:
            return drawn
        return max(0, self.link_delay(a, b) + drawn - self.config.delay.mean)

    def link_delay(self, a: int, b: int) -> Duration:
        """Return a link's own mean, the same in both directions."""
        delay = self.config.delay
        if (a, b) not in self.delay_of:
            if not delay.link_spread:
                return delay.mean
            u = self._streams.of("link delay", min(a, b) * 1_000_003 + max(a, b)).random()
            self.delay_of[a, b] = delay.mean + int((2.0 * u - 1.0) * delay.link_spread)
        return self.delay_of[a, b]

    def link_loss(self, a: int, b: int) -> float:
        """Return a link's own probability of losing a message, as far as it has one."""
        loss = self.config.loss
        if loss.model != "links":
            return 0.0 if loss.model == "none" else loss.prob
        if (a, b) not in self._link_loss:
            self._link_loss[a, b] = 2.0 * loss.prob * self._streams.of("link loss", a * 1_000_003 + b).random()
        return self._link_loss[a, b]

    def _lost_on(self, a: int, b: int, sender: int, now: Instant) -> bool:
        loss = self.config.loss
        prob = loss.prob
        match loss.model:
            case "none" | "bursts":
                return False
            case "load":
                prob = self._loaded(now)
            case "links":
                prob = self.link_loss(a, b)
        if self._stream("loss", sender).random() < prob:
            self.faults["loss"] += 1
            return True
        return False

    def _in_a_burst(self, sender: int) -> bool:
        """Return whether it is in a burst, by Gilbert's two states: in the bad one, a share `prob`, all are lost."""
        loss = self.config.loss
        if loss.model != "bursts":
            return False
        rng = self._stream("loss", sender)
        bad = self._in_burst[sender] if sender in self._in_burst else rng.random() < loss.prob
        leave = 1.0 / loss.burst_count
        if loss.prob >= 1.0:
            bad = True
        else:
            bad = rng.random() >= leave if bad else rng.random() < leave * loss.prob / (1.0 - loss.prob)
        self._in_burst[sender] = bad
        self.faults["loss"] += bad
        return bad

    def _disturb(self, sender: int, receiver: int, delay: Duration, now: Instant) -> list[Duration]:
        config = self.config
        if config.corrupt_prob and self._stream("corrupt", sender).random() < config.corrupt_prob:
            self.faults["corrupt"] += 1
            return []
        if config.reorder_prob and self._stream("reorder", sender).random() < config.reorder_prob:
            self.faults["reorder"] += 1
            delay += 1 + int(self._stream("reorder", sender).random() * config.reorder_by)
        if config.duplicate_prob and self._stream("duplicate", sender).random() < config.duplicate_prob:
            self.faults["duplicate"] += 1
            delays = [delay, delay + 1 + int(self._stream("duplicate", sender).random() * config.delay.mean)]
        else:
            delays = [delay]
        return self._in_order(sender, receiver, delays, now) if config.fifo else delays

    def _in_order(self, sender: int, receiver: int, delays: list[Duration], now: Instant) -> list[Duration]:
        """Return the delays under `fifo`: what would overtake arrives with what it would overtake, and after it."""
        last, kept = self._last_arrival.get((sender, receiver), 0), []
        for delay in delays:
            self.faults["held in order"] += now + delay < last
            last = max(now + delay, last)
            kept.append(last - now)
        self._last_arrival[sender, receiver] = last
        return kept

    def _stream(self, purpose: str, sender: int) -> Stream:
        stream = self._by_sender.get((purpose, sender))
        if stream is None:
            stream = self._by_sender[purpose, sender] = self._streams.of(purpose, sender)
        return stream
