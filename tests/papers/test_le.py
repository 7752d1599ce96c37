"""SUP+AL and neighbours in [LE]: what a run's row says of it."""

from doyen_papers.analysis.setting import Setting
from doyen_papers.papers.le.cells import Composed, compose
from doyen_papers.papers.le.neighbours import observe_neighbours


def test_sup_al_by_receipt_has_one_leader_or_none_and_never_both() -> None:
    rows = [compose(Composed(Setting(variant="sup-al-receipt", nodes=10)), seed) for seed in range(40)]
    assert {(row["one leader"], row["no leader"]) for row in rows} == {(1.0, 0.0), (0.0, 1.0)}
    # Without loss several elected themselves just where nobody is left.
    assert all(row["several elected"] == row["no leader"] for row in rows)


def test_sup_al_drawn_anew_lets_few_announce_and_spread_all_but_not_at_once() -> None:
    few = compose(Composed(Setting(variant="sup-al-redraw", nodes=20)), 1)
    assert 1 <= (few["messages"] or 0) < 10 and few["first"] <= few["last"] < few["first"] + 0.1  # type: ignore[operator]
    spread = compose(Composed(Setting(variant="sup-al-spread", nodes=20)), 1)
    assert spread["messages"] == 20 and 1 < (spread["together"] or 0) < 20
    assert 0 <= (spread["first"] or 0) < (spread["last"] or 0) < 1
    at_once = compose(Composed(Setting(variant="al", nodes=20, event="start")), 1)
    assert at_once["together"] == 20


def test_who_reaches_all_leads_by_what_it_observes_and_by_name_only_if_it_is_the_last() -> None:
    rows = [observe_neighbours(6, seed) for seed in range(12)]
    assert {row["observed: excess"] for row in rows} == {row["oracle: excess"] for row in rows} == {0.0}
    assert {row["observed: agree"] for row in rows} == {1.0}
    assert sum(row["name: excess"] or 0.0 for row in rows) > 0
    assert all((row["observed: messages"] or 0) > (row["name: messages"] or 0) for row in rows)
