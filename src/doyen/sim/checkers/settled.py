"""Of any election: what the quiet time at the end of a run must come to."""

from doyen.core.clock import Instant
from doyen.sim.checkers.base import Checker
from doyen.sim.node import SimNode
from doyen.sim.world import Fact


class SteadyWhenQuiet(Checker):
    name = "steady"
    rule = "in quiet time, once settled, nobody changes its mind"

    def attach(self) -> None:
        self._last: tuple[Instant, str] = (0, "")
        self.on_leadership(self._on_fact)

    def _on_fact(self, node: SimNode, fact: Fact) -> None:
        self._last = (self.sim.now, f"{node.name}: {fact}")

    def at_end(self, now: Instant, settled_at: Instant) -> None:
        self.looked += 1
        if self._last[0] > settled_at:
            since = (now - settled_at) / 1e9
            self.fail(f"settled for {since:.3f} s and still not steady: {self._last[1]} at {self._last[0] / 1e9:.3f} s")


class RegionsAgree(Checker):
    name = "agreement"
    rule = (
        "after quiet time, within the stated bound, every connected region that can elect names one leader of its own, "
        "which acts, and nobody else does; of announce-listen, the best eligible member"
    )

    def at_end(self, now: Instant, settled_at: Instant) -> None:
        if now < settled_at:
            return
        for region in self.world.regions():
            self.looked += 1
            if self.world.can_elect(region):
                reason = self.world.disagreement(region)
                if reason is not None:
                    self.fail(reason)
            elif self.world.sort == "quorum" and any(self.world.acts(node) for node in region):
                self.fail(f"{', '.join(node.name for node in region)} have a leader, and no majority")
