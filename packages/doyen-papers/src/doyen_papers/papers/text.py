"""The terminal's view of an item: one line for each cell, and only as many cells as can be read at a glance."""

from collections.abc import Sequence

from doyen_papers.papers.running import Reproduced
from doyen_papers.papers.verdict import Cell

__all__ = ["expected", "number", "ours", "said", "shown", "table", "tally"]


def table(done: Reproduced) -> str:
    """Return aligned columns; the cells that the small table leaves out are in results.json."""
    cells = shown(done)
    heads = ["", "published", "expected", "ours", "verdict"]
    rows = [[cell.where, number(cell.published), expected(cell), ours(cell), said(cell)] for cell in cells]
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    lines = ["  " + "  ".join(f"{text:{width}}" for text, width in zip(row, widths, strict=True)).rstrip()
             for row in [heads, *rows]]  # fmt: skip
    if len(cells) < len(done.cells):
        lines.append(f"  … and {len(done.cells) - len(cells)} more cells, all in results.json")
    return "\n".join([f"{done.item.id}  {done.item.title}: {tally(done.cells)}", *lines])


def shown(done: Reproduced) -> list[Cell]:
    """Return a few points of each curve, all cells that belong to no curve, and every miss."""
    xs = done.item.shown_x
    return [cell for cell in done.cells if not xs or cell.x is None or cell.x in xs or cell.verdict == "miss"]


def said(cell: Cell) -> str:
    """Return the verdict, whether a miss is understood, and whether another seed may turn it."""
    words: list[str] = [cell.verdict]
    if cell.verdict == "miss" and cell.explained:
        words.append("explained")
    elif cell.verdict == "miss" and cell.afterwards:
        words.append("explained afterwards")
    return ", ".join([*words, "at the edge"] if cell.edge else words)


def tally(cells: Sequence[Cell]) -> str:
    """ "12 in band, 1 miss (explained), 3 beyond the paper"."""
    count = {name: sum(cell.verdict == name for cell in cells) for name in ("in band", "miss", "beyond the paper")}
    explained = sum(cell.verdict == "miss" and bool(cell.explained or cell.afterwards) for cell in cells)
    parts = [f"{count['in band']} in band"]
    if count["miss"]:
        how = "explained" if explained == count["miss"] else f"{count['miss'] - explained} not explained"
        parts.append(f"{count['miss']} miss{'es' if count['miss'] > 1 else ''} ({how})")
    if count["beyond the paper"]:
        parts.append(f"{count['beyond the paper']} beyond the paper")
    if edges := sum(cell.edge for cell in cells):
        parts.append(f"{edges} of these at the edge of {'its' if edges == 1 else 'their'} band")
    return ", ".join(parts)


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:.5g}"


def expected(cell: Cell) -> str:
    sign = {"claim": "> ", "bound": "≤ ", "least": "≥ "}.get(cell.kind or "", "")
    return f"{sign}{number(cell.expected)}"


def ours(cell: Cell) -> str:
    """Show our mean with as many decimals as the standard error bears out."""
    if cell.ours is None:
        return "never"
    unit = f" {cell.unit}" if cell.unit and cell.unit != "messages" else ""
    if not cell.stderr:
        return f"{cell.ours:.4g}{unit}"
    decimals = next((d for d in range(9) if cell.stderr >= 0.95 * 10**-d), 9)
    return f"{cell.ours:.{decimals}f} ± {cell.stderr:.{decimals}f}{unit}"
