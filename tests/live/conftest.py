"""What live tests share: short timers, and reasons to skip."""

import os
import shutil

import pytest

from doyen.core.clock import ms
from doyen.election.announce.config import AnnounceConfig


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = []
    if os.geteuid() != 0:
        missing.append("root")
    if shutil.which("ip") is None:
        missing.append("the command `ip` (iproute2)")
    for item in items:
        if missing and item.get_closest_marker("root"):
            item.add_marker(pytest.mark.skip(reason=f"network namespaces need {' and '.join(missing)}"))


@pytest.fixture
def quick() -> AnnounceConfig:
    """Timers of the takeover figure."""
    return AnnounceConfig(announce_interval=ms(200), listen_timeout=ms(600), suppress_interval=ms(150), group_size=3)
