"""Addresses: where each member was last heard, in which incarnation, and where a message for all goes."""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from doyen.core.ids import Address, Incarnation, NodeId
from doyen.core.view import Status, ViewChanged

PEERS_MAX: Final = 10_000  # Addresses remembered; the one longest unheard of is forgotten first.
FAN_OUT_MAX: Final = 256  # Addresses, besides the seeds, that a message for all goes to.


class AddressBook:
    """The addresses that one node knows.  Strangers can write into it, so everything in it is bounded."""

    def __init__(self, me: NodeId, seeds: Iterable[Address] = ()) -> None:
        self.seeds = tuple(seeds)
        self._me = me
        self._addresses: OrderedDict[NodeId, Address] = OrderedDict()  # The longest unheard of first.
        self._absent: dict[NodeId, Address] = {}  # Of members that a view holds failed; it may err.
        self._incarnations: dict[NodeId, Incarnation] = {}  # The latest heard of each that has an address.

    def __len__(self) -> int:
        return len(self._addresses)

    def of(self, node: NodeId) -> Address | None:
        """Return where a member was last heard, or where a view says that it is."""
        return self._addresses.get(node)

    def reach(self, node: NodeId) -> Address | None:
        """Return where to send what is for that member, also if a view holds it failed."""
        return self._addresses.get(node) or self._absent.get(node)

    def incarnation_of(self, node: NodeId) -> Incarnation | None:
        """Return the latest incarnation under which a member was heard, if it was."""
        return self._incarnations.get(node)

    def heard_from(self) -> dict[NodeId, Address]:
        """Return who was heard directly, and where; without this node itself."""
        return {node: self._addresses[node] for node in self._incarnations if node in self._addresses}

    def fan_out(self) -> set[Address]:
        """Return whom a message for all is sent to: every seed, and those heard last.

        It is bounded, or a stranger could make this node flood the world.
        """
        return {*self.seeds, *list(self._addresses.values())[-FAN_OUT_MAX:]}

    def heard(self, node: NodeId, incarnation: Incarnation, source: Address) -> None:
        """Remember where a member was heard."""
        self._remember(node, source)
        self._incarnations[node] = incarnation

    def learn(self, fact: ViewChanged) -> None:
        """Take the addresses of a view: also of members that were never heard directly."""
        for node in fact.changed:
            member = fact.view.members.get(node)
            absent = self._absent.pop(node, None)
            if member is None or not member.present:
                self._incarnations.pop(node, None)
                address = self._addresses.pop(node, None) or absent
                if address is not None and member is not None and member.status is Status.FAILED:
                    self._absent[node] = address
            elif member.address is not None and node != self._me:
                self._remember(node, member.address)

    def _remember(self, node: NodeId, address: Address) -> None:
        addresses = self._addresses
        if addresses.get(node) != address:
            addresses[node] = address
            if len(addresses) > PEERS_MAX:
                self._incarnations.pop(addresses.popitem(last=False)[0], None)
        addresses.move_to_end(node)
