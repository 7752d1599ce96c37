"""Upgrades of a pair's group: proposed to the group as it is, and taken once a majority of it knows.  [ARB §IV.B]

One at a time per pair and side: the next is proposed when the other has said that it goes by the last.

Deviation: what one arbitrator is to hear about several pairs of ours goes in one message; as printed there is one for
each pair, and a failure costs its neighbours four times as many.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from doyen.core.clock import Instant
from doyen.core.ids import NodeId
from doyen.membership.arbitration.arbitrator import Version
from doyen.membership.arbitration.messages import (
    ArbUpgrd,
    ProposalStep,
    Propose,
    Proposed,
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
PAIRS_MAX = 8  # In one message: it must fit a datagram together with a neighbourhood.


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
        if m.central:
            return
        together = now + int(m.rng.random() * m.config.lease)
        for pair in m.pairs.values():
            if pair.upgrade_at >= 0 or not self._wanted(pair):
                continue
            if m.config.early_upgrades:  # At one moment, for what goes to one arbitrator then goes together.
                pair.upgrade_at = together
                m.out.set_timer(UpgradeDue(pair.name), together)
            else:
                # Ambiguity [ARB §IV.B]: when a changed neighbourhood is proposed is left open.  After T_arb, for while
                # arbitrators remember what the other asked or proposed they reject.
                self.plan(pair, now + m.config.recent, m.config.lease)

    def _wanted(self, pair: Pair) -> bool:
        current = self._m.neighbourhood.current
        return (
            pair.stage is Stage.ACTIVE and pair.watching and not pair.release and pair.mine.members != current.members
        )

    def on_due(self, timer: UpgradeDue, now: Instant) -> None:
        m = self._m
        first = m.pairs.get(timer.name)
        if first is None or first.upgrade_at < 0:
            return
        ready = []
        for pair in m.pairs.values():
            if not 0 <= pair.upgrade_at <= now:
                continue
            pair.upgrade_at = -1
            if not self._wanted(pair) or pair.proposal is not None:
                continue
            if pair.confirmed < pair.mine.number:
                self.plan(pair, now, m.config.lease)  # The other does not go by the last one yet.
                continue
            self._number += 1
            pair.proposal = Proposal(self._number, m.neighbourhood.current, m.requests.group_of(pair))
            ready.append(pair)
        self._propose(ready, now)
        for pair in ready:
            if pair.proposal is not None:
                step = ProposalStep(pair.name, pair.proposal.number, 1)
                m.out.set_timer(step, now + m.config.arbitration // ASKED_TIMES)

    def _propose(self, pairs: Sequence[Pair], now: Instant) -> None:
        """To everybody who has not voted; all of them are about one version of ours."""
        m = self._m
        asked: dict[Seat, list[Proposed]] = {}
        for pair in pairs:
            proposal, theirs = pair.proposal, pair.theirs
            assert proposal is not None and theirs is not None
            for seat in proposal.group:
                if seat.name == m.seat.name:
                    accepted = m.arbitrator.consider(m.seat.name, pair.name, proposal.version, theirs.number, now)
                    proposal.votes.setdefault(seat.name, accepted)
                elif seat.name not in proposal.votes:
                    asked.setdefault(seat, []).append(Proposed(proposal.number, pair.name, theirs.number))
        for seat in sorted(asked):
            version = pairs[0].proposal.version  # type: ignore[union-attr]
            members = tuple(sorted(version.members))
            for i in range(0, len(asked[seat]), PAIRS_MAX):
                some = tuple(asked[seat][i : i + PAIRS_MAX])
                m.out.send(to(seat), Propose(m.seat.life, seat.life, version.number, members, some))

    def on_propose(self, sender: NodeId, message: Propose, now: Instant) -> None:
        m, proposer = self._m, (sender, message.life)
        version = Version(message.version, frozenset(message.members))
        votes = tuple(
            (pair.number, m.arbitrator.consider(proposer, pair.peer, version, pair.peer_version, now))
            for pair in message.pairs
        )
        m.out.send(sender, ProposeReply(m.seat.life, message.life, votes))

    def on_reply(self, sender: NodeId, message: ProposeReply, now: Instant) -> None:
        votes = dict(message.votes)
        for pair in list(self._m.pairs.values()):
            proposal = pair.proposal
            if proposal is not None and proposal.number in votes:
                proposal.votes.setdefault((sender, message.life), votes[proposal.number])
                self._decide_early(pair, proposal, now)

    def _decide_early(self, pair: Pair, proposal: Proposal, now: Instant) -> None:
        """When all have answered; unless as printed, as soon as what is still to come cannot change the outcome.

        Whoever died stays in a group until it is upgraded, and never answers: who waited for everybody would need T_a
        for each upgrade after a failure, would collide with its neighbours' and begin again.
        """
        m = self._m
        asked = m.electorate(proposal.group, now)
        accepts = sum(proposal.votes.get(seat.name, False) for seat in asked)
        open_votes = sum(seat.name not in proposal.votes for seat in asked)
        settled = m.majority(accepts, len(asked)) or not m.majority(accepts + open_votes, len(asked))
        if not open_votes or (settled and m.config.early_upgrades):
            self._decide(pair, proposal, now)

    def on_step(self, timer: ProposalStep, now: Instant) -> None:
        m = self._m
        pair = m.pairs.get(timer.name)
        if pair is None or pair.proposal is None or pair.proposal.number != timer.number:
            return
        if timer.step >= ASKED_TIMES:
            self._decide(pair, pair.proposal, now)
            return
        if m.config.resends:
            self._propose([pair], now)
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
