"""Measures how long somebody led in a run, and how long somebody ought to have.

By a quorum a leader is *due* once some voter and a majority have heard each other both ways for the stated bound, and
nobody may act once no voter has had that for a lease.  Both are a matter of links, as they are; of any other election
only the time led is counted.
"""

from typing import TYPE_CHECKING, Any, Final

from doyen.core.clock import FOREVER, Duration, Instant
from doyen.core.leadership import VotersChanged
from doyen.election.pole.config import PoleConfig
from doyen.sim.links import Links
from doyen.sim.node import SimNode

if TYPE_CHECKING:
    from doyen.sim.world import World

BEFORE: Final = ("crash", "pause", "slow")  # Deeds reported just before they happen, as the node hears nothing after.


class Led:
    """Sums up the time of one run, from change to change."""

    def __init__(self, world: "World") -> None:
        self.world, self.sim = world, world.sim
        quorum = world.kind.needs.voters
        self.is_quorum = quorum
        self.bound: Duration = world.config.worst_case(world.kind).settling
        table = world.table
        self.lease: Duration = (world.kind.lease(table) or FOREVER) if quorum else FOREVER
        if isinstance(table, PoleConfig):
            self.lease = int(self.lease / (1.0 - table.drift_max)) + 1  # By a clock that is as slow as it may be.
        self.forget()
        self._linked_since: dict[tuple[SimNode, SimNode], Instant] = {}
        self.led, self.led_until = False, 0  # Whether somebody acts, and when somebody last did.
        self.connected_since: Instant = FOREVER  # Since when a voter and a majority hear each other without a break.
        self.links_changed_at: Instant = 0
        self.connected: list[
            SimNode
        ] = []  # The voters that hear, and are heard by, a majority of those who are up now.
        self.sim.watchers.append(lambda node, channel, fact, now: self._on_fact(fact))
        self.sim.deed_watchers.append(self._on_deed)
        self.sim.network_watchers.append(self._on_links)

    def forget(self) -> None:
        """Count from now on."""
        self._at = self._since = self.sim.now
        self.time_led = self.time_due = self.time_led_when_due = self.time_led_beyond = 0

    # What came of it.

    @property
    def share(self) -> float:
        """Return the share of the time that somebody acted."""
        self._note()
        return self.time_led / max(1, self.sim.now - self._since)

    @property
    def share_when_due(self) -> float | None:
        """Return the share of the time in which a leader was due that somebody acted; None if it never was."""
        self._note()
        return self.time_led_when_due / self.time_due if self.time_due else None

    @property
    def beyond(self) -> Duration:
        """Return how long somebody acted although no voter had had a majority for a lease."""
        self._note()
        return self.time_led_beyond

    @property
    def due_at(self) -> Instant:
        """Return when somebody must act, as the links are: a bound after they were, and after somebody last did."""
        return min(max(self.connected_since, self.led_until) + self.bound, FOREVER)

    @property
    def over_at(self) -> Instant:
        """Return from when on nobody may act, as the links are."""
        return FOREVER if self.connected or not self.is_quorum else self.links_changed_at + self.lease

    # What happens.

    def _on_deed(self, deed: str, node: SimNode) -> None:
        self._note(without=node if deed in BEFORE else None)
        self._look_at_links(without=node if deed in BEFORE else None)

    def _on_fact(self, fact: Any) -> None:
        self._note()
        if isinstance(fact, VotersChanged):
            self._look_at_links()

    def _on_links(self) -> None:
        self._note()
        self._look_at_links()

    def _note(self, without: SimNode | None = None) -> None:
        """Add the time since the last look, which was as it was then; then look who acts."""
        now, before = self.sim.now, self._at
        if now > before:
            due = max(0, now - max(before, self.connected_since + self.bound))
            self.time_due += due
            if self.led:
                self.time_led += now - before
                self.time_led_when_due += due
                self.time_led_beyond += max(0, now - max(before, self.over_at))
                self.led_until = now
            self._at = now
        nodes = (self.sim.nodes[index] for index in self.world.believers)
        self.led = any(node is not without and node.state in ("up", "slow") for node in nodes)

    def _look_at_links(self, without: SimNode | None = None) -> None:
        """Find since when a voter has had a majority: as long as the newest link of its oldest majority has held."""
        if not self.is_quorum:
            return
        world, now, network = self.world, self.sim.now, self.sim.network
        self.links_changed_at = now
        electorate, before = world.electorate, self._linked_since
        there = [n for n in self.sim.up() if n.name in electorate.names and n is not without]
        links = Links(there, lambda a, b: network.reaches(a.index, b.index))
        self.connected = links.quorum_connected(there, lambda nodes: electorate.is_majority({n.name for n in nodes}))
        able = [node for node in there if node.state == "up" and not world.has_forgotten(node)]
        self._linked_since = {
            (a, b): before.get((a, b), now) for a in able for b in able if a is b or links.two_way(a, b)
        }
        self.connected_since = FOREVER
        removed = any(self.sim.nodes[index].name not in electorate.names for index in world.believers)
        if electorate.earlier or removed or not world.knows_its_voters:
            # While voters are being changed nothing is due, and nothing forbidden; a leader may remove itself.
            self.connected = list(self.sim.up())
            return
        for node in able:
            since = electorate.reached({b.name: -at for (a, b), at in self._linked_since.items() if a is node})
            if since is not None and world.standings[node.index] is not None:
                self.connected_since = min(self.connected_since, -since)
