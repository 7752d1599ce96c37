"""The states of a process in elections by score."""

from enum import Enum


class Status(Enum):
    """What a process does in its epoch."""

    MEASURING = "measuring"  # An election has begun, and the own score is not known yet.
    ELECTING = "electing"
    CHOSEN = "chosen"  # It chose another, which does not act yet, as far as it knows.
    CLAIMING = "claiming"  # It chose itself, and waits for a majority's grants.
    LEADING = "leading"
    FOLLOWING = "following"
    OBSERVING = "observing"  # No vote: its file is lost.
    LEFT = "left"
