"""What a command of `doyen run` finds of the last leader's, and hands to the next: `DOYEN_BATON`, `doyen pass-on`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from doyen.runner.ward import environment

DOYEN = f"{sys.executable} -m doyen"


def run(folder: Path, script: str) -> "subprocess.CompletedProcess[str]":
    """Run a command under the one voter of a quorum, which keeps its state there."""
    flags = "--group rows --name a --election quorum --voters a --newcomer --preset local --pole-lease 1.5s"
    return subprocess.run(
        [*DOYEN.split(), "run", *flags.split(), "--state", str(folder / "state"), "--", "sh", "-c", script],
        env=os.environ | {"DOYEN_RUNTIME_DIR": str(folder / "run"), "DOYEN_BATON": "of an outer runner"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.live
def test_the_next_command_finds_what_the_last_one_handed_on(tmp_path: Path) -> None:
    first = run(tmp_path, f'echo "<$DOYEN_BATON>"; {DOYEN} pass-on 1 && printf "row 7" | {DOYEN} pass-on -')
    assert (first.returncode, first.stdout) == (0, "<>\n"), first.stderr
    late, long = f"{DOYEN} pass-on --term 1 x", f"head -c 513 /dev/zero | {DOYEN} pass-on -"
    second = run(tmp_path, f'echo "<$DOYEN_BATON>"; {late}; echo $?; {long}; echo $?')
    assert second.stdout == "<row 7>\n1\n1\n", second.stderr
    assert "a later term has begun" in second.stderr
    assert "at most 512 bytes, not 513" in second.stderr
    assert run(tmp_path, 'echo "<$DOYEN_BATON>"').stdout == "<row 7>\n"


def test_a_command_gets_the_baton_as_it_is_unless_no_variable_can_hold_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOYEN_BATON", "of an outer runner")
    assert os.fsencode(environment(3, b"row \xff 7")["DOYEN_BATON"]) == b"row \xff 7"
    assert environment(3, b"")["DOYEN_BATON"] == ""
    assert "DOYEN_BATON" not in environment(3, b"\0") and "DOYEN_BATON" not in environment(3)
