"""Events become lanes: reigns, suspicions, failures, and the sentence of each change."""

from typing import Any

import msgspec

from doyen.eyes import assets
from doyen.eyes.lanes import LANES_MAX, MARKS_MAX, Fold, Lane, Mark, Span


def event(kind: str, at: float, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "at": at, **fields}


def folded(*events: dict[str, Any]) -> Fold:
    fold = Fold("orders")
    for each in events:
        fold.add(each)
    return fold


def test_a_takeover_is_two_reigns_a_failure_and_the_sentences_why() -> None:
    fold = folded(
        event("joined", 1.0, member="ant", address="127.0.0.1:1"),
        event("elected", 2.0, leader="bee", term=1, reason="best score (bee 9)"),
        event("suspected", 5.0, member="bee", by=("ant",), reason="by ant"),
        event("lost", 5.1, leader="bee", term=1, reason="gone"),
        event("failed", 5.2, member="bee"),
        event("elected", 5.3, leader="ant", term=2, reason="best of the rest"),
    )
    whole = fold.whole(now=9.0)
    assert (whole.begin, whole.end, whole.live) == (1.0, 9.0, True)
    assert whole.lanes == (Lane(id="ant", note="127.0.0.1:1"), Lane(id="bee"))
    assert set(whole.spans) == {
        Span(lane="bee", begin=2.0, end=5.1, kind="leads", label="bee leads (term 1)", why="best score (bee 9)"),
        Span(lane="bee", begin=5.0, end=5.2, kind="suspected", label="bee is suspected by ant"),
        Span(lane="bee", begin=5.2, kind="down", label="bee is held to have failed"),
        Span(lane="ant", begin=5.3, kind="leads", label="ant leads (term 2)", why="best of the rest"),
    }
    assert whole.marks[-1] == Mark(
        lane="ant", at=5.3, kind="elected", label="ant leads (term 2)", why="best of the rest"
    )
    assert (
        Mark(lane="bee", at=5.1, kind="lost", label="bee no longer leads (term 1)", why="its process has ended")
        in whole.marks
    )


def test_a_leader_that_is_named_over_another_ends_its_reign() -> None:
    fold = folded(event("elected", 1.0, leader="ant", term=1))
    changes = fold.add(event("elected", 2.0, leader="bee", term=2))
    closed = [change.close for change in changes if change.close is not None]
    assert [(span.lane, span.end) for span in closed] == [("ant", 2.0)]
    assert fold.add(event("elected", 3.0, leader="bee", term=2))[0].mark is not None  # Its reign goes on.
    assert [span.begin for span in fold.whole(4.0).spans if span.lane == "bee"] == [2.0]


def test_a_leader_that_led_before_it_was_heard_of_is_drawn_beside_whom_it_led() -> None:
    fold = folded(
        event("elected", 1.0, leader="ant", term=1),
        event("lost", 40.0, leader="ant", term=1, reason="outranked"),
        event("elected", 40.0, leader="bee", term=2, reason="best score"),
    )
    changes = fold.led_before("bee", 10.0)
    spans = {(span.lane, span.begin, span.end) for span in fold.whole(50.0).spans}
    assert spans == {("ant", 1.0, 40.0), ("bee", 10.0, 40.0), ("bee", 40.0, None)}
    assert [change.open.begin for change in changes if change.open is not None] == [10.0]
    marks = [change.mark for change in changes if change.mark is not None]
    assert [(mark.kind, mark.label) for mark in marks] == [("bad", "bee led beside ant for 30 s, until now")]
    assert "by its own clock" in marks[0].why
    assert fold.led_before("bee", 10.0) == [] == fold.led_before("ant", 0.0)  # It is shown once, and only who leads.


def test_clocks_that_hardly_differ_draw_nothing_and_a_reign_is_drawn_once() -> None:
    fold = folded(event("elected", 5.0, leader="bee", term=1))
    assert fold.led_before("bee", 4.5) == []
    fold.add(event("lost", 9.0, leader="bee", term=1, reason="silent"))
    fold.add(event("elected", 20.0, leader="bee", term=1))
    assert fold.led_before("bee", 5.0)[0].open == Span(  # It led on while this node did not hear it.
        lane="bee", begin=9.0, end=20.0, kind="leads", label="bee leads (term 1)",
        why="bee says so itself, by its own clock; this node had not heard of it",
    )  # fmt: skip


