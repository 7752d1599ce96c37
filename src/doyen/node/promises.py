"""What each election promises, in plain words: for `doyen explain`, `doyen run`, and the guarantees."""

from typing import Final, Literal

from msgspec import Struct

Sort = Literal["weak", "timed", "quorum"]


class PromiseText(Struct, frozen=True, kw_only=True):
    """One election's.

    weak: one leader per region.  timed: never two named at once while time keeps to bounds that nothing enforces.
    quorum: never two acting at once, by a lease on one's own clock.
    """

    sort: Sort = "weak"
    in_short: str
    because: str  # Why this one leads, as the end of a sentence.

    @property
    def strong(self) -> bool:
        """Whoever acts on it is stopped in time, by the clock alone."""
        return self.sort == "quorum"


_WEAK: Final = "one leader per connected region; across a partition two may lead until it heals."
_ADVICE: Final = 'For "never two at once": --election pole'
_OWNER: Final = "it sits closest to the group's key on the ring, and both its neighbours agree"

PROMISES: Final[dict[str, PromiseText]] = {
    **{
        kind: PromiseText(
            in_short=f"{_WEAK} {_ADVICE}",
            because="it has the greatest standing of those that can be heard (ties: the greatest name)",
        )
        for kind in ("announce", "le-a", "le-s")
    },
    "le-m": PromiseText(in_short=f"{_WEAK} {_ADVICE}", because="it was the first to wake up"),
    **{
        kind: PromiseText(
            in_short=f"{_WEAK} {_ADVICE}",
            because="it has the lowest hash of those that took part",
        )
        for kind in ("base", "optimistic")
    },
    **{
        kind: PromiseText(
            in_short=f"{_WEAK} {_ADVICE}",
            because="it has the lowest hash of the healthy members that took part",
        )
        for kind in ("preferred", "hybrid")
    },
    "local": PromiseText(
        in_short=f"none: each member takes the lowest hash of its own view, and views may differ. {_ADVICE}",
        because="it has the lowest hash in this member's view",
    ),
    "spanning": PromiseText(
        in_short=f"{_WEAK} {_ADVICE}",
        because="it has the greatest quality of those that took part (ties: the lowest name)",
    ),
    "by-key": PromiseText(
        sort="timed",
        in_short="never two leaders at once, while clocks keep to ring.drift and round trips stay below "
        "ring.arbitration; there is no lease on the leader's own clock, so a process that was stopped may act for a "
        "moment on waking, and terms are no fences. Without these bounds: --election pole",
        because=_OWNER,
    ),
    "pole": PromiseText(
        sort="quorum",
        in_short="never two leaders at once, and never two of one term, while clocks run at the same rate within "
        "drift_max; without a majority of the voters nobody leads.",
        because="it has the best score of those that took part (ties: the greatest name), and a majority granted it",
    ),
}


def promise_of(kind: str, rank: str = "hash", partition: str = "collapse") -> PromiseText:
    """`partition` is the ring's: where both parts of it stay, each has an owner of the key."""
    found = PROMISES[kind]
    if kind == "by-key" and partition == "split":
        return PromiseText(in_short=f"{_WEAK} (ring.partition is split.) {_ADVICE}", because=found.because)
    if rank == "score" and kind in ("base", "optimistic", "preferred", "hybrid"):
        return PromiseText(in_short=found.in_short, because=found.because.replace("lowest hash", "best score"))
    return found
