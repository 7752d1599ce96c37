"""README's program, three times, has one leader; when that is killed, another takes over; Ctrl-C ends it in order."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text()
PATIENCE_S = 40.0


class Copy:
    """One process of README's program, and when it wrote which line."""

    def __init__(self, file: Path, place: Path) -> None:
        env = os.environ | {"DOYEN_RUNTIME_DIR": str(place)}
        command = [sys.executable, "-u", str(file)]
        self.process = subprocess.Popen(
            command,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # A shell's background job ignores it.
        )
        self.works: list[float] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        with self.process.stdout as lines:
            for line in lines:
                if "works" in line:
                    self.works.append(time.monotonic())

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stderr
        self.process.stderr.close()


def until_one_works(copies: list[Copy]) -> Copy:
    deadline = time.monotonic() + PATIENCE_S
    while not (working := [copy for copy in copies if copy.works]):
        assert time.monotonic() < deadline, "nobody works"
        time.sleep(0.02)
    return working[0]


@pytest.mark.live
def test_the_program_started_three_times_has_one_leader_and_the_next_when_that_is_killed(tmp_path: Path) -> None:
    found = re.search(r"^```python title=\"leader.py\"\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    assert found
    file = tmp_path / "leader.py"
    file.write_text(found.group(1))
    copies = [Copy(file, tmp_path / "run") for _ in range(3)]
    try:
        first = until_one_works(copies)
        time.sleep(1.5)
        assert [copy for copy in copies if copy.works] == [first]
        first.kill()
        others = [copy for copy in copies if copy is not first]
        second = until_one_works(others)
        time.sleep(1.0)
        assert [copy for copy in others if copy.works] == [second]
        second.process.send_signal(signal.SIGINT)
        assert second.process.wait(10) == 0
        assert second.process.stderr and "Traceback" not in second.process.stderr.read()
    finally:
        for copy in copies:
            copy.kill()
