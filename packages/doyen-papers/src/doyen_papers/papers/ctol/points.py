"""The evaluation's points, and the membership traces that its elections run over.  [CTOL §VI]

Every run has places and a membership of its own: a trace, recorded when the run is first made and kept in the report's
folder, under a name that has everything it depends on, the code included.  All variants of a run share it.
"""

from functools import cache
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from msgspec import Struct

import doyen
from doyen_papers.studies import ground, underlay
from doyen_papers.studies.ctolerant import TABLE_I, ChurnSetting, record
from doyen_papers.studies.ground import Ground
from doyen_papers.studies.underlay import Gossip

SIZES: Final = (32, 64, 128, 256)
DROPS: Final = (0.05, 0.1, 0.15, 0.2)
GROUNDS: Final[tuple[Ground, ...]] = ("grid", "random", "cluster")
WARMUP_S: Final = 10.0  # The authors' timing, of their elections' traces;
VIEWS_S: Final = 20.0
LONG_S: Final = 300.0  # and of Table I.


class Point(Struct, frozen=True, kw_only=True):
    """One place of the evaluation; its traces last `seconds` after a warm-up."""

    topology: Ground = "random"
    size: int = 49
    drop: float = 0.05
    handicap: bool = True
    gossip: Gossip = "all"
    seconds: float = VIEWS_S

    @property
    def c(self) -> int:
        return TABLE_I[self.topology, self.size, self.drop]

    @property
    def name(self) -> str:
        return f"{self.topology}, N={self.size}, drop {self.drop:g}"


POINTS: Final = tuple(Point(topology=t, size=n, drop=d) for t, n, d in TABLE_I)  # type: ignore[arg-type]


def trace_of(point: Point, folder: str, seed: int) -> str:
    """Return where the trace of a run is; record it if it is not there yet."""
    place = Path(folder or _scratch()) / "traces"
    place.mkdir(parents=True, exist_ok=True)
    name = f"{point.topology}-{point.size}-{point.drop:g}{'-handicap' if point.handicap else ''}"
    key = blake2b(f"{point} {WARMUP_S} {seed} {_code()}".encode(), digest_size=8).hexdigest()
    path = place / f"{name}-{key}.jsonl"
    if not path.exists():
        setting = ChurnSetting(
            topology=point.topology,
            nodes=point.size,
            drop=point.drop,
            handicap=point.handicap,
            gossip=point.gossip,
            warmup_s=WARMUP_S,
            variant="local",
        )
        part = path.with_suffix(".part")
        record(setting, seed, duration_s=point.seconds).write(part)
        part.rename(path)
    return str(path)


@cache
def _code() -> str:
    """Return a digest of the code that makes traces: the membership protocols and the simulator."""
    root, digest = Path(doyen.__file__).parent, blake2b(digest_size=8)
    files = [path for pattern in ("core/*.py", "membership/**/*.py", "sim/*.py") for path in sorted(root.glob(pattern))]
    for path in (*files, Path(underlay.__file__), Path(ground.__file__)):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@cache
def _kept() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="doyen-traces-")


def _scratch() -> str:
    """Return a folder that is gone at the end of the process, for traces without a report."""
    return _kept().name
