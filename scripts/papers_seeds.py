"""Compares reports of `doyen papers run` that differ by their seed: whose verdicts flip, and who is not explained.

    python scripts/papers_seeds.py report-1/results.json report-2/results.json …

Exits with 1 if a miss is not explained at some seed, or more than one verdict in a hundred flips.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FLIPS_MAX = 0.01  # Of all verdicts.

Cells = dict[tuple[str, str], dict[str, Any]]


def cells(report: dict[str, Any]) -> Cells:
    """Return the cells that are held against something, by item and name; names that an item has twice are numbered."""
    found: Cells = {}
    for item in report["items"]:
        for cell in item["cells"]:
            name = " · ".join(str(part) for part in (cell["where"], cell["curve"], cell["x"]) if part not in (None, ""))
            while (item["id"], name) in found:
                name += "'"
            if cell["verdict"] in ("in band", "miss"):
                found[item["id"], name] = cell
    return found


def compare(reports: Sequence[dict[str, Any]]) -> tuple[list[str], bool]:
    """Return what is to be said of reports, and whether it holds."""
    every = [cells(report) for report in reports]
    names = [str(report["seed"]) for report in reports]
    shared = [name for name in every[0] if all(name in known for known in every)]
    lines, unexplained = [], 0
    for seed, known in zip(names, every, strict=True):
        misses = [(name, cell) for name, cell in known.items() if cell["verdict"] == "miss"]
        bare = [name for name, cell in misses if not (cell["explained"] or cell["afterwards"])]
        unexplained += len(bare)
        lines.append(
            f"seed {seed}: {len(known) - len(misses)} in band, {len(misses) - len(bare)} explained misses, "
            f"{len(bare)} that nothing explains"
        )
        lines += [f"    not explained: {item} {where}" for item, where in bare]
    flips = [name for name in shared if len({known[name]["verdict"] for known in every}) > 1]
    lines.append(f"{len(flips)} of {len(shared)} verdicts flip ({len(flips) / max(1, len(shared)):.1%})")
    for item, where in flips:
        told = ", ".join(
            f"{known[item, where]['ours']:.4g} ({seed}: {known[item, where]['verdict']})"
            for seed, known in zip(names, every, strict=True)
        )
        lines.append(f"    {item} {where}: {told}; expected {every[0][item, where]['expected']}")
    return lines, not unexplained and bool(shared) and len(flips) <= FLIPS_MAX * len(shared)


def main() -> int:
    if len(sys.argv) < 3:
        print(__doc__)
        return 2
    lines, holds = compare([json.loads(Path(path).read_bytes()) for path in sys.argv[1:]])
    print("\n".join(lines))
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
