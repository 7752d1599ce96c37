"""The specification of POLE's safety as a state machine: each step is allowed, or refused with the rule that it breaks.

It says what Pole.tla says, action by action and in its words; tests/audit holds the two equal (decision 112).  An
action is a method; it changes the state only if the step is allowed.  What nobody recorded is assumed: that changes
the state unchecked.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from doyen.core.clock import Duration, Instant

NO_ONE: Final = ""
Node = str


class Record(NamedTuple):
    """The promise of a voter."""

    epoch: int = 0  # It grants no earlier epoch.
    granted: int = 0  # The last epoch that it granted,
    to: Node = NO_ONE  # and to whom.


class Beat(NamedTuple):
    """A heartbeat: who sent it, in which epoch, and which one it is."""

    node: Node
    epoch: int
    number: int


class Answer(NamedTuple):
    """The last heartbeat of a node that a voter has acked: its epoch, and when it was sent."""

    epoch: int = 0
    at: Instant = 0


NOTHING: Final = Answer()
FRESH: Final = Record()

RULES: Final[Mapping[str, str]] = {
    "clock": "a node's own clock does not go back",
    "rate": "no clock runs faster than another by more than drift_max allows",
    "disk": "a node starts with what was on its disk",
    "claim": "a node claims no epoch below its own promise, nor while its disk writes",
    "resigned": "a node that has resigned an epoch neither claims it nor leads in it, nor in one before it",
    "back": "a voter's promise does not go back, and each epoch is granted once",
    "bound": "a voter grants nothing to another while it is bound",
    "unclaimed": "a voter grants what somebody claims",
    "leading": "a node that leads grants nothing to another, and does not say that it has resigned",
    "undurable": "a voter acks heartbeats of whom it granted its last epoch, once that grant is on its disk",
    "unsent": "a node hears only what was sent, and acks only heartbeats that were sent",
    "majority": "a node leads in an epoch that a majority has granted it within the lease, itself included, and once",
    "lease": "a leader acts while acks of a majority are younger than its lease",
    "shared": "an epoch has one leader",
    "named": "a node names a leader that leads, or did",
}


class Refused(Exception):
    """A step that the specification does not allow."""

    def __init__(self, rule: str, text: str) -> None:
        super().__init__(f"{rule}: {text}")
        self.rule, self.text = rule, text


def need(holds: bool, rule: str, text: str) -> None:
    if not holds:
        raise Refused(rule, text)


class Safety:
    """One state of a group, and the actions that lead to the next one."""

    def __init__(self, nodes: Iterable[Node], lease: Duration, guard: Duration) -> None:
        names = tuple(nodes)
        self.lease, self.guard = lease, guard
        self.clock = dict.fromkeys(names, 0)
        self.mem = dict.fromkeys(names, FRESH)
        self.writing: dict[Node, tuple[Record, ...]] = dict.fromkeys(names, ())
        self.disk = dict.fromkeys(names, FRESH)
        self.bound: dict[Node, Instant] = dict.fromkeys(names, 0)
        self.lead = dict.fromkeys(names, 0)
        self.answer: dict[Node, dict[Node, Answer]] = {name: {} for name in names}
        self.beats: dict[Beat, Instant] = {}  # When each was sent.
        self.claimed: set[tuple[Node, int]] = set()
        self.acks: set[tuple[Node, Beat]] = set()  # (voter, what it acked)
        self.ends: set[tuple[Node, int]] = set()  # Resignations.
        self.resigned: dict[Node, int] = {}  # The last epoch that each has resigned.
        self.led: dict[int, Node] = {}
        self.majority: Callable[[Node, frozenset[Node]], bool] = lambda node, voters: 2 * len(voters) > len(names)

    # What holds in a state.

    def is_written(self, node: Node) -> bool:
        return not self.writing[node]

    def holds(self, node: Node, epoch: int) -> bool:
        """Return whether a node's own grant to itself is durable."""
        return self.is_written(node) and self.mem[node][1:] == (epoch, node)

    def is_free(self, voter: Node, node: Node) -> bool:
        to = self.mem[voter].to
        return to == NO_ONE or to == node != voter or self.clock[voter] >= self.bound[voter]

    def answering(self, node: Node, epoch: int) -> frozenset[Node]:
        """Return whose acks of epochs from that one on are younger than the lease."""
        now = self.clock[node] - self.lease
        return frozenset(v for v, last in self.answer[node].items() if last.epoch >= epoch and last.at > now)

    def acts(self, node: Node) -> bool:
        return self.lead[node] > 0 and self.majority(node, self.answering(node, self.lead[node]))

    # Actions.

    def pass_time(self, node: Node, now: Instant) -> None:
        need(now >= self.clock[node], "clock", f"the clock of {node} goes back from {self.clock[node]} to {now} ns")
        self.clock[node] = now

    def claim(self, beat: Beat, *, acting: bool = False) -> None:
        """Send a heartbeat; with `acting` it says that the sender leads."""
        node, epoch, _ = beat
        if acting:
            need(
                self.lead[node] == epoch, "lease", f"{node} says that it acts in epoch {epoch}, and does not lead in it"
            )
            need(self.acts(node), "lease", f"{node} says that it acts in epoch {epoch}, and its lease is over")
        need(self.is_written(node), "claim", f"{node} sends a heartbeat while its disk writes")
        promised = self.mem[node].epoch
        need(epoch >= promised, "claim", f"{node} claims epoch {epoch} after it promised {promised}")
        self._check_unresigned(node, epoch, "claims")
        self.beats[beat] = self.clock[node]
        self.claimed.add((node, epoch))
        if self.holds(node, epoch):
            self.answer[node][node] = Answer(epoch, self.clock[node])

    def _check_unresigned(self, node: Node, epoch: int, what: str) -> None:
        resigned = self.resigned.get(node, 0)
        need(epoch > resigned, "resigned", f"{node} {what} epoch {epoch} after it resigned {resigned}")

    def grant(self, voter: Node, node: Node, epoch: int) -> None:
        before = self.mem[voter]
        text = f"{voter} grants epoch {epoch} to {node}"
        need(epoch > before.granted, "back", f"{text} after it granted {before.granted} to {before.to}")
        need(epoch >= before.epoch, "back", f"{text} after it promised {before.epoch}")
        need(self.is_free(voter, node), "bound", f"{text} while it is bound to {before.to} in {before.granted}")
        if voter == node:
            self._check_unresigned(node, epoch, "grants itself")
        else:
            need((node, epoch) in self.claimed, "unclaimed", f"{text}, which did not claim it")
            need(not self.lead[voter], "leading", f"{text} while it leads in {self.lead[voter]} itself")
        self._promise(voter, Record(epoch, epoch, node))
        if voter == node:
            self.bound[voter] = self.clock[voter]

    def promise(self, voter: Node, epoch: int) -> None:
        before = self.mem[voter]
        need(epoch > before.epoch, "back", f"{voter} promises epoch {epoch} after {before.epoch}")
        self._promise(voter, before._replace(epoch=epoch))

    def _promise(self, voter: Node, record: Record) -> None:
        self.mem[voter] = record
        self.writing[voter] += (record,)

    def rewrite(self, voter: Node) -> None:
        """Write the same promise again, with another charter, of which the specification says nothing."""
        self._promise(voter, self.mem[voter])

    def write(self, voter: Node) -> None:
        need(not self.is_written(voter), "disk", f"{voter} had nothing on its way to the disk")
        self.disk[voter], *rest = self.writing[voter]
        self.writing[voter] = tuple(rest)

    def ack(self, voter: Node, beat: Beat) -> None:
        node, epoch, number = beat
        text = f"{voter} acks heartbeat {number} of {node} in epoch {epoch}"
        need(voter != node and beat in self.beats, "unsent", f"{text}, which was not sent")
        need(self.is_written(voter), "undurable", f"{text} while its disk writes")
        held = self.mem[voter]
        need(held == (epoch, epoch, node), "undurable", f"{text}, but granted {held.granted} to {held.to or 'nobody'}")
        self.bound[voter] = self.clock[voter] + self.guard
        self.acks.add((voter, beat))

    def hear(self, voter: Node, beat: Beat) -> None:
        """Count an ack."""
        need((voter, beat) in self.acks, "unsent", f"{beat.node} hears an ack that {voter} did not send")
        at, known = self.beats[beat], self.answer[beat.node]
        if at >= known.get(voter, NOTHING).at:
            known[voter] = Answer(beat.epoch, at)

    def begin(self, node: Node, epoch: int) -> None:
        """Lead (the specification's Lead)."""
        text = f"{node} leads in epoch {epoch}"
        need(epoch > self.lead[node], "majority", f"{text} after {self.lead[node]}")
        need(self.holds(node, epoch), "majority", f"{text} without a durable grant of its own")
        self._check_unresigned(node, epoch, "leads in")
        other = self.led.get(epoch)
        need(other != node, "majority", f"{text} a second time")
        of_epoch = [v for v in self.answering(node, epoch) if self.answer[node][v].epoch == epoch]
        counted = ", ".join(sorted(of_epoch)) or "nobody"
        need(self.majority(node, frozenset(of_epoch)), "majority", f"{text} on acks of {counted} alone")
        need(other is None, "shared", f"{text}, in which {other} led")  # The invariant of both, looked at here.
        self.lead[node] = epoch
        self.led[epoch] = node

    def go_on(self, node: Node) -> None:
        """Take an input, and lead on."""
        need(self.acts(node), "lease", f"{node} leads in epoch {self.lead[node]}, and its lease is over")

    def stop(self, node: Node) -> None:
        self.lead[node] = 0

    def resign(self, node: Node, epoch: int) -> None:
        lead = self.lead[node]
        need(not lead, "leading", f"{node} says that it resigned epoch {epoch} while it leads in {lead}")
        self.ends.add((node, epoch))
        self.resigned[node] = max(epoch, self.resigned.get(node, 0))

    def release(self, voter: Node, node: Node, epoch: int) -> None:
        need(
            (node, epoch) in self.ends, "unsent", f"{voter} hears that {node} resigned epoch {epoch}; it did not say so"
        )
        held = self.mem[voter]
        if held.to == node and held.granted <= epoch:
            self.bound[voter] = 0

    def restart(self, node: Node, record: Record) -> None:
        """Start again, with what is on the disk: what was there, or any of the records on their way to it."""
        before = self.disk[node]
        need(
            record in (before, *self.writing[node]),
            "disk",
            f"{node} starts with epoch {record.epoch}, granted {record.granted} to {record.to or 'nobody'}; "
            f"its disk had epoch {before.epoch}, granted {before.granted} to {before.to or 'nobody'}",
        )
        self.assume_start(node, record)

    def name(self, voter: Node, node: Node, epoch: int) -> None:
        need(
            self.led.get(epoch) == node, "named", f"{voter} names {node} leader of epoch {epoch}; it did not lead in it"
        )

    # What nobody recorded.

    def assume_start(self, node: Node, record: Record) -> None:
        """Take it that a node starts with that record."""
        self.mem[node] = self.disk[node] = record
        self.writing[node] = ()
        self.bound[node] = self.clock[node] + (self.guard if record.to != NO_ONE else 0)
        self.lead[node] = 0
        self.answer[node] = {}

    def assume_beat(self, beat: Beat, sent_at: Instant) -> None:
        self.beats.setdefault(beat, sent_at)
        self.claimed.add((beat.node, beat.epoch))

    def assume_ack(self, voter: Node, beat: Beat) -> None:
        self.acks.add((voter, beat))

    def assume_led(self, node: Node, epoch: int) -> None:
        """Take it that a node led in that epoch; that still must be the only one."""
        other = self.led.setdefault(epoch, node)
        need(other == node, "shared", f"{node} leads in epoch {epoch}, in which {other} led")

    def assume_end(self, node: Node, epoch: int) -> None:
        self.ends.add((node, epoch))
