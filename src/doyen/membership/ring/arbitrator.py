"""One arbitrator's memory and judgement: who was declared dead lately, and which groups were upgraded.  [ARB Alg. 1]

Arbitrators share nothing and act by their own clocks.  A pairwise one keeps at most two entries per pair; it votes from
the first moment, for what it could have missed was settled by a majority of the group before it (no gate by uptime:
after a cold start a single crash would empty the ring).
"""

from msgspec import Struct

from doyen.core.clock import Instant
from doyen.core.ids import NodeId
from doyen.membership.ring.config import ArbitrationConfig
from doyen.membership.ring.geometry import Name, Seat
from doyen.membership.ring.messages import Arb, Propose, ProposeReply, Verdict, Vote

PRUNE_ABOVE = 64

Pair = tuple[Name, Name]


class Version(Struct, frozen=True):
    """A neighbourhood, numbered by its owner."""

    number: int
    members: frozenset[Seat]


class Recorded(Struct, frozen=True):
    """A version that was proposed, and accepted here."""

    version: Version
    at: Instant


class Judgement(Struct, frozen=True):
    """A vote, and where the request was stale the suspect's newer neighbourhood."""

    verdict: Verdict
    newer: Version | None = None


_ACCEPT, _REJECT = Judgement(Verdict.ACCEPT), Judgement(Verdict.REJECT)


class Arbitrator:
    """An arbitrator of pairwise groups."""

    def __init__(self, config: ArbitrationConfig) -> None:
        self.config = config
        self._failed: dict[Pair, dict[Name, Instant]] = {}  # Recently-Failed, by pair.
        self._asked: dict[Pair, Instant] = {}  # (asker, suspect): when it last asked.
        self._versions: dict[Pair, Recorded] = {}  # (proposer, peer): proposed, and accepted here.

    def judge(self, asker: Name, suspect: Name, version: int, now: Instant) -> Judgement:
        """Judge Arb(P → Q): first come, first served."""
        newer = self.stale(asker, suspect, version, now)
        if newer is not None:
            return Judgement(Verdict.STALE, newer)
        self._asked[asker, suspect] = now
        failed = self._failed.setdefault((min(asker, suspect), max(asker, suspect)), {})
        for name in [name for name, at in failed.items() if now - at > self.config.recent]:
            del failed[name]
        if asker in failed:
            return _REJECT
        if suspect not in failed:
            failed[suspect] = now
        self._prune(now)
        return _ACCEPT

    def stale(self, asker: Name, suspect: Name, version: int, now: Instant) -> Version | None:
        """Return the suspect's newer neighbourhood, if there is one; the asker knows its own."""
        found = self._versions.get((suspect, asker))
        if found is None or now - found.at > self.config.pending or found.version.number <= version:
            return None
        return found.version

    def consider(self, proposer: Name, peer: Name, version: Version, peer_version: int, now: Instant) -> bool:
        """Return whether to accept Propose(version, Q): not while Q accuses the proposer, or changes its own side."""
        asked = self._asked.get((peer, proposer))
        if asked is not None and now - asked <= self.config.recent:
            return False
        other = self._versions.get((peer, proposer))
        if other is not None and now - other.at <= self.config.pending:
            # Deviation: a proposer that knows the other's new version may go on; as printed it waits for T_arb.
            if other.version.number > peer_version or not self.config.abort_silent:
                return False
        mine = self._versions.get((proposer, peer))
        if mine is None or version.number >= mine.version.number:
            self._versions[proposer, peer] = Recorded(version, now)
        return True

    def withdraw(self, proposer: Name, peer: Name, version: int) -> None:
        """Forget a version that its proposer has given up."""
        found = self._versions.get((proposer, peer))
        if found is not None and found.version.number == version:
            del self._versions[proposer, peer]

    def vote(self, sender: NodeId, message: Arb, me: Seat, now: Instant) -> Vote:
        """Answer a request; a suspect that lives votes like anyone."""
        judged = self.judge((sender, message.incarnation), message.suspect.name, message.version, now)
        number, members = (judged.newer.number, tuple(sorted(judged.newer.members))) if judged.newer else (0, ())
        return Vote(me.incarnation, message.incarnation, message.number, judged.verdict, number, members)

    def reply(self, sender: NodeId, message: Propose, me: Seat, now: Instant) -> ProposeReply:
        """Answer a proposal, pair by pair."""
        proposer, version = (sender, message.incarnation), Version(message.version, frozenset(message.members))
        votes = tuple(
            (pair.number, self.consider(proposer, pair.peer, version, pair.peer_version, now)) for pair in message.pairs
        )
        return ProposeReply(me.incarnation, message.incarnation, votes)

    def _prune(self, now: Instant) -> None:
        if len(self._asked) <= PRUNE_ABOVE and len(self._versions) <= PRUNE_ABOVE:
            return
        recent, pending = self.config.recent, self.config.pending
        self._asked = {pair: at for pair, at in self._asked.items() if now - at <= recent}
        self._versions = {pair: found for pair, found in self._versions.items() if now - found.at <= pending}
        self._failed = {
            pair: failed
            for pair, failed in self._failed.items()
            if any(now - at <= recent for at in failed.values())
        }  # fmt: skip
