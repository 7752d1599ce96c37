"""The runs whose tapes are kept: every election, membership, rank, oracle and fault of `doyen.testing.Cluster`.

A run is named `ELECTION+MEMBERSHIP[+RANK or +oracle=NAME]/SCRIPT`; its seed and its size follow from its place in the
list, so new runs are added at the end.  The oracle `quality` gets its measures by hand, so that it reads nothing of the
machine that it runs on.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final

import reach
from msgspec import Struct
from tape import Tape

from doyen.errors import LocalProtocolError
from doyen.testing import Cluster

ANNOUNCING: Final = ("announce", "le-a", "le-s", "le-m")
CHURN_TOLERANT: Final = ("base", "optimistic", "preferred", "hybrid")
LISTS: Final = ("swim", "medley", "heartbeat", "ring")
ORACLES: Final = ("score", "consensus", "latency", "worst-case", "request", "rotating", "quality")


class Stage:
    """A cluster, and a count of the faults that a script injects into it."""

    def __init__(self, cluster: Cluster, election: str, seed: int) -> None:
        self.cluster, self.election, self.random = cluster, election, Random(seed)
        self.faults: dict[str, int] = {}

    def run(self, seconds: float) -> None:
        """Let time pass; a slow node may refuse a command only when it gets to it."""
        until_s = self.cluster.now_s + seconds
        while True:
            try:
                return self.cluster.run_for(max(0.0, until_s - self.cluster.now_s))
            except LocalProtocolError:
                self.count("refused late")

    def count(self, fault: str) -> None:
        self.faults[fault] = self.faults.get(fault, 0) + 1

    def leader(self) -> str:
        """Return who leads; if nobody does, whom most running nodes name, or one of them."""
        up = self.cluster.up() or self.cluster.names
        named = [name for name in map(self.cluster.named_by, up) if name is not None]
        found = self.cluster.leader() or (max(sorted(set(named)), key=named.count) if named else up[0])
        return found if found in up else up[0]

    def other(self) -> str:
        """Return a running node that does not lead."""
        leader = self.leader()
        return next((name for name in reversed(self.cluster.up()) if name != leader), leader)

    def do(self, fault: str, *arguments: Any, **named: Any) -> Any:
        """Inject one fault by its name, and count it; a command may be refused, and that is counted too."""
        self.count(fault)
        mine: dict[str, Callable[..., None]] = {
            "stand": reach.stand,
            "slow disk": reach.set_disk_delay,
            "break link": reach.break_link,
            "change seeds": reach.change_seeds,
            "unreachable": reach.unreachable,
            "keep number": reach.keep_number,
        }
        if fault in mine:
            return mine[fault](self.cluster, *arguments, **named)
        method = {"slow": "slow_down", "loss changed": "set_loss"}.get(fault, fault.replace(" ", "_"))
        try:
            return getattr(self.cluster, method)(*arguments, **named)
        except LocalProtocolError:
            if fault != "resign":
                raise
            self.count("resign refused")

    @property
    def can_resign(self) -> bool:
        return self.election not in ("local", "by-key")

    @property
    def can_stand(self) -> bool:
        return self.election in (*ANNOUNCING, *CHURN_TOLERANT, "spanning")


# Scripts: each begins with a group that has just started.


def calm(stage: Stage) -> None:
    stage.run(6)


def score(stage: Stage) -> None:
    for number, name in enumerate(stage.cluster.names):
        stage.do("set score", name, float(number % 3))
    stage.run(2)
    stage.do("set score", stage.other(), 7.5)
    stage.run(2)
    stage.do("set score", stage.leader(), -2.0)
    stage.run(2)


def noise(stage: Stage) -> None:
    """Loss, duplicates and jitter are in the network of this run from the start."""
    stage.run(3)
    stage.do("loss changed", 0.5)
    stage.run(1.5)
    stage.do("loss changed", 0.0)
    stage.run(1.5)


def crash_kept(stage: Stage) -> None:
    stage.run(2)
    first = stage.leader()
    stage.do("crash", first, disk="kept")
    stage.run(2.5)
    stage.do("restart", first)
    stage.run(2)


def crash_lost(stage: Stage) -> None:
    stage.run(2)
    first = stage.leader()
    stage.do("crash", first, disk="lost")
    stage.run(0.3)
    stage.do("restart", first)
    stage.run(2.5)
    second = stage.other()
    stage.do("crash", second, disk="lost")
    stage.run(2)
    stage.do("restart", second)
    stage.run(1.5)


def partition(stage: Stage) -> None:
    stage.run(2)
    label = stage.do("partition", {stage.leader()}, rest=True)
    stage.run(2.5)
    stage.do("heal", label)
    stage.run(2.5)


def one_way(stage: Stage) -> None:
    stage.run(1.5)
    leader, other = stage.leader(), stage.other()
    stage.do("cut", leader, other)
    stage.run(2)
    stage.do("heal")
    stage.do("cut", other, leader)
    stage.run(2)
    stage.do("heal")
    stage.run(1)


def pause(stage: Stage) -> None:
    stage.run(2)
    first = stage.leader()
    stage.do("pause", first)
    stage.run(2)
    stage.do("resume", first)
    stage.run(2)


def slow(stage: Stage) -> None:
    stage.run(1.5)
    first = stage.leader()
    stage.do("slow", first, "30ms")
    stage.run(2)
    stage.do("slow", first, 0)
    stage.run(2)


def clock(stage: Stage) -> None:
    stage.run(1.5)
    stage.do("step clock", stage.leader(), "700ms")
    stage.run(1.5)
    stage.do("step clock", stage.other(), "5s")
    stage.run(2.5)


def resign(stage: Stage) -> None:
    stage.run(2)
    if stage.can_resign:
        first = stage.leader()
        stage.do("resign", first, to=stage.other())
        stage.run(1.5)
        second = stage.leader()
        stage.do("resign", second)
        stage.run(1.5)
        if stage.can_stand:
            stage.do("stand", first)
            stage.do("stand", second)
    stage.run(2)


def leave(stage: Stage) -> None:
    stage.run(2)
    first = stage.other()
    stage.do("leave", first)
    stage.run(1)
    stage.do("leave", stage.leader())
    stage.run(2)
    stage.do("restart", first)
    stage.run(2)


def disk(stage: Stage) -> None:
    stage.do("slow disk", "40ms")
    stage.run(2)
    stage.do("slow disk", "400ms")
    first = stage.leader()
    stage.do("crash", first, disk="kept")
    stage.run(1.2)
    second = stage.other()
    stage.do("crash", second, disk="kept")
    stage.run(0.2)
    stage.do("restart", second)
    stage.do("restart", first)
    stage.run(3)


def link(stage: Stage) -> None:
    stage.run(2)
    leader, other = stage.leader(), stage.other()
    for name in stage.cluster.names:
        if name != leader:
            stage.do("break link", name, leader, gone=False)
    stage.run(0.4)
    stage.do("crash", leader, disk="kept")
    stage.do("break link", other, leader, gone=True)
    stage.run(1.5)
    stage.do("restart", leader)
    stage.run(1.5)


def storm(stage: Stage) -> None:
    """Fourteen faults in a random order, two of them at one instant now and then, then two calm seconds."""
    draw, cluster = stage.random, stage.cluster
    stage.run(1)
    for _ in range(14):
        name, other = draw.sample(cluster.names, 2)
        match draw.choice(["crash", "restart", "cut", "partition", "heal", "pause", "slow", "clock", "score", "order"]):
            case "crash" if len(cluster.up()) > 2:
                stage.do("crash", name, disk=draw.choice(["kept", "lost"]))
            case "restart":
                for down in sorted({*cluster.names} - {*cluster.up()}):
                    stage.do("restart", down)
            case "cut":
                stage.do("cut", name, other)
            case "partition":
                stage.do("partition", {name, other}, rest=len(cluster.names) > 2)
            case "heal":
                stage.do("heal")
            case "pause":
                stage.do("pause", name)
                stage.run(draw.random())
                stage.do("resume", name)
            case "slow":
                stage.do("slow", name, draw.choice(["5ms", "0ms"]))
            case "clock":
                stage.do("step clock", name, draw.random() / 4)
            case "score":
                stage.do("set score", name, draw.random() * 10)
            case "order" if stage.can_resign and name in cluster.up():
                stage.do("resign", name)
        stage.run(draw.choice([0, 0.05, 0.3, 0.7]))
    stage.do("heal")
    for down in sorted({*cluster.names} - {*cluster.up()}):
        stage.do("restart", down)
    stage.run(2)


# Scripts for a few stacks only.


def long(stage: Stage) -> None:
    """Two members go, one in order and one by a crash, and are forgotten; one that resigned stands again."""
    stage.run(3)
    if stage.can_resign:
        stage.do("resign", stage.leader())
    stage.run(2)
    stage.do("leave", stage.other())
    stage.run(2)
    stage.do("crash", stage.other(), disk="kept")
    stage.run(70)
    stage.do("change seeds", stage.leader(), *stage.cluster.names)
    stage.run(5)


def worn_out(stage: Stage) -> None:
    """Of two members that come back, one remembers the greatest number there is."""
    stage.run(2)
    first = stage.leader()
    stage.do("unreachable", stage.other(), first)
    stage.run(1)
    second = stage.other()
    stage.do("crash", first, disk="kept")
    stage.do("crash", second, disk="kept")
    stage.run(0.5)
    stage.do("keep number", second, 2**53 - 2)
    stage.do("restart", second)
    stage.run(3)
    stage.do("restart", first)
    stage.run(6)


NOISY: Final = {"loss": 0.2, "duplicates": 0.1, "jitter": "4ms"}
SCRIPTS: Final[dict[str, tuple[Callable[[Stage], None], dict[str, Any]]]] = {
    "calm": (calm, {}),
    "score": (score, {}),
    "noise": (noise, NOISY),
    "crash-kept": (crash_kept, {}),
    "crash-lost": (crash_lost, {}),
    "partition": (partition, {}),
    "one-way": (one_way, {}),
    "pause": (pause, {}),
    "slow": (slow, {}),
    "clock": (clock, {}),
    "resign": (resign, {}),
    "leave": (leave, {}),
    "disk": (disk, {}),
    "link": (link, {}),
    "storm": (storm, {"jitter": "2ms"}),
    "noisy-storm": (storm, NOISY),
}


SPECIAL: Final[dict[str, tuple[Callable[[Stage], None], dict[str, Any]]]] = {
    "long": (long, {}),
    "worn-out": (worn_out, {}),
    "far": (storm, {"delay": "40ms", "jitter": "30ms", "loss": 0.05}),
}


class Run(Struct, frozen=True):
    """One run, complete: the same values give the same tapes."""

    stack: str
    script: str
    nodes: int
    seed: int
    fields: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{self.stack}/{self.script}"


class Recorded(Struct, frozen=True):
    """What a run came to."""

    tapes: dict[str, Tape]  # By node and channel.
    faults: dict[str, int]  # How often each was injected, and how often each did harm.

    def summary(self) -> dict[str, Any]:
        return {"faults": self.faults} | {key: str(tape) for key, tape in sorted(self.tapes.items())}


def record(run: Run, *, verbose: bool = False) -> Recorded:
    """Play a run and return its tapes."""
    script, network = (SCRIPTS | SPECIAL)[run.script]
    tapes: reach.Tapes = {}
    with reach.listening(tapes, verbose=verbose):
        cluster = Cluster(run.nodes, seed=run.seed, **network, **run.fields)
        stage = Stage(cluster, run.fields["election"], run.seed)
        script(stage)
    faults = {**stage.faults, **{f"did {kind}": count for kind, count in reach.fired(cluster).items()}}
    return Recorded({f"{node}/{channel}": tape for (node, channel), tape in tapes.items()}, faults)


def stacks() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every stack that makes sense, by name."""
    for election in ANNOUNCING:
        for membership in ("none", *LISTS):
            yield f"{election}+{membership}", {"election": election, "membership": membership}
    for election in CHURN_TOLERANT:
        for membership in LISTS:
            for rank in ("hash", "score"):
                fields = {"election": election, "membership": membership, "rank": rank}
                yield f"{election}+{membership}+{rank}", fields
    for election in ("local", "spanning"):
        for membership in LISTS:
            yield f"{election}+{membership}", {"election": election, "membership": membership}
    for membership in ("none", *LISTS):
        yield f"pole+{membership}", {"election": "pole", "membership": membership}
    for oracle in ORACLES[1:]:
        asked: dict[str, Any] = {"election": "pole", "membership": "none", "oracle": oracle, "request_rate": 3.0}
        if oracle == "quality":
            asked |= {"attributes": ("room:0:10:1",), "measures": ("room=4",)}
        yield f"pole+none+oracle={oracle}", asked
    yield "by-key+ring", {"election": "by-key", "membership": "ring"}
    several = {"election": "hybrid", "membership": "swim", "elections": ("a=le-s", "b=pole", "c=spanning", "d=local")}
    yield "hybrid+swim+further", several
    fixed = {"election": "hybrid", "membership": "swim", "ctolerant": {"missing_max": 1}}
    yield "hybrid+swim+missing_max=1", fixed


