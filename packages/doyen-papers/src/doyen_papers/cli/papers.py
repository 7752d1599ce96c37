"""`doyen papers`: the papers' tables and figures beside the published ones."""

import os
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import msgspec

from doyen.cli.output import print_json, progress
from doyen.cli.outputs import REPORT, check_kept
from doyen.errors import ConfigError, TransportError
from doyen_papers.papers import KEYS, all_items, chosen, paper
from doyen_papers.papers.item import Budget, Engine, Item
from doyen_papers.papers.page import Chapter, page
from doyen_papers.papers.plots import draw, require_matplotlib
from doyen_papers.papers.running import Reproduced, expected_of, reproduce
from doyen_papers.papers.statements import Statement, statements
from doyen_papers.papers.text import table, tally
from doyen_papers.studies.lanes import lanes


@click.group("papers", help="Reproduce the papers' tables and figures.")
def command() -> None: ...


@command.command("list", help="Everything that the papers state or show, where, and the item that makes it again.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def list_items(as_json: bool) -> None:
    items = all_items()
    if as_json:
        stated = [
            {"paper": key} | msgspec.structs.asdict(one) | {"how": _how(one, items)}
            for key in KEYS
            for one in statements(key)
        ]
        shown = [{"id": item.id, "title": item.title, "caption": item.caption} for item in items]
        print_json({"items": shown, "statements": stated})
        return
    for key in KEYS:
        found = statements(key)
        click.echo(f"[{key.upper()}] {expected_of(paper(key)).paper.title}")
        rows = [
            (one.name, one.where, one.item or "–", _how(one, items), one.says + (f" ({one.why})" if one.why else ""))
            for one in found
        ]
        used = {one.item for one in found}
        ours = [item for item in items if _key(item) == key and item.id not in used]
        rows += [("", "ours", item.id, "run", item.title) for item in ours]
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        for row in rows:
            aligned = "  ".join(f"{text:{width}}" for text, width in zip(row, widths, strict=False))
            click.echo(f"  {aligned}  {row[4]}")


def _how(one: Statement, items: Sequence[Item]) -> str:
    """Return whether a statement is run, by simulation or by real processes, or has nothing to measure."""
    found = next((item for item in items if item.id == one.item), None)
    return "prose" if found is None else "real processes" if found.live else "run"


@command.command("run", help="Run some (ids as `doyen papers list` names them, or a paper's key), or all of them.")
@click.argument("ids", nargs=-1, metavar="[IDS…|all]")
@click.option("--runs", type=int, help="Runs of each cell [10000 by kernel, 200 by machine; fewer for some].")
@click.option("--seed", type=int, default=1, show_default=True, help="Same seed, same report.")
@click.option("--jobs", type=int, default=0, help="Cores; 0: all.  Changes nothing but the time.")
@click.option(
    "--engine",
    type=click.Choice(["kernel", "machine"]),
    default="kernel",
    show_default=True,
    help="Monte-Carlo kernels, or the protocol's own machines.",
)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default="report", show_default=True)
@click.option("--live", is_flag=True, help="Also what starts real processes, by dozens; a named item does anyway.")
@click.option("--strict", is_flag=True, help="Exit 1 if a cell misses that expected.toml does not explain.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, the same as results.json.")
def run(
    ids: Sequence[str],
    runs: int | None,
    seed: int,
    jobs: int,
    engine: Engine,
    out: Path,
    live: bool,
    strict: bool,
    as_json: bool,
) -> int:
    items = chosen(ids, live=live)
    left_out = [item.id for item in chosen(ids, live=True) if item not in items]
    if left_out and not as_json:
        click.echo(f"Left out, as they start real processes: {', '.join(left_out)} (--live, or make papers-live).\n")
    if runs is not None and runs < 2:
        raise ConfigError(f"--runs {runs} gives no standard error: give at least 2")
    if jobs < 0:
        raise ConfigError(f"--jobs {jobs} is not a number of cores: give 0 (all) or more")
    _refuse_unwritable(out)
    require_matplotlib()
    chapters, files = [], []
    for key in dict.fromkeys(_key(item) for item in items):
        found = paper(key)
        expected = expected_of(found)
        budget = Budget(runs=runs or found.runs[engine], seed=seed, jobs=jobs, engine=engine, work=str(out))
        chapter = Chapter(expected.paper, [], {}, lanes(key, seed))
        mine = [item for item in items if _key(item) == key]
        for done in reproduce(found, mine, expected, budget, progress):
            if not as_json:
                click.echo(table(done) + "\n")
            files += _save_plot(done, chapter, out)
            chapter.done.append(done)
        chapters.append(chapter)
    result = _as_json(chapters, seed, engine)
    _write(out / "results.json", msgspec.json.format(msgspec.json.encode(result), indent=1))
    facts = f"doyen {result['doyen']} · {engine} engine · seed {seed} · doyen papers run {' '.join(ids) or 'all'}"
    _write(out / "index.html", page(chapters, facts).encode())
    if as_json:
        print_json(result)
    else:
        click.echo(f"{tally([cell for chapter in chapters for done in chapter.done for cell in done.cells])}")
        click.echo(" · ".join([f"{out / 'index.html'} written (open it)", *files, f"{out / 'results.json'}"]))
    return 1 if strict and any(done.unexplained for chapter in chapters for done in chapter.done) else 0


def _key(item: Item) -> str:
    return item.id.partition("/")[0]


def _save_plot(done: Reproduced, chapter: Chapter, out: Path) -> list[str]:
    if done.plot is None:
        return []
    name = done.item.id.replace("/", "-")
    images = draw(done.plot, done.cells, name, done.item.shown_x)
    chapter.svgs[done.item.id] = images.svg
    _write(out / f"{name}.svg", images.svg.encode())
    _write(out / f"{name}.png", images.png)
    return [str(out / f"{name}.svg")]


def _as_json(chapters: Sequence[Chapter], seed: int, engine: str) -> dict[str, Any]:
    """Everything the eye gets, and the setting and command of each cell."""
    cells = [cell for chapter in chapters for done in chapter.done for cell in done.cells]
    return {
        "doyen": version("doyen"),
        "engine": engine,
        "seed": seed,
        "in_band": sum(cell.verdict == "in band" for cell in cells),
        "misses": sum(cell.verdict == "miss" for cell in cells),
        "misses_unexplained": sum(len(done.unexplained) for chapter in chapters for done in chapter.done),
        "beyond_the_paper": sum(cell.verdict == "beyond the paper" for cell in cells),
        "items": [
            {"id": done.item.id, "title": done.item.title, "command": done.command, "cells": done.cells}
            for chapter in chapters
            for done in chapter.done
        ],
    }


def _refuse_unwritable(out: Path) -> None:
    """Before a minute of work; but nothing is made before there is something to write."""
    nearest = next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    check_kept([out / "index.html"], REPORT, "--out")
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise ConfigError(f"--out {out}: cannot write in {nearest}; give a directory of yours")


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise TransportError(f"cannot write {path}: {error.strerror or error}") from None
