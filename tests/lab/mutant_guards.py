"""Guards of commands, broken on purpose: the sound one, loaded by its path as it is started, and one thing changed."""

import importlib.util
import os
import sys
from typing import Any


def without_the_kernels_word(guard: Any) -> None:
    sound = guard.prctl
    guard.prctl = lambda option, value: None if option == guard.PR_SET_PDEATHSIG else sound(option, value)
    guard.end_descendants = lambda: None


def follows_the_group_only(guard: Any) -> None:
    guard.adopt_orphans = lambda: None
    guard.descendants = lambda pid: []


if __name__ == "__main__":
    spec = importlib.util.spec_from_file_location("guard", os.environ["DOYEN_SOUND_GUARD"])
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    globals()[os.environ["DOYEN_MUTANT"]](made)
    sys.exit(made.main([int(text) for text in sys.argv[1:7]], sys.argv[7:]))
