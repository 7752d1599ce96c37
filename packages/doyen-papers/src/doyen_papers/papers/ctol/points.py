"""The evaluation's points, and the membership traces that its elections run over.  [CTOL §VI]

Every run has places and a membership of its own: a trace, which all variants of the run share.
"""

from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Final

from msgspec import Struct

import doyen
from doyen_papers import studies
from doyen_papers.studies.ctolerant import TABLE_I, ChurnSetting, record
from doyen_papers.studies.ground import Ground
from doyen_papers.studies.memtrace import MemTrace
from doyen_papers.studies.underlay import Gossip

SIZES: Final = (32, 64, 128, 256)
DROPS: Final = (0.05, 0.1, 0.15, 0.2)
GROUNDS: Final[tuple[Ground, ...]] = ("grid", "random", "cluster")
WARMUP_S: Final = 10.0  # The authors' timing, of their elections' traces;
VIEWS_S: Final = 20.0
LONG_S: Final = 300.0  # and of Table I.
LATE_S: Final = 300.0  # A longer warm-up, as long as a run of Table I, in which suspicions add up.


class Point(Struct, frozen=True, kw_only=True):
    """One place of the evaluation; its traces last `seconds` after `warmup` of them."""

    topology: Ground = "random"
    size: int = 49
    drop: float = 0.05
    handicap: bool = True
    gossip: Gossip = "all"
    seconds: float = VIEWS_S
    warmup: float = WARMUP_S
    evenly: bool = False  #: LEADER is repeated at one pace.

    @property
    def c(self) -> int:
        return TABLE_I[self.topology, self.size, self.drop]

    @property
    def name(self) -> str:
        return f"{self.topology}, N={self.size}, drop {self.drop:g}"


POINTS: Final = tuple(Point(topology=t, size=n, drop=d) for t, n, d in TABLE_I)  # type: ignore[arg-type]


def recorded(point: Point, seed: int) -> MemTrace:
    """Record the trace of a run."""
    setting = ChurnSetting(
        topology=point.topology,
        nodes=point.size,
        drop=point.drop,
        handicap=point.handicap,
        gossip=point.gossip,
        warmup_s=point.warmup,
        variant="local",
    )
    return record(setting, seed, duration_s=point.seconds)


@cache
def code() -> str:
    """Return a digest of the code that runs depend on: protocols, simulator, studies, and what runs them here.

    What is made of the rows afterwards (figures, tables) is left out: another cell asks for no other run.
    """
    root, digest = Path(doyen.__file__).parent, blake2b(digest_size=8)
    patterns = ("core/*.py", "membership/**/*.py", "election/churn/*.py", "sim/*.py")
    files = [path for pattern in patterns for path in sorted(root.glob(pattern))]
    for path in (
        *files,
        *sorted(Path(studies.__file__).parent.glob("*.py")),
        *(Path(__file__).parent / name for name in ("points.py", "cells.py")),
    ):
        digest.update(path.read_bytes())
    return digest.hexdigest()
