"""Estimates how many views lack a member: c, from digests of views.  Beyond [CTOL §III-A].

Elections over weak views must know how weak they are.  At a low rate each node sends a digest of its view, the members
that are present, to a few members drawn at random; a node that has some fresh digests sees from how many of them each
member is missing, and scales that up to the group:

    c_i ≈ (views among D+1 that lack i) · N / (D+1),  c = max c_i,  one observation per interval

The estimate is an upper bound for a high quantile of c over time, by the order statistics of the observations, with
its confidence.  It errs on the high side: one view of seven that lacks a member counts for a seventh of the group.
Members that most views lack are taken for gone, and count for nothing.

Views are alike most of the time, so a sum over the digest is enough then (`sums`); a node with another sum asks for it:

    ViewSum ─▶ equal: the sender's view is as one's own
            ─▶ differs ─▶ DigestWanted ─▶ ViewDigest
"""

from collections import deque
from functools import lru_cache
from math import ceil, comb
from random import Random
from typing import Annotated, Any, ClassVar, Final

from msgspec import Meta, Struct

from doyen.core.clock import Instant, seconds
from doyen.core.config import Config, Doc, Fraction, Period, Several, need
from doyen.core.effects import Out
from doyen.core.hashes import blake2b
from doyen.core.ids import NodeId
from doyen.core.machine import Hears, hears
from doyen.core.view import MembershipView, ViewChanged

ENTRY_BYTES: Final = 4
ENTRIES_MAX: Final = 256  # In one digest, about; larger views are sent in slices.
ENTRIES_MOST: Final = 320  # More do not fit a datagram.
SUM_BYTES: Final = 6
SLICES_MAX: Final = 4096
VIEWS_MIN: Final = 3  # Fewer views, the node's own included, show nothing.

# ── Config ──────────────────────────────────────────────────────────────────────────────────────────────────


class MissingConfig(Config, frozen=True, kw_only=True):
    """The interval at which digests are compared, and how sure the bound is to be."""

    interval: Annotated[Period, Doc("The time between digests, and of observations. Short: traffic.")] = seconds(10)
    fan_out: Annotated[Several, Doc("Digests sent per interval, with 4 bytes a member each.")] = 2
    fresh: Annotated[Period, Doc("How long a digest counts. Short: few views. Long: stale ones.")] = seconds(30)
    sums: Annotated[bool, Doc("Whether a sum is sent first, and the digest only to members that have another.")] = False
    window: Annotated[int, Meta(ge=1, le=100_000), Doc("Observations remembered: an hour of them.")] = 360
    quantile: Annotated[Fraction, Doc("The share of the time in which c is to be enough.")] = 0.99
    confidence: Annotated[Fraction, Doc("How sure the bound is to be; the estimate carries what is reached.")] = 0.95

    def check(self) -> None:
        need(self.interval <= self.fresh, "fresh", "must be interval or more")

    @classmethod
    def quiet(cls) -> "MissingConfig":
        """Return a configuration with as many views at a quarter of the traffic, or less in large groups."""
        return cls(fan_out=1, fresh=seconds(60), sums=True)


# ── Messages ────────────────────────────────────────────────────────────────────────────────────────────────


class ViewDigest(Struct, frozen=True, gc=False, array_like=True, tag="V"):
    """Carries hashes of the members present, or of those whose hash leaves `part` when divided by `parts`."""

    entries: bytes
    part: int = 0
    parts: int = 1

    def __post_init__(self) -> None:
        if len(self.entries) % ENTRY_BYTES or not 0 <= self.part < self.parts <= SLICES_MAX:
            raise ValueError("not a digest of a view")


class ViewSum(Struct, frozen=True, gc=False, array_like=True, tag="S"):
    """Carries a sum over the entries of a digest; a receiver with another sum asks for the digest itself."""

    sum: int
    part: int = 0
    parts: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.part < self.parts <= SLICES_MAX:
            raise ValueError("not a sum over a view")


class DigestWanted(Struct, frozen=True, gc=False, array_like=True, tag="W"):
    """Asks the sender of a sum for its digest."""

    part: int = 0
    parts: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.part < self.parts <= SLICES_MAX:
            raise ValueError("not a part of a view")


class DigestIsSent(Struct, frozen=True, gc=False):
    """The node compares the views that it knows, and sends the digest of its own, or the sum over it."""


class MissingEstimated(Struct, frozen=True):
    """The estimate: at most `missing_max` views lack a member, `quantile` of the time, with this confidence."""

    missing_max: int
    confidence: float
    sample_count: int


# ── The machine ─────────────────────────────────────────────────────────────────────────────────────────────


