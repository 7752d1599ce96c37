"""What befalls a group: nodes that come, go, crash, return, stop for a while; links that break, block and clog.

Planned events are a list; random ones have a rate each.  Every deed draws from a stream of its own, so that adding
one leaves the others where they were, and each is counted where it took effect (`Churn.counts`): an event that found
nobody to befall counts nothing.

    who, to    names, indices, or: `leader` (the best that acts as one), `others` (all that do not act as one), `random`
               (one that the deed can befall), `all` (everyone it can befall); `to` left out means everybody else
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from msgspec import Struct

from doyen.core.clock import FOREVER, Duration, Instant, ms, seconds
from doyen.errors import ConfigError
from doyen.sim.node import Clock, SimNode
from doyen.sim.streams import Stream

if TYPE_CHECKING:
    from doyen.sim.world import World

Deed = Literal[
    "join",
    "leave",
    "crash",
    "restart",
    "pause",
    "resume",
    "slow",
    "partition",
    "block",
    "cut",
    "heal",
    "clog",
    "release",
    "clock-forward",
    "clock-back",
    "wall-clock",
    "resign",
    "score",
    "corrupt",
]
Target = int | str

KEYWORDS: Final = ("leader", "others", "random", "all")
TWO_SIDED: Final = ("partition", "block", "cut", "clog")
LASTING: Final = ("crash", "pause", "slow", "resign", *TWO_SIDED)
MEASURED: Final = ("slow", "clock-forward", "clock-back")
NOBODY: Final = ("join", "heal", "release")  # Deeds that need nobody to befall.
DISK_LOST: Final = "disk lost"
RATE_MAX: Final = 60_000.0  # A deed every millisecond.
WALL_STEP_MAX: Final[Duration] = seconds(5)
SCORES: Final = 20  # Scores are drawn from 0 to below this, in whole numbers.


class ChurnEvent(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One planned event, or a series of them."""

    do: Deed  #: What happens.
    at: Duration  #: When, since the start of the run.
    every: Duration = 0  #: Again after each such time; 0: once.
    until: Duration = FOREVER  #: every: not after this.
    who: tuple[Target, ...] = ()  #: Whom it befalls; join: names of the new nodes (none: one with a made-up name).
    to: tuple[
        Target, ...
    ] = ()  #: partition, block, cut, clog: the other side; join: whom it is linked to; resign: heirs.
    lasting: Duration = FOREVER  #: Its end: a crashed node restarts, one that resigned stands again, the rest is over.
    disk: Literal["kept", "lost"] = "kept"  #: crash, restart: what becomes of the node's durable state.
    by: Duration = 0  #: slow: how long each input takes; clock-forward, clock-back: the step.
    name: str = ""  #: partition, block, cut, clog: its name; heal, release: the name of what ends (none: all).

    def __post_init__(self) -> None:
        def need(holds: bool, field: str, wanted: str) -> None:
            if not holds:
                raise ConfigError(wanted, field=field)

        do = self.do
        need(0 <= self.at < FOREVER, "at", "must be 0 or more, and finite")
        need(0 <= self.every < FOREVER, "every", "must be 0 (once) or more, and finite")
        need(self.until == FOREVER or self.every > 0, "until", "is for series: give every too")
        need(self.until >= self.at, "until", "is before at")
        need(bool(self.who) or do in NOBODY, "who", f"is missing: whom does {do} befall? e.g. who = ['leader']")
        need(not self.who or do not in ("heal", "release"), "who", f"is not for {do}: give the name of what ends")
        need(not self.to or do in (*TWO_SIDED, "join", "resign"), "to", f"is not for {do}")
        need(0 < self.lasting, "lasting", "must be positive (inf: for good)")
        need(self.lasting == FOREVER or do in LASTING, "lasting", f"is not for {do}: it is over at once")
        need(self.disk == "kept" or do in ("crash", "restart"), "disk", f"is not for {do}")
        need(0 <= self.by < FOREVER, "by", "must be 0 or more, and finite")
        need((self.by > 0) == (do in MEASURED), "by", f"must be {'positive' if do in MEASURED else '0'} for {do}")
        need(not self.name or do in (*TWO_SIDED, "heal", "release"), "name", f"is not for {do}")
        need(do != "join" or not self.who or self.every == 0, "every", "is for joins without names: names join once")
        for target in self.who if do == "join" else ():
            need(isinstance(target, str) and target not in KEYWORDS, "who", "must be names of nodes that are new")
        need(do not in TWO_SIDED or "all" not in self.who, "who", "cannot be all: name one side, the rest is the other")


