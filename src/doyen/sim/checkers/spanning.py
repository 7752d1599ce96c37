"""A checker of spanning elections: they come to rest from any state at all.  [MADM Ch. 6]"""

from typing import Final

from doyen.core.clock import Instant
from doyen.election.spanning.config import SpanningConfig
from doyen.sim.checkers.base import Checker
from doyen.sim.node import SimNode
from doyen.sim.world import World


class Stabilises(Checker):
    name = "stabilises"
    rule = (
        "spanning: after memory was corrupted, if nothing else happens, every region names one of its own within the "
        "time that the configuration states  [MADM §6.2.4]"
    )

    def attach(self) -> None:
        config = self.world.table
        self._within = config.stabilisation_max + config.pulse_interval
        self.sim.deed_watchers.append(self._on_deed)

    @classmethod
    def applies(cls, world: World) -> bool:
        return not world.sound_memory and isinstance(world.table, SpanningConfig)

    def _on_deed(self, deed: str, node: SimNode) -> None:
        if deed == "corrupt":
            now = self.sim.now
            self.sim.look(now + self._within, lambda: self._look(now))

    def _look(self, since: Instant) -> None:
        if self.sim.disturbed_at > since:
            return
        for region in self.world.regions():
            self.looked += 1
            named = {self.world.machine(node).named for node in region}
            if len(named) > 1 or not named <= {node.name for node in region}:
                whom = ", ".join(sorted(str(name) for name in named))
                self.fail(f"{self._within / 1e9:.1f} s after its memory was corrupted a region names {whom}")


CHECKERS: Final = (Stabilises,)
