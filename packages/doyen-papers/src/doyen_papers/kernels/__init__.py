"""Monte-Carlo of announce-listen elections without machines, messages or a heap.  [LE Ch. 5]

The protocol lives in `doyen.election.announce`; this is its compiled shadow for figures of 10^8 deliveries, and a
test holds the two equal.  All that a run needs is drawn from its own stream, made of (seed, run number), so it gives
the same numbers in whatever slice, process or order it is computed.  Times are integer nanoseconds inside.
"""

from collections.abc import Sequence
from math import isfinite, log

import numpy as np
from msgspec import Struct

from doyen.errors import ConfigError
from doyen_papers.analysis.setting import Setting
from doyen_papers.kernels.cell import (
    AVERAGE,
    BETTER,
    COLUMNS,
    CONVERGED,
    CORRELATED,
    DELAY,
    DEPARTS,
    FALSE,
    HORIZON_ROUNDS,
    INCONSISTENT,
    LEADERS,
    LOAD,
    MESSAGES,
    NEVER,
    ROUNDS,
    START,
    TMAX,
    UNCORRELATED,
    WORSE,
    Cell,
    Floats,
)
from doyen_papers.kernels.play import play
from doyen_papers.kernels.start import announce_all, elect, suppress

__all__ = ["HORIZON_ROUNDS", "KernelResult", "join", "refuse", "run"]

_SECONDS_MAX = 1e5  # A horizon of 10 000 such T_A, and what is added to it, still fits an int64.
_EVENTS = {
    "start": START,
    "leader-departs": DEPARTS,
    "false-departure": FALSE,
    "joiner-better": BETTER,
    "joiner-worse": WORSE,
}


class KernelResult(Struct, frozen=True, eq=False):
    """One value per run; nan where it never happened.  Times are seconds, counts from the start or the event.

    Compared with the machine: "until" means before the arrival that completes the agreement, so what is sent at
    that very instant does not count.
    """

    tmax: Floats  #: Send time of the converging announcement; reestablishment − Δ, where an event comes.
    messages: Floats  #: Announcements of anybody until then (until tmax + Δ).
    rounds: Floats  #: Announcements of the winner until the converging one, included.
    avg_rounds: Floats  #: Mean over its receivers of its announcement that first made them name it.
    first_tmax: Floats  #: Send time of the last announcement that was somebody's first wake-up.
    first_messages: Floats  #: Processes that announced at their first wake-up.
    reestablishment: Floats  #: From the event until agreement; below 0 if it came before the departure.
    inconsistent: Floats  #: Share of time in which somebody does not name the leader.
    leaders: Floats  #: Messages per T_A begun, where there are any.
    converged: Floats  #: 1 or 0.


def refuse(setting: Setting) -> None:
    """Raise ConfigError for what only the engine `machine` can run."""
    if setting.variant.startswith("sup-al-"):
        raise ConfigError(f"kernel does not know {setting.variant}: give --engine machine", field="engine")
    times = (setting.announce_s, setting.suppress_s, setting.delay_s, setting.load_window_s)
    instant = setting.delay_s < 0.5e-9
    why = ""
    if setting.variant in ("al", "sup") and setting.event != "start":
        why = f"{setting.variant} has no leader, so no event {setting.event!r}"
    elif setting.variant == "le-m" and setting.event == "joiner-better":
        why = "in le-m nobody who joins later is better than the leader"
    elif setting.loss_model == "load" and instant:
        why = "the loss model 'load' needs a delay_s above 0"
    elif setting.variant in ("le-m", "sup") and instant and setting.suppress_interval_s < 0.5e-9:
        why = f"{setting.variant} with delay_s and suppress_s both 0 hangs on the order of simultaneous steps"
    elif max(times) > _SECONDS_MAX or setting.announce_s < 1e-6:
        why = f"times must be at most {_SECONDS_MAX:.0f} s, and announce_s at least 1 µs"
    if why:
        raise ConfigError(f"kernel cannot run this: {why}; give --engine machine", field="engine")


def run(setting: Setting, runs: int, seed: int, first_run: int = 0) -> KernelResult:
    """Return runs number `first_run` to `first_run + runs − 1` of a seed."""
    refuse(setting)
    cell = _cell(setting)
    out = np.full((runs, COLUMNS), np.nan)
    out[:, CONVERGED] = 0.0
    key = np.uint64(seed & 0xFFFF_FFFF_FFFF_FFFF)
    if setting.variant == "sup":
        suppress(out, first_run, key, cell)
    elif setting.variant == "al":
        announce_all(out, first_run, key, cell)
    elif cell.event == START and (cell.nodes == 1 or cell.loss == 1.0 or _endless(cell)):
        elect(out, first_run, key, cell)
    elif not _hopeless(cell, out):
        play(out, first_run, key, cell)
    out[out[:, MESSAGES] == 0, LEADERS] = np.nan  # Nobody announced: there is no interval to count leaders in.
    if setting.variant == "sup":
        out[:, LEADERS] = out[:, MESSAGES]  # One round, however long.
    if cell.event == DEPARTS and cell.nodes == 2:
        out[:, AVERAGE] = np.nan  # Who is left has nobody to hear it.
    return KernelResult(*np.ascontiguousarray(out.T))


def join(parts: Sequence[KernelResult]) -> KernelResult:
    """Put slices of one seed together again."""
    fields = KernelResult.__struct_fields__
    return KernelResult(*(np.concatenate([getattr(part, field) for part in parts]) for field in fields))


def _cell(setting: Setting) -> Cell:
    def ns(seconds: float) -> int:
        return round(seconds * 1e9)

    announce = ns(setting.announce_s)
    # A deadline past every horizon never comes.
    listens = isfinite(setting.listen_s) and setting.listen_s < 2.1 * HORIZON_ROUNDS * setting.announce_s
    models = {"none": CORRELATED, "correlated": CORRELATED, "uncorrelated": UNCORRELATED, "load": LOAD}
    return Cell(
        nodes=setting.nodes,
        earliest=setting.variant == "le-m",
        announce=announce,
        suppress=ns(setting.suppress_interval_s),
        listen=max(1, ns(setting.listen_s)) if listens else int(NEVER),
        delay=ns(setting.delay_s),
        event=_EVENTS[setting.event],
        loss=float(setting.loss_prob),
        # Without loss all models are one, and the correlated one has the least to do.
        model=models[setting.loss_model] if setting.loss_prob > 0 else CORRELATED,
        rate=log(setting.nodes) + 1 if setting.timer == "exponential" else 0.0,
        window=ns(setting.load_window_s),
        capacity=float(setting.load_capacity),
    )


def _endless(cell: Cell) -> bool:
    return cell.listen == NEVER and cell.model != LOAD


def _hopeless(cell: Cell, out: Floats) -> bool:
    """Events that never come, or never end: not worth playing up to the horizon."""
    if cell.event == DEPARTS and cell.nodes == 1:
        # [LE §5.3] The last leaver leaves nobody without a leader.
        out[:, [DELAY, TMAX, MESSAGES, ROUNDS]] = 0.0
        out[:, CONVERGED] = 1.0
        return True
    if cell.event == FALSE:
        steady = cell.nodes == 1 or cell.listen == NEVER or (cell.loss == 0 and cell.listen >= cell.announce)
        if steady:
            out[:, INCONSISTENT] = 0.0
        return steady or cell.loss == 1.0
    return cell.event != START and (cell.loss == 1.0 or (cell.event == DEPARTS and cell.listen == NEVER))
