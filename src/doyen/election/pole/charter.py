"""Writes the charter: a small replicated register that holds the baton and the electorate.

A leader that has its majority takes the newest charter of it, commits it again under its own epoch, and only then acts.
Then it writes one at a time: each is on the disks of a majority, of both sides while voters are changed, before the
next is sent.  Each replaces the voters by a step whose majorities meet: old, then old and new, then new.  Decision 34
has the argument why nothing that was committed is lost, and why a leader of old voters cannot overlook the new ones.

    claim has its majority ─▶ (epoch, 0): what it found ─committed─▶ acts ─▶ (epoch, 1) ─committed─▶ (epoch, 2) ─▶ …

A `Register` has the writes of one leader; a `Keeper` stands between it, the voter's record and the others' messages.
"""

from collections.abc import Collection
from typing import NamedTuple

from msgspec.structs import replace

from doyen.core.effects import Out
from doyen.core.ids import NodeId
from doyen.core.leadership import BatonPassed, ChangeEnded
from doyen.election.pole import messages as msg
from doyen.election.pole.electorate import Electorate
from doyen.election.pole.messages import Charter
from doyen.election.pole.promise import Voter


class Register:
    """The writes of one leader.  The inputs are what its voters have stored; the outcome is what to send next."""

    def __init__(self) -> None:
        self.epoch = 0
        self.written: Charter | None = None  # The last of this epoch.
        self.committed = False  # Whether that one is.
        self._stored_by: set[NodeId] = set()
        self._passing: list[int] = []  # The numbers of the batons that are in the last one, or were replaced in it.
        self._waiting: list[tuple[int, bytes]] = []  # The batons that come next, with their numbers.
        self._target: frozenset[NodeId] | None = None  # The voters that there shall be.
        # Whose majority the lease depends on, from this leader's first write on: that of the last charter which the
        # next leader cannot overlook, so that it meets the majorities of that charter and of the one being written.
        self.leased_by: Electorate | None = None

    def begin(self, epoch: int) -> None:
        """Begin with the writes of another epoch of the same leader; its batons are still under way."""
        self.epoch, self.written, self.committed, self.leased_by = epoch, None, False, None

    def end(self) -> None:
        """Forget everything that was not committed, as this node no longer leads."""
        self._passing, self._waiting, self._target = [], [], None
        self.begin(0)

    def may_act(self, newest: Charter) -> bool:
        """Return whether a leader with a majority may act: its charter is committed in its epoch, or none was written.

        If nobody of its majority has any charter, none of an earlier epoch can hold anything: its leader would have
        committed an empty one before, and would have been seen.
        """
        return newest.stamp == (0, 0) if self.written is None else self.committed or self.written.serial > 0

    def pass_on(self, number: int, baton: bytes) -> None:
        self._waiting.append((number, baton))

    def change(self, target: frozenset[NodeId]) -> None:
        """Begin a change of voters; `is_changing` must be false."""
        self._target = target

    def is_changing(self, newest: Charter) -> bool:
        return self._target is not None or bool(newest.electorate.earlier)

    def next(self, newest: Charter, *, bound: Collection[NodeId]) -> Charter | None:
        """Return the charter to write now, if any: store it, then send it to all voters.

        `newest` is the newest that this node has stored, and `bound` are the voters on which its lease depends now.
        """
        if self.written is None:
            if newest.stamp == (0, 0) and not self._waiting and self._target is None:
                return None
            return self._write(replace(newest, epoch=self.epoch, serial=0))
        if not self.committed:
            return None
        baton, electorate = self.written.baton, self.written.electorate
        if self._waiting:
            baton = self._waiting[-1][1]
            self._passing += (number for number, _ in self._waiting)
            self._waiting = []
        if electorate.earlier:
            if electorate.is_majority(bound):  # Else nobody might be bound whom the next leader asks.
                electorate = Electorate(electorate.number + 1, electorate.voters)
        elif self._target is not None:
            electorate = Electorate(electorate.number + 1, self._target, electorate.voters)
            self._target = None
        after = Charter.of(self.epoch, self.written.serial + 1, baton, electorate)
        return self._write(after) if self._passing or electorate.number != self.written.number else None

    def _write(self, charter: Charter) -> Charter:
        self.leased_by = None if self.written is None else self.written.electorate
        self.written, self.committed, self._stored_by = charter, False, set()
        return charter

    def stored(self, voter: NodeId, stamp: tuple[int, int]) -> tuple[int, ...] | None:
        """Count a voter that has granted this epoch, and none above it, and has a charter of that stamp on its disk.

        Return the numbers of the batons that are committed by it; None if nothing is.
        """
        if self.written is None or self.committed or stamp != self.written.stamp:
            return None
        self._stored_by.add(voter)
        if not self.written.electorate.is_majority(self._stored_by):
            return None
        self.committed = True
        if not self.written.electorate.earlier:
            self.leased_by = self.written.electorate
        passed, self._passing = tuple(self._passing), []
        return passed


