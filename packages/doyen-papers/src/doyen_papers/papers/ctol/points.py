"""The evaluation's points, and the membership traces that its elections run over.  [CTOL §VI]

Medley's warm-up is the slow part: each trace is recorded once and kept in the report's folder, under a name that has
everything it depends on, the code included.
"""

from collections.abc import Callable
from functools import cache, partial
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from msgspec import Struct

import doyen
from doyen.sim.runs import run_many
from doyen_papers.studies import ground, underlay
from doyen_papers.studies.ctolerant import TABLE_I, ChurnSetting, record
from doyen_papers.studies.ground import Ground

SIZES: Final = (32, 64, 128, 256)
DROPS: Final = (0.05, 0.1, 0.15, 0.2)
GROUNDS: Final[tuple[Ground, ...]] = ("grid", "random", "cluster")


class Point(Struct, frozen=True, kw_only=True):
    """One place of the evaluation; its traces last `seconds` after a warm-up of `warmup_s`."""

    topology: Ground = "random"
    size: int = 49
    drop: float = 0.05
    handicap: bool = True

    @property
    def c(self) -> int:
        return TABLE_I[self.topology, self.size, self.drop]

    @property
    def name(self) -> str:
        return f"{self.topology}, N={self.size}, drop {self.drop:g}"

    @property
    def trace_count(self) -> int:
        """Return how many traces are recorded, each with places of its own; large ones take long."""
        return 4 if self.size <= 64 else 2 if self.size <= 128 else 1

    @property
    def warmup_s(self) -> float:
        return 60.0 if self.size <= 64 else 40.0

    @property
    def seconds(self) -> float:
        return 60.0 if self.size <= 64 else 20.0 if self.size <= 128 else 10.0


POINTS: Final = tuple(Point(topology=t, size=n, drop=d) for t, n, d in TABLE_I)  # type: ignore[arg-type]


def traces(
    point: Point, folder: str, *, seed: int, jobs: int, progress: Callable[[int], None] | None = None
) -> tuple[str, ...]:
    """Return where the traces of a point are (decision 45); record them if they are not there yet."""
    place = Path(folder or _scratch()) / "traces"
    place.mkdir(parents=True, exist_ok=True)
    return tuple(run_many(partial(_recorded, point, str(place)), point.trace_count, seed, jobs=jobs, progress=progress))


def _recorded(point: Point, place: str, seed: int) -> str:
    name = f"{point.topology}-{point.size}-{point.drop:g}{'-handicap' if point.handicap else ''}"
    key = blake2b(f"{point} {point.warmup_s} {point.seconds} {seed} {_code()}".encode(), digest_size=8).hexdigest()
    path = Path(place) / f"{name}-{key}.jsonl"
    if not path.exists():
        setting = ChurnSetting(
            topology=point.topology,
            nodes=point.size,
            drop=point.drop,
            handicap=point.handicap,
            warmup_s=point.warmup_s,
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
