"""The JSON that a node's HTTP answers with: one Struct per answer.  `/openapi.json` is made from them."""

from collections.abc import Mapping

from msgspec import Struct

from doyen.node.events import MemberInfo


class Leader(Struct, frozen=True, kw_only=True):
    """The leader of one election, as this node sees it."""

    group: str
    election: str  # "" is the group's own.
    name: str  # The node that answers.
    is_leader: bool
    leader: str | None
    term: int | None
    since_s: float | None  # For how long this node has named it.
    address: str | None  # Where doyen's datagrams reach the leader.
    meta: Mapping[str, str]  # What the leader says of itself.
    since: float | None  # Wall clock, in seconds, when it was elected.
    acts: bool | None  # Whether the leader acts, or still waits for its first act; None: only the leader itself knows.
    waits_for: str  # What this node waits for before its first act, while it is named leader and does not act yet.
    heir: str | None = None  # Who would lead next, as the leader says.
    baton_bytes: int | None = None  # The size of what is handed on, as far as it has come here; None: nothing is.


class HttpMember(MemberInfo, frozen=True, kw_only=True):
    """One member: all that `node.members()` has, and the names that HTTP had first."""

    status: str  # As `state`.
    suspicion_count: int


class Members(Struct, frozen=True, kw_only=True):
    """The members that this node knows, itself included."""

    group: str
    members: list[HttpMember]


class Health(Struct, frozen=True, kw_only=True):
    """A node's health: it takes part in its group, or it has failed, and of what."""

    healthy: bool
    failure: str | None


class Live(Struct, frozen=True, kw_only=True):
    """The answer of the liveness probe: the node has not failed."""

    live: bool


class Ready(Struct, frozen=True, kw_only=True):
    """The answer of the readiness probe: the node has joined, whether it leads or not."""

    ready: bool


class Index(Struct, frozen=True, kw_only=True):
    """The paths that are served."""

    see: tuple[str, ...]


class Done(Struct, frozen=True, kw_only=True):
    """The result of an action."""

    done: str


class Problem(Struct, frozen=True, kw_only=True):
    """Why a request was not answered, and what to ask instead."""

    error: str
