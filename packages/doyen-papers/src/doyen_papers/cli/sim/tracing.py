"""A run written down, where a file was named."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from doyen.sim.trace import Trace


@contextmanager
def tracing(path: Path | None) -> Iterator[Trace | None]:
    if path is None:
        yield None
        return
    with open(path, "w", encoding="utf-8") as lines:
        yield Trace(lines)
