"""The tests of this folder share its modules."""

import sys
from pathlib import Path

import pytest
from plain import Installs

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def installs(tmp_path_factory: pytest.TempPathFactory) -> Installs:
    return Installs(tmp_path_factory.mktemp("plain"))
