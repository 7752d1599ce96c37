"""`doyen analyze`: what the papers can say without running anything."""

from doyen.cli.lazy import LazyGroup

command = LazyGroup(
    "analyze",
    __name__,
    {
        "announce": "Announce-listen elections: delays, messages, rounds, inconsistency.  [LE Ch. 5]",
        "arbitration": "Arbitrated membership: every theorem's bound, and what it costs.  [ARB §VI]",
    },
    help="Evaluate the papers' closed forms, corrected, or as they were printed.",
)
