"""`doyen score`: what makes a good leader here, in numbers."""

from doyen.cli.lazy import LazyGroup

command = LazyGroup(
    "score",
    __name__,
    {
        "weights": "Experts' preferences to attribute weights.  [MADM §6.2.1]",
        "pole": "Round trips and request rates to a score per server, and the leader.  [POLE §2]",
        "topsis": "Attribute values to a quality factor per node, and the leader.  [MADM §6.2.2]",
    },
    help="What makes a good leader here, in numbers: weights from experts, quality from attributes.",
)
