"""A change of a group's key in three steps, each of which every member must have before the next.

    step 1   the new key is in the file: it opens, and does not seal yet
    step 2   the new key seals, and the old one still opens
    step 3   the old key is gone

The file says in a comment which step was done last, so any host that has it can go on, and a step that is repeated
changes nothing.
"""

import re
from pathlib import Path
from typing import Final

from msgspec import Struct

from doyen.errors import ConfigError
from doyen.net.keys import CLEAR, KEYS_MAX, id_text, new_key, read_keys, write_keys

STEPS: Final = 3
_NOTE: Final = re.compile(
    r"^# Rotation from ([0-9a-f]{8}) to ([0-9a-f]{8}): step ([1-3]) of 3 is done\.$", re.MULTILINE
)


class Rotation(Struct, frozen=True):
    """A rotation of a key file: the ids of its two keys, and the last step that was done."""

    old: str
    new: str
    step: int

    @property
    def note(self) -> str:
        return f"# Rotation from {self.old} to {self.new}: step {self.step} of {STEPS} is done.\n"


def rotation_of(path: Path) -> Rotation | None:
    """Return the last rotation of a key file, if its keys are still those of that rotation."""
    ids = [id_text(key) for key in read_keys(path)]
    found = _NOTE.search(path.read_text(encoding="utf-8"))
    if found is None:
        return None
    rotation = Rotation(found[1], found[2], int(found[3]))
    as_noted = {1: ids[0] == rotation.old and rotation.new in ids, 2: ids[0] == rotation.new and rotation.old in ids}
    return rotation if as_noted.get(rotation.step, ids[0] == rotation.new and rotation.old not in ids) else None


def rotate(path: Path, step: int) -> Rotation:
    """Do that step, unless it is done; raise `ConfigError` where an earlier one is not."""
    keys, now = read_keys(path), rotation_of(path)
    if step == 1 and (now is None or now.step == STEPS):
        return _begin(path, keys)
    if now is None:
        raise ConfigError(f"{step} cannot be: no rotation of {path} is under way; begin with step 1", field="step")
    if step <= now.step:
        return now
    if step > now.step + 1:
        raise ConfigError(f"{step} comes too early: step {now.step + 1} is next", field="step")
    by_id = {id_text(key): key for key in keys}
    new, others = by_id[now.new], [key for key in keys if id_text(key) != now.new]
    done = Rotation(now.old, now.new, step)
    write_keys(path, [new, *(others if step == 2 else [key for key in others if id_text(key) != now.old])], done.note)
    return done


def _begin(path: Path, keys: tuple[bytes, ...]) -> Rotation:
    if CLEAR in keys:
        then = "doyen keys use ID" if keys[0] == CLEAR else "doyen keys remove clear"
        raise ConfigError(f"--file {path} is on its way to the group's first key: first {then} --file {path}")
    if len(keys) >= KEYS_MAX:
        raise ConfigError(f"--file {path} has {len(keys)} keys, the most there can be: doyen keys remove one first")
    added = new_key()
    begun = Rotation(id_text(keys[0]), id_text(added), 1)
    write_keys(path, [*keys, added], begun.note)
    return begun
