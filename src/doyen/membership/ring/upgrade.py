"""Upgrades of a pair's group: proposed to the group as it is, and taken once a majority of it knows.  [ARB §IV.B]

One at a time per pair and side: the next is proposed when the other has said that it goes by the last.

Deviation: what one arbitrator is to hear about several pairs of a proposer goes in one message; as printed there is one
for each pair, and a failure costs its neighbours four times as many.
"""

from collections.abc import Collection, Iterable, Sequence
from enum import Enum
from random import Random
from typing import Final

from doyen.core.clock import Duration, Instant
from doyen.core.effects import Out
from doyen.core.ids import NodeId
from doyen.membership.ring import messages as msg
from doyen.membership.ring.arbitrator import Arbitrator, Version
from doyen.membership.ring.config import ArbitrationConfig
from doyen.membership.ring.geometry import Seat, to
from doyen.membership.ring.pair import Electorate, Pair, Proposal, Stage
from doyen.membership.ring.room import ROOM, fitting, size

ASKED_TIMES: Final = 3
PAIRS_MAX: Final = 8  # In one message, and no more than fit a datagram together with a neighbourhood.


class Outcome(Enum):
    """The end of a proposal."""

    TAKEN = 1
    ABORTED = 2
    SILENT = 3  # As printed: a proposer that a majority does not answer leaves.


