"""The report: one HTML file that needs nothing else, readable on a phone."""

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final

from doyen_papers.papers.expected import About
from doyen_papers.papers.running import Reproduced
from doyen_papers.papers.text import expected, number, ours, said, shown, tally
from doyen_papers.papers.verdict import Cell

STYLE: Final = "\n" + Path(__file__).with_name("page.css").read_text(encoding="utf-8")
CLASSES: Final = {"in band": "good", "miss": "bad", "beyond the paper": "beyond"}


class Chapter:
    """A paper's part of the page."""

    def __init__(self, about: About, done: list[Reproduced], svgs: dict[str, str]) -> None:
        self.about, self.done, self.svgs = about, done, svgs


def page(chapters: Sequence[Chapter], facts: str) -> str:
    parts = [_chapter(chapter) for chapter in chapters]
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>doyen: the papers, reproduced</title><style>{STYLE}</style></head><body>
<h1>The papers, reproduced</h1>
<p class="soft">{escape(facts)}</p>
<p class="soft">Every number of ours is a mean ± its standard error. “In band”: within the tolerance that was written
down before the first run (for exact values, 3.5 standard errors). “Miss”: outside it. “Beyond the paper”: it printed
no such number, and none is made up. In the plots, lines are closed forms, points are simulated with bars of 3.5
standard errors (mostly hidden by their marks), diamonds are published values; a faint line joins points where no
closed form is known.</p>
{"".join(parts)}
</body></html>
"""


def _chapter(chapter: Chapter) -> str:
    about = chapter.about
    cells = [cell for done in chapter.done for cell in done.cells]
    links = "".join(f'<a href="#{_anchor(done)}">{escape(done.item.id)}</a>' for done in chapter.done)
    sections = "".join(_section(done, chapter.svgs.get(done.item.id, "")) for done in chapter.done)
    return f"""<h2>{escape(about.title)}</h2>
<p>{escape(" ".join(about.about.split()))}</p>
{_held(cells)}
<p class="soft">All cells: {escape(tally(cells))}. {escape(about.source)}.</p>
<nav>{links}</nav>
{sections}"""


def _held(cells: Sequence[Cell]) -> str:
    """List the claims that held in this run, and those that did not and why, in the words of expected.toml."""
    claims: dict[str, list[Cell]] = {}
    for cell in cells:
        if cell.says:
            claims.setdefault(cell.says, []).append(cell)
    missed = {says: [cell for cell in found if cell.verdict == "miss"] for says, found in claims.items()}
    held = [says for says, misses in missed.items() if not misses]
    text = ""
    if held:
        text += f"<p><b>What held:</b> {escape('; '.join(held))}.</p>"
    failed = [f"<li>{escape(says)}: {_why(misses[0])}</li>" for says, misses in missed.items() if misses]
    if failed:
        text += f"<p><b>What did not hold, and why:</b></p><ul>{''.join(failed)}</ul>"
    return text


def _why(cell: Cell) -> str:
    against = expected(cell) if cell.published is None else number(cell.published)
    why = cell.explained or cell.afterwards or "not explained: this one needs looking at"
    return f"{escape(against)} there, {escape(ours(cell))} here ({escape(cell.where)}). <i>Why:</i> {escape(why)}"


def _section(done: Reproduced, svg: str) -> str:
    worst = "miss" if done.misses else "in band" if done.count("in band") else "beyond the paper"
    small, rest = shown(done), [cell for cell in done.cells if cell not in shown(done)]
    more = ""
    if rest:
        more = f"<details><summary>{len(rest)} more cells</summary>{_table(rest)}</details>"
    again = "".join(
        f"<li>{escape(cell.where)}: <code>{escape(cell.command)}</code></li>" for cell in done.cells if cell.command
    )
    if again:
        more += f"<details><summary>the command of every single cell</summary><ul>{again}</ul></details>"
    return f"""<section id="{_anchor(done)}"><h3>{escape(done.item.id)} · {escape(done.item.title)}</h3>
<p class="{CLASSES[worst]}">{escape(tally(done.cells))}</p>
<p>{escape(done.item.caption)}</p>
<div class="pair{" drawn" if svg else ""}"><div>{_inline(svg, _anchor(done), done.item.title)}</div>
<div>{_table(small)}{more}
<p class="soft">Make it again: <code>{escape(done.command)}</code></p></div></div></section>
"""


def _table(cells: Sequence[Cell]) -> str:
    rows = []
    for cell in cells:
        words = cell.explained or cell.afterwards if cell.verdict == "miss" else ""
        why = f'<br><span class="soft">{escape(words)}</span>' if words else ""
        rows.append(
            f'<tr><td class="what" title="{escape(cell.note)}">{escape(cell.where)}{why}</td>'
            f'<td class="{CLASSES[cell.verdict]}" title="{escape(cell.reason)}">{escape(said(cell))}</td>'
            f'<td class="n">{escape(ours(cell))}</td>'
            f'<td class="n" title="{escape(cell.source)}">{escape(expected(cell))}</td>'
            f'<td class="n">{number(cell.published)}</td></tr>'
        )
    return (
        '<div class="scroll"><table><tr><th></th><th>verdict</th><th>ours</th><th>expected</th><th>published</th></tr>'
        f"{''.join(rows)}</table></div>"
    )


def _anchor(done: Reproduced) -> str:
    return re.sub(r"[^a-z0-9]+", "-", done.item.id.lower())


def _inline(svg: str, prefix: str, title: str) -> str:
    """An SVG file as an element: no prologue, ids of its own, and a name for screen readers."""
    if not svg:
        return ""
    element = svg[svg.index("<svg") :]
    element = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', element)
    element = re.sub(r'(href=")#([^"]+)"', rf'\1#{prefix}-\2"', element)
    element = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", element)
    return element.replace("<svg", f'<svg role="img" aria-label="{escape(title)}"', 1)
