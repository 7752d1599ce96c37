"""Makes one incident of recordings: each is run in a process of its own, side by side."""

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final

from doyen.errors import ConfigError
from doyen.net.recording.reader import segments
from doyen.node.registry import election_names, membership_names
from doyen.postmortem.incident import incident_of
from doyen.postmortem.picture import Incident
from doyen.postmortem.recorded import Flight, fly, joined

FILES_MAX: Final = 64


def postmortem(paths: Sequence[Path], title: str = "", what_if: Sequence[str] = ()) -> Incident:
    """Return what these recordings tell, or would have told with other settings, each FIELD=VALUE.

    Raises `ConfigError` or `TransportError` for files and settings that cannot be used.
    """
    if not what_if:
        return incident_of(flights_of(paths), title)
    from doyen.postmortem import whatif

    whatif.change_of(what_if)  # Before anything is read: a setting may be misspelt.
    return whatif.what_if(flights_of(paths), what_if, title)


def flights_of(paths: Sequence[Path]) -> list[Flight]:
    """Return what each incarnation of each node did."""
    if len(paths) > FILES_MAX:
        raise ConfigError(f"{len(paths)} recordings are too many: give at most {FILES_MAX}")
    for path in paths:
        if not path.exists():
            raise ConfigError(f"FILE {path} is not there: give the --record of an agent")
    election_names(), membership_names()  # Before a file is read: nothing is searched for because it says so.
    parts = [segment for path in paths for segment in segments(path)]
    workers = min(len(parts), os.cpu_count() or 1)
    if workers == 1:
        return joined(map(fly, parts))
    with ProcessPoolExecutor(workers) as pool:
        return joined(pool.map(fly, sorted(parts, key=lambda part: -part.stat().st_size)))
