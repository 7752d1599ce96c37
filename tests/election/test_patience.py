"""A voter waits longer after failures in a row, up to a bound, and for as long as its disk takes."""

import pytest

from doyen.core.clock import ms
from doyen.election.pole.config import PoleConfig
from doyen.election.pole.patience import DOUBLED_MAX, Patience


class Disk:
    write_time = ms(7)


@pytest.mark.parametrize(("vain", "factor"), [(0, 1), (1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 16), (1000, 16)])
def test_the_second_failure_in_a_row_doubles_a_wait_and_so_does_each_further_one(vain: int, factor: int) -> None:
    config = PoleConfig()
    patience = Patience(config, Disk())  # type: ignore[arg-type]
    patience.vain = vain
    assert patience.stretched(10) == 10 * factor <= 10 * 2**DOUBLED_MAX
    assert patience.for_answers == (config.answer_timeout + ms(7)) * factor
    assert patience.for_a_claim == (config.claim_timeout + ms(7)) * factor
