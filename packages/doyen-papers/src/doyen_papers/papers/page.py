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

    def __init__(
        self, about: About, done: list[Reproduced], svgs: dict[str, str], lanes: tuple[str, str] | None = None
    ) -> None:
        self.about, self.done, self.svgs = about, done, svgs
        self.lanes = lanes  # One run as a picture, and its caption.


def page(chapters: Sequence[Chapter], facts: str) -> str:
    links = _Shown(chapters)
    parts = [_chapter(chapter, links) for chapter in chapters]
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>doyen: the papers, reproduced</title><style>{STYLE}</style></head><body>
<h1>The papers, reproduced</h1>
{_summary(chapters)}
{"".join(_card(chapter, links) for chapter in chapters)}
<h2>How to read the rest</h2>
<p class="soft">{escape(facts)}</p>
<p class="soft">Every number of ours is a mean ± its standard error. “In band”: within the tolerance that was written
down before the first run (for exact values, 3.5 standard errors). “Miss”: outside it. “Beyond the paper”: it printed
no such number, and none is made up. In the plots, lines are closed forms, points are simulated with bars of 3.5
standard errors (mostly hidden by their marks), diamonds are published values; a faint line joins points where no
closed form is known.</p>
{"".join(parts)}
</body></html>
"""


class _Shown:
    """Finds the cell that shows why another one missed."""

    def __init__(self, chapters: Sequence[Chapter]) -> None:
        self._found = {
            f"{done.item.id}: {cell.where}": (done, cell)
            for chapter in chapters
            for done in chapter.done
            for cell in done.cells
        }

    def link(self, name: str) -> str:
        """Return a sentence with a link, or with the item's name where this report does not have it."""
        if not name:
            return ""
        item, _, where = name.partition(": ")
        if name not in self._found:
            return f" Shown by <code>doyen papers run {escape(item)}</code>: {escape(where)}."
        done, cell = self._found[name]
        return f' Shown by <a href="#{_anchor(done)}">{escape(item)}</a> ({escape(where)}): {escape(ours(cell))}.'


def _summary(chapters: Sequence[Chapter]) -> str:
    cells = [cell for chapter in chapters for done in chapter.done for cell in done.cells]
    judged = [cell for cell in cells if cell.kind]
    missed = [cell for cell in judged if cell.verdict == "miss"]
    open_count = sum(not cell.explained and not cell.afterwards for cell in missed)
    explained = "each of them explained" if not open_count else f"{open_count} of them not explained yet"
    more = f"; {len(missed)} are off, {explained}" if missed else ""
    came_out = len(judged) - len(missed)
    return f"<p>Of {len(judged)} numbers and claims to check, <b>{came_out}</b> came out as they should{more}.</p>"


def _card(chapter: Chapter, links: _Shown) -> str:
    """A paper at a glance: what it claims, what held, what did not and why, and one picture."""
    about = chapter.about
    drawn = [done for done in chapter.done if done.item.id in chapter.svgs]
    cover = next((done for done in drawn if done.item.cover), drawn[0] if drawn else None)
    picture = ""
    if cover is not None:
        image = _inline(chapter.svgs[cover.item.id], f"cover-{_anchor(cover)}", cover.item.title)
        words = (
            f'<p class="soft"><a href="#{_anchor(cover)}">{escape(cover.item.id)}</a>: {escape(cover.item.title)}</p>'
        )
        picture = f"<div>{image}{words}</div>"
    claims = escape(" ".join(about.about.split()))
    return f"""<div class="card"><h2><a href="#{_chapter_anchor(chapter)}">{escape(about.title)}</a></h2>
<div class="pair{" drawn" if picture else ""}">{picture}<div><p><b>What it claims.</b> {claims}</p>
{_held(chapter.done, links)}{_unjudged(chapter)}</div></div></div>
"""


def _chapter_anchor(chapter: Chapter) -> str:
    return f"paper-{chapter.about.key}"


def _chapter(chapter: Chapter, links: _Shown) -> str:
    about = chapter.about
    cells = [cell for done in chapter.done for cell in done.cells]
    contents = "".join(f'<a href="#{_anchor(done)}">{escape(done.item.id)}</a>' for done in chapter.done)
    sections = "".join(_section(done, chapter.svgs.get(done.item.id, ""), links) for done in chapter.done)
    run = ""
    if chapter.lanes is not None:
        svg, words = chapter.lanes
        run = f"<section>{_inline(svg, f'lanes-{about.key}', words)}<p>{escape(words)}</p></section>\n"
    return f"""<h2 id="{_chapter_anchor(chapter)}">{escape(about.title)}</h2>
<p class="soft">All cells: {escape(tally(cells))}. {escape(about.source)}.</p>
<nav>{contents}</nav>
{run}{sections}"""


