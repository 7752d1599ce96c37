"""The links by which nodes hear each other, which may carry one way only, and what hangs together by them.

A link between two is *two-way* when each hears the other.  Reach need not be transitive: in a star everybody hears the
hub, and nobody else.  A voter is *quorum-connected* when it has two-way links to a majority, itself included: only such
a one can lead by a quorum, and any two of them are in one component, for any two majorities meet.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from itertools import pairwise
from typing import Final, Generic, Literal, TypeVar

N = TypeVar("N", bound=Hashable)
Pair = tuple[N, N]
Shape = Literal["star", "chain", "one-way-star", "graph"]
SHAPES: Final[tuple[Shape, ...]] = ("star", "chain", "one-way-star", "graph")


class Links(Generic[N]):
    """The links between some nodes at one instant."""

    def __init__(self, nodes: Iterable[N], reaches: Callable[[N, N], bool]) -> None:
        self.nodes, self.reaches = tuple(nodes), reaches

    def two_way(self, a: N, b: N) -> bool:
        return self.reaches(a, b) and self.reaches(b, a)

    def linked(self, node: N, among: Iterable[N] | None = None) -> list[N]:
        """Return the nodes that have a two-way link to this one, and the node itself, in their usual order."""
        return [other for other in among or self.nodes if other == node or self.two_way(node, other)]

    def components(self) -> list[list[N]]:
        """Return the nodes that hang together by two-way links, over any number of them."""
        left, found = dict.fromkeys(self.nodes), []
        while left:
            first = next(iter(left))
            del left[first]
            component = {first: None}
            for node in (queue := [first]):
                near = [other for other in left if self.two_way(node, other)]
                for other in near:
                    del left[other]
                    component[other] = None
                queue += near
            found.append([node for node in self.nodes if node in component])
        return found

    def is_close(self, part: Collection[N]) -> bool:
        """Return whether one relay is enough among them, as for pings, and no link leaves them one way."""
        near = {node: set(self.linked(node, part)) for node in part}
        outside = [node for node in self.nodes if node not in near]
        crosses = any(self.reaches(a, b) or self.reaches(b, a) for a in part for b in outside)
        return not crosses and all(near[a] & near[b] for a in part for b in part)

    def quorum_connected(self, voters: Collection[N], is_majority: Callable[[Collection[N]], bool]) -> list[N]:
        """Return the voters that have two-way links to a majority of the voters, themselves included."""
        there = [node for node in self.nodes if node in voters]
        return [node for node in there if is_majority(self.linked(node, there))]


def cuts_of(shape: Shape, nodes: Sequence[N], hub: N | None, draw: Callable[[], float]) -> list[Pair[N]]:
    """Return the pairs of which the first must not reach the second, so that the links have that shape.

    star            everybody and the hub hear each other, and no other two do
    chain           each hears its neighbours in a line with the hub in the middle
    one-way-star    everybody and the hub hear each other; of two others the later is heard by the earlier, not the
                    reverse, so that the last of them is heard by all and hears the hub alone
    graph           every pair draws whether it is linked, linked one way, or cut
    """
    pairs = [(a, b) for a in nodes for b in nodes if a != b]
    if shape == "graph":
        keep = 0.1 + 0.8 * draw()
        cut: list[Pair[N]] = []
        for i, a in enumerate(nodes):
            for b in nodes[:i]:
                if draw() >= keep:
                    which = int(3.0 * draw())
                    cut += [[(a, b)], [(b, a)], [(a, b), (b, a)]][which]
        return cut
    others = [node for node in nodes if node != hub]
    if shape == "star":
        return [(a, b) for a, b in pairs if hub not in (a, b)]
    if shape == "one-way-star":
        place = {node: i for i, node in enumerate(others)}
        return [(a, b) for a, b in pairs if hub not in (a, b) and place[a] < place[b]]
    middle = len(others) // 2
    near = set(pairwise([*others[:middle], *([] if hub is None else [hub]), *others[middle:]]))
    return [(a, b) for a, b in pairs if (a, b) not in near and (b, a) not in near]
