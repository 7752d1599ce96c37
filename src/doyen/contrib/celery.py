"""One beat of many: start `celery beat` on every host, and tasks are sent by the leader alone.

    app.conf.doyen = {"group": "beat", "seeds": ["10.0.0.2"]}         # What doyen.join takes.

    celery --app tasks beat --scheduler doyen.contrib.celery:LeaderScheduler --schedule /var/lib/beat/schedule

The others keep the same schedule and send nothing, so a new leader goes on where the last one was: what had been sent
is not sent again.  While nobody leads nothing is due anywhere, and the next leader sends what was due in between.
"""

import logging
from typing import Any, Final

from celery.beat import PersistentScheduler, ScheduleEntry

import doyen
from doyen.errors import ConfigError

log = logging.getLogger("doyen")

SETTING: Final = "doyen"
PAUSE_S: Final = 0.2  # Between two looks, while nobody leads.


class LeaderScheduler(PersistentScheduler):
    """Beat's own scheduler, which sends tasks only while this process leads."""

    _node: doyen.sync.Node | None = None

    def tick(self, *arguments: Any, **named: Any) -> float:
        """Send a task that is due, or pass over it where another process leads; return how long to wait."""
        node = self._joined()
        if node.leader is None:
            return PAUSE_S
        if node.leader.name == node.name and not node.is_leader:
            return PAUSE_S  # Named, and not to act yet.
        pause_s: float = super().tick(*arguments, **named)
        return pause_s

    def apply_entry(self, entry: ScheduleEntry, producer: Any = None) -> None:
        if self._joined().is_leader:
            super().apply_entry(entry, producer)
        else:
            log.debug("%s is due, and left to the leader", entry.name)

    def close(self) -> None:
        node, self._node = self._node, None
        try:
            super().close()
        finally:
            if node is not None:
                node.__exit__()

    def _joined(self) -> doyen.sync.Node:
        """Return this process's node; it joins when beat first ticks, for beat may fork before that."""
        if self._node is None:
            given = dict(self.app.conf.get(SETTING) or {})
            if "group" not in given:
                raise ConfigError('is missing: app.conf.doyen = {"group": "beat", "seeds": […]}', field="group")
            self._node = doyen.sync.join(**{"leave_on_sigterm": False, **given}).__enter__()
        return self._node