class Roll(NamedTuple):
    """The voters that there shall be, and who of them has answered."""

    number: int
    voters: frozenset[NodeId]
    able: set[NodeId]
    unable: set[NodeId]

    def refusal(self, present: Electorate) -> str:
        """Return why these voters cannot be taken; "" if they can."""
        for name in sorted(self.voters - present.names):
            if name in self.unable:
                return (
                    f"{name} has no record of earlier votes: if nobody of its name ever voted here, run doyen state "
                    "init, or start it once with --newcomer"
                )
            if name not in self.able:
                return f"{name} does not answer: start it first, with the group's --voters, as a node that follows"
        if not Electorate(0, self.voters).is_majority(self.able):
            silent = ", ".join(sorted(self.voters - self.able))
            return f"it would leave voters of whom no majority answers: {silent} must run first, or be removed before"
        return ""


class Keeper:
    """The charter of one node: the newest that it has stored, and its writes while it leads."""

    def __init__(self, me: NodeId, first: Electorate, voter: Voter, out: Out) -> None:
        self._me, self._voter, self._out = me, voter, out
        self._first = Charter.of(0, 0, b"", first)
        self.register = Register()
        self.committed: Charter | None = None  # The last that this node committed in its present reign.
        self._changing = 0  # The number of the command that changes voters.
        self.roll: Roll | None = None

    @property
    def newest(self) -> Charter:
        return self._voter.promise.charter or self._first

    # Hearing of it.

    def hear(self, sender: NodeId, message: msg.Message) -> bool:
        """Bring sender or node up to date; return whether this node has got a newer charter."""
        match message:
            case Charter():
                newer = self._voter.store(message)
                if message.stamp == self.newest.stamp and self._voter.has_granted(message.epoch, sender):
                    self._out.send(sender, msg.CharterStored(*message.stamp))
                return newer
            case msg.CharterWanted():
                self._out.send(sender, self.newest)
            case msg.Propose() | msg.Heartbeat():
                theirs = msg.charter_of(message)
                if theirs < self.newest.stamp:
                    self._out.send(sender, self.newest)
                elif theirs > self.newest.stamp:
                    self._out.send(sender, msg.CharterWanted())
        return False

    def counts(self, sender: NodeId, ack: msg.HeartbeatAck) -> bool:
        """Return whether to count an ack: only if this node has the sender's charter; if not, ask for it."""
        theirs = msg.charter_of(ack)
        if theirs > self.newest.stamp:
            self._out.send(sender, msg.CharterWanted())
            return False
        if theirs < self.newest.stamp and self.register.committed:  # Else it is on its way.
            self._out.send(sender, self.newest)
        return True

    # Writing it.

    def begin(self, epoch: int) -> None:
        self.register.begin(epoch)

    def end(self) -> None:
        """Stop writing, as this node no longer leads."""
        self.register.end()
        self.committed, self.roll, self._changing = None, None, 0

    @property
    def may_act(self) -> bool:
        return self.register.may_act(self.newest)

    @property
    def is_changing(self) -> bool:
        return self.roll is not None or self.register.is_changing(self.newest)

    def write(self, bound: Collection[NodeId]) -> bool:
        """Store and send what is to be written now; return whether anything was."""
        charter = self.register.next(self.newest, bound=bound)
        if charter is None:
            return False
        self._voter.store(charter)
        self._out.multicast(charter)
        return True

    def repeat(self) -> None:
        """Send what is not committed yet once more."""
        if self.register.written is not None and not self.register.committed:
            self._out.multicast(self.register.written)

    def stored(self, voter: NodeId, stamp: tuple[int, int]) -> bool:
        """Count a voter that has accepted a charter; return whether that one is committed by it."""
        passed = self.register.stored(voter, stamp)
        if passed is None:
            return False
        self.committed = self.register.written
        if passed:
            self._out.emit(BatonPassed(passed))
        if self._changing and not self.is_changing:
            self._out.emit(ChangeEnded(self._changing))
            self._changing = 0
        return True

    # Changing voters.

    def call_roll(self, number: int, voters: frozenset[NodeId]) -> None:
        self.roll = Roll(number, voters, {self._me}, set())
        self._out.multicast(msg.RollCall(number))

    def present(self, sender: NodeId, answer: msg.Present) -> bool:
        """Count an answer to the roll call; return whether all have answered."""
        if self.roll is None or answer.number != self.roll.number:
            return False
        (self.roll.able if answer.able else self.roll.unable).add(sender)
        return self.roll.voters <= self.roll.able | self.roll.unable

    def end_roll(self) -> None:
        """Begin the change, or refuse it."""
        roll, self.roll = self.roll, None
        assert roll is not None
        why = roll.refusal(self.newest.electorate)
        if why:
            self._out.emit(ChangeEnded(roll.number, why))
        else:
            self._changing = roll.number
            self.register.change(roll.voters)
