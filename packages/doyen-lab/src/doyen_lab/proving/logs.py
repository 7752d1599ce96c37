"""What processes wrote to their standard error that they should not have."""

import re
from pathlib import Path
from typing import Final

TROUBLE: Final = re.compile(r"Traceback|never retrieved|never awaited|\bstops: |Exception ignored|[Ff]atal|failed on")


def trouble(folder: Path) -> list[str]:
    """Lines in the agents' logs that nobody handled."""
    found = []
    for log in sorted(folder.glob("*.log")):
        lines = [line for line in log.read_text(errors="replace").splitlines() if TROUBLE.search(line)]
        found += [f"{log.stem}: {line.strip()[:200]}" for line in lines[:3]]
    return found
