"""Injects faults into a group: nodes that come, go, crash, return, stop for a while; links that break, block and clog.

Planned events are a list; random ones have a rate each.  Every deed draws from a stream of its own, so that adding
one leaves the others where they were, and each is counted where it took effect (`Churn.counts`): an event without a
target counts nothing.

    who, to    names, indices, or: `leader` (the best that acts as one), `others` (all that do not act as one), `random`
               (one to which it can happen), `all` (every such one); `to` left out means everybody else
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, cast

from msgspec import Meta
from msgspec.structs import asdict

from doyen.core.clock import FOREVER, Duration, Instant, ms, seconds
from doyen.core.config import Config, Count, Doc, Pause, Period, Probability, Timeout, need
from doyen.sim.links import SHAPES, Shape, cuts_of
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
    "star",
    "chain",
    "one-way-star",
    "graph",
    "heal",
    "clog",
    "release",
    "clock-forward",
    "clock-back",
    "wall-clock",
    "resign",
    "will",
    "old-will",
    "baton",
    "voters",
    "score",
    "corrupt",
    "hang",
    "io-error",
]
Target = int | str

KEYWORDS: Final = ("leader", "others", "random", "all")
TWO_SIDED: Final = ("partition", "block", "cut", "clog")
LASTING: Final = ("crash", "will", "pause", "slow", "resign", "hang", "io-error", *TWO_SIDED, *SHAPES)
MEASURED: Final = ("slow", "clock-forward", "clock-back")
NOBODY: Final = ("join", "heal", "release", "graph", "old-will")  # Deeds without a target.
DISK_LOST: Final = "disk lost"
LATE_CLAIM: Final = "late claim"
Rate: TypeAlias = Annotated[float, Meta(ge=0, le=60_000)]  # A minute; the most is one in a millisecond.
WALL_STEP_MAX: Final[Duration] = seconds(5)
SCORES: Final = 20  # Scores are drawn from 0 to below this, in whole numbers.


class ChurnEvent(Config, frozen=True, kw_only=True):
    """One planned event, or a series of them."""

    do: Annotated[Deed, Doc("What happens.")]
    at: Annotated[Pause, Doc("When, since the start of the run.")]
    every: Annotated[Pause, Doc("Again after each such time; 0: once.")] = 0
    until: Annotated[Duration, Doc("every: not after this.")] = FOREVER
    who: Annotated[
        tuple[Target, ...],
        Doc("The targets; join: names of new nodes (none: one is made up); star, chain, one-way-star: the hub."),
    ] = ()
    to: Annotated[
        tuple[Target, ...],
        Doc("partition, block, cut, clog: the other side; join: whom it is linked to; resign: heirs."),
    ] = ()
    lasting: Annotated[
        Timeout, Doc("When it ends: who crashed restarts, who resigned stands again, the rest is over.")
    ] = FOREVER
    disk: Annotated[Literal["kept", "lost"], Doc("crash, restart: what becomes of the node's durable state.")] = "kept"
    by: Annotated[Pause, Doc("slow: how long each input takes; clock-forward, clock-back: the step.")] = 0
    name: Annotated[
        str, Doc("Of what is done to links: its name; heal, release: the name of what ends (none: all).")
    ] = ""

    def check(self) -> None:
        do = self.do
        need(self.until == FOREVER or self.every > 0, "until", "is for series: give every too")
        need(self.until >= self.at, "until", "is before at")
        need(bool(self.who) or do in NOBODY, "who", f"is missing: to whom does {do} happen? e.g. who = ['leader']")
        need(not self.who or do not in ("heal", "release"), "who", f"is not for {do}: give the name of what ends")
        need(not self.to or do in (*TWO_SIDED, "join", "resign"), "to", f"is not for {do}")
        need(self.lasting == FOREVER or do in LASTING, "lasting", f"is not for {do}: it is over at once")
        need(self.disk == "kept" or do in ("crash", "restart"), "disk", f"is not for {do}")
        need((self.by > 0) == (do in MEASURED), "by", f"must be {'positive' if do in MEASURED else '0'} for {do}")
        need(not self.name or do in (*TWO_SIDED, *SHAPES, "heal", "release"), "name", f"is not for {do}")
        need(not self.who or do != "graph", "who", "is not for graph: it draws all links")
        need(do != "join" or not self.who or self.every == 0, "every", "is for joins without names: names join once")
        for target in self.who if do == "join" else ():
            need(isinstance(target, str) and target not in KEYWORDS, "who", "must be names of nodes that are new")
        need(do not in TWO_SIDED or "all" not in self.who, "who", "cannot be all: name one side, the rest is the other")


class RandomChurn(Config, frozen=True, kw_only=True):
    """Events at random instants, each kind with a rate of its own: how many a minute, over the whole group."""

    crash_rate: Annotated[Rate, Doc("Crashes a minute.")] = 0.0
    leave_rate: Annotated[Rate, Doc("Orderly departures a minute; who left stays away.")] = 0.0
    join_rate: Annotated[Rate, Doc("New nodes a minute.")] = 0.0
    pause_rate: Annotated[Rate, Doc("Stopped processes a minute.")] = 0.0
    slow_rate: Annotated[Rate, Doc("Nodes that become slow, a minute.")] = 0.0
    partition_rate: Annotated[Rate, Doc("Partitions a minute, each splitting the nodes in two at random.")] = 0.0
    block_rate: Annotated[Rate, Doc("One-way blocks a minute, of one node towards another.")] = 0.0
    cut_rate: Annotated[Rate, Doc("Cut links a minute.")] = 0.0
    graph_rate: Annotated[Rate, Doc("Random graphs of links a minute: some pairs linked one way, some not.")] = 0.0
    clog_rate: Annotated[Rate, Doc("Clogged pairs a minute.")] = 0.0
    clock_rate: Annotated[Rate, Doc("Stepped clocks a minute.")] = 0.0
    wall_rate: Annotated[Rate, Doc("Stepped wall clocks a minute: they only date what people read.")] = 0.0
    resign_rate: Annotated[Rate, Doc("Leaders that resign, a minute; half of them name an heir.")] = 0.0
    will_rate: Annotated[
        Rate,
        Doc("Leaders of a quorum killed a minute, each with a will that is sent once all that it began has ended."),
    ] = 0.0
    old_will_rate: Annotated[Rate, Doc("Wills of terms that are over, sent again, a minute.")] = 0.0
    baton_rate: Annotated[Rate, Doc("Batons a minute that leaders of a quorum hand on; half of them are two.")] = 0.0
    voters_rate: Annotated[
        Rate,
        Doc("Changes of a quorum's voters a minute: one is added, removed or replaced; never fewer than at first."),
    ] = 0.0
    score_rate: Annotated[Rate, Doc("Nodes whose score changes, a minute.")] = 0.0
    hang_rate: Annotated[Rate, Doc("Nodes for which the shared directory hangs, a minute.")] = 0.0
    io_error_rate: Annotated[Rate, Doc("Nodes for which the shared directory fails, a minute.")] = 0.0
    mean_lasting: Annotated[
        Period, Doc("The mean time, exponential, until a fault ends; crashed nodes return then.")
    ] = seconds(5)
    disk_lost_prob: Annotated[Probability, Doc("The chance that a crashed node loses its durable state.")] = 0.0
    late_claim_prob: Annotated[
        Probability,
        Doc("The chance that a claim in the shared directory is late by mean_lasting, and that its answer is."),
    ] = 0.0
    disk_lost_max: Annotated[Count, Doc("Nodes that ever lose it by chance; a quorum bears a minority.")] = 1_000_000
    slow_by: Annotated[Period, Doc("How long each input takes on a slow node.")] = ms(200)
    clock_by: Annotated[Period, Doc("Clock steps are drawn from ± this.")] = seconds(1)
    up_min: Annotated[Count, Doc("Nobody crashes, leaves or is paused while only this many nodes are up.")] = 1

    def rates(self) -> dict[str, float]:
        """Return the rates above 0, by deed."""
        given = {name: rate for name, rate in asdict(self).items() if name.endswith("_rate")}
        rates = {name.removesuffix("_rate").replace("_", "-"): rate for name, rate in given.items()}
        return {deed: rate for deed, rate in rates.items() if rate > 0}


class ChurnConfig(Config, frozen=True, kw_only=True):
    """The faults of one run, by plan and by chance; over when the quiet time begins."""

    events: Annotated[tuple[ChurnEvent, ...], Doc("Planned events: a list of tables.")] = ()
    random: RandomChurn = RandomChurn()

    def deeds(self) -> set[str]:
        """Return every kind of event that is configured, to be counted."""
        planned: set[str] = {event.do for event in self.events}
        named = {event.name for event in self.events if event.name and event.do in (*TWO_SIDED, *SHAPES)}
        lost = {DISK_LOST} if self.loses_disks() else set()
        late = {LATE_CLAIM} if self.random.late_claim_prob else set()
        return planned | named | lost | late | set(self.random.rates())

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
        if config.random.late_claim_prob:
            rng = self.sim.streams.of("churn late claim")
            self.world.folder.holds_claims = lambda: self._holds_claim(rng)
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
        self.world.folder.calm()
        for node in self.sim.nodes:
            self.sim.resume(node)
            self.sim.slow_down(node, 0)
        self._end_all("", clogs=False)
        self._end_all("", clogs=True)

    def _holds_claim(self, rng: Stream) -> Duration:
        """Return for how long a claim in the shared directory is held back."""
        random = self.config.random
        if self._over or rng.random() >= random.late_claim_prob:
            return 0
        self.counts[LATE_CLAIM] += 1
        return int(rng.expovariate(1.0) * random.mean_lasting)

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
            case "join" | "graph" | "old-will":
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
            case "baton" | "voters" | "will":
                said = {"who": ("leader",)}
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
            case "star" | "chain" | "one-way-star" | "graph":
                self._shape(event, event.do, rng)
            case "old-will":
                self.counts[knob] += self.world.wills.play(rng)
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
            case "resign" | "baton" | "voters" | "will":
                return node.state == "up"
            case _:
                return node.host is not None

    def _befall(self, event: ChurnEvent, node: SimNode, rng: Stream) -> bool:
        """Do to a node what the event says; return whether that took effect."""
        sim = self.sim
        match event.do:
            case "resign":
                return self._resign(event, node, rng)
            case "will":
                if not self.world.wills.kill(node, rng):
                    return False
                self._later(event, lambda: self._return(node), f"{node.name} returns")
            case "corrupt":
                return self.world.corrupt(node, rng)
            case "baton":
                return self.world.pass_on(node, 1 + (rng.random() < 0.5))
            case "voters":
                return self.world.change_voters(node, rng)
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
            case "hang" | "io-error":
                begin, end = self.world.folder.disturb(node, event.do)
                begin()
                self._later(event, end, f"the directory answers {node.name} again")
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
            self._now_in_force(event, name)

    def _shape(self, event: ChurnEvent, shape: Shape, rng: Stream) -> None:
        """Give the links between all nodes a shape, in place of the one that they have."""
        hub = next(iter(self._targets(event.who, list(self.sim.up()), rng)), None)
        if hub is None and shape != "graph":
            return
        for name in [name for name, deed in self._in_force.items() if deed in SHAPES]:
            self._clear(name)
        self._number += 1
        name = f"{event.name or shape}#{self._number}"
        self.sim.block(name, cuts_of(shape, self.sim.nodes, hub, rng.random))
        self._now_in_force(event, name)

    def _now_in_force(self, event: ChurnEvent, name: str) -> None:
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
