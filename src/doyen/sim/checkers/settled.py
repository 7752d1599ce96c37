"""Checkers of any election: what the quiet time at the end of a run must come to."""

from typing import Final

from doyen.core.clock import Instant
from doyen.core.leadership import LeaderLost
from doyen.sim.checkers.base import Checker, is_exact, is_own
from doyen.sim.node import SimNode
from doyen.sim.world import Fact, World


class SteadyWhenQuiet(Checker):
    name = "steady"
    rule = "in quiet time, once settled, nobody changes its mind, unless a leader hands over by itself"

    def attach(self) -> None:
        self._told: list[tuple[Instant, SimNode, Fact]] = []
        self._within = self.world.config.worst_case(self.world.kind).failover
        self.on_leadership(lambda node, fact: self._told.append((self.sim.now, node, fact)))

    def at_end(self, now: Instant, settled_at: Instant) -> None:
        self.looked += 1
        settled_at = max(settled_at, self.world.observed_at + self._within)
        late = next((told for told in self._told if told[0] > settled_at), None)
        if late is not None and not _hands_over(late[1], late[2]):
            at, node, fact = late
            since = (now - settled_at) / 1e9
            self.fail(f"settled for {since:.3f} s and still not steady: {node.name}: {fact} at {at / 1e9:.3f} s")


class RegionsAgree(Checker):
    name = "agreement"
    rule = (
        "after quiet time, within the stated bound, every connected region that can elect names one leader of its own, "
        "which acts, and nobody else does; of announce-listen, the best eligible member"
    )

    def attach(self) -> None:
        self._within = self.world.config.worst_case(self.world.kind).failover
        self._handed_over_at: Instant = -self._within
        self.sim.watchers.append(lambda node, channel, fact, now: self._on_fact(node, fact))

    def _on_fact(self, node: SimNode, fact: object) -> None:
        if isinstance(fact, LeaderLost) and _hands_over(node, fact):
            self._handed_over_at = self.sim.now

    def at_end(self, now: Instant, settled_at: Instant) -> None:
        if now < max(settled_at, max(self._handed_over_at, self.world.observed_at) + self._within):
            return
        for region in self.world.regions():
            self.looked += 1
            if self.world.can_elect(region):
                reason = self.world.disagreement(region)
                if reason is not None:
                    self.fail(reason)
            elif self.world.sort == "quorum" and any(self.world.acts(node) for node in region):
                self.fail(f"{', '.join(node.name for node in region)} have a leader, and no majority")


def _hands_over(node: SimNode, fact: Fact) -> bool:
    return isinstance(fact, LeaderLost) and fact.reason == "resigned" and is_own(node, fact)


class FailoverInTime(Checker):
    name = "failover"
    rule = (
        "where nothing is lost, late or slow: when a leader that all named crashes, all name another, which acts, "
        "within the worst case that the election states"
    )

    def attach(self) -> None:
        worst = self.world.config.worst_case(self.world.kind)
        self._within, self._settling = worst.failover, worst.settling
        self.sim.deed_watchers.append(self._on_deed)

    @classmethod
    def applies(cls, world: World) -> bool:
        return is_exact(world)

    def _on_deed(self, deed: str, node: SimNode) -> None:
        """Judge a crash only where all was well for long enough before, and nothing else happens after it."""
        now, sim = self.sim.now, self.sim
        if deed != "crash":
            return
        others = [other for other in sim.up() if other is not node]
        calm = sim.disturbed_at + self._settling < now and all(other.state == "up" for other in sim.up())
        calm = calm and sim.network.unbroken
        named = all(self.world.named_by(other) == (node.name,) for other in sim.up())
        if calm and named and self.world.acts(node) and others and self.world.can_elect(others):
            sim.look(now + self._within, lambda: self._look(node, now))

    def _look(self, dead: SimNode, since: Instant) -> None:
        if self.sim.disturbed_at > since:
            return
        self.looked += 1
        for region in filter(self.world.can_elect, self.world.regions()):  # Others may have crashed with it.
            reason = self.world.disagreement(region)
            if reason is not None:
                self.fail(f"{self._within / 1e9:.3f} s after {dead.name} crashed: {reason}")


CHECKERS: Final = (FailoverInTime, SteadyWhenQuiet, RegionsAgree)
