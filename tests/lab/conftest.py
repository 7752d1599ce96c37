"""What lab tests share: reasons to skip."""

import os
import shutil

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = [] if os.geteuid() == 0 else ["root"]
    missing += [] if shutil.which("ip") else ["the command `ip` (iproute2)"]
    for item in items:
        if missing and item.get_closest_marker("root"):
            item.add_marker(pytest.mark.skip(reason=f"network namespaces need {' and '.join(missing)}"))