class Upgrades:
    """The proposals of one member."""

    def __init__(self, config: ArbitrationConfig, rng: Random, arbitrator: Arbitrator, electorate: Electorate) -> None:
        self._config, self._rng, self._arbitrator, self._electorate = config, rng, arbitrator, electorate
        self._number = 0

    def plan_all(self, pairs: Iterable[Pair], current: Version, now: Instant, out: Out) -> None:
        """Plan an upgrade of every pair that does not go by the current neighbourhood."""
        config = self._config
        together = now + int(self._rng.random() * config.lease)
        for pair in pairs:
            if pair.upgrade_at >= 0 or not _wanted(pair, current):
                continue
            if config.early_upgrades:  # At one moment: what goes to one arbitrator goes together (decision 53).
                pair.upgrade_at = together
                out.set_timer(msg.UpgradeBegins(pair.name), together)
            else:
                # Ambiguity [ARB §IV.B]: when a changed neighbourhood is proposed is left open.  After T_arb, for while
                # arbitrators remember what the other asked or proposed they reject.
                self._plan(pair, now + config.recent, config.lease, out)

    def _plan(self, pair: Pair, now: Instant, patience: Duration, out: Out) -> None:
        """Plan an upgrade within `patience`, at random, so that the two sides seldom collide."""
        if pair.upgrade_at < 0:
            pair.upgrade_at = now + int(self._rng.random() * patience)
            out.set_timer(msg.UpgradeBegins(pair.name), pair.upgrade_at)

    def begin(self, pairs: Collection[Pair], current: Version, me: Seat, now: Instant, out: Out) -> None:
        """Propose the current neighbourhood for every pair whose upgrade is due."""
        ready = []
        for pair in pairs:
            if not 0 <= pair.upgrade_at <= now:
                continue
            pair.upgrade_at = -1
            if not _wanted(pair, current) or pair.proposal is not None:
                continue
            if pair.confirmed < pair.mine.number:
                self._plan(pair, now, self._config.lease, out)  # The other does not go by the last one yet.
                continue
            self._number += 1
            pair.proposal = Proposal(self._number, current, pair.group(me))
            ready.append(pair)
        self._propose(ready, me, now, out)
        for pair in ready:
            if pair.proposal is not None:
                self._set_timer(pair, pair.proposal, 1, now, out)

    def _set_timer(self, pair: Pair, proposal: Proposal, step: int, now: Instant, out: Out) -> None:
        out.set_timer(
            msg.ProposalAdvances(pair.name, proposal.number, step), now + self._config.arbitration // ASKED_TIMES
        )

    def _propose(self, pairs: Sequence[Pair], me: Seat, now: Instant, out: Out) -> None:
        """Ask everybody who has not voted; all proposals are about one version of this node's neighbourhood."""
        asked: dict[Seat, list[msg.Proposed]] = {}
        for pair in pairs:
            proposal, theirs = pair.proposal, pair.theirs
            assert proposal is not None and theirs is not None
            for seat in proposal.group:
                if seat.name == me.name:
                    accepted = self._arbitrator.consider(me.name, pair.name, proposal.version, theirs.number, now)
                    proposal.votes.setdefault(seat.name, accepted)
                elif seat.name not in proposal.votes:
                    asked.setdefault(seat, []).append(msg.Proposed(proposal.number, pair.name, theirs.number))
        for seat in sorted(asked):
            version = pairs[0].proposal.version  # type: ignore[union-attr]
            members = tuple(sorted(version.members))
            rest, room = asked[seat], ROOM - size(members)
            while rest:
                some = fitting(rest[:PAIRS_MAX], room)
                rest = rest[len(some) :]
                out.send(to(seat), msg.Propose(me.incarnation, seat.incarnation, version.number, members, some))

    def on_reply(self, sender: NodeId, message: msg.ProposeReply, pairs: Iterable[Pair], now: Instant) -> list[Pair]:
        """Count the votes of an arbitrator; return the pairs whose proposals can be decided now."""
        votes, settled = dict(message.votes), []
        for pair in pairs:
            proposal = pair.proposal
            if proposal is not None and proposal.number in votes:
                proposal.votes.setdefault((sender, message.incarnation), votes[proposal.number])
                if self._is_settled(proposal, now):
                    settled.append(pair)
        return settled

    def _is_settled(self, proposal: Proposal, now: Instant) -> bool:
        """Return whether all have answered; unless as printed, also whether no vote to come can change the outcome.

        A member that died stays in a group until it is upgraded, and never answers: a proposer that waited for all
        votes would need T_a for each upgrade after a failure, collide with its neighbours' and begin anew.
        Decision 53 has the figures.
        """
        electorate = self._electorate
        asked = electorate.of(proposal.group, now)
        accepts, silent = proposal.accepted(asked), proposal.silent(asked)
        if not silent or not self._config.early_upgrades:
            return not silent
        return electorate.is_majority(accepts, len(asked)) or not electorate.is_majority(accepts + silent, len(asked))

    def is_over(self, pair: Pair, timer: msg.ProposalAdvances, me: Seat, now: Instant, out: Out) -> bool:
        """Return whether the time of this proposal is over; otherwise ask again those who have not voted."""
        if pair.proposal is None or pair.proposal.number != timer.number:
            return False
        if timer.step >= ASKED_TIMES:
            return True
        if self._config.resends:
            self._propose([pair], me, now, out)
        self._set_timer(pair, pair.proposal, timer.step + 1, now, out)
        return False

    def decide(self, pair: Pair, current: Version, me: Seat, now: Instant, out: Out) -> Outcome:
        """Close a proposal by the votes that are there."""
        config, electorate, proposal = self._config, self._electorate, pair.proposal
        assert proposal is not None
        pair.proposal = None
        asked = electorate.of(proposal.group, now)
        if electorate.is_majority(proposal.accepted(asked), len(asked)):
            pair.mine = proposal.version
            out.emit(msg.Upgraded(pair.seat, proposal.version.number))
            members = tuple(sorted(proposal.version.members))
            out.send(pair.to, msg.ArbUpgrd(me.incarnation, pair.seat.incarnation, proposal.version.number, members))
            if _wanted(pair, current):
                self._plan(pair, now, config.lease, out)
            return Outcome.TAKEN
        if electorate.is_majority(proposal.silent(asked), len(asked)) and not config.abort_silent:
            return Outcome.SILENT
        out.emit(msg.UpgradeAborted(pair.seat, proposal.version.number))
        if config.abort_silent:
            self._withdraw(pair, proposal, me, out)
        self._plan(pair, now, config.recent, out)
        return Outcome.ABORTED

    def _withdraw(self, pair: Pair, proposal: Proposal, me: Seat, out: Out) -> None:
        """Notify all arbitrators that a proposal was given up.

        Deviation: else two that collide would stand in each other's way until T_arb has passed, again and again.
        """
        number = proposal.version.number
        self._arbitrator.withdraw(me.name, pair.name, number)
        for seat in sorted(proposal.group):
            if seat.name != me.name:
                out.send(to(seat), msg.Withdraw(me.incarnation, seat.incarnation, pair.seat, number))


def _wanted(pair: Pair, current: Version) -> bool:
    """Return whether the pair ought to be upgraded to the current neighbourhood."""
    return pair.stage is Stage.ACTIVE and pair.watching and not pair.release and pair.mine.members != current.members
