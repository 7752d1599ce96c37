"""Plain installs, and hosts that have one, for the tests of pages."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hosts import processes
from plain import Installs, bare, to_install
from plain_hosts import HOW_TO, NAMES, Hosts, HostsFor
from stores import started_once

from doyen_lab.netns import Namespaces

server_of = pytest.fixture(scope="session", name="server_of")(started_once)


@pytest.fixture(scope="session")
def installs(tmp_path_factory: pytest.TempPathFactory) -> Installs:
    return Installs(tmp_path_factory.mktemp("plain"))


@pytest.fixture
def hosts_for(installs: Installs, tmp_path: Path) -> Iterator[HostsFor]:
    """Give hosts that have what a page says to install."""
    with ExitStack() as stack:

        def make(page: str, names: tuple[str, ...] = NAMES) -> Hosts:
            bin_folder = installs.environment(to_install(HOW_TO / page))
            network = stack.enter_context(Namespaces(len(names)))
            return Hosts(network, stack.enter_context(processes(tmp_path, bare(bin_folder))), bin_folder, names)

        yield make
