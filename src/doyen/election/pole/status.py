"""Where a process stands."""

from enum import Enum


class Status(Enum):
    MEASURING = "measuring"  # An election has begun, and its own score is not known yet.
    ELECTING = "electing"
    CHOSEN = "chosen"  # It chose another, which does not act yet, as far as it knows.
    CLAIMING = "claiming"  # It chose itself, and waits for a majority's grants.
    LEADING = "leading"
    FOLLOWING = "following"
    OBSERVING = "observing"  # No vote: its file is lost.
    LEFT = "left"
