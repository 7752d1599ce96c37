"""Guards of commands, broken on purpose: the sound one, loaded by its path as it is started, and one thing changed."""

import importlib.util
import os
import sys
from types import SimpleNamespace
from typing import Any


def without_the_kernels_word(guard: Any) -> None:
    sound = guard.prctl
    guard.prctl = lambda option, value: None if option == guard.PR_SET_PDEATHSIG else sound(option, value)
    guard.end_descendants = lambda: None


def follows_the_group_only(guard: Any) -> None:
    guard.adopt_orphans = lambda: None
    guard.descendants = lambda pid: []


def sends_beside_the_runner(guard: Any) -> None:
    """The shadow takes the end of the command for the end of everything."""
    will = guard.load_will()
    will.select = SimpleNamespace(poll=lambda: SimpleNamespace(register=print, poll=lambda: None), POLLIN=1)


def sends_beside_the_command(guard: Any) -> None:
    """The shadow takes the end of the runner and of the guard for the end of everything."""
    end, will = guard.end_descendants, guard.load_will()
    send = will.send_once_gone
    guard.end_descendants = lambda: (send(int(sys.argv[7]), int(sys.argv[8])), end())
    will.send_once_gone = lambda file, process: None


if __name__ == "__main__":
    spec = importlib.util.spec_from_file_location("guard", os.environ["DOYEN_SOUND_GUARD"])
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    globals()[os.environ["DOYEN_MUTANT"]](made)
    numbers = made.NUMBERS
    sys.exit(made.main([int(text) for text in sys.argv[1 : 1 + numbers]], sys.argv[1 + numbers :]))
