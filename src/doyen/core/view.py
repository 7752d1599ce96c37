"""The view of the group: versioned, read-only, one per node, written by its membership machine alone."""

from collections.abc import Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from doyen.core.ids import Address, Incarnation, NodeId


class Status(Enum):
    ALIVE = "alive"
    SUSPECTED = "suspected"  # Still counts as present: it may yet refute.
    FAILED = "failed"
    LEFT = "left"  # On its own word, which is not a failure.
    UNKNOWN = "unknown"  # It is a member by configuration alone: nothing here says whether it is up.

    __hash__ = object.__hash__  # The one of Enum is written in Python, and simulations ask for it all the time.


_ALIVE: Final = Status.ALIVE
_SUSPECTED: Final = Status.SUSPECTED


class Member(Struct, frozen=True, kw_only=True, gc=False):
    node: NodeId
    incarnation: Incarnation = Incarnation(0)
    status: Status = Status.ALIVE
    address: Address | None = None
    suspicion_count: int = 0  # How often it was suspected: its unhealthiness, to elections that care.

    @property
    def present(self) -> bool:
        status = self.status
        return status is _ALIVE or status is _SUSPECTED


class MembershipView:
    """The members that one node believes in, now.  The object stays the same; `version` tells whether it changed."""

    __slots__ = ("_members", "version")

    def __init__(self) -> None:
        self.version = 0
        self._members: dict[NodeId, Member] = {}

    @property
    def members(self) -> Mapping[NodeId, Member]:
        return MappingProxyType(self._members)

    def present(self) -> Iterator[Member]:
        return (member for member in self._members.values() if member.present)

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, node: NodeId) -> bool:
        return node in self._members

    def __getitem__(self, node: NodeId) -> Member:
        return self._members[node]

    def __repr__(self) -> str:
        return f"MembershipView(version={self.version}, {sum(1 for _ in self.present())} of {len(self)} present)"

    def copy(self) -> dict[NodeId, Member]:
        """A snapshot to keep; everything else here shows the present."""
        return dict(self._members)


class ViewEditor:
    """The membership machine's end of a view; nobody else holds one."""

    __slots__ = ("members", "view")

    def __init__(self) -> None:
        self.view = MembershipView()
        self.members = self.view._members  # To read from, quicker than by the view.

    def put(self, member: Member) -> bool:
        """Adds or replaces; says whether anything changed."""
        members = self.members
        if members.get(member.node) == member:
            return False
        members[member.node] = member
        self.view.version += 1
        return True

    def put_new(self, members: Mapping[NodeId, Member]) -> None:
        """Add or replace members of whom it is known that each differs from what the view says."""
        self.members.update(members)
        self.view.version += len(members)

    def drop(self, node: NodeId) -> None:
        if self.members.pop(node, None) is not None:
            self.view.version += 1


class MemberWanted(Struct, frozen=True):
    """A fact: an election names this node, and the list does not hold it present; the membership looks for it.

    Without it nobody would watch a leader of whom a node has only heard.
    """

    node: NodeId


class ViewChanged(Struct, frozen=True):
    """A fact: the members named here are other than they were one version ago."""

    view: MembershipView
    changed: tuple[NodeId, ...]
