"""Lets two members compare what they know, sums first, and exchange entries only where the sums differ.

    Digest(root) ──▶ equal: silence
                 ──▶ differs: few under it ──▶ Entries(answer=True) ──▶ Entries: what is known better there
                              many         ──▶ Digest(its sixteen branches) ──▶ …

Members that this node holds failed, and seeds that are not members, are tried too, one each round: so a partition
heals by itself, and a node that lost all members finds them again.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from doyen.core.clock import FOREVER, Instant
from doyen.core.effects import Out
from doyen.core.ids import Address, NodeId
from doyen.membership.swim.config import SwimConfig
from doyen.membership.swim.digests import DEPTH_MAX, ROOT, depth_of, is_branch
from doyen.membership.swim.dissemination import Post
from doyen.membership.swim.messages import Digest, DigestsAreCompared, Entries, Update
from doyen.membership.swim.roster import Roster

SUMS_MAX: Final = 64  # Branches in one message, which takes about 900 bytes then.
DATAGRAMS_MAX: Final = 64  # In answer to one message; the rest comes in later rounds.
BRANCHES_MAX: Final = 64  # Of one `Entries`.
FEW: Final = 24  # A branch of at most this many members is not divided further.


class AntiEntropy:
    """One node's comparisons of digests, with members and seeds."""

    __slots__ = ("_config", "_in_reach", "_out", "_post", "_rng", "_roster", "_seeds", "newcomer")

    def __init__(
        self,
        config: SwimConfig,
        roster: Roster,
        post: Post,
        out: Out,
        rng: Random,
        seeds: Sequence[Address],
        in_reach: Callable[[Address], bool],
    ) -> None:
        self._config, self._roster, self._post, self._out, self._rng = config, roster, post, out, rng
        self._seeds, self._in_reach = tuple(seeds), in_reach
        self.newcomer = self._alone  # It has no news but itself: all others know what it learns now.

    def start(self, now: Instant) -> None:
        """Begin with a round at once if this node is alone; other nodes wait for a random time."""
        if self._alone:
            for seed in self._seeds:
                self._post.send_to(seed, Digest, self._root())
        self._set_timer(now, scattered=True)

    def use_seeds(self, seeds: Sequence[Address], *, at_once: bool) -> None:
        fresh = [seed for seed in seeds if seed not in self._seeds]
        self._seeds = tuple(seeds)
        if at_once and self._alone:
            for seed in fresh[:DATAGRAMS_MAX]:
                self._post.send_to(seed, Digest, self._root())

    def on_due(self, now: Instant) -> None:
        self.newcomer = self.newcomer and self._alone
        partner = self._roster.random_present(self._rng, 1, frozenset())
        if partner:
            self.offer(partner[0])
        self._try_absent()
        self._set_timer(now)

    def offer(self, to: NodeId) -> None:
        self._post.send(to, Digest, self._root())

    @property
    def _alone(self) -> bool:
        return self._roster.present_count == 1

    def _set_timer(self, now: Instant, *, scattered: bool = False) -> None:
        config = self._config
        wait = config.join_interval if self._alone else config.sync_interval
        if wait < FOREVER:
            self._out.set_timer(DigestsAreCompared(), now + (int(self._rng.random() * wait) if scattered else wait))

    def _try_absent(self) -> None:
        failed, seeds = self._roster.failed, self._seeds
        if not failed and not seeds:
            return
        drawn = int(self._rng.random() * (len(failed) + len(seeds)))
        if drawn < len(failed):
            self.offer(failed[drawn])
        elif not self._in_reach(seeds[drawn - len(failed)]):
            self._post.send_to(seeds[drawn - len(failed)], Digest, self._root())

    def _root(self) -> tuple[tuple[int, int], ...]:
        return ((ROOT, self._roster.digests.sum(ROOT)),)

    # Answers.

    def on_digest(self, sender: NodeId, message: Digest) -> None:
        digests = self._roster.digests
        finer: list[tuple[int, int]] = []
        few: list[int] = []
        for branch, total in message.sums[:SUMS_MAX]:
            if not is_branch(branch) or digests.sum(branch) == total:
                continue
            if digests.count(branch) <= FEW or depth_of(branch) == DEPTH_MAX:
                few.append(branch)
            elif len(finer) < SUMS_MAX:
                finer += digests.children(branch)
        if finer:
            self._post.reply(sender, Digest, tuple(finer))
        if few:
            self._send_branches(sender, few)

    def _send_branches(self, to: NodeId, branches: list[int]) -> None:
        """Send several branches per datagram; one that does not fit goes in pieces, which want no answer."""
        batch: list[int] = []
        first = self._post.about(to)
        updates: list[Update] = [] if first is None else [first]
        for branch in branches:
            more = [u for node in self._roster.digests.under(branch) if (u := self._roster.update(node)) is not None]
            if batch and (
                len(batch) == BRANCHES_MAX or not self._post.fits(Entries, ((*batch, branch), True), [*updates, *more])
            ):
                self._send_entries(to, tuple(batch), updates)
                batch, updates = [], []
            batch.append(branch)
            updates += more
        self._send_entries(to, tuple(batch), updates)

    def _send_entries(self, to: NodeId, branches: tuple[int, ...], updates: list[Update]) -> None:
        if self._post.fits(Entries, (branches, True), updates):
            self._out.send(to, Entries(branches, True, tuple(updates)))
        else:
            self._send_pieces(to, updates)

    def on_entries(self, sender: NodeId, message: Entries) -> None:
        """Answer with what is known better here; the entries have been learnt already."""
        if not message.answer:
            return
        given = {update.node: update for update in message.updates}
        better: list[Update] = []
        for branch in message.branches[:BRANCHES_MAX]:
            if is_branch(branch):
                for node in self._roster.digests.under(branch):
                    own = self._roster.update(node)
                    theirs = given.pop(node, None)
                    if own is not None and (theirs is None or own.outranks(theirs.incarnation, theirs.word)):
                        better.append(own)
        for node, theirs in given.items():  # Members that are not present here.
            own = self._roster.update(node)
            if own is not None and own.outranks(theirs.incarnation, theirs.word):
                better.append(own)
        self._send_pieces(sender, better)

    def _send_pieces(self, to: NodeId, updates: list[Update]) -> None:
        parts = self._post.pieces(Entries, ((), False), updates)
        if len(parts) > DATAGRAMS_MAX:
            self._rng.shuffle(parts)  # Another part each time.
        for part in parts[:DATAGRAMS_MAX]:
            self._out.send(to, Entries((), False, part))
