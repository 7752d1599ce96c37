"""What each election promises, in plain words: for `doyen explain`, `doyen run`, and the guarantees."""

from typing import Final

from msgspec import Struct


class PromiseText(Struct, frozen=True, kw_only=True):
    """One election's."""

    strong: bool  # Never two leaders at once, within its assumptions.
    in_short: str
    because: str  # Why this one leads, as the end of a sentence.


_WEAK: Final = "one leader per connected region; across a partition two may lead until it heals."
_ADVICE: Final = 'For "never two at once": --election pole'

PROMISES: Final[dict[str, PromiseText]] = {
    **{
        kind: PromiseText(
            strong=False,
            in_short=f"{_WEAK} {_ADVICE}",
            because="it has the greatest standing of those that can be heard (ties: the greatest name)",
        )
        for kind in ("announce", "le-a", "le-s")
    },
    "le-m": PromiseText(strong=False, in_short=f"{_WEAK} {_ADVICE}", because="it was the first to wake up"),
    **{
        kind: PromiseText(
            strong=False,
            in_short=f"{_WEAK} {_ADVICE}",
            because="it has the lowest hash of those that took part",
        )
        for kind in ("base", "optimistic")
    },
    **{
        kind: PromiseText(
            strong=False,
            in_short=f"{_WEAK} {_ADVICE}",
            because="it has the lowest hash of the healthy members that took part",
        )
        for kind in ("preferred", "hybrid")
    },
    "local": PromiseText(
        strong=False,
        in_short=f"none: each member takes the lowest hash of its own view, and views may differ. {_ADVICE}",
        because="it has the lowest hash in this member's view",
    ),
    "spanning": PromiseText(
        strong=False,
        in_short=f"{_WEAK} {_ADVICE}",
        because="it has the greatest quality of those that took part (ties: the lowest name)",
    ),
    "by-key": PromiseText(
        strong=False,
        in_short="never two leaders at once, while clocks and delays keep to the ring's bounds (lease, arbitration, "
        "drift) and partition is not split; a process that is stopped notices only when it wakes up. " + _ADVICE,
        because="it sits closest to the group's key on the ring, and both its neighbours agree",
    ),
    "pole": PromiseText(
        strong=True,
        in_short="never two leaders at once, and never two of one term, while clocks run at the same rate within "
        "drift_max; without a majority of the voters nobody leads.",
        because="it has the best score of those that took part (ties: the greatest name), and a majority granted it",
    ),
}


def promise_of(kind: str, rank: str = "hash") -> PromiseText:
    found = PROMISES[kind]
    if rank == "score" and kind in ("base", "optimistic", "preferred", "hybrid"):
        return PromiseText(
            strong=False, in_short=found.in_short, because=found.because.replace("lowest hash", "best score")
        )
    return found
