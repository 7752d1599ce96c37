"""What must hold in every run, each watched by a small class that counts how often it really looked.

    terms       a node's term number never goes back while it lives, pauses included; with durable terms it also starts
                no lower than what its disk held (announce-listen itself keeps nothing over a restart)
    reigns      a node's own LeaderElected and LeaderLost alternate, a reign's term only rises, nobody loses a leader
                it was not told of, and the machine leads exactly while it told so (but for what waits for a disk)
    unique      no term (number and name) is acted under twice: by two nodes, in two reigns of one life, or, where
                terms are kept over restarts, in two lives
    existed     whoever is named has claimed to lead before, and no term number comes from nowhere
    inner       a machine's own fields fit together
    incumbent   LE-M: nobody claims to be better than what it had heard when it woke  [LE §5.4.3]
    steady      in quiet time, once settled, nobody changes its mind
    agreement   after quiet time every connected region names its best eligible members, and they act

A violation raises `InvariantViolated` out of the event that caused it; the run stops there.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Final, Protocol

from doyen.core.clock import Instant
from doyen.core.ids import NodeId, Term
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.rank import Standing
from doyen.election.announce import Announce, Announcement, Query, Status
from doyen.errors import InvariantViolated
from doyen.sim.engine import Simulation
from doyen.sim.node import SimNode

LOOK_MAX: Final = 16  # Checkers that look at nodes after every event look at so many, in turn.
LEADERSHIP: Final = (LeaderElected, LeaderLost)


class Violation(InvariantViolated):
    """Which invariant, when, and who."""

    def __init__(self, check: str, at: Instant, text: str) -> None:
        super().__init__(f"{check} violated at {at / 1e9:.9f} s: {text}")
        self.check, self.at, self.text = check, at, text


class World(Protocol):
    """What checkers see of a run."""

    sim: Simulation
    terms_are_kept: bool  # Over restarts.
    hearings: list[Callable[[SimNode, NodeId, Any], None]]

    def machine(self, node: SimNode) -> Any: ...

    def regions(self) -> list[list[SimNode]]: ...

    def disagreement(self, region: list[SimNode]) -> str | None: ...

    def durable_term(self, node: SimNode) -> int: ...

    def is_holding(self, node: SimNode) -> bool: ...


class Checker:
    """One invariant.  Subclasses override what they watch."""

    name: ClassVar[str]

    def __init__(self, world: World, channel: str) -> None:
        self.world, self.sim, self.channel = world, world.sim, channel
        self.looked = 0
        self.attach()

    def attach(self) -> None:
        """Asks to be told."""

    def at_end(self, now: Instant, settled_at: Instant) -> None:
        """The run is over; by `settled_at` everything should have been in order."""

    def fail(self, text: str) -> None:
        raise Violation(self.name, self.sim.now, text)

    def each_after_event(self, look: Callable[[SimNode, Any], None]) -> None:
        """After every event, at every live machine, or at LOOK_MAX of them in turn."""
        turn = 0

        def check(now: Instant) -> None:
            nonlocal turn
            nodes = self.sim.nodes
            if len(nodes) > LOOK_MAX:
                turn = (turn + LOOK_MAX) % len(nodes)
                nodes = (nodes + nodes)[turn : turn + LOOK_MAX]
            for node in nodes:
                if node.host is not None:
                    machine = self.world.machine(node)
                    if isinstance(machine, Announce):
                        self.looked += 1
                        look(node, machine)

        self.sim.checks.append(check)

    def on_leadership(self, look: Callable[[SimNode, LeaderElected | LeaderLost], None]) -> None:
        def watch(node: SimNode, channel: str, fact: Any, now: Instant) -> None:
            if channel == self.channel and fact.__class__ in LEADERSHIP and node.host is not None:
                self.looked += 1
                look(node, fact)

        self.sim.watchers.append(watch)


class TermsNeverGoBack(Checker):
    name = "terms"

    def attach(self) -> None:
        self._seen: dict[int, tuple[int, int]] = {}  # By node: its incarnation, and the term number seen.
        self.each_after_event(self._look)

    def _look(self, node: SimNode, machine: Announce) -> None:
        life, least = self._seen.get(node.index, (0, 0))
        if life != node.incarnation:
            least = self.world.durable_term(node)
        if machine.term_number < least:
            self.fail(f"{node.name} went back from term {least} to {machine.term_number}")
        self._seen[node.index] = (node.incarnation, machine.term_number)


class ReignsAlternate(Checker):
    name = "reigns"

    def attach(self) -> None:
        self._reign: dict[tuple[int, int], Term] = {}  # By node and life: the term it acts under.
        self._told: dict[tuple[int, int], dict[NodeId, Term]] = {}  # … the leaders it was told of,
        self._early: dict[tuple[int, int], list[Term]] = {}  # … and losses told ahead of what waits for a disk.
        self.on_leadership(self._on_fact)
        self.each_after_event(self._look)

    def _on_fact(self, node: SimNode, fact: LeaderElected | LeaderLost) -> None:
        life, own = (node.index, node.incarnation), fact.term.leader == node.name
        acting, told = self._reign.get(life), self._told.setdefault(life, {})
        if isinstance(fact, LeaderElected):
            if own and acting is not None and fact.term.number <= acting.number:
                self.fail(f"{node.name} was told again that it leads, by term {fact.term.number} in {acting.number}")
            if own:
                self._reign[life] = fact.term
            told[fact.term.leader] = fact.term
            return
        early = self._early.setdefault(life, [])
        if self.world.is_holding(node):
            early.append(fact.term)  # It passed the barrier: it is told again in its turn.
        if own and acting == fact.term:
            del self._reign[life]
        elif not own and told.get(fact.term.leader) == fact.term:
            del told[fact.term.leader]
        elif fact.term in early:
            early.remove(fact.term)
        else:
            whom = f"a reign that it did not have (but {acting})" if own else "a leader that it was not told of"
            self.fail(f"{node.name} lost {whom}: {fact.term}")

    def _look(self, node: SimNode, machine: Announce) -> None:
        acting = (node.index, node.incarnation) in self._reign
        if machine.is_leader != acting and not self.world.is_holding(node):
            what = "leads and never said so" if machine.is_leader else "said that it leads and does not"
            self.fail(f"{node.name} {what}")


class TermsAreUnique(Checker):
    name = "unique"

    def attach(self) -> None:
        self._used: dict[Term, tuple[int, int]] = {}  # The node and the life that acts or acted under it.
        self.on_leadership(self._on_fact)

    def _on_fact(self, node: SimNode, fact: LeaderElected | LeaderLost) -> None:
        if isinstance(fact, LeaderElected) and fact.term.leader == node.name:
            life = (node.index, node.incarnation)
            before = self._used.get(fact.term)
            # Without durable terms a later life may count from 1 again: announce-listen keeps nothing by itself.
            forgot = not self.world.terms_are_kept and before != life
            if before is not None and (before[0] != node.index or not forgot):
                self.fail(f"{node.name} acts under {fact.term}, which was used before")
            self._used[fact.term] = life


class LeadersExisted(Checker):
    name = "existed"

    def attach(self) -> None:
        self._claimed: set[NodeId] = set()
        self._number_max = 0
        self.sim.send_watchers.append(self._on_send)
        self.on_leadership(self._on_fact)

    def _on_send(self, node: SimNode, channel: str, message: Any, now: Instant) -> None:
        if channel == self.channel and message.__class__ in (Announcement, Query):
            self._claimed.add(node.name)

    def _on_fact(self, node: SimNode, fact: LeaderElected | LeaderLost) -> None:
        term = fact.term
        if term.leader == node.name:
            self._number_max = max(self._number_max, term.number)
        elif term.leader not in self._claimed:
            self.fail(f"{node.name} names {term.leader}, which never claimed to lead")
        if term.number > self._number_max:
            self.fail(
                f"{node.name} tells of term {term.number}; the highest that anybody acted under is {self._number_max}"
            )


class InnerConsistency(Checker):
    name = "inner"

    def attach(self) -> None:
        self.each_after_event(self._look)

    def _look(self, node: SimNode, machine: Announce) -> None:
        wrong = _wrong_inside(machine)
        if wrong is not None:
            self.fail(f"{node.name} ({machine.status.value}): {wrong}")


def _wrong_inside(machine: Announce) -> str | None:
    table, heard, mine, count = machine._table, machine._heard, machine._mine, machine.config.leader_count
    contends = machine.status in (Status.WAITING, Status.ASKING, Status.LEADING)
    if len(table) > count:
        return f"{len(table)} leaders in its table, at most {count} may be"
    if len(table) > 1 and table != sorted(table, reverse=True):
        return "its table is not in order"
    if contends != (machine._claim is not None) or (contends and machine._claim not in table):
        return "it contends, and its claim is not in its own table; or the other way round"
    if len(table) != len(heard) + contends or any(name not in heard for _, name in table if name != machine.me):
        return "the others in its table are not those it heard"
    if machine._latest.node and machine._latest is not heard.get(machine._latest.node):
        return "whom it heard last is nobody whom it names"
    if machine.is_leader != (mine is not None):
        return "it leads and has nothing to announce, or the other way round"
    if mine is not None and mine.term > machine.term_number:
        return "it acts under a term above the greatest it has seen"
    return None


class IncumbentsStay(Checker):
    name = "incumbent"

    def attach(self) -> None:
        self._heard: dict[tuple[int, int], Standing] = {}  # By node and life: the least claim it has heard,
        self._when_woken: dict[tuple[int, int], Standing | None] = {}  # and had heard when it began to claim.
        self.world.hearings.append(self._on_hear)
        self.sim.send_watchers.append(self._on_send)
        self.on_leadership(self._on_fact)

    def _on_hear(self, node: SimNode, sender: NodeId, message: Any) -> None:
        if message.__class__ is Announcement and sender != node.name:
            life = (node.index, node.incarnation)
            if self.world.machine(node).is_leader:  # Also while its first announcement waits for a disk.
                self._when_woken.setdefault(life, self._heard.get(life))
            self._heard[life] = min(self._heard.get(life, message.standing), message.standing)

    def _on_fact(self, node: SimNode, fact: LeaderElected | LeaderLost) -> None:
        if isinstance(fact, LeaderLost) and fact.term.leader == node.name:
            self._when_woken.pop((node.index, node.incarnation), None)

    def _on_send(self, node: SimNode, channel: str, message: Any, now: Instant) -> None:
        if channel != self.channel or message.__class__ is not Announcement or not self.world.machine(node).is_leader:
            return  # What it had to say before it yielded may have waited for a disk.
        life = (node.index, node.incarnation)
        heard = self._when_woken.setdefault(life, self._heard.get(life))
        self.looked += 1
        if heard is not None and message.standing >= heard:
            self.fail(f"{node.name} claims {message.standing}, better than {heard}, which it had heard before it woke")


class SteadyWhenQuiet(Checker):
    name = "steady"

    def attach(self) -> None:
        self._last: tuple[Instant, str] = (0, "")
        self.on_leadership(self._on_fact)

    def _on_fact(self, node: SimNode, fact: LeaderElected | LeaderLost) -> None:
        self._last = (self.sim.now, f"{node.name}: {fact}")

    def at_end(self, now: Instant, settled_at: Instant) -> None:
        self.looked += 1
        if self._last[0] > settled_at:
            since = (now - settled_at) / 1e9
            self.fail(f"settled for {since:.3f} s and still not steady: {self._last[1]} at {self._last[0] / 1e9:.3f} s")


class RegionsAgree(Checker):
    name = "agreement"

    def at_end(self, now: Instant, settled_at: Instant) -> None:
        if now < settled_at:
            return
        for region in self.world.regions():
            self.looked += 1
            reason = self.world.disagreement(region)
            if reason is not None:
                self.fail(reason)


CHECKERS: Final[dict[str, type[Checker]]] = {
    kind.name: kind
    for kind in (
        TermsNeverGoBack,
        ReignsAlternate,
        TermsAreUnique,
        LeadersExisted,
        InnerConsistency,
        IncumbentsStay,
        SteadyWhenQuiet,
        RegionsAgree,
    )
}
