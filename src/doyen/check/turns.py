"""One node's turn in a round: everything that can happen to it, in every order, and what each order comes to.

Messages of one sender arrive in the order in which they were sent, those of different senders in any; timers that are
due fire among them, and records become durable.  Whatever else happens is a fault, and costs one of those left.
"""

from typing import Any, Final, NamedTuple, TypeAlias

from msgspec import Struct

from doyen.check.nodes import Came, Disk, Fired, Input, Nodes, Ordered, Sent, Step, Written
from doyen.check.views import Seen
from doyen.core.clock import Instant
from doyen.core.commands import ChangeVoters, PassOn, Resign
from doyen.core.ids import Incarnation, NodeId
from doyen.core.leadership import BatonPassed, LeaderElected, LeaderLost
from doyen.core.link import LinkBroken
from doyen.election.churn.messages import LeaderHeld
from doyen.node.stack import ELECTION, MEMBERSHIP

DOWN: Final = -1
BATON_AFTER: Final = 100  # The number of a baton is less by those that may still come.


class Faults(Struct, frozen=True, kw_only=True):
    """The number of times that each fault may happen."""

    crashes: int = 1  # A node crashes, with its disk or without it, and may start again.
    losses: int = 2  # A message is lost.
    timers: int = 3  # A timer is late, by any time.
    resignations: int = 1  # A leader gets the command to resign.
    holds: int = 0  # A message is held, so that any others overtake it; or a record takes as long as that.
    duplicates: int = 0  # A message comes a second time, at any time.
    cuts: int = 0  # A node is cut off from all others for a while.
    breaks: int = 0  # A node hears, wrongly or not, that its leader is gone.
    wills: int = 0  # A leader crashes with its disk, and its will is sent.
    batons: int = 0  # A leader gets the command to pass a baton on.
    changes: int = 0  # A leader gets the command to add a voter, to remove one, or to replace one.


CRASHES, LOSSES, TIMERS, RESIGNATIONS, HOLDS, DUPLICATES, CUTS, BREAKS = range(8)
WILLS, BATONS, CHANGES, ALL = range(8, 12)  # ALL: of any kind.
Left: TypeAlias = tuple[int, ...]  # The faults that are left.
Numbers: TypeAlias = tuple[int, ...]  # Of messages or timers.
Finals: TypeAlias = tuple[tuple[Any, NodeId], ...]  # (decision, its final leader)
Order: TypeAlias = tuple[Any, ...]  # Where a leader stands among all that a weak election had: its term, and more.
Event: TypeAlias = tuple[Any, ...]  # What happens, and to which node; the rest as it needs.


class Node(NamedTuple):
    """One node: the number of its state, and what the world keeps for it."""

    state: int  # DOWN while it is.
    mine: int  # The number of the term that it was told to lead; 0: none.
    timers: tuple[tuple[Instant, int], ...]  # In order; what fires has a number.
    late: Numbers  # Timers that are late.
    disk: Disk
    writing: tuple[tuple[str, bytes], ...]  # Records on their way to the disk.
    slow: bool  # The disk takes its time.
    starts: int
    has_voted: bool  # There was a record once.
    told: Order = ()  # The greatest leader that it has named, in a weak election; the term is kept with the disk.
    sees: Numbers = ()  # The incarnation of each member that it holds present, 0 for one that is gone, as it was told.


NEW: Final = Node(DOWN, 0, (), (), (), (), False, 0, False)


class Turn(NamedTuple):
    """A node in the middle of its turn."""

    node: Node
    inbox: tuple[Numbers, ...]  # By sender.
    held: Numbers  # Messages to it that are held.
    left: Left
    sent: tuple[Numbers, ...]  # By receiver.
    acted: bool  # Whether it has acted as the leader at any moment.
    led: tuple[tuple[int, int], ...]  # The terms that it began to lead in, each with the baton that it had then.
    finals: Finals = ()  # What it came to hold for final, in a weak election.
    went_back: Order = ()  # A leader that it named after a greater one.
    up: Numbers = ()  # The incarnation of each node that is up, when time has just moved on; where the world tells it.
    passed: int = 0  # The greatest baton that it has passed on for good.