def _held(done: Sequence[Reproduced], links: _Shown) -> str:
    """List the claims that held in this run, and those that did not and why, in the words of expected.toml.

    Claims that held are listed by item.  A miss that belongs to no claim is listed by its own name: none is left out.
    """
    claims: dict[str, list[Cell]] = {}
    first: dict[str, Reproduced] = {}  # The item where each claim is met first.
    for one in done:
        for cell in one.cells:
            if cell.says or cell.verdict == "miss":
                claims.setdefault(cell.says or cell.where, []).append(cell)
                first.setdefault(cell.says or cell.where, one)
    missed = {says: [cell for cell in found if cell.verdict == "miss"] for says, found in claims.items()}
    held = [says for says, misses in missed.items() if not misses]
    text = ""
    if held:
        by_item = {one.item.id: [says for says in held if first[says] is one] for one in done}
        rows = [_held_in(one, {says: claims[says] for says in by_item[one.item.id]}) for one in done]
        text += f"<p><b>What held.</b></p><ul>{''.join(rows)}</ul>"
    failed = []
    for says, misses in missed.items():
        if misses:
            often = f" (in {len(misses)} of {len(claims[says])} places)" if len(claims[says]) > 1 else ""
            firsts = {cell.explained or cell.afterwards: cell for cell in reversed(misses)}  # The first of each reason.
            whys = [f"{_why(cell)}{links.link(cell.shown_by)}" for cell in misses if cell in firsts.values()]
            failed.append(f"<li>{escape(says)}{often}: {'<br>'.join(whys)}</li>")
    if failed:
        text += f"<p><b>What did not hold, and why.</b></p><ul>{''.join(failed)}</ul>"
    return text


def _held_in(done: Reproduced, claims: dict[str, list[Cell]]) -> str:
    """Return one bullet: what held of an item; of more than one claim the numbers unfold."""
    if not claims:
        return ""
    if len(claims) == 1:
        [(says, cells)] = claims.items()
        return f"<li>{escape(says)}: {_ours_in(cells)}</li>"
    numbers = "".join(f"<li>{escape(says)}: {_ours_in(cells)}</li>" for says, cells in claims.items())
    return (
        f"<li>{escape('; '.join(claims))}."
        f"<details><summary>the {len(claims)} numbers</summary><ul>{numbers}</ul>"
        f'<p class="soft">More in <a href="#{_anchor(done)}">{escape(done.item.id)}</a>, '
        f"{escape(done.item.title)}.</p></details></li>"
    )


def _unjudged(chapter: Chapter) -> str:
    """List what nothing could be said of, and why."""
    rows = [
        f'<li><a href="#{_anchor(done)}">{escape(done.item.id)}</a>, {escape(done.item.title)}: '
        f"{escape(done.item.unjudged)}.</li>"
        for done in chapter.done
        if done.item.unjudged
    ]
    return f"<p><b>What could not be judged.</b></p><ul>{''.join(rows)}</ul>" if rows else ""


def _ours_in(cells: Sequence[Cell]) -> str:
    """Return our number of a claim's first place, and how many places there are."""
    often = f", and so in all {len(cells)} places" if len(cells) > 1 else ""
    return f"{escape(ours(cells[0]))} ({escape(cells[0].where)}){often}"


def _why(cell: Cell) -> str:
    """Return what was expected, what was found, and why; "there" is what the paper prints, and nothing else."""
    against = f"{expected(cell)} expected" if cell.published is None else f"{number(cell.published)} there"
    if cell.kind == "inferred":
        against = f"{expected(cell)} ± {number(cell.tolerance)} expected"
    why = cell.explained or cell.afterwards or "not explained: this one needs looking at"
    found = f"{escape(against)}, {escape(ours(cell))} here ({escape(cell.where)})"
    return f"{found}. <i>Why:</i> {escape(why.rstrip('.'))}."


def _section(done: Reproduced, svg: str, links: _Shown) -> str:
    worst = "miss" if done.misses else "in band" if done.count("in band") else "beyond the paper"
    small, rest = shown(done), [cell for cell in done.cells if cell not in shown(done)]
    more = ""
    if rest:
        more = f"<details><summary>{len(rest)} more cells</summary>{_table(rest, links)}</details>"
    again = "".join(
        f"<li>{escape(cell.where)}: <code>{escape(cell.command)}</code></li>" for cell in done.cells if cell.command
    )
    if again:
        more += f"<details><summary>the command of every single cell</summary><ul>{again}</ul></details>"
    return f"""<section id="{_anchor(done)}"><h3>{escape(done.item.id)} · {escape(done.item.title)}</h3>
<p class="{CLASSES[worst]}">{escape(tally(done.cells))}</p>
<p>{escape(done.item.caption)}</p>
<div class="pair{" drawn" if svg else ""}"><div>{_inline(svg, _anchor(done), done.item.title)}</div>
<div>{_table(small, links)}{more}
<p class="soft">Make it again: <code>{escape(done.command)}</code></p></div></div></section>
"""


def _table(cells: Sequence[Cell], links: _Shown) -> str:
    rows = []
    for cell in cells:
        words = cell.explained or cell.afterwards if cell.verdict == "miss" else ""
        words = f"{escape(words.rstrip('.'))}.{links.link(cell.shown_by)}" if words else ""
        why = f'<br><span class="soft">{words}</span>' if words else ""
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