def test_a_node_that_was_stopped_did_not_lead_meanwhile_nor_beside_another() -> None:
    fold = Fold("orders")
    fold.add({"kind": "elected", "at": 10.0, "leader": "ant", "term": 1})
    fold.did_not_run("ant", 20.0, 34.0)
    fold.add({"kind": "lost", "at": 34.1, "leader": "ant", "term": 1, "reason": "outranked"})
    fold.add({"kind": "elected", "at": 34.1, "leader": "bee", "term": 2})
    fold.led_before("bee", 22.0)
    spans = [(span.lane, span.kind, span.begin, span.end) for span in fold.whole(now=40.0).spans]
    assert ("ant", "leads", 10.0, 20.0) in spans and ("ant", "paused", 20.0, 34.0) in spans
    assert ("bee", "leads", 22.0, 34.1) in spans and ("bee", "leads", 34.1, None) in spans
    assert not any("led beside" in mark.label for mark in fold.whole(now=40.0).marks)
    assert any(mark.label == "ant did not run for 14.0 s" for mark in fold.whole(now=40.0).marks)


def test_where_several_lead_nobody_ends_another_reign() -> None:
    fold = Fold("orders", leader_count=2)
    for leader in ("ant", "bee"):
        fold.add(event("elected", 1.0, leader=leader, term=1))
    assert {span.lane for span in fold.whole(2.0).spans if span.end is None} == {"ant", "bee"}


def test_resigning_is_shown_as_such_and_other_elections_are_not() -> None:
    fold = folded(
        event("elected", 1.0, leader="ant", term=1), event("lost", 2.0, leader="ant", term=1, reason="resigned")
    )
    assert fold.marks[-1].kind == "resigned"
    assert fold.add(event("elected", 3.0, leader="bee", term=1, election="mail")) == []


def test_what_holds_already_is_no_news() -> None:
    fold = folded(event("elected", 1.0, leader="ant", term=1, already=True))
    assert not fold.marks
    assert [span.lane for span in fold.whole(2.0).spans] == ["ant"]


def test_changes_give_the_same_picture_as_the_whole() -> None:
    """A page that takes changes one by one has what a page has that was opened later."""
    events = [
        event("joined", 1.0, member="ant"),
        event("elected", 2.0, leader="ant", term=1),
        event("suspected", 3.0, member="ant", by=("bee",)),
        event("alive", 4.0, member="ant"),
        event("elected", 5.0, leader="bee", term=2),
        event("left", 6.0, member="ant"),
        event("forgotten", 7.0, member="ant"),
    ]
    fold, spans, marks = Fold("orders"), [], []
    for each in events:
        for change in fold.add(each):
            if change.open is not None:
                spans.append(change.open)
            if change.close is not None:
                at = next(i for i, span in enumerate(spans) if span.end is None and span.lane == change.close.lane
                          and span.kind == change.close.kind)  # fmt: skip
                spans[at] = change.close
            if change.mark is not None:
                marks.append(change.mark)
    whole = fold.whole(8.0)
    assert set(spans) == set(whole.spans)
    assert marks == list(whole.marks)


def test_what_is_kept_is_bounded() -> None:
    fold = Fold("orders")
    for number in range(3 * MARKS_MAX):
        fold.add(event("suspected" if number % 2 else "alive", float(number), member="ant"))
    whole = fold.whole(1e6)
    assert len(whole.marks) == MARKS_MAX
    assert len(whole.spans) <= MARKS_MAX
    assert len(msgspec.json.encode(whole)) < 1_000_000


def test_members_that_only_pass_by_make_room_for_each_other() -> None:
    fold = Fold("orders")
    for number in range(3 * LANES_MAX):
        fold.add(event("joined", float(number), member=f"passes-{number}"))
        fold.add(event("suspected" if number % 2 else "alive", float(number), member="ant"))
    assert len(fold.lanes) == LANES_MAX
    assert "ant" in fold.lanes


def test_the_files_of_the_page_are_small_and_nothing_else_is_served() -> None:
    names = ("index.html", "page.js", "page.css", "lanes.js", "lanes.css", "icon.svg")
    assert sum(len(assets.text(name).encode()) for name in names) <= 100_000
    for name in names:
        assert assets.found(name) is not None
    for bad in ("", "..", "../lanes.py", "../static/page.js", "/etc/passwd", "x\0.js", "nothing.js"):
        assert assets.found(bad) is None


def test_the_page_fetches_nothing_from_elsewhere_and_writes_no_markup() -> None:
    for name in ("index.html", "page.js", "page.css", "lanes.js", "lanes.css"):
        text = assets.text(name)
        assert "http://" not in text.replace("http://www.w3.org", "")
        assert "https://" not in text
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "style="):
            assert word not in text, (name, word)
