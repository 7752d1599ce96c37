"""Upgrades of a pair's group: proposed to the group as it is, and taken once a majority of it knows.  [ARB §IV.B]

One at a time per pair and side: the next is proposed when the other has said that it goes by the last.
"""

from typing import TYPE_CHECKING

from doyen.core.clock import Instant
from doyen.core.ids import NodeId
from doyen.membership.arbitration.arbitrator import Version
from doyen.membership.arbitration.messages import (
    ArbUpgrd,
    ProposalStep,
    Propose,
    ProposeReply,
    Reflected,
    UpgradeAborted,
    Upgraded,
    UpgradeDue,
    Withdraw,
)
from doyen.membership.arbitration.pair import Pair, Proposal, Stage
from doyen.membership.ring import Seat, to

if TYPE_CHECKING:
    from doyen.membership.arbitration.machine import Arbitration

ASKED_TIMES = 3


class Upgrades:
    def __init__(self, machine: "Arbitration") -> None:
        self._m = machine
        self._number = 0

    def plan(self, pair: Pair, now: Instant, patience: int) -> None:
        """Soon, and not just when the other side does: jitter within `patience`."""
        if pair.upgrade_at < 0:
            pair.upgrade_at = now + int(self._m.rng.random() * patience)
            self._m.out.set_timer(UpgradeDue(pair.name), pair.upgrade_at)

    def plan_all(self, now: Instant) -> None:
        m = self._m
        if not m.central:
            for pair in m.pairs.values():
                if self._wanted(pair):
                    self.plan(pair, now, m.config.lease // 2)

    def _wanted(self, pair: Pair) -> bool:
        current = self._m.neighbourhood.current
        return (
            pair.stage is Stage.ACTIVE and pair.watching and not pair.release and pair.mine.members != current.members
        )

    def on_due(self, timer: UpgradeDue, now: Instant) -> None:
        m = self._m
        pair = m.pairs.get(timer.name)
        if pair is None or pair.upgrade_at < 0:
            return
        pair.upgrade_at = -1
        if not self._wanted(pair) or pair.proposal is not None:
            return
        if pair.confirmed < pair.mine.number:
            self.plan(pair, now, m.config.lease)  # The other does not go by the last one yet.
            return
        assert pair.theirs is not None
        self._number += 1
        pair.proposal = proposal = Proposal(self._number, m.neighbourhood.current, m.requests.group_of(pair))
        self._propose(pair, proposal, now)
        if pair.proposal is proposal:
            m.out.set_timer(ProposalStep(pair.name, proposal.number, 1), now + m.config.arbitration // ASKED_TIMES)

    def _propose(self, pair: Pair, proposal: Proposal, now: Instant) -> None:
        m = self._m
        assert pair.theirs is not None
        members = tuple(sorted(proposal.version.members))
        for seat in sorted(proposal.group):
            if seat.name in proposal.votes:
                continue
            if seat.name == m.seat.name:
                proposal.votes[seat.name] = m.arbitrator.consider(
                    m.seat.name, pair.name, proposal.version, pair.theirs.number, now
                )
            else:
                m.out.send(
                    to(seat),
                    Propose(
                        m.seat.life,
                        seat.life,
                        proposal.number,
                        m.seat,
                        pair.seat,
                        proposal.version.number,
                        members,
                        pair.theirs.number,
                    ),
                )

    def on_propose(self, sender: NodeId, message: Propose, now: Instant) -> None:
        m = self._m
        version = Version(message.version, frozenset(message.members))
        accepted = m.arbitrator.consider(
            (sender, message.life), message.peer.name, version, message.peer_version, now
        )  # fmt: skip
        m.out.send(sender, ProposeReply(m.seat.life, message.life, message.number, accepted))

    def on_reply(self, sender: NodeId, message: ProposeReply, now: Instant) -> None:
        for pair in self._m.pairs.values():
            proposal = pair.proposal
            if proposal is not None and proposal.number == message.number:
                proposal.votes.setdefault((sender, message.life), message.accepted)
                if all(seat.name in proposal.votes for seat in proposal.group):
                    self._decide(pair, proposal, now)
                return

    def on_step(self, timer: ProposalStep, now: Instant) -> None:
        m = self._m
        pair = m.pairs.get(timer.name)
        if pair is None or pair.proposal is None or pair.proposal.number != timer.number:
            return
        if timer.step >= ASKED_TIMES:
            self._decide(pair, pair.proposal, now)
            return
        if m.config.resends:
            self._propose(pair, pair.proposal, now)
        m.out.set_timer(
            ProposalStep(timer.name, timer.number, timer.step + 1), now + m.config.arbitration // ASKED_TIMES
        )

    def _decide(self, pair: Pair, proposal: Proposal, now: Instant) -> None:
        m = self._m
        pair.proposal = None
        asked = m.electorate(proposal.group, now)
        accepts = sum(proposal.votes.get(seat.name, False) for seat in asked)
        silent = sum(seat.name not in proposal.votes for seat in asked)
        if m.majority(accepts, len(asked)):
            pair.mine = proposal.version
            m.out.emit(Upgraded(pair.seat, proposal.version.number))
            members = tuple(sorted(proposal.version.members))
            m.out.send(pair.to, ArbUpgrd(m.seat.life, pair.seat.life, proposal.version.number, members))
            if self._wanted(pair):
                self.plan(pair, now, m.config.lease)
        elif m.majority(silent, len(asked)) and not m.config.abort_silent:
            m.leave_forced("upgrade", now)
        else:
            m.out.emit(UpgradeAborted(pair.seat, proposal.version.number))
            m.neighbourhood.renumber()  # A version that was proposed is not proposed again.
            if m.config.abort_silent:
                self._withdraw(pair, proposal)
            self.plan(pair, now, m.config.recent)

    def _withdraw(self, pair: Pair, proposal: Proposal) -> None:
        """Deviation: else two that collide would stand in each other's way until T_arb has passed, again and again."""
        m, number = self._m, proposal.version.number
        m.arbitrator.withdraw(m.seat.name, pair.name, number)
        for seat in sorted(proposal.group):
            if seat.name != m.seat.name:
                m.out.send(to(seat), Withdraw(m.seat.life, seat.life, pair.seat, number))

    def on_withdraw(self, sender: NodeId, message: Withdraw) -> None:
        self._m.arbitrator.withdraw((sender, message.life), message.peer.name, message.version)

    def on_upgraded(self, sender: NodeId, message: ArbUpgrd, now: Instant) -> None:
        pair = self._m.pairs.get((sender, message.life))
        if pair is not None and pair.watching:
            self.reflect(pair, message.version, message.members)

    def reflect(self, pair: Pair, version: int, members: tuple[Seat, ...]) -> None:
        """N_Q is what Q said."""
        if pair.theirs is None or version > pair.theirs.number:
            known = pair.theirs is not None
            pair.theirs = Version(version, frozenset(members))
            if known:
                self._m.out.emit(Reflected(pair.seat, version))
