"""What `doyen drill` predicts: takeovers in made-up time, on a machine such as the one that was measured."""

from msgspec.structs import replace

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


def test_one_that_resigned_may_be_the_next_where_a_voter_is_away_and_disks_are_slow() -> None:
    config = replace(Cluster(NAMES).config("ant"), preset="local")
    machine = Machine(delay_s=0.0001, step_s=0.0055, disk_s=1.0)
    took = [*rehearse(config, NAMES[::2], "resign", kind="pole", on=machine, count=5)]
    assert len(took) == 5 and max(took) < 10, took
