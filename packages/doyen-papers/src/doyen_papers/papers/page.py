"""The report: one HTML file that needs nothing else, readable on a phone."""

import re
from collections.abc import Sequence
from html import escape
from typing import Final

from doyen_papers.papers.expected import About
from doyen_papers.papers.running import Reproduced
from doyen_papers.papers.text import expected, number, ours, said, shown, tally
from doyen_papers.papers.verdict import Cell

STYLE: Final = """
:root { color-scheme: light; --ink: #1d2327; --soft: #5b666e; --line: #dfe4e7; --good: #00664d; --bad: #a63c00; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 74rem; padding: 1rem; color: var(--ink); background: #fff;
       font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.5rem; margin: .5rem 0; } h2 { font-size: 1.25rem; margin: 2rem 0 .5rem; }
h3 { font-size: 1.05rem; margin: 0; }
section { border-top: 1px solid var(--line); padding: 1.2rem 0; }
.pair { display: grid; gap: .5rem 2rem; grid-template-columns: minmax(0, 1fr); }
@media (min-width: 60rem) { .pair.drawn { grid-template-columns: minmax(0, 31rem) minmax(0, 1fr); } }
svg { width: 100%; height: auto; max-width: 36rem; display: block; }
p { margin: .4rem 0; max-width: 46rem; } .soft { color: var(--soft); font-size: .9rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .82rem; width: 100%; }
th, td { text-align: left; padding: .2rem .7rem .2rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
.what { min-width: 7rem; } td .soft { font-size: .78rem; }
td.n { white-space: nowrap; font-variant-numeric: tabular-nums; } th { color: var(--soft); font-weight: 600; }
.good { color: var(--good); } .bad { color: var(--bad); font-weight: 600; } .beyond { color: var(--soft); }
code { font: .8rem ui-monospace, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; background: #f3f5f6;
       padding: .1rem .3rem; border-radius: .2rem; }
summary { cursor: pointer; color: var(--soft); font-size: .9rem; padding: .3rem 0; } li { margin: .25rem 0; }
nav a { display: inline-block; margin: 0 .8rem .3rem 0; font-size: .9rem; } a { color: #005a8c; }
"""
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
    """What held, what did not and why, in the words of expected.toml, as this very run decided it."""
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
