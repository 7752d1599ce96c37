"""How an election on the mesh is judged: from the first word of a loss to the last survivor's agreement."""

from doyen.core.clock import ms
from doyen_lab.contest.elections import Completion, Election, judge


def test_a_changed_mind_counts_and_the_dead_leaders_own_lines_do_not() -> None:
    lines = [
        ("dead", "dead", ms(1)),
        ("a", None, ms(100)),
        ("a", "b", ms(120)),
        ("c", "b", ms(125)),
        ("b", "c", ms(150)),
        ("a", "c", ms(160)),
        ("c", "c", ms(190)),
        ("a", "d", ms(500)),  # Of a later election.
    ]
    found = judge(lines, "dead", "c", ms(190))
    assert found == Election(killed="dead", leader="c", completion_s=0.09, leader_changes=2)


def test_a_series_tells_its_spread_and_what_never_came() -> None:
    each = [Election(killed="x", leader="y", completion_s=s, leader_changes=n) for s, n in ((1.0, 1), (3.0, 2))]
    found = Completion.of([*each, None])
    assert (found.median_s, found.mean_s, found.never, found.leader_changes) == (2.0, 2.0, 1, 1.5)
    assert Completion.of([None]).median_s is None
