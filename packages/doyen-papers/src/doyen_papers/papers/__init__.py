"""The papers, reproduced: every table and figure beside the published one.

One folder per paper: `run.py` (what is measured), `items.toml` (what a reader is told of each table and figure),
`expected.toml` (what should come out, and how far off it may be, committed before the first run) and `README.md`.

    item.py        what a reproduction is made of: tasks, measured cells, plots
    cells.py       cells and curves made of figures
    expected.py    reading expected.toml
    verdict.py     in band, miss, or beyond the paper
    running.py     tasks to results to judged cells
    plots.py, page.py, text.py    what a person sees
"""

from collections.abc import Sequence
from importlib import import_module

from doyen.errors import ConfigError
from doyen_papers.papers.item import Item, Paper

__all__ = ["KEYS", "all_items", "chosen", "paper"]

KEYS = ("le", "madm", "ctol", "pole", "arb")  #: One folder each.


def paper(key: str) -> Paper:
    found: Paper = import_module(f"doyen_papers.papers.{key}.run").PAPER
    return found


def all_items() -> list[Item]:
    return [item for key in KEYS for item in paper(key).items]


def chosen(ids: Sequence[str], *, live: bool = False) -> list[Item]:
    """Return items by id (`le/fig5.8`), by paper (`le`) or `all`; in the papers' order, each once.

    An item that starts real processes is among them if it is named itself, or with `live`.
    """
    known = all_items()
    for name in ids:
        if name != "all" and name not in KEYS and all(item.id != name for item in known):
            raise ConfigError(
                f"{name!r} is not a known id: choose from all, {', '.join((*KEYS, *(item.id for item in known)))}"
            )
    wanted = set(ids) or {"all"}
    among = [item for item in known if wanted & {"all", item.id, item.id.partition("/")[0]}]
    return [item for item in among if live or not item.live or item.id in wanted]
