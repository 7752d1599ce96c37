from bully.machine import Bully, BullyConfig, Coordinator, Elect, PatienceEnds

from doyen.core import Member, NodeId, ViewChanged
from doyen.core.view import ViewEditor
from doyen.testing import Cluster, RecordingOut


def test_whoever_hears_no_greater_one_leads() -> None:
    out, editor = RecordingOut(), ViewEditor()
    for name in ("a", "b", "c"):
        editor.put(Member(node=NodeId(name)))
    machine = Bully(NodeId("b"), BullyConfig(), out)
    machine.on_view_changed(ViewChanged(editor.view, (NodeId("a"), NodeId("c"))), 0)
    assert [effect.message for effect in out.take()[:-1]] == [Elect()]
    machine.on_timer(PatienceEnds(2), 1)
    assert machine.named == "b" and Coordinator(1) in [getattr(effect, "message", None) for effect in out.take()]


def test_a_group_elects_its_greatest_and_survives_its_loss() -> None:
    cluster = Cluster(5, election="bully", loss=0.1, seed=7, preset="local")
    assert cluster.run_until_leader() == "n4"
    cluster.crash("n4")
    assert cluster.run_until_leader(other_than="n4") == "n3"
    cluster.restart("n4")
    cluster.run_until(lambda: cluster.leader() == "n4")
