"""Runs that are kept in the report's folder, so that a run of hours that was stopped goes on where it was."""

from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

import msgspec

Row = dict[str, float | None]


class Kept:
    """Makes each run once: its row is appended to a file as soon as it is known, and read from there the next time.

    `depends_on` names all that the rows depend on besides the seed: the file of another text is another one.
    """

    def __init__(self, folder: Path, name: str, depends_on: str, once: Callable[[int], Row]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        key = blake2b(depends_on.encode(), digest_size=8).hexdigest()
        self.path, self._once = folder / f"{name}-{key}.jsonl", once
        self._rows = _read(self.path)

    def __call__(self, seed: int) -> Row:
        row = self._rows.get(seed)
        if row is None:
            row = self._once(seed)
            with self.path.open("ab") as file:  # In one piece: several processes may write.
                file.write(b"\n" + msgspec.json.encode((seed, row)))
        return row


def _read(path: Path) -> dict[int, Row]:
    rows = {}
    for line in path.read_bytes().splitlines() if path.exists() else ():
        try:
            seed, row = msgspec.json.decode(line, type=tuple[int, Row])
        except msgspec.DecodeError:
            continue  # The first line is empty, and one that a killed process wrote may be torn.
        rows[seed] = row
    return rows
