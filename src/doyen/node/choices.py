"""Which election, which membership, as values: `Hybrid(missing_max=3)`, `Swim(period="500ms")`.

A choice has the fields of its protocol's configuration; durations may be written as text.  What is not given comes
from the preset.
"""

from typing import Any, ClassVar


class Choice:
    """One protocol by name, and what is said about it."""

    kind: ClassVar[str]
    table: ClassVar[str]

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.fields.items())})"


class Election(Choice):
    """Who leads?"""


class Announce(Election):
    """Announce-listen, as its fields say; LE-S unless they say otherwise.  Weak, cheap, needs no membership.  [LE]"""

    kind, table = "announce", "announce"


class AnnounceAtOnce(Election):
    """LE-A: everybody claims at once."""

    kind, table = "le-a", "announce"


class AnnounceEarliest(Election):
    """LE-M: the first to wake leads, and stays."""

    kind, table = "le-m", "announce"


class Base(Election):
    """Churn-tolerant: decides when c+1 answers are in.  [CTOL]"""

    kind, table = "base", "ctolerant"


class Optimistic(Election):
    """Churn-tolerant: names a leader early, then confirms."""

    kind, table = "optimistic", "ctolerant"


class Preferred(Election):
    """Churn-tolerant: avoids the unhealthy."""

    kind, table = "preferred", "ctolerant"


class Hybrid(Election):
    """Churn-tolerant: early, and avoids the unhealthy."""

    kind, table = "hybrid", "ctolerant"


class Local(Election):
    """Everybody takes the lowest hash of its own view: no messages, and no agreement either."""

    kind, table = "local", "ctolerant"


class Spanning(Election):
    """The greatest quality of a connected graph.  [MADM]"""

    kind, table = "spanning", "spanning"


class Pole(Election):
    """A quorum of fixed voters, by score: never two leaders at once.  [POLE]"""

    kind, table = "pole", "pole"


class ByKey(Election):
    """Whoever sits closest to the group's key on an arbitrated ring.  [ARB]"""

    kind, table = "by-key", "ring"


class Membership(Choice):
    """Who is here?"""


class Swim(Membership):
    kind, table = "swim", "swim"


class Medley(Membership):
    kind, table = "medley", "medley"


class Heartbeat(Membership):
    kind, table = "heartbeat", "heartbeat"


class Ring(Membership):
    """Leases and arbitrators: time-bounded.  [ARB]"""

    kind, table = "ring", "ring"