class MissingEstimator:
    """Sends digests, compares them, and emits its estimate whenever that changes."""

    __slots__ = ("_fresh", "_observed", "_out", "_part", "_rng", "_told", "_view", "config", "me")
    MESSAGES: ClassVar[Any] = ViewDigest | ViewSum | DigestWanted

    def __init__(self, me: NodeId, config: MissingConfig, out: Out, rng: Random) -> None:
        self.me, self.config = me, config
        self._out, self._rng = out, rng
        self._view: MembershipView | None = None
        self._fresh: dict[NodeId, tuple[Instant, ViewDigest]] = {}  # The last digest of each member.
        self._observed: deque[int] = deque(maxlen=config.window)
        self._part = 0
        self._told: MissingEstimated | None = None

    # Inputs.

    def start(self, now: Instant) -> None:
        self._out.set_timer(DigestIsSent(), now + int(self._rng.random() * self.config.interval))

    def on_view_changed(self, fact: ViewChanged, now: Instant) -> None:
        self._view = fact.view

    HEARS: ClassVar[Hears] = hears(ViewChanged, on_view_changed)

    def on_message(self, sender: NodeId, message: ViewDigest | ViewSum | DigestWanted, now: Instant) -> None:
        if self._view is None or sender not in self._view:  # Else strangers could fill the table.
            return
        if isinstance(message, ViewDigest):
            self._fresh[sender] = (now, message)
            return
        own = digest_of(self._present(), message.part, message.parts)
        if isinstance(message, DigestWanted):
            if len(own.entries) <= ENTRY_BYTES * ENTRIES_MOST:
                self._out.send(sender, own)
        elif message.sum == sum_of(own):
            self._fresh[sender] = (now, own)
        else:
            self._out.send(sender, DigestWanted(message.part, message.parts))

    def on_timer(self, timer: DigestIsSent, now: Instant) -> None:
        self._observe(now)
        others = [] if self._view is None else [m.node for m in self._view.present() if m.node != self.me]
        if others:
            present = {self.me, *others}
            parts = min(SLICES_MAX, -(-len(present) // ENTRIES_MAX))
            self._part = (self._part + 1) % parts
            own = digest_of(present, self._part, parts)
            message = ViewSum(sum_of(own), self._part, parts) if self.config.sums else own
            for node in self._rng.sample(others, min(self.config.fan_out, len(others))):
                self._out.send(node, message)
        self._out.set_timer(timer, now + self.config.interval)

    def _present(self) -> set[NodeId]:
        return {self.me} if self._view is None else {self.me, *(m.node for m in self._view.present())}

    # Queries.

    @property
    def estimate(self) -> MissingEstimated | None:
        return self._told

    # Steps.

    def _observe(self, now: Instant) -> None:
        oldest = now - self.config.fresh
        self._fresh = {node: entry for node, entry in self._fresh.items() if entry[0] >= oldest}
        if self._view is None or len(self._fresh) + 1 < VIEWS_MIN:
            return
        present = self._present()
        digests = [digest for _, digest in self._fresh.values()]
        self._observed.append(missing_max({entry_of(node) for node in present}, digests, len(present)))
        independent = max(1, round(len(self._observed) * self.config.interval / self.config.fresh))
        value, confidence = bound(list(self._observed), independent, self.config.quantile, self.config.confidence)
        estimate = MissingEstimated(value, round(confidence, 3), len(self._observed))
        if self._told is None or estimate != self._told:
            self._told = estimate
            self._out.emit(estimate)


@lru_cache(maxsize=65536)
def entry_of(node: NodeId) -> int:
    return int.from_bytes(blake2b(node.encode(), digest_size=ENTRY_BYTES).digest(), "little")


def digest_of(nodes: set[NodeId], part: int, parts: int) -> ViewDigest:
    entries = sorted(entry for entry in map(entry_of, nodes) if entry % parts == part)
    return ViewDigest(b"".join(entry.to_bytes(ENTRY_BYTES, "little") for entry in entries), part, parts)


def sum_of(digest: ViewDigest) -> int:
    return int.from_bytes(blake2b(digest.entries, digest_size=SUM_BYTES).digest(), "little")


def missing_max(mine: set[int], digests: list[ViewDigest], group_size: int) -> int:
    """Return max c_i, scaled up from the views at hand to the group."""
    lacking: dict[int, list[int]] = {}  # By member: how many views lack it, and of how many.
    views = [(mine, 0, 1), *((_entries(digest), digest.part, digest.parts) for digest in digests)]
    everybody = set().union(*(view for view, _, _ in views))
    for view, part, parts in views:
        for entry in everybody:
            if entry % parts == part:
                counts = lacking.setdefault(entry, [0, 0])
                counts[0] += entry not in view
                counts[1] += 1
    shares = [(missing, seen) for missing, seen in lacking.values() if 2 * missing < seen]
    return max((ceil(missing * group_size / seen) for missing, seen in shares), default=0)


def bound(observed: list[int], independent: int, quantile: float, confidence: float) -> tuple[int, float]:
    """Return the least observation that is an upper bound of the quantile with that confidence; else the greatest.

    Of n independent observations the m-th smallest is such a bound with probability P(Binomial(n, q) < m).
    """
    ordered, n = sorted(observed), independent
    below = 0.0
    for m in range(1, n + 1):
        below += comb(n, m - 1) * quantile ** (m - 1) * (1 - quantile) ** (n - m + 1)
        if below >= confidence:
            return ordered[min(len(ordered) - 1, ceil(m * len(ordered) / n) - 1)], below
    return ordered[-1], 1 - quantile**n


def _entries(digest: ViewDigest) -> set[int]:
    data = digest.entries
    return {int.from_bytes(data[i : i + ENTRY_BYTES], "little") for i in range(0, len(data), ENTRY_BYTES)}
