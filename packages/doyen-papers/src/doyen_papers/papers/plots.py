"""Plots: our points over closed forms and published marks.  Drawn without pyplot, so nothing global is touched."""

from collections.abc import Sequence
from io import BytesIO
from typing import Any, Final

from doyen.errors import ConfigError
from doyen_papers.papers.item import Curve, Panel, Plot
from doyen_papers.papers.verdict import SIGMAS, Cell

# Okabe and Ito: told apart by colour-blind eyes too.
PALETTE: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS: Final = ("o", "s", "^", "D", "v", "P")
INK: Final = "#222222"
WIDTH_IN: Final = 5.8
STYLE: Final[dict[Any, Any]] = {
    "font.size": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#888888",
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "svg.fonttype": "path",  # The same on every screen.
    "path.simplify": True,
}


class Images:
    """One figure, in both formats."""

    def __init__(self, png: bytes, svg: str) -> None:
        self.png, self.svg = png, svg


def require_matplotlib() -> None:
    """Before any time is spent on runs."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"plots need matplotlib ({error}): pip install 'doyen[papers]' (in a checkout: '.[papers]')"
        ) from None


def draw(plot: Plot, cells: Sequence[Cell], name: str, shown_x: Sequence[float]) -> Images:
    """`name` salts the ids inside the SVG, so that several fit one page and the same numbers give the same bytes."""
    require_matplotlib()
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context({**STYLE, "svg.hashsalt": name}):
        height = 3.9 if len(plot.panels) == 1 else 3.0 * len(plot.panels) + 0.5
        figure = Figure(figsize=(WIDTH_IN, height), layout="constrained")
        FigureCanvasAgg(figure)
        rows = figure.subplots(len(plot.panels), 1, sharex=True, squeeze=False)
        for axes, panel in zip(rows[:, 0], plot.panels, strict=True):
            _draw_panel(axes, panel, [cell for cell in cells if cell.x in shown_x])
        rows[-1, 0].set_xlabel(plot.x_label)
        figure.supylabel(plot.y_label, fontsize=10.5, color=INK)
        png, svg = BytesIO(), BytesIO()
        figure.savefig(png, format="png", dpi=160, metadata={"Software": None})
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
    return Images(png.getvalue(), svg.getvalue().decode())


def _draw_panel(axes: Any, panel: Panel, cells: Sequence[Cell]) -> None:
    for curve in panel.curves:
        _draw_curve(axes, curve, plain=panel.labels_at_end)
    labels = {curve.label for curve in panel.curves}
    published = [(cell.x, cell.published) for cell in cells if cell.curve in labels and cell.published is not None]
    if published:
        axes.plot(*zip(*published, strict=True), "D", ms=8, mfc="none", mec=INK, mew=0.9, zorder=5, ls="")
    if panel.log_y:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(_fixed((0.5, 1, 2, 5, 10)))
        axes.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
        axes.yaxis.set_minor_formatter(lambda y, _: "")
    else:
        low, high = axes.get_ylim()
        axes.set_ylim(0 if low > 0 or low > -0.1 * high else low, high)
    axes.grid(axis="y", color="#e4e4e4", lw=0.7)
    axes.set_axisbelow(True)
    for mark in panel.marks:
        axes.axvline(mark.x, color="#777777", lw=0.9, ls=":")
        axes.annotate(mark.text, (mark.x, 0.03), xycoords=("data", "axes fraction"), xytext=(4, 0),
                      textcoords="offset points", fontsize=8.5, color="#555555")  # fmt: skip
    if panel.labels_at_end:
        _label_ends(axes, panel.curves)
    else:
        _legend(axes, panel, published=bool(published))


def _fixed(places: Sequence[float]) -> Any:
    from matplotlib.ticker import FixedLocator

    return FixedLocator(list(places))


def _draw_curve(axes: Any, curve: Curve, *, plain: bool) -> None:
    points = [point for point in zip(curve.xs, curve.ys, curve.errors, strict=True) if point[1] is not None]
    xs, ys = [x for x, _, _ in points], [y for _, y, _ in points]
    bars = [SIGMAS * (error or 0.0) for _, _, error in points]
    colour = PALETTE[curve.colour % len(PALETTE)]
    style = {"ls": "--" if curve.hollow else "-", "color": colour, "zorder": 2}
    if curve.line_xs:
        axes.plot(curve.line_xs, curve.line_ys, lw=1.5, **style)
    else:
        axes.plot(xs, ys, lw=0.8, alpha=0.55, **style)
    mark = _mark(curve) | ({"marker": "o", "ms": 3.2} if plain else {})
    axes.errorbar(xs, ys, yerr=bars, ls="", color=colour, elinewidth=1.1, capsize=0 if plain else 2, zorder=3, **mark)


def _mark(curve: Curve) -> dict[str, Any]:
    colour = PALETTE[curve.colour % len(PALETTE)]
    face = "none" if curve.ring else "white" if curve.hollow else colour
    return {"marker": MARKERS[curve.colour % len(MARKERS)], "ms": 9 if curve.ring else 5, "mfc": face, "mew": 1.2}


def _legend(axes: Any, panel: Panel, *, published: bool) -> None:
    """Above the axes, where it hides no point; line and mark together, as the plot has them."""
    from matplotlib.lines import Line2D

    handles = []
    for curve in panel.curves:
        colour = PALETTE[curve.colour % len(PALETTE)]
        known = bool(curve.line_xs)
        handles.append(Line2D([], [], color=colour, ls="--" if curve.hollow else "-", lw=1.5 if known else 0.8,
                              label=curve.legend, **_mark(curve)))  # fmt: skip
    if published:
        handles.append(Line2D([], [], ls="", marker="D", ms=8, mfc="none", mec=INK, mew=0.9, label="published"))
    axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2, borderpad=0,
                ncols=len(handles) if len(handles) < 4 else 2, title=panel.title or None, alignment="left",
                title_fontproperties={"size": 10.5})  # fmt: skip


def _label_ends(axes: Any, curves: Sequence[Curve]) -> None:
    for curve in curves:
        y = curve.line_ys[-1] if curve.line_ys else curve.ys[-1]
        if y is not None:
            axes.annotate(curve.legend, (curve.xs[-1], y), xytext=(10, 0), textcoords="offset points", va="center",
                          fontsize=9.5, color=PALETTE[curve.colour % len(PALETTE)], annotation_clip=False)  # fmt: skip
