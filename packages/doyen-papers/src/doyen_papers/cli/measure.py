"""`doyen advise --measure`: timers for the group that runs here, from what its own traffic shows of the network."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from doyen.cli.local import ask
from doyen.cli.output import print_json, progress
from doyen.core.clock import Duration, format_duration, seconds, to_seconds
from doyen.errors import ConfigError, LocalProtocolError
from doyen.eyes.plot import Plot
from doyen.node.control import find_node
from doyen.node.layers import read_toml
from doyen.node.rebuilt import config_from
from doyen_papers.analysis.measured import Interval, Measured, measured
from doyen_papers.cli.settings_file import changed, difference, write
from doyen_papers.studies.advised import CURVE, STEPS, Option, Promised, Stack, changes, no_better, stack_of, told_apart

WINDOW_MIN_S: Final = 5.0
TICK_S: Final = 0.25
WISHES: Final = tuple(seconds(2**power) for power in range(7))


def advise_measured(
    window: Duration,
    *,
    group: str | None,
    name: str | None,
    per_year: float,
    detection: Duration | None,
    simulate: int,
    plot: Path | None,
    apply: Path | None,
    as_json: bool,
) -> None:
    """Measure, simulate, print, draw and write."""
    if to_seconds(window) < WINDOW_MIN_S:
        raise ConfigError(
            f"--measure {format_duration(window)} is too short: give at least {WINDOW_MIN_S:g}s, e.g. 60s"
        )
    text = _readable(apply)
    path = find_node(group, name)
    first = _tallies(path)
    _check_alone(first)
    with progress("measuring", max(1, round(to_seconds(window) / TICK_S))) as show:
        until = time.monotonic() + to_seconds(window)
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(TICK_S, left))
            show(1)
    last = _tallies(path)
    _check_alone(last)
    found = measured(first, last)
    stack = stack_of(config_from(last["config"]), last["kind"], found, simulate)
    chosen = _chosen(_options(stack, detection, per_year), per_year)
    today = stack.option(stack.now)
    promises = {"today": stack.promised(today), "advised": stack.promised(chosen)}
    soon_enough = None if detection is None else stack.soon_enough(today.bound_s, detection)
    kept = no_better(promises["today"], promises["advised"], per_year, soon_enough)
    if kept:
        chosen, promises["advised"] = today, promises["today"]
    differing = changes(stack.config, chosen.config, stack.table)
    notes = _notes(stack, chosen, promises["advised"], per_year, detection, kept=kept)
    after = text
    if apply is not None and differing:
        after = changed(text, stack.table, {field: new for field, (_, new) in differing.items()}, apply)
    if plot is not None:
        plot.write_text(_picture(last["group"], stack, today, chosen), encoding="utf-8")
    if as_json:
        told = {"measured": found, "table": stack.table, "changes": differing, **promises, "notes": notes}
        print_json(told | {"applied": str(apply) if differing and apply is not None else None})
    else:
        _print(last["group"], found, stack, differing, promises, notes)
        if apply is not None and differing:
            click.echo(difference(text, after, apply) or f"{apply} has these timers already")
        elif apply is not None:
            click.echo("nothing was written: today's timers stay")
        elif differing:
            click.echo("nothing was written: --apply FILE writes the timers into a node's TOML file")
    if apply is not None and after != text:
        write(apply, after)


def _tallies(path: Path) -> Any:
    try:
        return ask(path, "tallies", timeout_s=30)
    except LocalProtocolError as error:
        if "cannot do" not in str(error):
            raise
        raise LocalProtocolError(
            f"{path.stem} runs a version of doyen that counts nothing: start it again with this one"
        ) from None


def _check_alone(told: dict[str, Any]) -> None:
    """Refuse to measure where there is nobody to measure with."""
    if len(told["names"]) < 2:
        raise LocalProtocolError(
            f"{told['node']} is alone in {told['group']}, so there is no network to measure: start another member first"
        )


def _readable(apply: Path | None) -> str:
    """Return the file that shall be changed, before anything is measured; a file that is not there is empty."""
    if apply is None or not apply.exists():
        return ""
    try:
        text = apply.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--apply {apply} cannot be read: {error}") from None
    read_toml(apply)
    return text


def _options(stack: Stack, detection: Duration | None, per_year: float) -> list[Option]:
    """Return the options up to the first that meets the wish."""
    found: list[Option] = []
    with progress("simulating", STEPS) as show:
        for option in stack.options(detection):
            found.append(option)
            show(1)
            if option.departures_per_year.high <= per_year:
                break
    if not found:
        least = next((option.bound_s for option in stack.options(None)), None)
        if detection is None or least is None:
            raise ConfigError(
                f"today's interval of [{stack.table}] is too short for this network, where an answer took up to "
                f"{to_seconds(stack.trip):.2g} s and a member paused for {to_seconds(stack.pause):.2g} s: "
                f"{_enough(stack)}"
            )
        raise ConfigError(
            f"--detection {format_duration(detection)} cannot be had on this network: timers of today's interval need "
            f"{least:.2g} s at least, and a shorter interval does not leave time for an answer"
        )
    return found


def _enough(stack: Stack) -> str:
    """Return what to ask for where no timers keep today's interval: a wish that longer intervals can keep."""
    for wish in WISHES:
        if next(stack.options(wish), None) is not None:
            return f"ask for a longer one, e.g. --detection {format_duration(wish)}"
    return "measure again when less else runs, or mend the network"


def _chosen(options: list[Option], per_year: float) -> Option:
    """Return the first option that meets the wish with confidence; else as far as was measured; else the best one."""
    for end in ("high", "estimate"):
        for option in options:
            if getattr(option.departures_per_year, end) <= per_year:
                return option
    return min(options, key=lambda option: option.departures_per_year.estimate)


