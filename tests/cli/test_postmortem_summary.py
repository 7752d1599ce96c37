"""The summary of a postmortem in text: short, and whole."""

from doyen.cli.postmortem import REIGNS_SHOWN, reigns
from doyen.eyes.lanes import Lanes, Span


def lanes(*spans: tuple[str, int, float, float | None]) -> Lanes:
    made = (
        Span(lane=who, begin=begin, end=end, kind="leads", label=f"{who} leads, term {term}")
        for who, term, begin, end in spans
    )
    return Lanes(title="g", begin=0.0, end=1000.0, spans=tuple(made))


def test_a_reign_that_stalls_split_is_one_line() -> None:
    parts = [("ant", 1, float(at), at + 0.5) for at in range(100)]
    shown = reigns(lanes(*parts, ("bee", 2, 200.0, None)))
    assert shown == [
        "     0.000 s to     99.500 s  ant leads, term 1, in 100 parts, 50.000 s in all",
        "   200.000 s to   1000.000 s  bee leads, term 2",
    ]


def test_of_many_reigns_the_first_the_longest_and_the_last_are_shown() -> None:
    many = [("ant" if term % 2 else "bee", term, term * 10.0, term * 10.0 + 5) for term in range(1, 61)]
    many[30] = ("ant", 31, 310.0, 319.0)
    shown = reigns(lanes(*many, ("bee", 60, 606.0, 607.0)))
    assert shown == [
        "60 reigns of 2 nodes, split into 61 parts where a process did not run: -o FILE has them all",
        "first        10.000 s to     15.000 s  ant leads, term 1",
        "longest     310.000 s to    319.000 s  ant leads, term 31",
        "last        600.000 s to    607.000 s  bee leads, term 60, in 2 parts, 6.000 s in all",
    ]


def test_a_few_reigns_are_all_shown() -> None:
    few = [("ant", term, float(term), term + 0.5) for term in range(REIGNS_SHOWN)]
    assert len(reigns(lanes(*few))) == REIGNS_SHOWN
