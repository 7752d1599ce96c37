"""What `doyen drill` predicts: takeovers in made-up time, on a machine such as the one that was measured."""

from doyen.testing import Cluster
from doyen.testing.rehearsal import Machine, rehearse

NAMES = ("ant", "bee", "cat")


def longest(on: Machine) -> float:
    config = Cluster(NAMES).config("ant")
    return max(rehearse(config, NAMES, "resign", kind="pole", on=on, count=5))


def test_a_slow_machine_and_a_slow_disk_are_part_of_each_step() -> None:
    fast = longest(Machine(delay_s=0.0001))
    busy = longest(Machine(delay_s=0.0001, step_s=0.01))
    writes = longest(Machine(delay_s=0.0001, disk_s=0.05))
    assert fast < 0.01, fast
    assert busy > fast + 0.02, "a hand-over takes several messages, one after the other; each takes 20 ms at most"
    assert writes > fast + 0.025, "and at least one promise is written"
