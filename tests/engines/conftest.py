"""Real stores for the tests of this folder: each is started once, where its package is installed."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec

import pytest

from doyen_lab.servers import Server, missing, running

CLIENTS = {"postgresql": "psycopg", "redis": "redis", "zookeeper": "kazoo"}


@pytest.fixture(scope="session")
def server_of() -> Iterator[Callable[[str], Server]]:
    """Return the server of a kind; a test that cannot have it is skipped, and says which package is missing."""
    started: dict[str, Server] = {}
    with ExitStack() as stack:

        def start(kind: str) -> Server:
            if reason := missing(kind):
                pytest.skip(f"{reason} (make engines installs it)")
            if kind in CLIENTS and find_spec(CLIENTS[kind]) is None:
                pytest.skip(f"{CLIENTS[kind]} is not installed: make setup")
            if kind not in started:
                started[kind] = stack.enter_context(running(kind))
            return started[kind]

        yield start
