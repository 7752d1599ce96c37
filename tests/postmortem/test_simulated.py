"""A simulation gives the same picture as recordings, and is not changed by being watched."""

from collections.abc import Callable
from pathlib import Path

import pytest

from doyen.cli import main
from doyen.core.config import load
from doyen.postmortem.simulated import Simulated
from doyen.sim.scenario import Scenario, simulate
from doyen.sim.scenario.defaults import completed
from doyen.testing import Cluster


@pytest.mark.parametrize("election", ["hybrid", "pole", "announce"])
def test_watching_changes_nothing(election: str) -> None:
    scenario = load(Scenario, completed({"node": {"election": election}}, "", {}, usual_faults=True, patient=True), "")
    made: list[Simulated] = []
    plain = simulate(scenario, 3)
    watched = simulate(scenario, 3, watch=lambda world: made.append(Simulated(world)))
    assert (watched.trace_hash, watched.events) == (plain.trace_hash, plain.events)
    found = made[0].incident("seed 3")
    acted = [span for span in found.lanes.spans if span.kind == "leads"]
    # A new term is a bar of its own, but not that of a leader which was named tentatively and never acted.
    assert len(acted) >= (2 if election == "hybrid" else watched.leader_changes) > 1 and found.lanes.epoch is None
    assert {span.lane for span in acted if span.end == found.lanes.end} == {*watched.acting}
    assert {said.lane for said in found.said} == {lane.id for lane in found.lanes.lanes}


def together_s(cluster: Cluster, found: list[float]) -> Callable[[], None]:
    """Add up in `found` for how long two that are not stopped may act; call the result after a deed between events."""
    last = [0.0, 0]

    def look(now: int = 0) -> None:
        now = cluster.sim.now
        if last[1] > 1:
            found[0] += now / 1e9 - last[0]
        acting = [node for node in cluster.sim.up() if node.state != "paused" and cluster.world.acts(node)]
        last[:] = [now / 1e9, len(acting)]

    cluster.sim.checks.append(look)
    return look


@pytest.mark.parametrize("election", ["gossip", "quorum"])
def test_the_verdict_is_the_simulators_own(election: str) -> None:
    cluster, truth = Cluster(5, election=election, seed=4), [0.0]
    film = Simulated(cluster.world)
    together_s(cluster, truth)
    first = cluster.run_until_leader()
    cluster.partition({first}, rest=True)
    cluster.run_for("5s")
    cluster.heal()
    cluster.run_for("5s")
    found = film.incident("run")
    assert found.verdicts[0].together_s == pytest.approx(truth[0], abs=1e-6)
    assert (truth[0] > 1) == (election == "gossip")
    cuts = [window for window in found.lanes.windows if window.kind == "cut"]
    assert len(cuts) == 1 and first in cuts[0].label and cuts[0].end == pytest.approx(cuts[0].begin + 5)


def test_a_reign_goes_on_after_a_pause_that_nobody_noticed() -> None:
    cluster, truth = Cluster(5, election="gossip", seed=4), [0.0]
    film = Simulated(cluster.world)
    look = together_s(cluster, truth)
    first = cluster.run_until_leader()
    cluster.partition({first}, rest=True)
    cluster.run_for("5s")
    cluster.pause(first)
    look()
    cluster.run_for("100ms")
    cluster.resume(first)
    look()
    resumed_s = cluster.sim.now / 1e9
    cluster.run_for("5s")
    cluster.heal()
    cluster.run_for("5s")
    found = film.incident("run")
    assert found.verdicts[0].together_s == pytest.approx(truth[0], abs=1e-6)
    reigns = [span for span in found.lanes.spans if span.kind == "leads" and span.lane == first]
    assert any(span.begin == pytest.approx(resumed_s) for span in reigns)


def test_sim_run_writes_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.html"
    with pytest.raises(SystemExit) as ended:
        main(["sim", "run", "--election", "quorum", "--nodes", "3", "--seed", "2", "--html", str(path)])
    assert ended.value.code == 0
    assert "two acted at once for 0.00 s" in path.read_text()
    capsys.readouterr()
