"""Real stores for tests, and the snippets of pages that need one."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import pytest

from doyen_lab.servers import Server, missing, running

CLIENTS = {"postgresql": "psycopg", "redis": "redis", "zookeeper": "kazoo"}
SNIPPET = re.compile(r"^```py\n(.*?)^```", re.MULTILINE | re.DOTALL)
ADDRESSES = {
    "postgresql": re.compile(r"postgresql://\S*?db\.internal/\w+"),
    "redis": re.compile(r"redis://\S*?internal"),
}
ServerOf = Callable[[str], Server]


def started_once() -> Iterator[ServerOf]:
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


def snippets(page: Path, server_of: ServerOf) -> Iterator[str]:
    """Yield the `py` blocks of a page, with the addresses of real stores put in."""
    for body in SNIPPET.findall(page.read_text()):
        text = body
        for kind, address in ADDRESSES.items():
            if address.search(text):
                text = address.sub(server_of(kind).url, text)
        assert "internal" not in text
        yield text
