"""Checkers of what an election owes where links are cut one by one, by the sort of its promise.

quorum       a voter that can reach a majority leads, and nobody else does
weak         one leader for each part in which any two are linked or have a neighbour in common, who relays
announce     announcements are not relayed: a node that hears nobody better that acts, acts itself
"""

from typing import Final

from doyen.core.clock import FOREVER, Instant
from doyen.election.announce.config import AnnounceConfig
from doyen.sim.checkers.base import Checker, is_exact
from doyen.sim.node import SimNode
from doyen.sim.world import World


class _ByLinks(Checker):
    """Looks again at the instant by which something must be true, as the links and the leaders are now."""

    def attach(self) -> None:
        self._planned_at: Instant = -1
        self.sim.watchers.append(lambda node, channel, fact, now: self._plan())
        self.sim.deed_watchers.append(lambda deed, node: self._plan())
        self.sim.network_watchers.append(self._plan)

    def deadline(self) -> Instant:
        raise NotImplementedError

    def judge(self) -> None:
        raise NotImplementedError

    def _plan(self) -> None:
        at = self.deadline()
        if self.sim.now < at < FOREVER and at != self._planned_at:
            self._planned_at = at
            self.sim.look(at, lambda: self._look(at))

    def _look(self, at: Instant) -> None:
        if at == self.deadline():
            self.looked += 1
            self.judge()
        self._plan()


class LedWhereConnected(_ByLinks):
    name = "led"
    rule = (
        "quorum, where nothing is lost, late or slow: while some voter and a majority hear each other both ways, the "
        "stated bound does not pass without somebody who acts, whatever other links are cut"
    )

    @classmethod
    def applies(cls, world: World) -> bool:
        return world.kind.needs.voters and is_exact(world)

    def deadline(self) -> Instant:
        """Return when somebody must act: while somebody does, a bound after the links came to be as they are."""
        led = self.world.led
        return led.connected_since + led.bound if led.led and led.connected_since < FOREVER else led.due_at

    def judge(self) -> None:
        led = self.world.led
        if not led.led:
            names = ", ".join(node.name for node in self.world.quorum_connected(self.sim.up()))
            since = (self.sim.now - led.connected_since) / 1e9
            self.fail(f"nobody acts, and {names} had a majority for {since:.3f} s")


class ActsByMajority(_ByLinks):
    name = "held"
    rule = "quorum: a lease after the links changed, a leader that acts and a majority hear each other both ways"

    @classmethod
    def applies(cls, world: World) -> bool:
        return world.kind.needs.voters and world.bounded_clocks

    def deadline(self) -> Instant:
        return self.world.led.links_changed_at + self.world.led.lease + 1

    def judge(self) -> None:
        for node in self.world.acting():
            if node.state != "paused" and node not in self.world.led.connected:
                self.fail(f"{node.name} acts, and has had no majority for a lease")


class _OnceLinksRest(Checker):
    """Looks at a weak election once the links have changed, and nothing else has happened for some stated bounds."""

    def attach(self) -> None:
        self._bound = self.world.config.worst_case(self.world.kind).settling
        self.sim.network_watchers.append(self._plan)

    def bounds(self) -> int:
        return 1

    def _plan(self) -> None:
        since = self.sim.now
        self.sim.look(since + self.bounds() * self._bound, lambda: self._look(since))

    def _look(self, since: Instant) -> None:
        if self.sim.disturbed_at <= since and all(node.state == "up" for node in self.sim.up()):
            self.judge((self.sim.now - since) / 1e9)

    def judge(self, since_s: float) -> None:
        raise NotImplementedError


class PartsAgree(_OnceLinksRest):
    name = "parts"
    rule = (
        "weak, where members relay (churn-tolerant, spanning), nothing lost, late or slow: when links were cut, every "
        "part in which any two have a two-way link or a neighbour in common, and which no link leaves one way, names "
        "one leader of its own, which acts, within the stated bound"
    )

    @classmethod
    def applies(cls, world: World) -> bool:
        return world.sort == "weak" and is_exact(world) and not isinstance(world.table, AnnounceConfig)

    def judge(self, since_s: float) -> None:
        for region in filter(self.world.links().is_close, self.world.regions()):
            self.looked += 1
            reason = self.world.disagreement(region)
            if reason is not None:
                self.fail(f"{since_s:.3f} s after the links changed: {reason}")


class HeardByEach(_OnceLinksRest):
    name = "earshot"
    rule = (
        "announce-listen, where nothing is lost, late or slow: when links were cut, everybody names the best that acts "
        "among those that it hears, itself included, and acts if it hears nobody better, within a stated bound for "
        "each member: one that yields sets others free"
    )

    def bounds(self) -> int:
        return len(self.sim.nodes)

    @classmethod
    def applies(cls, world: World) -> bool:
        table = world.table
        if not isinstance(table, AnnounceConfig) or not is_exact(world):
            return False
        return table.leader_is == "best" and table.leader_count == 1 and world.kind.name != "le-m"

    def judge(self, since_s: float) -> None:
        world, reaches = self.world, self.world.network.reaches
        claims = {node: claim for node in self.sim.up() if (claim := world.claim(node)) is not None}
        acting: list[SimNode] = []
        for node in sorted(claims, key=lambda node: claims[node], reverse=True):
            if not any(reaches(better.index, node.index) for better in acting):
                acting.append(node)  # Best first: only those before it could keep it from acting.
        for node in self.sim.up():
            self.looked += 1
            heard = [other.name for other in acting if other is node or reaches(other.index, node.index)][:1]
            if list(world.named_by(node)) != heard or world.acts(node) != (node in acting):
                named = "/".join(world.named_by(node)) or "nobody"
                self.fail(f"{since_s:.3f} s after the links changed: {node.name} names {named}, and hears {heard}")


CHECKERS: Final = (LedWhereConnected, ActsByMajority, PartsAgree, HeardByEach)
