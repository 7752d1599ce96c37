"""Addresses: where each member was last heard, in which incarnation, and where a message for all goes."""

from collections import OrderedDict
from collections.abc import Collection, Iterable
from typing import Final

from doyen.core.clock import Duration, Instant, seconds
from doyen.core.ids import Address, Incarnation, NodeId
from doyen.core.view import Status, ViewChanged

PEERS_MAX: Final = 10_000  # Addresses remembered; the one longest unheard of is forgotten first.
SEEN_FOR: Final[Duration] = seconds(30)  # For this time a datagram's source counts more than gossip.
UNREAD_MAX: Final = 1024  # Seeds of which it is kept that they have another key, or none.
FAN_OUT_MAX: Final = 256  # Addresses, besides the seeds, that a message for all goes to.


class AddressBook:
    """The addresses that one node knows.  Strangers can write into it, so everything in it is bounded."""

    def __init__(self, me: NodeId, seeds: Iterable[Address] = ()) -> None:
        self.seeds = tuple(seeds)  # Also those that others have named;
        self.given: Collection[Address] = frozenset(self.seeds)  # the operator's own, and of this machine.
        self._me = me
        self._addresses: OrderedDict[NodeId, Address] = OrderedDict()  # The longest unheard of first.
        self._absent: dict[NodeId, Address] = {}  # Of members that a view holds failed; it may err.
        self._incarnations: dict[NodeId, Incarnation] = {}  # The latest heard of each that has an address.
        self._heard_at: dict[NodeId, Instant] = {}
        self._told: dict[NodeId, Address] = {}  # Where a view says that members are.
        self._at: dict[Address, NodeId] = {}  # The reverse.
        self.unread: dict[Address, tuple[str, Instant]] = {}  # Why, and when, a seed's packet could not be read.

    def __len__(self) -> int:
        return len(self._addresses)

    def of(self, node: NodeId) -> Address | None:
        """Return where a member was last heard, or where a view says that it is."""
        return self._addresses.get(node)

    def reach(self, node: NodeId) -> Address | None:
        """Return where to send what is for that member, also if a view holds it failed."""
        return self._addresses.get(node) or self._absent.get(node)

    def is_in_view(self, address: Address) -> bool:
        """Return whether a view puts a member at that address."""
        return address in self._at

    def towards(self, address: Address, now: Instant) -> Address:
        """Return where to send what is for the member that a view puts at that address.

        A node that has moved, or has several interfaces, is where others see it: the host that its datagrams come from,
        if they came lately.  Another port is that of a translation, which ends: then the address given counts.
        """
        node = self._at.get(address)
        seen = None if node is None else self._addresses.get(node)
        if node is None or seen is None or seen.port != address.port or seen.host == address.host:
            return address
        return seen if now - self._heard_at.get(node, -SEEN_FOR) < SEEN_FOR else address

    def incarnation_of(self, node: NodeId) -> Incarnation | None:
        """Return the latest incarnation under which a member was heard, if it was."""
        return self._incarnations.get(node)

    def heard_from(self) -> dict[NodeId, Address]:
        """Return who was heard directly, and where; without this node itself."""
        return {node: self._addresses[node] for node in self._incarnations if node in self._addresses}

    def heard_since(self, instant: Instant) -> set[NodeId]:
        """Return who was heard directly at that instant or later."""
        return {node for node in self.heard_from() if self._heard_at[node] >= instant}

    def fan_out(self) -> Iterable[Address]:
        """Return whom a message for all is sent to: every seed, and those heard last.

        It is bounded, or a stranger could make this node flood the world.
        """
        return dict.fromkeys((*self.seeds, *list(self._addresses.values())[-FAN_OUT_MAX:]))

    def heard(
        self, node: NodeId, incarnation: Incarnation, place: Address, now: Instant, *, elsewhere: bool = False
    ) -> None:
        """Remember where and when a member was heard.

        `elsewhere`: its datagram came from an address where it has not echoed yet, and the place is an earlier one.
        It may have moved: then where a view says that it is counts more.
        """
        if elsewhere and node in self._addresses:
            self._addresses.move_to_end(node)
        else:
            self._remember(node, place)
        self.unread.pop(place, None)
        self._incarnations[node], self._heard_at[node] = incarnation, now

    def could_not_read(self, source: Address, reason: str, now: Instant) -> None:
        """Remember that a seed has another key than this node, or none; of others it says nothing."""
        if source in self.given:
            if len(self.unread) >= UNREAD_MAX:
                self.unread.clear()
            self.unread[source] = reason, now

    def learn(self, fact: ViewChanged) -> None:
        """Take the addresses of a view: also of members that were never heard directly."""
        for node in fact.changed:
            member = fact.view.members.get(node)
            absent = self._absent.pop(node, None)
            moved = self._tell(node, None if member is None else member.address)
            if member is None or not member.present:
                self._forget(node)
                address = self._addresses.pop(node, None) or absent
                if address is not None and member is not None and member.status is Status.FAILED:
                    self._absent[node] = address
            elif member.address is not None and node != self._me and (moved or node not in self._addresses):
                self._remember(node, member.address)

    def _tell(self, node: NodeId, address: Address | None) -> bool:
        """Take where a view says that a member is; return whether that is news."""
        before = self._told.get(node)
        if before == address:
            return False
        if before is not None and self._at.get(before) == node:
            del self._at[before]
        if address is None:
            del self._told[node]
        else:
            self._told[node] = address
            self._at[address] = node
        return True

    def _remember(self, node: NodeId, address: Address) -> None:
        addresses = self._addresses
        if addresses.get(node) != address:
            addresses[node] = address
            if len(addresses) > PEERS_MAX:
                self._forget(addresses.popitem(last=False)[0])
        addresses.move_to_end(node)

    def _forget(self, node: NodeId) -> None:
        self._incarnations.pop(node, None)
        self._heard_at.pop(node, None)
