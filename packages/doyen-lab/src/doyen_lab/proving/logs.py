"""What processes wrote to their standard error."""

import re
from pathlib import Path
from typing import Final

TROUBLE: Final = re.compile(r"Traceback|never retrieved|never awaited|\bstops: |Exception ignored|[Ff]atal|failed on")


def complaints(log: Path) -> list[str]:
    """The lines of a log that are no JSON: what its process wrote to its standard error."""
    text = log.read_text(errors="replace") if log.exists() else ""
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("{")]


def trouble(folder: Path) -> list[str]:
    """Lines in the agents' logs that nobody handled."""
    found = []
    for log in sorted(folder.glob("*.log")):
        lines = [line for line in complaints(log) if TROUBLE.search(line)]
        found += [f"{log.stem}: {line[:200]}" for line in lines[:3]]
    return found
