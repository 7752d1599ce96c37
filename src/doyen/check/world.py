"""A small world as one value: nodes, messages on their way, and the time.

Time stands still while messages travel, in rounds: what is sent in one arrives in the next.  Within a round no node
hears of what another does in it, so nodes take turns, in one order; two that act at any two moments of one round act
at once in some other order, and are found to.  Once nothing is on its way, time moves to the next deadline of any node.
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct

from doyen.check.nodes import Nodes
from doyen.check.turns import ALL, CUTS, DOWN, NEW, Event, Finals, Left, Node, Numbers, Turn, Turns, less
from doyen.core.clock import Duration, Instant, ms, seconds

NOBODY = -1
TOGETHER_MAX = seconds(60)  # How long a group may take to come together,
BEFORE_MAX = 99  # and how often a node may begin to lead meanwhile.
SEEN_AFTER = ms(100)  # While a node does not know who is here, it may learn of it whenever that has passed.
NO_FAULTS: Left = (0,) * (ALL + 1)


class State(NamedTuple):
    """One state of a world, but for the faults that are left."""

    now: Instant  # True time.
    fresh: bool  # Whether time has just moved on.
    turn: int  # Whose turn it is; the number of nodes: nobody's, as all is quiet.
    nodes: tuple[Node, ...]
    inbox: tuple[tuple[Numbers, ...], ...]  # By receiver, and by sender: what arrives in this round.
    outbox: tuple[tuple[Numbers, ...], ...]  # And in the next.
    held: tuple[Numbers, ...]  # By receiver.
    term: int  # The greatest number under which anybody led.
    reigns: int  # How often a node began to lead.
    passed: int  # The greatest baton that was passed on for good.
    cut: int  # The node that is cut off, or NOBODY.
    acted: int  # Who has acted at any moment of this round, as bits.
    finals: Finals = ()  # Of weak elections: whom anybody held for final, by which decision.
    up: Numbers = ()  # The incarnations of nodes that are up when time moves on, where the world tells who is here.


class Violation(Struct, frozen=True):
    """A rule that does not hold."""

    rule: str
    text: str


class Clock(Struct, frozen=True):
    """A node's own clock: an offset, and a rate in thousandths of true time."""

    offset: Duration = 0
    rate: int = 1000

    def at(self, now: Instant) -> Instant:
        return self.offset + now * self.rate // 1000

    def when(self, at: Instant) -> Instant:
        """Return the first true instant at which the clock shows that, or more."""
        return -((self.offset - at) * 1000 // self.rate)


class World:
    """All that can happen in any state of the group, with the results."""

    def __init__(
        self,
        nodes: Nodes,
        clocks: tuple[Clock, ...],
        *,
        horizon: Duration,
        reigns_max: int,
        cold: bool = False,
        settling: Duration = 0,  # Within that after the last fault all agree, in a weak election; 0: not looked at.
    ) -> None:
        self.fenced = nodes.promise is None or nodes.promise.strong  # No term has two leaders, one after the other.
        self.nodes, self.turns, self.clocks = nodes, Turns(nodes), clocks
        self.size = len(nodes.names)
        everybody = frozenset(range(self.size))
        self._reached = {
            (index, cut): everybody - {index, cut} if index != cut else frozenset()
            for index in everybody
            for cut in (NOBODY, *everybody)
        }
        self._nothing: tuple[Numbers, ...] = ((),) * self.size
        self.settling, self._settles = settling, dict[tuple[Instant, tuple[Node, ...]], Violation | None]()
        self.horizon, self.reigns_max = TOGETHER_MAX, BEFORE_MAX
        first = self.first()
        self.begin = first if cold else self._together(first) or first
        self.horizon, self.reigns_max = self.begin.now + horizon, reigns_max

    def _together(self, state: State) -> State | None:
        """Return the first state in which all name one leader, in a run without faults and in one order, if any."""
        while not (state.reigns and state.turn == self.size and self.is_named(state)):
            following = next(iter(self.after(state, NO_FAULTS)), None)
            if following is None:
                return None
            state = following[1]
        return state._replace(reigns=1)

    def is_named(self, state: State) -> bool:
        """Return whether all nodes name the same leader."""
        found = {self.nodes.standing(node.state) for node in state.nodes if node.state != DOWN}
        named = {leader for leader, _ in found}
        return len(named) == 1 and None not in named

    def first(self) -> State:
        """Return the state in which all nodes have just started."""
        nothing = (self._nothing,) * self.size
        up = (1,) * self.size if self.nodes.told else ()
        state = State(0, True, 0, (NEW,) * self.size, nothing, nothing, self._nothing, 0, 0, 0, NOBODY, 0, up=up)
        for index in range(self.size):
            turn = self.turns.started(
                index, self._turn(state, index, ()), self.clocks[index].at(0), self._reached[index, NOBODY]
            )
            state = self._ended(state, index, turn)
        return self._onward(state._replace(turn=self.size))

    def after(self, state: State, left: Left) -> Iterator[tuple[tuple[Event, ...], State, Left, Violation | None]]:
        """Yield what can happen next: the events, the state after them, and the faults left; or what they violate."""
        index = state.turn
        if index == self.size:
            yield from self._quiet(state, left)
            return
        for end, events in self._turn_ends(state, left):
            violation = self._violation(state, index, end)
            after = self._ended(state, index, end)._replace(turn=index + 1)
            yield events, after if violation else self._onward(after), end.left, violation

    def judged(self, state: State, left: Left) -> Iterator[tuple[Turn, Violation | None]]:
        """Yield every way in which the turn of the current node can end, each with what it violates."""
        for end, _ in self._turn_ends(state, left):
            yield end, self._violation(state, state.turn, end)

    def _turn_ends(self, state: State, left: Left) -> tuple[tuple[Turn, tuple[Event, ...]], ...]:
        index = state.turn
        turn = self._turn(state, index, left)
        now, reached = self.clocks[index].at(state.now), self._reached[index, state.cut]
        return self.turns.ends(index, turn, now, reached, state.fresh)

    def _turn(self, state: State, index: int, left: Left) -> Turn:
        node = state.nodes[index]
        acts = bool(state.acted >> index & 1)
        return Turn(node, state.inbox[index], state.held[index], left, self._nothing, acts, (), up=state.up)

    def _ended(self, state: State, index: int, turn: Turn) -> State:
        outbox = state.outbox
        if any(turn.sent):
            outbox = tuple(
                (*box[:index], sent, *box[index + 1 :]) if sent else box
                for box, sent in zip(outbox, turn.sent, strict=True)
            )
        return state._replace(
            nodes=(*state.nodes[:index], turn.node, *state.nodes[index + 1 :]),
            inbox=(*state.inbox[:index], self._nothing, *state.inbox[index + 1 :]),
            outbox=outbox,
            held=(*state.held[:index], turn.held, *state.held[index + 1 :]),
            term=max((state.term, *[number for number, _ in turn.led])),
            reigns=state.reigns + len(turn.led),
            passed=max(state.passed, turn.passed),
            acted=state.acted | turn.acted << index,
            finals=self.finals(state.finals, turn.finals),
        )

    @staticmethod
    def finals(known: Finals, new: Finals) -> Finals:
        """Return all elections of which anybody held a leader for final."""
        return tuple(sorted({**dict(new), **dict(known)}.items(), key=str)) if new else known

    def _violation(self, state: State, index: int, turn: Turn) -> Violation | None:
        name, names = self.nodes.names[index], self.nodes.names
        term = state.term
        for number, baton in turn.led if self.fenced else ():
            if number <= term:
                return Violation("shared", f"{name} leads in term {number}, after somebody led in term {term}")
            if baton < state.passed:
                return Violation("baton", f"{name} leads in term {number} without the baton that was passed on")
            term = number
        known = dict(state.finals)
        for election, leader in turn.finals:
            other = known.setdefault(election, leader)
            if other != leader:
                # One decision, not one election, has one final leader: decision 113.
                return Violation("final", f"{name} holds {leader} final by a decision by which {other} was")
        if turn.went_back:
            return Violation(
                "back", f"{name} goes back to the leader of term {turn.went_back[0]} from that of {turn.node.told[0]}"
            )
        acting = [other for bit, other in enumerate(names) if turn.acted and state.acted >> bit & 1 and bit != index]
        return Violation("alone", f"{name} and {acting[0]} act at once") if acting else None

    def _onward(self, state: State) -> State:
        """Begin the next round once all had their turns; without any message left, all is quiet."""
        if state.turn < self.size:
            return state
        if not any(map(any, state.outbox)):
            return state._replace(fresh=False, acted=0, up=())  # None is looked at before time moves on.
        return self._begin(
            state._replace(fresh=False, turn=0, up=(), inbox=state.outbox, outbox=(self._nothing,) * self.size)
        )

    def _begin(self, state: State) -> State:
        """Begin a round: see who acts."""
        return state._replace(acted=self.acting(state.nodes, state.now))

    def acting(self, nodes: tuple[Node, ...], now: Instant) -> int:
        """Return who acts at that instant, as bits."""
        acted = 0
        for index, node in enumerate(nodes):
            if node.mine and not self.nodes.is_weak and self.nodes.leads(node.state, self.clocks[index].at(now)):
                acted |= 1 << index
        return acted

    def up(self, nodes: tuple[Node, ...]) -> Numbers:
        """Return the incarnations of nodes that are up, where the world tells who is here."""
        return tuple([0 if node.state == DOWN else node.starts for node in nodes]) if self.nodes.told else ()

    def due_at(self, index: int, node: Node, ends_at: Instant = 0) -> Instant:
        """Return when the next timer of a node is due."""
        never = max(ends_at, self.horizon) + 1
        return self.clocks[index].when(node.timers[0][0]) if node.timers else never

    def together(self, acted: int) -> Violation | None:
        """Return what is wrong where these act at once."""
        acting = [name for bit, name in enumerate(self.nodes.names) if acted >> bit & 1]
        return Violation("alone", f"{' and '.join(acting)} act at once") if len(acting) > 1 else None

    def next_at(self, now: Instant, nodes: tuple[Node, ...], dues: list[Instant]) -> Instant:
        """Return when time goes on: at the next timer, and soon while somebody does not know who is here."""
        up = self.up(nodes)
        is_wrong = any(node.sees != up for node in nodes if node.state != DOWN)
        return max(now, min([*dues, now + SEEN_AFTER] if is_wrong else dues))

    def _quiet(self, state: State, left: Left) -> Iterator[tuple[tuple[Event, ...], State, Left, Violation | None]]:
        dues = [self.due_at(index, node) for index, node in enumerate(state.nodes)]
        after = self.next_at(state.now, state.nodes, dues)
        if after > self.horizon or state.reigns > self.reigns_max:
            if violation := self.unsettled(state):
                yield (("calm", NOBODY),), state, left, violation
            return
        moved = self._begin(state._replace(now=after, fresh=True, turn=0, up=self.up(state.nodes)))
        violation = self.together(moved.acted)
        yield (("wait", NOBODY, after),), moved, left, violation
        if state.cut != NOBODY:
            yield (("heal", state.cut),), moved._replace(cut=NOBODY), left, violation
        elif left[CUTS]:
            for index in range(self.size):
                yield (("cut", index),), moved._replace(cut=index), less(left, CUTS), violation

    # What comes of a state in which no fault happens any more.

    def unsettled(self, state: State) -> Violation | None:
        """Return what is wrong where those that are up do not come to follow one of them, though nothing fails."""
        if not self.settling:
            return None
        key = state.now, state.nodes
        if key not in self._settles:
            last, _ = deque(self.calmed(state), maxlen=1)[0]
            if self.is_agreed(last.nodes):
                self._settles[key] = None
            else:
                names = zip(self.nodes.names, last.nodes, strict=True)
                found = [(name, *self.nodes.standing(node.state)) for name, node in names if node.state != DOWN]
                said = ", ".join(f"{name} follows {leader}" + "?" * (not final) for name, leader, final in found)
                self._settles[key] = Violation("agreed", f"{self.settling / 1e9:g} s after the last fault {said}")
        return self._settles[key]

    def is_agreed(self, nodes: tuple[Node, ...]) -> bool:
        """Return whether all that are up follow one of them, finally."""
        up = {name: node for name, node in zip(self.nodes.names, nodes, strict=True) if node.state != DOWN}
        found = {self.nodes.standing(node.state) for node in up.values()}
        return not up or (len(found) == 1 and all(leader in up and final for leader, final in found))

    def calmed(self, state: State) -> Iterator[tuple[State, tuple[Event, ...]]]:
        """Yield the run that follows without faults, in one order: what is late happens, and all see who is here."""
        ends_at = self.horizon + self.settling
        nodes = tuple(
            node._replace(
                timers=tuple(sorted([*node.timers, *[(self.clocks[index].at(state.now), late) for late in node.late]])),
                late=(),
                slow=False,
            )
            for index, node in enumerate(state.nodes)
        )
        up = self.up(nodes)
        state = state._replace(nodes=nodes, held=self._nothing, cut=NOBODY, turn=0, up=up)
        yield state, ()
        while True:
            for index in range(self.size):
                now, reached = self.clocks[index].at(state.now), self._reached[index, NOBODY]
                turn, events = self.turns.calm(index, self._turn(state, index, NO_FAULTS), now, reached)
                state = self._ended(state, index, turn)
                yield state, events
            state = self._onward(state._replace(turn=self.size))
            if state.turn == self.size:
                after = max(state.now, min(self.due_at(index, node, ends_at) for index, node in enumerate(state.nodes)))
                if after > ends_at or self.is_agreed(state.nodes):
                    return
                state = self._begin(state._replace(now=after, turn=0, up=up))
