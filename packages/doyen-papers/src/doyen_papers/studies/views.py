"""Views made up for a run: complete ones, or weak ones where each member is missing from at most c."""

from collections.abc import Iterable, Mapping

from doyen.core.ids import NodeId
from doyen.core.view import Member, MembershipView, ViewChanged, ViewEditor
from doyen.sim.engine import Simulation
from doyen.sim.node import SimNode


class ToldViews:
    """The views of all nodes, written from outside and told as facts."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self._editors: dict[NodeId, ViewEditor] = {}

    def view(self, node: NodeId) -> MembershipView:
        return self._editor(node).view

    def set(self, node: SimNode, members: Iterable[Member]) -> None:
        """Put these into the node's view, and notify it of what changed."""
        editor = self._editor(node.name)
        changed = tuple(member.node for member in members if editor.put(member))
        if changed:
            self.tell(node, changed)

    def replay(
        self, node: SimNode, members: Mapping[NodeId, Member], changed: tuple[NodeId, ...], gone: tuple[NodeId, ...]
    ) -> None:
        """Do what `set` and `drop` did in another run from the same views: all of these differ from what is there."""
        editor = self._editor(node.name)
        if changed:
            editor.put_new(members)
            self.tell(node, changed)
        if gone:
            for name in gone:
                editor.drop(name)
            self.tell(node, gone)

    def drop(self, node: SimNode, gone: Iterable[NodeId]) -> None:
        editor = self._editor(node.name)
        changed = tuple(name for name in gone if name in editor.view)
        for name in changed:
            editor.drop(name)
        if changed:
            self.tell(node, changed)

    def tell(self, node: SimNode, changed: tuple[NodeId, ...]) -> None:
        self.sim.tell(node, ViewChanged(self.view(node.name), changed))

    def complete(self, nodes: Iterable[SimNode], counts: Mapping[NodeId, Mapping[NodeId, int]] | None = None) -> None:
        """Let everybody know everybody; `counts` says how often each suspected each."""
        everybody = list(nodes)
        for node in everybody:
            suspected = (counts or {}).get(node.name, {})
            self.set(node, [Member(node=o.name, suspicion_count=suspected.get(o.name, 0)) for o in everybody])

    def _editor(self, node: NodeId) -> ViewEditor:
        editor = self._editors.get(node)
        if editor is None:
            editor = self._editors[node] = ViewEditor()
        return editor
