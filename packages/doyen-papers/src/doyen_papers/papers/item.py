"""The parts of a reproduction.  An item names its tasks; from their results it makes measured cells and plots."""

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Struct
from msgspec.structs import asdict, replace

from doyen.core.config import Config, Doc, load

Engine = Literal["kernel", "machine"]


class Budget(Struct, frozen=True, kw_only=True):
    """The effort that is spent on each task."""

    runs: int
    seed: int
    jobs: int
    engine: Engine
    work: str = ""  #: A folder for what is worth keeping between runs; "": nothing is kept.


class Task(Struct, frozen=True):
    """Many runs of one setting.  Equal tasks are run once, whichever items want them."""

    setting: Any  # The study's own, hashable.
    engine: Engine | None = None  #: None: as the whole run has it.
    runs_max: int = 0  #: 0: as many as the whole run has,
    runs_times: int = 1  #: times this number: where a difference is small, and a run cheap.

    def within(self, budget: Budget) -> Budget:
        runs = self.runs_times * min(budget.runs, self.runs_max or budget.runs)
        return replace(budget, runs=runs, engine=self.engine or budget.engine)


class Measured(Struct, frozen=True, kw_only=True):
    """One number of ours, before it is judged."""

    where: str  #: Its name within the item, which `expected.toml` refers to.
    mean: float | None  #: None: it never happened.
    stderr: float | None = None
    formula: float | None = None  #: What a closed form says it is (or, as printed, ought to be).
    curve: str = ""  #: For figures: the curve, and the place on it.
    x: float | None = None
    unit: str = ""
    setting: dict[str, Any] = {}
    command: str = ""  #: Measures this cell again; empty where it is made of several.
    note: str = ""


class Curve(Struct, frozen=True, kw_only=True):
    """Simulated points, and the closed form as a line through them where there is one."""

    label: str  #: As its cells have it in `curve`.
    legend: str  #: As the plot's legend has it.
    colour: int  #: Its place in the palette; curves of one protocol share it.
    xs: list[float]
    ys: list[float | None]
    errors: list[float | None]  #: Standard errors.
    line_xs: list[float] = []
    line_ys: list[float] = []  #: Empty: no closed form is known.
    hollow: bool = False  #: Tells apart curves of one colour.
    ring: bool = False  #: Drawn as rings around a curve that it overlaps.


class Mark(Struct, frozen=True):
    """A place on the x axis that the paper names."""

    x: float
    text: str


class Panel(Struct, frozen=True, kw_only=True):
    curves: list[Curve]
    title: str = ""
    marks: list[Mark] = []
    log_y: bool = False
    labels_at_end: bool = False  #: Instead of a legend, where lines are many and apart.


class Plot(Struct, frozen=True, kw_only=True):
    panels: list[Panel]
    x_label: str
    y_label: str


class Outcome(Struct, frozen=True, kw_only=True):
    cells: list[Measured]
    plot: Plot | None = None


class Text(Config, frozen=True, kw_only=True):
    """One figure or table, as `items.toml` describes it to a reader."""

    id: Annotated[str, Doc("le/fig5.8")]
    title: Annotated[str, Doc("What it shows.")]
    caption: Annotated[str, Doc("What to look for, in a sentence or two.")]
    shown_x: Annotated[tuple[float, ...], Doc("Which points of its curves the small table shows; none: all.")] = ()
    live: Annotated[
        bool, Doc("Whether it starts real processes: it is run when it is named, and by make papers-live.")
    ] = False
    cover: Annotated[bool, Doc("Whether its plot stands for the paper on the report's first page.")] = False
    unjudged: Annotated[str, Doc("Why nothing of it can be judged; empty where something is.")] = ""


#: What is measured of an item: its tasks, and what is made of their results.
Made = tuple[tuple[Task, ...], Callable[[Mapping[Task, Any]], Outcome]]


class Item(Text, frozen=True, kw_only=True):
    """One figure or table: its text, and how it is measured."""

    tasks: tuple[Task, ...]
    outcome: Callable[[Mapping[Task, Any]], Outcome]


class Paper(Struct, frozen=True, kw_only=True):
    key: str
    folder: Path  #: Has expected.toml.
    items: tuple[Item, ...]
    study: Callable[[Task, Budget, Callable[[int], None] | None], Any]  #: Runs one task.
    runs: dict[Engine, int]  #: What is enough, by engine.


def read_paper(
    key: str,
    made: Mapping[str, Made],
    study: Callable[[Task, Budget, Callable[[int], None] | None], Any],
    runs: dict[Engine, int],
) -> Paper:
    """Return a paper whose items are described by `items.toml` of its folder and measured as `made` says by name."""
    folder = Path(__file__).parent / key
    entries = tomllib.loads((folder / "items.toml").read_text(encoding="utf-8"))["item"]
    texts = [load(Text, entry, f"{folder / 'items.toml'}: {entry.get('id')}") for entry in entries]
    assert sorted(text.id for text in texts) == sorted(f"{key}/{name}" for name in made), f"{folder}: items.toml"
    measured = [(text, *made[text.id.removeprefix(f"{key}/")]) for text in texts]
    items = tuple(Item(**asdict(text), tasks=tasks, outcome=outcome) for text, tasks, outcome in measured)
    return Paper(key=key, folder=folder, items=items, study=study, runs=runs)
