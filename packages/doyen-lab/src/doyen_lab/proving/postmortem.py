"""Lays the recordings of a run side by side, and compares what they tell with what the witnesses wrote.

The two know different things.  A witness writes single acts, every `act_every_s`, and each only while it may act; a
recording tells from when until when its node might have acted.  For each time that two acted at once the two may differ
at its beginning and at its end: by the time between two acts, and by as much as the machine was late (decision 131).
"""

from collections.abc import Iterable
from pathlib import Path

from doyen.postmortem.document import document
from doyen.postmortem.gather import flights_of
from doyen.postmortem.incident import incident_of
from doyen.postmortem.verdict import Verdict as Seen


def laid_side_by_side(recordings: Iterable[Path], path: Path, title: str) -> Seen:
    """Write a run as a file to look at; return what its recordings tell of the group's own election."""
    found = incident_of(flights_of([recording for recording in recordings if recording.exists()]), title)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document(found), encoding="utf-8")
    return found.verdicts[0]


def disagreement(seen: Seen, told_s: float, apart_s: float) -> tuple[str, ...]:
    """Return in words what the recordings and the witnesses disagree about; acts may be so far apart."""
    slack = max(1, len(seen.when)) * 2 * apart_s
    if not seen.at_least_s - slack <= told_s <= seen.at_most_s + slack:
        return (
            f"the postmortem says two acted at once for {seen.together_s:.3f} s ({seen.at_least_s:.3f} to "
            f"{seen.at_most_s:.3f}), and the witnesses {told_s:.3f} s",
        )
    return ()
