"""Each kernel stands for a machine: same question, same answer, within chance.  Seeds are fixed: no lottery."""

from math import sqrt
from random import Random
from typing import Any

import pytest

from doyen.errors import ConfigError
from doyen.sim.runs import Figure
from doyen_papers import kernels
from doyen_papers.analysis.announce import NoClosedForm, value
from doyen_papers.analysis.setting import Setting
from doyen_papers.studies.announce import Summary, study

SIGMAS = 4.0
FIGURES = ("tmax", "messages", "rounds", "avg_rounds", "reestablishment", "inconsistent", "leaders")
CELLS: list[dict[str, Any]] = [
    *({"variant": v, "nodes": 20, "loss": 0.4, "loss_model": m} for v in ("le-a", "le-s", "le-m", "al", "sup")
      for m in ("none", "correlated", "uncorrelated", "load")),
    {"variant": "le-s", "nodes": 100, "loss": 0.4},
    {"variant": "le-m", "nodes": 60, "loss": 0.2, "timer": "exponential"},
    {"variant": "le-s", "nodes": 30, "loss": 0.7, "timer": "exponential", "loss_model": "correlated"},
    {"variant": "le-s", "nodes": 12, "loss": 0.3, "delay_s": 1.3},  # Δ > T_A
    {"variant": "le-s", "nodes": 12, "loss": 0.3, "suppress_s": 3.0},  # T_S > T_A
    {"variant": "le-s", "nodes": 15, "loss": 0.4, "listen_s": 2.0},  # Doubts during the election.
    {"variant": "le-m", "nodes": 15, "loss": 0.4, "listen_s": 2.0},
    *({"variant": v, "nodes": 10, "loss": 0.4, "loss_model": m, "event": e, "listen_s": 2.5}
      for v in ("le-a", "le-s", "le-m") for m in ("correlated", "uncorrelated")
      for e in ("leader-departs", "false-departure", "joiner-better", "joiner-worse")
      if (v, e) != ("le-m", "joiner-better")),
]  # fmt: skip


def apart(ours: Figure | None, theirs: Figure | None) -> float:
    """How many standard errors lie between."""
    if ours is None or theirs is None:
        return 0.0 if ours is theirs else float("inf")
    error = sqrt((ours.stderr or 0.0) ** 2 + (theirs.stderr or 0.0) ** 2)
    gap = abs(ours.mean - theirs.mean)
    return 0.0 if gap < 1e-9 else gap / error if error else float("inf")


def compare(setting: Setting, runs: int, seed: int) -> dict[str, float]:
    machine = study(setting, runs=runs, seed=seed, jobs=1)
    kernel = study(setting, runs=20 * runs, seed=seed, engine="kernel")
    gaps = {name: apart(getattr(machine, name), getattr(kernel, name)) for name in FIGURES}
    gaps["first tmax"] = apart(machine.first_round.tmax, kernel.first_round.tmax)
    gaps["first messages"] = apart(machine.first_round.messages, kernel.first_round.messages)
    return gaps


def name_of(cell: dict[str, Any]) -> str:
    return "-".join(str(part) for part in cell.values())


@pytest.mark.parametrize("cell", CELLS, ids=name_of)
def test_kernel_and_machine_agree(cell: dict[str, Any]) -> None:
    gaps = compare(Setting(**cell), runs=60, seed=11)
    assert max(gaps.values()) < SIGMAS, gaps


def test_the_comparison_can_fail() -> None:
    machine = study(Setting(nodes=20, loss=0.4), runs=60, seed=11, jobs=1)
    kernel = study(Setting(nodes=20, loss=0.5), runs=1200, seed=11, engine="kernel")
    assert apart(machine.tmax, kernel.tmax) > SIGMAS


def random_setting(rng: Random) -> Setting:
    variant = rng.choice(["le-a", "le-s", "le-m", "al", "sup"])
    return Setting(
        variant=variant,  # type: ignore[arg-type]
        nodes=rng.choice([2, 3, 5, 10, 30, 80]),
        loss=rng.choice([0.0, 0.1, 0.3, 0.5, 0.8]),
        loss_model=rng.choice(["none", "correlated", "uncorrelated", "load"]),  # type: ignore[arg-type]
        timer=rng.choice(["uniform", "exponential"]),  # type: ignore[arg-type]
        announce_s=rng.choice([0.5, 1.0, 2.0]),
        suppress_s=rng.choice([0.3, 1.0, 2.5]),
        delay_s=rng.choice([0.01, 0.1, 0.4]),
        listen_s=rng.choice([float("inf"), 2.0, 4.5]),
        event=rng.choice(["start", "leader-departs", "false-departure", "joiner-better", "joiner-worse"]),  # type: ignore[arg-type]
    )


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(300))
def test_at_any_setting_the_engines_agree_and_hit_the_closed_forms(seed: int) -> None:
    setting = random_setting(Random(seed))
    try:
        kernels.refuse(setting)
        gaps = compare(setting, runs=150, seed=seed)
    except ConfigError:
        return  # Not a question; the refusals have tests of their own.
    assert max(gaps.values()) < 5.0, (setting, gaps)  # Nine figures in 300 settings: 5 is where chance ends.
    check_closed_forms(setting, study(setting, runs=20_000, seed=seed, engine="kernel"), 5.0)


def check_closed_forms(setting: Setting, summary: Summary, sigmas: float) -> int:
    """How many closed forms were there to hit."""
    found = 0
    for quantity in ("tmax", "messages", "rounds", "reestablishment"):
        try:
            exact = value(setting, quantity)
        except (NoClosedForm, ConfigError):
            continue
        ours: Figure | None = getattr(summary, quantity)
        if ours is not None and summary.converged == summary.runs:
            found += 1
            assert apart(ours, Figure(exact, 0.0)) < sigmas, (setting, quantity, ours, exact)
    return found


@pytest.mark.parametrize("engine", ["machine", "kernel"])
def test_means_hit_the_closed_forms(engine: Any) -> None:
    checked = 0
    runs, step = (100, 8) if engine == "machine" else (4000, 1)  # Fewer runs, and the skew of such figures shows.
    for seed, cell in list(enumerate(CELLS))[::step]:
        setting = Setting(**cell)
        checked += check_closed_forms(setting, study(setting, runs=runs, seed=seed, engine=engine, jobs=1), 3.5)
    assert checked > 60 // step


def test_results_do_not_depend_on_the_number_of_processes() -> None:
    setting = Setting(nodes=10, loss=0.4)
    one, two = (study(setting, runs=40, seed=3, jobs=jobs) for jobs in (1, 2))
    assert one == two
