"""The pytest plugin: groups in made-up time, and many seeds of one test.  Loaded by pytest's entry point.

doyen_cluster   a factory of clusters; the report of a failing test has its command, and two files to look at
doyen_seed      the test runs once for each seed: `@pytest.mark.doyen_seeds(500)`, or `--doyen-seeds 500`
"""

from collections.abc import Generator, Iterator
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import pytest

from doyen.testing import MakeCluster

if TYPE_CHECKING:
    from doyen.testing.cluster import Cluster

SEEDS = 10  #: The seeds of a test that does not say how many.
_MADE = pytest.StashKey[list["Cluster"]]()
_AGAIN = pytest.StashKey[str]()  # The command that runs a test again.


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("doyen")
    group.addoption("--doyen-seeds", type=int, help="how many seeds each test with doyen_seed runs with")
    group.addoption("--doyen-seed", type=int, help="the only seed that tests with doyen_seed run with")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "doyen_seeds(count): run a test with doyen_seed once for each of so many seeds")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "doyen_seed" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("doyen_seeds")
        only, asked = metafunc.config.getoption("--doyen-seed"), metafunc.config.getoption("--doyen-seeds")
        count = asked if asked is not None else marker.args[0] if marker is not None else SEEDS
        metafunc.parametrize("doyen_seed", range(count) if only is None else [only])


@pytest.fixture
def doyen_cluster(request: pytest.FixtureRequest) -> Iterator[MakeCluster]:
    """Make clusters: `doyen_cluster(5, loss=0.2, seed=7)`; the report of a failing test says how to make them again."""
    from doyen.testing.cluster import Cluster

    made: list[Cluster] = []
    request.node.stash[_MADE] = made
    seed = f" --doyen-seed {request.getfixturevalue('doyen_seed')}" if "doyen_seed" in request.fixturenames else ""
    request.node.stash[_AGAIN] = f"run it again: pytest {quote(request.node.nodeid)}{seed}"

    def make(nodes: Any, **fields: Any) -> Cluster:
        cluster = Cluster(nodes, **fields)
        cluster.film()
        made.append(cluster)
        request.node.add_report_section("setup", "doyen", repr(cluster))
        return cluster

    yield make
    for cluster in made:
        cluster.close()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    outcome = yield
    report: pytest.TestReport = outcome.get_result()
    made = item.stash.get(_MADE, [])
    if not report.failed or not made:
        return
    said = [item.stash[_AGAIN]]
    for number, cluster in enumerate(made):
        picture = _folder(item.config) / f"{_safe(item.name)}{f'-{number}' if number else ''}.svg"
        picture.parent.mkdir(parents=True, exist_ok=True)
        picture.write_text(cluster.lanes(), encoding="utf-8")
        film = picture.with_suffix(".html")
        film.write_text(cluster.html(), encoding="utf-8")
        said += [repr(cluster), f"lane picture: {picture}", f"to look at: {film}"]
    report.sections.append(("doyen", "\n".join(said)))


def _folder(config: pytest.Config) -> Path:
    if config.pluginmanager.hasplugin("cacheprovider") and config.cache is not None:
        return Path(config.cache.mkdir("doyen"))
    return config.rootpath / ".doyen"


def _safe(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)