class Turns:
    """All that can happen to one node in its turn, with the results."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes, self.size = nodes, len(nodes.names)
        self._indices = {name: index for index, name in enumerate(nodes.names)}
        self.messages: list[tuple[int, int, Came]] = []  # (from, to, message), by number.
        self.timers: list[Fired] = []  # By number.
        self._numbers: dict[Any, int] = {}
        self._ends: dict[tuple[Any, ...], tuple[tuple[Turn, tuple[Event, ...]], ...]] = {}

    def ends(
        self, index: int, turn: Turn, now: Instant, reached: frozenset[int], fresh: bool
    ) -> tuple[tuple[Turn, tuple[Event, ...]], ...]:
        """Return all ends of a turn, each with the events that lead to it; one that another end covers is left out.

        An end covers another if it differs in nothing but has more faults left.  `reached` are the nodes that
        messages reach; `fresh` says that time has just moved on.
        """
        key = (index, turn, now, reached, fresh)
        found = self._ends.get(key)
        if found is None:
            found = self._ends[key] = self._explored(index, turn, now, reached, fresh)
        return found

    def _explored(
        self, index: int, turn: Turn, now: Instant, reached: frozenset[int], fresh: bool
    ) -> tuple[tuple[Turn, tuple[Event, ...]], ...]:
        paths: dict[Turn, tuple[Event, ...]] = {turn: ()}
        best: dict[Turn, list[Turn]] = {}
        layers: list[list[Turn]] = [[turn], *([] for _ in range(turn.left[ALL]))]
        for todo in layers:  # Those with the most faults left come first.
            for at in todo:
                if not self.is_busy(at, now):
                    others = best.setdefault(at._replace(left=()), [])
                    if not any(covers(other.left, at.left) for other in others):
                        others.append(at)
                for event, after in self.moves(index, at, now, reached, fresh):
                    if after not in paths:
                        paths[after] = (*paths[at], event)
                        layers[turn.left[ALL] - after.left[ALL]].append(after)
        return tuple([(end, paths[end]) for ends in best.values() for end in ends])

    def calm(self, index: int, turn: Turn, now: Instant, reached: frozenset[int]) -> tuple[Turn, tuple[Event, ...]]:
        """Return one end of a turn without faults: a node sees what is so, and takes what comes in one order."""
        events: tuple[Event, ...] = ()
        while True:
            moves = self.moves(index, turn, now, reached, fresh=False)
            move = next((move for move in moves if move[0][0] == "see"), moves[0] if self.is_busy(turn, now) else None)
            if move is None:
                return turn, events
            events, turn = (*events, move[0]), move[1]

    def is_busy(self, turn: Turn, now: Instant) -> bool:
        """Return whether something must still happen to a node in its turn."""
        node = turn.node
        if any(turn.inbox) or (node.writing and not node.slow):
            return True
        return bool(node.timers) and node.timers[0][0] <= now

    def moves(
        self, index: int, turn: Turn, now: Instant, reached: frozenset[int], fresh: bool
    ) -> list[tuple[Event, Turn]]:
        """Return what can happen to a node next."""
        found: list[tuple[Event, Turn]] = []
        node, left = turn.node, turn.left

        def happens(event: Event, after: Turn, given: Input | None = None) -> None:
            if given is not None and after.node.state != DOWN:
                step = self.nodes.step(index, after.node.state, given, now)
                after = self._after(index, after, step, now, reached)
            found.append((event, after))

        for sender, numbers in enumerate(turn.inbox):
            if not numbers:
                continue
            first = numbers[0]
            rest = turn._replace(inbox=(*turn.inbox[:sender], numbers[1:], *turn.inbox[sender + 1 :]))
            came = self.messages[first][2]
            happens(("deliver", index, first), rest, came)
            if node.state == DOWN or sender == index:  # To oneself: at once, and surely.
                continue
            if left[LOSSES]:
                happens(("lose", index, first), rest._replace(left=less(left, LOSSES)))
            kept = tuple(sorted((*turn.held, first)))
            if left[HOLDS]:
                happens(("hold", index, first), rest._replace(left=less(left, HOLDS), held=kept))
            if left[DUPLICATES]:
                happens(("copy", index, first), rest._replace(left=less(left, DUPLICATES), held=kept), came)
        if node.state == DOWN:
            if fresh:
                found.append((("start", index), self.started(index, turn, now, reached)))
            return found
        for other, (seen, is_up) in enumerate(zip(node.sees, turn.up, strict=False)):
            if seen != is_up and other != index:
                happens(("see", index, other), self._seeing(turn, other, is_up), self._sight(other, is_up))
        for number in dict.fromkeys(turn.held):
            rest = turn._replace(held=without(turn.held, number))
            happens(("deliver held", index, number), rest, self.messages[number][2])
        if node.timers and (due := node.timers[0][0]) <= now:
            for timer in dict.fromkeys(node.timers):
                if timer[0] != due:
                    break
                rest = turn._replace(node=node._replace(timers=without(node.timers, timer)))
                happens(("fire", index, timer[1]), rest, self.timers[timer[1]])
                if left[TIMERS] and found[-1][1] != rest:  # One that does nothing is not worth a fault.
                    late = rest.node._replace(late=tuple(sorted((*node.late, timer[1]))))
                    happens(("late", index, timer[1]), rest._replace(node=late, left=less(left, TIMERS)))
        for number in dict.fromkeys(node.late) if fresh else ():
            rest = turn._replace(node=node._replace(late=without(node.late, number)))
            happens(("fire late", index, number), rest, self.timers[number])
        if node.writing:
            (channel, data), *others = node.writing
            disk = tuple(sorted({**dict(node.disk), channel: data}.items()))
            written = node._replace(disk=disk, writing=tuple(others), slow=False)
            happens(("write", index), turn._replace(node=written), Written(channel))
            if left[HOLDS] and not node.slow:
                happens(("slow", index), turn._replace(node=node._replace(slow=True), left=less(left, HOLDS)))
        if left[CRASHES]:
            for kept_disk in (node.disk,) if not node.disk else (node.disk, ()):
                what = "crash" if kept_disk == node.disk else "crash and lose the disk"
                happens((what, index), self.crashed(index, turn, kept_disk)._replace(left=less(left, CRASHES)))
        if left[RESIGNATIONS] and node.mine:
            happens(("resign", index), turn._replace(left=less(left, RESIGNATIONS)), Ordered(ELECTION, Resign()))
        if left[WILLS] and node.mine and (will := self.nodes.will(node.state)) is not None:
            dead = self.crashed(index, turn, node.disk)._replace(left=less(left, WILLS))
            happens(("die with a will", index), self._sending(index, dead, ((None, ELECTION, will),), reached))
        leads = bool(left[BATONS] or left[CHANGES]) and node.mine and self.nodes.leads(node.state, now)
        if left[BATONS] and leads:
            number = BATON_AFTER - left[BATONS]  # Each is greater than those before it.
            baton = PassOn(number, b"%d" % number)
            happens(("pass on", index, number), turn._replace(left=less(left, BATONS)), Ordered(ELECTION, baton))
        if left[CHANGES] and leads:
            for voters in self.nodes.other_voters(node.state):
                change = Ordered(ELECTION, ChangeVoters(1, voters))
                event = ("change voters", index, ", ".join(sorted(voters)))
                happens(event, turn._replace(left=less(left, CHANGES)), change)
        if left[BREAKS] and not node.mine and (leader := self.nodes.named(node.state)) is not None:
            broken = LinkBroken(leader, Incarnation(0), gone=True)
            happens(("break", index), turn._replace(left=less(left, BREAKS)), Ordered(ELECTION, broken))
        if left[BREAKS] and turn.up and (named := self.nodes.standing(node.state)[0]) is not None:
            other = self._indices[named]
            if other != index and node.sees[other] == turn.up[other] > 0:
                wrong = self._seeing(turn, other, 0)._replace(left=less(left, BREAKS))
                happens(("break", index), wrong, self._sight(other, 0))
        return found

    def crashed(self, index: int, turn: Turn, disk: Disk) -> Turn:
        """Return the turn after a node has crashed, with that on its disk."""
        node, inbox = turn.node, turn.inbox
        told = node.told[:1] if disk else ()
        down = NEW._replace(disk=disk, starts=node.starts, has_voted=node.has_voted, told=told)
        return turn._replace(node=down, inbox=(*inbox[:index], (), *inbox[index + 1 :]))  # What it told itself is gone.

    def _seeing(self, turn: Turn, other: int, incarnation: int) -> Turn:
        sees = turn.node.sees
        return turn._replace(node=turn.node._replace(sees=(*sees[:other], incarnation, *sees[other + 1 :])))

    def _sight(self, other: int, incarnation: int) -> Ordered:
        return Ordered(MEMBERSHIP, Seen(self.nodes.names[other], Incarnation(incarnation)))

    def started(self, index: int, turn: Turn, now: Instant, reached: frozenset[int]) -> Turn:
        """Return the turn after a node has started, from its disk."""
        node, starts = turn.node, turn.node.starts + 1
        sees = (*turn.up[:index], starts, *turn.up[index + 1 :]) if turn.up else ()
        step = self.nodes.start(index, node.disk, starts, now, newcomer=not node.has_voted, up=sees)
        return self._after(index, turn._replace(node=node._replace(starts=starts, sees=sees)), step, now, reached)

    def _after(self, index: int, turn: Turn, step: Step, now: Instant, reached: frozenset[int]) -> Turn:
        """Return the turn after a step."""
        node, name = turn.node, self.nodes.names[index]
        mine, led, timers, writing, passed = node.mine, turn.led, node.timers, node.writing, turn.passed
        told, finals, went_back = node.told, turn.finals, turn.went_back
        for fact in step.facts:
            if isinstance(fact, LeaderElected):
                mine = 0 if fact.term.leader != name else fact.term.number
                led = (*led, (mine, self.nodes.baton(step.state))) if mine else led
            elif isinstance(fact, LeaderLost) and fact.term.leader == name and fact.term.number == mine:
                mine = 0
            elif isinstance(fact, BatonPassed):
                passed = max(passed, *fact.numbers)
            if self.nodes.is_weak and (order := order_of(fact)):
                went_back = order if order < told[: len(order)] else went_back
                told = max(told, order)
        final = self.nodes.final(step.state) if self.nodes.is_weak else None
        if final is not None and final not in finals:
            finals = (*finals, final)
        if step.timers:
            timers = tuple(sorted([*timers, *[(at, self._number(fired, self.timers)) for at, fired in step.timers]]))
        if step.records:
            writing += step.records
        if step.sent:
            turn = self._sending(index, turn, step.sent, reached)
        node = Node(
            step.state,
            mine,
            timers,
            node.late,
            node.disk,
            writing,
            node.slow,
            node.starts,
            node.has_voted or bool(step.records),
            told,
            node.sees,
        )
        acted = turn.acted or (mine > 0 and not self.nodes.is_weak and self.nodes.leads(step.state, now))
        return Turn(node, turn.inbox, turn.held, turn.left, turn.sent, acted, led, finals, went_back, turn.up, passed)

    def _sending(self, index: int, turn: Turn, messages: Sent, reached: frozenset[int]) -> Turn:
        """Return the turn after a node has sent these."""
        boxes, inbox, name = list(turn.sent), turn.inbox, self.nodes.names[index]
        for to, channel, message in messages:
            came = Came(name, channel, message)
            if to == name:
                own = self._number((index, index, came), self.messages)
                inbox = (*inbox[:index], (*inbox[index], own), *inbox[index + 1 :])
            for other in reached if to is None else reached.intersection({self._indices.get(to, DOWN)}):
                number = self._number((index, other, came), self.messages)
                if number not in boxes[other]:  # Alike messages of one round count once.
                    boxes[other] = (*boxes[other], number)
        return turn._replace(sent=tuple(boxes), inbox=inbox)

    def _number(self, found: Any, known: list[Any]) -> int:
        number = self._numbers.get(found)
        if number is None:
            number = self._numbers[found] = len(known)
            known.append(found)
        return number


def order_of(fact: Any) -> Order:
    """Return where the leader that a fact names stands: the later term first, and what else a record has."""
    if isinstance(fact, LeaderElected):
        return (fact.term.number,)
    if not isinstance(fact, LeaderHeld):
        return ()
    record, election = fact.record, fact.record.election
    lower = tuple(-ord(letter) for letter in election.initiator)  # Of one term, that of the lowest initiator counts.
    return election.number, lower, election.incarnation, record.sequence, record.leader_incarnation


def covers(left: Left, other: Left) -> bool:
    """Return whether `left` has at least as many of each fault as `other`."""
    return all(map(int.__ge__, left, other))


def less(left: Left, fault: int) -> Left:
    """Return what is left after one more fault; after the last one that may happen, nothing is."""
    if left[ALL] == 1:
        return (0,) * len(left)
    return (*left[:fault], left[fault] - 1, *left[fault + 1 : ALL], left[ALL] - 1)


def without(found: tuple[Any, ...], item: Any) -> tuple[Any, ...]:
    at = found.index(item)
    return (*found[:at], *found[at + 1 :])
