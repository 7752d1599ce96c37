"""Real stores for the tests of this folder: each is started once, where its package is installed."""

import pytest
from stores import started_once

server_of = pytest.fixture(scope="session", name="server_of")(started_once)
