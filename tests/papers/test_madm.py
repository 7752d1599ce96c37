"""The weights of Table 6.2 are judged by the quality factors alone: made with other weights, they must give those."""

import pytest
from msgspec.structs import replace

from doyen.score.topsis import quality
from doyen_papers.papers.madm import tables
from doyen_papers.papers.madm.chapter import ATTRIBUTES, TABLES


def test_the_weights_that_are_found_are_those_that_the_quality_factors_were_made_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert tables.recovered() == pytest.approx({one.name: one.weight for one in ATTRIBUTES}, abs=0.005)
    others = {"CPU": 0.3, "Am": 0.2, "Fr": 0.1, "Cc": 0.15, "Deg": 0.25}
    made = [replace(one, weight=others[one.name]) for one in ATTRIBUTES]
    rows = {
        name: tuple(replace(row, quality=str(tables.truncated(quality(row.values, made).value, 4))) for row in table)
        for name, table in TABLES.items()
    }
    monkeypatch.setattr(tables, "TABLES", rows)
    assert tables.recovered() == pytest.approx(others, abs=0.005)