def _notes(
    stack: Stack, chosen: Option, promised: Promised, per_year: float, detection: Duration | None, *, kept: bool
) -> list[str]:
    found, notes = stack.found, []
    if kept and detection is not None and chosen.departures_per_year.high <= per_year:
        notes.append("today's timers stay: they keep what was asked for")
    elif kept:
        notes.append("today's timers stay: by these figures, none that were tried are better")
    if detection is not None and promised.detection_most_s.high > to_seconds(detection):
        notes.append(
            f"a detection within {format_duration(detection)} cannot be promised with 95 % confidence, as packets are "
            f"lost or members pause: {promised.detection_most_s.high:.2f} s were simulated"
        )
    missing = sorted(set(found.members) - set(found.heard))
    if missing:
        notes.append(f"{', '.join(missing)} did not answer, so what it sees is not in these figures")
    if chosen.departures_per_year.high > per_year:
        notes.append(
            f"at most {per_year:g} false departures a year cannot be promised with 95 % confidence: "
            f"measure for longer, simulate more than {stack.simulate} takeovers (--simulate), allow a slower "
            "detection, or mend the network"
        )
    drift_max = getattr(stack.now, "drift_max", None)
    for drift in found.drifts:
        if drift_max is not None and abs(drift.rate) - drift.error > drift_max:
            notes.append(
                f"the clock of {drift.member} runs at another rate than drift_max allows: two could lead at once"
            )
    if not found.by_answers:
        notes.append("nobody answers announcements: a leader that pauses counts as loss")
    notes.append("losses are taken to be independent: bursts of losses bring more false departures than promised")
    return notes


# ── For people ──────────────────────────────────────────────────────────────────────────────────────────────


def _print(
    group: str,
    found: Measured,
    stack: Stack,
    differing: dict[str, tuple[str, str]],
    promises: dict[str, Promised],
    notes: list[str],
) -> None:
    others = len(found.heard) - 1
    click.echo(
        f"{group}, {len(found.members)} members: measured for {found.seconds:.0f} s by {found.node} and {others} others"
        if others
        else f"{group}, {len(found.members)} members: measured for {found.seconds:.0f} s by {found.node} alone"
    )
    how = "round trips" if found.by_answers else "announcements"
    click.echo(f"  loss          {_percent(found.loss)} of packets, from {found.trials} {how}")
    trip = found.round_trip_s.each(lambda s: s * 1e3)
    click.echo(
        f"  round trip    {trip.estimate:.3g} ms in the mean ({trip.low:.3g} to {trip.high:.3g}), "
        f"99.9 % within {found.round_trip_most_s * 1e3:.3g} ms, from {found.round_trips}"
    )
    click.echo(f"  pauses        99.9 % of {found.pauses} timers at most {found.pause_most_s * 1e3:.3g} ms late")
    if found.writes:
        click.echo(f"  disk          99 % of {found.writes} writes within {found.write_most_s * 1e3:.3g} ms")
    if found.drifts:
        worst = max(found.drifts, key=lambda drift: abs(drift.rate) + drift.error)
        click.echo(
            f"  clocks        {worst.member}'s runs {worst.rate:+.3%} against {found.node}'s, ± {worst.error:.3%}"
        )
    click.echo(f"  traffic       each member sends {found.bytes_per_s:.3g} B/s")
    click.echo(f"{'':26}{'TODAY':>26}{'ADVISED':>26}")
    for field, (old, new) in differing.items():
        click.echo(f"{f'[{stack.table}] {field}':26}{old:>26}{new:>26}")
    rows: dict[str, Callable[[Promised], str]] = {
        "detection, median": lambda p: f"{p.detection_median_s:.2f} s",
        "detection, 99 %": lambda p: _seconds(p.detection_most_s),
        "next leader, median": lambda p: f"{p.takeover_median_s:.2f} s",
        "next leader, 99 %": lambda p: _seconds(p.takeover_most_s),
        "false departures a year": lambda p: _count(p.departures_per_year),
        "traffic of a member": lambda p: f"{p.bytes_per_s:.3g} B/s",
    }
    for title, shown in rows.items():
        click.echo(f"{title:26}{shown(promises['today']):>26}{shown(promises['advised']):>26}")
    click.echo(f"false departures: {stack.departure}; in brackets: with 95 % confidence")
    for note in notes:
        click.echo(f"note: {note}")


def _percent(share: Interval) -> str:
    return f"{share.estimate:.2%} ({share.low:.2%} to {share.high:.2%})"


def _seconds(most: Interval) -> str:
    return f"{most.estimate:.2f} s ({most.low:.2f} to {most.high:.2f})"


def _count(figure: Interval) -> str:
    return f"{figure.estimate:.2g} ({figure.low:.2g} to {figure.high:.2g})"


def _picture(group: str, stack: Stack, today: Option, chosen: Option) -> str:
    picture = Plot(
        f"{group}: false departures against detection, as measured",
        "detection at most, in seconds, if nothing is lost",
        f"{stack.departure}, a year",
        y_powers=True,
    )
    marked = "today, kept" if chosen is today else "advised"
    with progress("drawing", len(CURVE)) as show:
        curve = []
        for option in stack.curve(chosen):
            curve.append(option)
            show(1)
    for title, end in (("as measured", "estimate"), ("at the upper end of its confidence", "high")):
        picture.line(title, [(o.bound_s, getattr(o.departures_per_year, end)) for o in told_apart(curve, chosen)])
    # At the upper end, which the wish is held against; as measured there may be none at all.
    if chosen is not today:
        picture.point("today", today.bound_s, today.departures_per_year.high)
    picture.point(marked, chosen.bound_s, chosen.departures_per_year.high)
    return picture.svg()
