"""One run of a paper's own election, as lanes for the report: the leader crashes, another leads, the first returns."""

from typing import Any, Final

from doyen.testing.cluster import Cluster

NODES: Final = 5
PLAYED: Final[dict[str, dict[str, Any]]] = {
    "le": {"election": "le-s"},
    "madm": {"election": "hybrid", "rank": "score"},
    "ctol": {"election": "preferred"},
    "arb": {"election": "by-key"},
    "pole": {"election": "pole"},
}
CAPTION: Final = "One run of {election}, {nodes} members, seed {seed}: {first} crashes, {next} leads, {first} returns."


def lanes(paper: str, seed: int) -> tuple[str, str] | None:
    """Return the picture of one run, as SVG, and its caption; None for a paper that has no election of its own."""
    given = PLAYED.get(paper)
    if given is None:
        return None
    cluster = Cluster(NODES, seed=seed, **given)
    for number, name in enumerate(cluster.names if given.get("rank") == "score" else ()):
        cluster.set_score(name, number / NODES)
    first = cluster.run_until_leader()
    cluster.run_for("3s")
    cluster.crash(first)
    following = cluster.run_until_leader(other_than=first)
    cluster.run_for("2s")
    cluster.restart(first)
    cluster.run_for("5s")
    words = CAPTION.format(election=given["election"], nodes=NODES, seed=seed, next=following, first=first)
    return cluster.lanes(), words
