"""A spanning election on a given graph that begins in any state at all.  [MADM]"""

from random import Random

from doyen.sim.corruption import corrupt as corrupt_machine
from doyen_papers.studies.spanning import UNIT, Experiment


def corrupt(experiment: Experiment, rng: Random, *, far: bool = False) -> None:
    """Corrupt memory at time 0; to be given to `simulate` as `prepare`, by way of `partial` or a lambda."""
    experiment.sim.at(0, lambda: _corrupt_all(experiment, rng, far), "corruption")


def _corrupt_all(experiment: Experiment, rng: Random, far: bool) -> None:
    for name in experiment.nodes:
        machine = experiment.machine(name)
        assert machine is not None
        corrupt_machine(machine, list(experiment.nodes), rng, far=far)


def bound_of(experiment: Experiment) -> float:
    """Return the units until every region has one agreed leader, and one pulse more to see it."""
    return (experiment.config.stabilisation_max + experiment.config.pulse_interval) / UNIT
