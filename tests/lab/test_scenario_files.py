"""A scenario file does to real processes what it does in made-up time, with the same verdict; or is refused by name."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from doyen.core.clock import ms
from doyen.errors import ConfigError
from doyen.sim.scenario import read_file, simulate
from doyen.sim.scenario.run import configured_faults
from doyen_lab.proving.combination import COMBINATIONS
from doyen_lab.proving.player import check_real, combination_of, edges_of, host_count, link_of
from doyen_lab.proving.runner import prove
from doyen_lab.proving.scenarios import FOLDER, from_file
from doyen_lab.switch import Link

HERE = Path(__file__).parent
OURS = HERE.parent.parent / "scenarios"
PARTIAL = ("partial-star", "partial-chain", "one-way-star")  # A ring owes nothing where links are cut one by one.
CHURN = {"block", "crash", "join", "leave", "partition", "pause"}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.toml")), ids=lambda path: path.stem)
def test_the_labs_own_files_hold_in_made_up_time_by_every_election_they_are_run_with(path: Path) -> None:
    for combination in COMBINATIONS.values():
        if combination.name == "ring" and path.stem in ("loss-30", "partition", "mass-restart", *PARTIAL):
            continue  # docs/how-to/prove-it.md says why.
        scenario, _ = from_file(path, combination)
        assert scenario.hosts == 5
        node = {"election": combination.election, "preset": combination.preset, **combination.tables}
        made_up = simulate(replace(read_file(path), node=node))
        assert made_up.violations == [] and made_up.agreed, combination.name
        assert all(made_up.faults[fault] for fault in scenario.faults)


@pytest.mark.soak
@pytest.mark.alone
@pytest.mark.root
def test_the_same_file_befalls_the_same_and_has_the_same_verdict() -> None:
    path = HERE / "rough.toml"
    made_up = simulate(read_file(path))
    scenario, combination = from_file(path)
    real = asyncio.run(prove(scenario, combination))
    assert (real.violations, made_up.violations) == ((), [])
    assert (real.promise, real.scenario, real.election) == ("quorum", "rough", "pole")
    assert {name: real.faults[name] for name in CHURN} == {name: made_up.faults[name] for name in CHURN}
    assert all(real.faults[name] > 0 for name in ("loss", "duplicate", "reorder", "packets refused"))
    assert real.together_s == 0 and real.checked["successions"]
    assert len(real.hosts) == 6  # One more than at the start.


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("storm", ["clocks.offset_max", "clocks.drift_max", "network.corrupt_prob", "run.disk_delay", "churn: clock"]),
        ("storm", ["churn: clog", "churn: slow"]),
        ("wake_up", ["clocks.offset_max"]),
        ("radio", ["network.delay.model", "network.loss.model", "topology.shape"]),
        ("receipt", ["group.protocol"]),
        ("corruption", ["churn: corrupt"]),
    ],
)
def test_what_the_real_world_cannot_do_is_refused_by_its_name(name: str, refused: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"run it by doyen sim run") as found:
        check_real(read_file(OURS / f"{name}.toml"), "it")
    assert all(word in str(found.value) for word in refused)


def test_a_file_that_says_how_to_elect_takes_no_other_election(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="so --election cannot"):
        from_file(HERE / "rough.toml", COMBINATIONS["hybrid"])


def test_a_file_becomes_a_network_and_what_its_nodes_are_told(tmp_path: Path) -> None:
    rough = read_file(HERE / "rough.toml")
    assert link_of(rough.network) == Link(delay=ms(1), jitter=ms(4))
    assert link_of(rough.network, faults=True).reorder_by == ms(50)
    assert host_count(rough) == 6 and edges_of(rough) is None
    told = combination_of(rough).fields(["a", "b", "c"])
    assert (told["election"], told["voters"], told["pole"]["lease"]) == ("pole", ["a", "b", "c"], "1s")
    lan = combination_of(read_file(OURS / "lan.toml"))
    assert lan.multicast and lan.fields(["a"])["announce"]["announce_interval"] == "200ms"
    path = tmp_path / "grid.toml"
    path.write_text('[group]\nnodes = 4\n[topology]\nshape = "grid"\n[network.delay]\nmean = "1ms"\n')
    assert edges_of(read_file(path)) == [(0, 1), (0, 2), (1, 3), (2, 3)]


@pytest.mark.alone
@pytest.mark.root
def test_the_command_takes_a_file_beside_names(tmp_path: Path) -> None:
    path = tmp_path / "short.toml"
    text = '# The leader crashes.\n[group]\nnodes = 4\n[topology]\nshape = "grid"\n'
    text += '[group.election]\nlisten_timeout = "600ms"\nannounce_interval = "200ms"\nsuppress_interval = "150ms"\n'
    text += '[network.delay]\nmean = "1ms"\n'
    text += '[[churn.events]]\ndo = "crash"\nwho = ["leader"]\nat = "1s"\nlasting = "2s"\n'
    path.write_text(text + '[run]\nlength = "15s"\n')
    done = subprocess.run(
        [sys.executable, "-m", "doyen", "lab", "run", str(path), "--json"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)["results"]
    assert (result["scenario"], result["election"], result["faults"]["crash"]) == ("short", "announce", 1)
    assert set(configured_faults(read_file(path))) == {"crash"}