class RandomChurn(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Events at random instants, each kind with a rate of its own: events a minute, over the whole group."""

    crash_rate: float = 0.0  #: Crashes a minute.
    leave_rate: float = 0.0  #: Orderly departures a minute; who left stays away.
    join_rate: float = 0.0  #: New nodes a minute.
    pause_rate: float = 0.0  #: Stopped processes a minute.
    slow_rate: float = 0.0  #: Nodes that become slow, a minute.
    partition_rate: float = 0.0  #: Partitions a minute, each splitting the nodes in two at random.
    block_rate: float = 0.0  #: One-way blocks a minute, of one node towards another.
    cut_rate: float = 0.0  #: Cut links a minute.
    clog_rate: float = 0.0  #: Clogged pairs a minute.
    clock_rate: float = 0.0  #: Stepped clocks a minute.
    wall_rate: float = 0.0  #: Stepped wall clocks a minute: they date what people read, and nothing may hang on them.
    resign_rate: float = 0.0  #: Leaders that resign, a minute; half of them name an heir.
    score_rate: float = 0.0  #: Nodes whose score changes, a minute.
    mean_lasting: Duration = seconds(
        5
    )  #: Mean time, exponential, until whatever it is ends; crashed nodes return then.
    disk_lost_prob: float = 0.0  #: Chance that a crashed node loses its durable state.
    disk_lost_max: int = 1_000_000  #: So many nodes at the most ever lose it by chance; a quorum bears a minority.
    slow_by: Duration = ms(200)  #: How long each input takes on a slow node.
    clock_by: Duration = seconds(1)  #: Clock steps are drawn from ± this.
    up_min: int = 1  #: Nobody crashes, leaves or is paused while no more nodes than these are up and running.

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if name.endswith("_rate") and not 0 <= value <= RATE_MAX:
                raise ConfigError(f"{value} is not a rate: give 0 to {RATE_MAX:g} a minute", field=name)
        if not 0 <= self.disk_lost_prob <= 1:
            raise ConfigError(f"{self.disk_lost_prob} is not a probability: give 0 to 1", field="disk_lost_prob")
        for name in ("mean_lasting", "slow_by", "clock_by"):
            if not 0 < getattr(self, name) < FOREVER:
                raise ConfigError("must be positive and finite", field=name)
        for name in ("up_min", "disk_lost_max"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{getattr(self, name)} is too few: give 0 or more", field=name)

    def rates(self) -> dict[str, float]:
        """Return the rates above 0, by deed."""
        names = [name for name in self.__struct_fields__ if name.endswith("_rate")]
        return {name.removesuffix("_rate"): getattr(self, name) for name in names if getattr(self, name) > 0}


class ChurnConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What befalls the group, by plan and by chance; over when the quiet time begins."""

    events: tuple[ChurnEvent, ...] = ()  #: Planned events: a list of tables.
    random: RandomChurn = RandomChurn()

    def deeds(self) -> set[str]:
        """Return every kind of event that is configured, to be counted."""
        planned: set[str] = {event.do for event in self.events}
        named = {event.name for event in self.events if event.name and event.do in TWO_SIDED}
        lost = {DISK_LOST} if self.loses_disks() else set()
        return planned | named | lost | set(self.random.rates())

    def loses_disks(self) -> bool:
        return self.random.disk_lost_prob > 0 or any(event.disk == "lost" for event in self.events)

    def corrupts(self) -> bool:
        return any(event.do == "corrupt" for event in self.events)

    def steps_clocks(self) -> bool:
        return any(deed.startswith("clock") for deed in self.deeds())


class Churn:
    """Does to one run what a configuration says."""

    def __init__(self, config: ChurnConfig, world: "World", *, begin: Instant, end: Instant) -> None:
        self.config, self.world, self.sim = config, world, world.sim
        self.counts: Counter[str] = Counter()  # By deed: how often it took effect.
        self.set_back: Counter[int] = Counter()  # By node: how far its clock was set back, in all.
        self._end, self._over, self._number = end, False, 0
        self._lost_disks: set[int] = set()  # Nodes that lost their durable state by chance.
        self._in_force: dict[str, str] = {}  # Partitions, blocks, cuts and clogs: the deed, by name.
        self._pending: dict[int, Callable[[], None]] = {}  # What ends by itself later, in the order it began.
        for index, event in enumerate(config.events):
            rng = self.sim.streams.of("churn event", index)
            self._plan(event.at, event, rng, f"{event.do} {' '.join(map(str, event.who))}".strip())
        for deed, rate in config.random.rates().items():
            rng = self.sim.streams.of(f"churn {deed}")
            self._draw(begin, deed, rate, rng)

    def stop(self) -> None:
        """Begin the quiet time: nothing new happens, what has not ended ends now, who is gone for good stays away."""
        self._over = True
        for key in list(self._pending):
            self._finish(key)
        for node in self.sim.nodes:
            self.sim.resume(node)
            self.sim.slow_down(node, 0)
        self._end_all("", clogs=False)
        self._end_all("", clogs=True)

    # When.

    def _plan(self, at: Instant, event: ChurnEvent, rng: Stream, what: str) -> None:
        def act() -> None:
            if not self._over:
                self._do(event, event.do, rng)
                if event.every and at + event.every <= min(event.until, self._end):
                    self._plan(at + event.every, event, rng, what)

        if at <= self._end:
            self.sim.at(at, act, what)

    def _draw(self, now: Instant, deed: str, rate: float, rng: Stream) -> None:
        at = now + int(rng.expovariate(rate) * 60e9)

        def act() -> None:
            if not self._over:
                self._do(self._drawn(deed, rng), deed, rng)
                self._draw(at, deed, rate, rng)

        if at < self._end:
            self.sim.at(at, act, f"random {deed}")

    def _drawn(self, deed: str, rng: Stream) -> ChurnEvent:
        """Draw an event of that kind."""
        random, do = self.config.random, deed
        lasting = max(1, int(rng.expovariate(1.0) * random.mean_lasting))
        said: dict[str, Any] = {"who": ("random",)}
        match deed:
            case "join":
                said = {}
            case "leave" | "pause":
                said = {"who": self._expendable(rng)}
            case "crash":
                loses = rng.random() < random.disk_lost_prob
                who = self._expendable(rng)
                said = {"who": who, "disk": self._disk(who[0], loses)}
            case "slow":
                said["by"] = random.slow_by
            case "resign":
                said = {"who": ("leader",), "to": ("random",) if rng.random() < 0.5 else ()}
            case "wall":
                do = "wall-clock"
            case "partition":
                said = {"who": tuple(node.index for node in self.sim.nodes if rng.random() < 0.5) or (0,)}
            case "cut":
                links = self.sim.network.topology.links() if len(self.sim.nodes) > 1 else []
                a, b = links[int(rng.random() * len(links))] if links else (0, 0)
                said = {"who": (a,), "to": (b,)}
            case "clock":
                step = (2.0 * rng.random() - 1.0) * random.clock_by
                do = "clock-forward" if step > 0 else "clock-back"
                said["by"] = max(1, abs(int(step)))
            case "block" | "clog":
                said["to"] = ("random",)
        if do in LASTING:
            said["lasting"] = lasting
        return ChurnEvent(do=cast(Deed, do), at=self.sim.now, **said)

    def _expendable(self, rng: Stream) -> tuple[Target, ...]:
        """Return a node that may go; an index that does not exist if none may."""
        running = [node.index for node in self.sim.nodes if node.state in ("up", "slow")]
        return (running[int(rng.random() * len(running))] if len(running) > self.config.random.up_min else -1,)

    def _disk(self, index: Target, loses: bool) -> Literal["kept", "lost"]:
        if not loses or not isinstance(index, int) or index < 0:
            return "kept"
        if index not in self._lost_disks and len(self._lost_disks) >= self.config.random.disk_lost_max:
            return "kept"
        self._lost_disks.add(index)
        return "lost"

    # What.

    def _do(self, event: ChurnEvent, knob: str, rng: Stream) -> None:
        """Carry out an event, and count it under `knob`: the deed, or the rate that drew it."""
        match event.do:
            case "join":
                self._join(event, rng)
            case "heal" | "release":
                self.counts[knob] += self._end_all(event.name, clogs=event.do == "release")
            case "partition" | "block" | "cut" | "clog":
                self._part(event, rng)
            case _:
                self.counts[knob] += sum(self._befall(event, node, rng) for node in self._able(event, rng))

    def _able(self, event: ChurnEvent, rng: Stream) -> list[SimNode]:
        return self._targets(event.who, [node for node in self.sim.nodes if self._can(event.do, node)], rng)

    def _resign(self, event: ChurnEvent, node: SimNode, rng: Stream) -> bool:
        heirs = self._targets(event.to, [other for other in self.sim.up() if other is not node], rng)
        if not self.world.resign(node, heirs[0].name if heirs else None):
            return False
        self._later(event, lambda: self.world.stand(node), f"{node.name} stands again")
        return True

    def _can(self, deed: str, node: SimNode) -> bool:
        match deed:
            case "restart":
                return True
            case "resume":
                return node.state == "paused"
            case "pause" | "slow":
                return node.state in ("up", "slow")
            case "resign":
                return node.state == "up"
            case _:
                return node.host is not None

    def _befall(self, event: ChurnEvent, node: SimNode, rng: Stream) -> bool:
        """Do to a node what the event says; return whether that took effect."""
        sim = self.sim
        match event.do:
            case "resign":
                return self._resign(event, node, rng)
            case "corrupt":
                return self.world.corrupt(node, rng)
            case "score":
                self.world.set_score(node, float(int(rng.random() * SCORES)))
            case "wall-clock":
                self.world.step_wall_clock(node, int((2.0 * rng.random() - 1.0) * WALL_STEP_MAX))
            case "leave":
                self.world.leave(node)
            case "crash":
                self.counts[DISK_LOST] += event.disk == "lost"
                sim.crash(node, disk=event.disk)
                self._later(event, lambda: self._return(node), f"{node.name} returns")
            case "restart":
                self.counts[DISK_LOST] += event.disk == "lost"
                sim.crash(node, disk=event.disk)
                if event.disk == "lost":
                    node.disk.clear()  # It may have been down already.
                sim.start(node)
            case "pause":
                sim.pause(node)
                self._later(event, lambda: sim.resume(node), f"{node.name} resumes")
            case "resume":
                sim.resume(node)
            case "slow":
                sim.slow_down(node, event.by)
                self._later(event, lambda: sim.slow_down(node, 0), f"{node.name} is fast again")
            case "clock-forward" | "clock-back":
                assert node.clock is not None
                back = event.do == "clock-back"
                stepped = Clock(node.clock.offset - event.by if back else node.clock.offset + event.by)
                stepped.rate = node.clock.rate
                sim.set_clock(node, stepped)
                self.set_back[node.index] += event.by if back else 0
        return True

    def _return(self, node: SimNode) -> None:
        if node.host is None:  # Else something restarted it meanwhile.
            self.sim.start(node)

    def _join(self, event: ChurnEvent, rng: Stream) -> None:
        for name in event.who or (None,):
            others = list(self.sim.up())
            neighbours = self._targets(event.to or ("random",), others, rng)
            if name is None or name not in self.sim.by_name:
                self.world.join(None if name is None else str(name), neighbours)
                self.counts["join"] += 1

    def _part(self, event: ChurnEvent, rng: Stream) -> None:
        sim, everybody = self.sim, list(self.sim.nodes)
        one = self._targets(event.who, everybody, rng)
        rest = [node for node in everybody if node not in one]
        other = self._targets(event.to, rest, rng) if event.to else rest
        pairs = [(a, b) for a in one for b in other]
        self._number += 1
        name = f"{event.name or event.do}#{self._number}"
        match event.do:
            case "cut":
                linked = sim.network.topology
                pairs = [(a, b) for a, b in pairs if linked.complete or b.index in linked.neighbours(a.index)]
                if pairs:
                    sim.cut(name, pairs)
            case "clog" if pairs:
                sim.clog(name, [*pairs, *((b, a) for a, b in pairs)])
            case "block" if pairs:
                sim.block(name, pairs)
            case "partition" if pairs:
                sim.partition(name, one, other)
        if pairs:
            self.counts[event.do] += 1
            if event.name:
                self.counts[event.name] += 1
            self._in_force[name] = event.do
            self._later(event, lambda: self._clear(name), f"{name} ends")

    def _clear(self, name: str) -> None:
        deed = self._in_force.pop(name, None)
        if deed is not None:
            (self.sim.release if deed == "clog" else self.sim.heal)(name)

    def _end_all(self, name: str, *, clogs: bool) -> int:
        """End clogs, or all that is not one, of that name or of any (""); return how many there were."""
        kinds = [one for one, deed in self._in_force.items() if (deed == "clog") == clogs]
        found = [one for one in kinds if name in ("", one.rpartition("#")[0])]
        for one in found:
            self._clear(one)
        return len(found)

    def _later(self, event: ChurnEvent, end: Callable[[], Any], what: str) -> None:
        """Have an event end by itself, at its time or when the quiet time begins."""
        if event.lasting >= FOREVER:
            return
        self._number += 1
        key = self._number
        self._pending[key] = end
        self.sim.at(self.sim.now + event.lasting, lambda: self._finish(key), what)

    def _finish(self, key: int) -> None:
        end = self._pending.pop(key, None)
        if end is not None:
            end()

    # Whom.

    def _targets(self, names: Iterable[Target], candidates: list[SimNode], rng: Stream) -> list[SimNode]:
        chosen: list[SimNode] = []
        for name in names:
            left = [node for node in candidates if node not in chosen]
            match name:
                case "all":
                    chosen += left
                case "random":
                    chosen += [left[int(rng.random() * len(left))]] if left else []
                case "others":
                    acting = self.world.acting()
                    chosen += [node for node in left if node not in acting]
                case "leader":
                    chosen += [node for node in self.world.acting() if node in left][:1]
                case _:
                    chosen += [node for node in left if name in (node.index, node.name)]
        return chosen