def special() -> Iterator[tuple[str, dict[str, Any], int, tuple[str, ...]]]:
    """Yield stacks with settings other than the preset's: their names, fields, sizes and scripts."""
    rough = ("storm", "noisy-storm", "far", "partition", "crash-lost")
    asking: dict[str, Any] = {"query_timeout": "40ms", "leader_count": 2, "ageing_after": "300ms", "bye_from_all": True}
    shaped: dict[str, Any] = {"timer": "exponential", "rank_map": "likely", "bye_loss": 0.2}
    for name, table in (("asking", asking), ("shaped", shaped), ("both", asking | shaped)):
        fields: dict[str, Any] = {"election": "announce", "membership": "none", "announce": table}
        yield f"announce+none+{name}", fields, 5, (*rough, "leave", "score", "crash-kept")
    for kind in CHURN_TOLERANT:
        fields = {"election": kind, "membership": "swim", "ctolerant": {"missing_max": 2, "resign_cool_down": "1s"}}
        yield f"{kind}+swim+missing_max=2", fields, 6, (*rough, "resign")
    for each_side, size in ((1, 8), (2, 9)):
        fields = {"election": "spanning", "membership": "heartbeat", "links_each_side": each_side}
        yield f"spanning+heartbeat+links={each_side}", fields, size, (*rough, "resign", "pause", "one-way", "worn-out")
    tight = {"election": "spanning", "membership": "swim", "spanning": {"hop_delay": "3ms", "diameter_max": 2}}
    yield "spanning+swim+tight", {**tight, "links_each_side": 1}, 7, (*rough, "slow", "noise", "worn-out")
    rings: dict[str, dict[str, Any]] = {
        "narrow": {"neighbours": 1},
        "central": {"arbiters": "central"},
        "majority": {"partition": "majority", "expected_size": 8},
        "split": {"partition": "split", "neighbours": 2},
        "printed": {
            "resends": 0,
            "announced": False,
            "double_majority": False,
            "abort_silent": False,
            "early_upgrades": False,
            "slotted_join": True,
            "rejoin": False,
        },
    }
    for name, table in rings.items():
        fields = {"election": "by-key", "membership": "ring", "ring": table}
        yield f"by-key+ring+{name}", fields, 8, (*rough, "leave", "crash-kept", "pause", "one-way")
    kept = {"failed_kept": "8s", "unhealthy_half_life": "10s"}
    forgetful: dict[str, dict[str, Any]] = {
        "swim": kept | {"left_kept": "4s", "tombstone_kept": "10s"},
        "medley": {"unhealthy_half_life": "10s"},
        "heartbeat": kept,
        "ring": {},
    }
    for membership, table in forgetful.items():
        long_lived: dict[str, Any] = {"election": "hybrid", "membership": membership}
        yield f"hybrid+{membership}+long", long_lived, 4, ("long",)
        if table:
            yield f"hybrid+{membership}+forgetful", {**long_lived, membership: table}, 5, ("long", "storm")
    restless = {"resign_interval": "200ms", "resign_rounds": 2, "cool_down": "500ms"}
    for oracle in ("score", "consensus", "latency"):
        fields = {"election": "pole", "membership": "none", "oracle": oracle, "pole": restless}
        yield f"pole+none+restless+oracle={oracle}", fields, 5, ("score", "one-way", "slow", "far", "noisy-storm")
    for preset in ("lan", "wan", "iot"):
        for election in ("le-s", "hybrid", "spanning", "pole", "by-key"):
            yield f"{election}+{preset}", {"election": election, "preset": preset}, 4, ("crash-kept", "far")


def all_runs() -> list[Run]:
    """Return all runs: on each stack a storm and three further scripts in turn, then what any part has not met yet."""
    found: dict[str, Run] = {}
    met: set[tuple[str, str]] = set()  # An election or a membership, and a script.

    def add(stack: str, script: str, fields: dict[str, Any]) -> None:
        number = len(found)
        run = Run(stack, script, 3 + number % 4, 100 + number, fields)
        found.setdefault(run.name, run)
        met.update((part, script) for part in parts(fields))

    def parts(fields: dict[str, Any]) -> tuple[str, str]:
        return fields["election"], fields["membership"]

    names = list(SCRIPTS)
    for number, (stack, fields) in enumerate(stacks()):
        for script in ("storm", *(names[(3 * number + step) % len(names)] for step in range(3))):
            add(stack, script, fields)
    for stack, fields in stacks():
        for script in names:
            if not met.issuperset((part, script) for part in parts(fields)):
                add(stack, script, fields)
    for stack, fields, size, scripts in special():
        for script in scripts:
            run = Run(stack, script, size, 100 + len(found), fields)
            found[run.name] = run
    return list(found.values())
