"""Links of each member with the next ones in the order of names."""

from doyen.core import Emit, Member, NodeId
from doyen.core.ids import Incarnation
from doyen.core.link import LinkChanged
from doyen.core.view import Status, ViewChanged, ViewEditor
from doyen.membership.neighbours import Neighbours, neighbours
from doyen.testing import RecordingOut

N = [NodeId(f"n{i}") for i in range(12)]


def test_each_has_the_next_on_either_side_round_the_ring_and_names_count_as_numbers() -> None:
    assert neighbours(set(N), N[0], 1) == {N[11], N[1]}
    assert neighbours(set(N), N[9], 2) == {N[7], N[8], N[10], N[11]}
    assert neighbours({N[1]}, N[0], 3) == {N[1]} and neighbours(set(), N[0], 3) == frozenset()
    for one in N:
        for other in neighbours(set(N), one, 2):
            assert one in neighbours(set(N), other, 2)  # Both ends know of a link.


def test_links_follow_the_view_and_what_is_lost_is_told_before_what_is_won() -> None:
    out, editor = RecordingOut(), ViewEditor()
    machine = Neighbours(N[0], out, each_side=1)
    for node in N[:4]:
        editor.put(Member(node=node, incarnation=Incarnation(1)))
    machine.on_view_changed(ViewChanged(editor.view, tuple(N[:4])), 0)
    assert out.take() == [Emit(LinkChanged(N[1], True)), Emit(LinkChanged(N[3], True))]
    editor.put(Member(node=N[1], incarnation=Incarnation(1), status=Status.FAILED))
    machine.on_view_changed(ViewChanged(editor.view, (N[1],)), 1)
    assert out.take() == [Emit(LinkChanged(N[1], False)), Emit(LinkChanged(N[2], True))]
    machine.on_view_changed(ViewChanged(editor.view, (N[1],)), 2)
    assert out.take() == [] and machine.links == {N[2], N[3]}
