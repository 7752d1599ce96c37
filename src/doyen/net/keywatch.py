"""Rotation without a restart: a key file that changed is read again; one that cannot be read changes nothing."""

import asyncio
import logging
import os
from typing import Final

from doyen.errors import ConfigError
from doyen.net.driver import Driver
from doyen.net.keys import Keyring, load_keyring

log = logging.getLogger("doyen")
LOOK_EVERY_S: Final = 1.0


def watch_key_file(driver: Driver, keyring: Keyring, *, every_s: float = LOOK_EVERY_S) -> None:
    """From now on, until the driver closes.  Everything that holds the ring follows."""
    path = keyring.path
    assert path is not None, "a ring that came from no file has nothing to watch"
    loop = asyncio.get_running_loop()
    seen = _stamp(str(path))
    timer: asyncio.TimerHandle

    def look() -> None:
        nonlocal seen, timer
        timer = loop.call_later(every_s, look)
        found = _stamp(str(path))
        if found == seen:
            return
        seen = found
        try:
            fresh = load_keyring(path)
        except ConfigError as error:
            driver.complain("key file", f"{error}; going on with the keys read before")
            return
        if (fresh.primary, fresh.by_id) != (keyring.primary, keyring.by_id):
            keyring.replace(fresh)
            others = [key.hex() for key in keyring.by_id if key != keyring.primary]
            log.warning(
                "%s: keys changed: %s seals%s",
                driver.host.node,
                keyring.primary.hex(),
                f"; {', '.join(others)} opens too" if others else "",
            )

    timer = loop.call_later(every_s, look)
    driver.on_close(lambda: timer.cancel())


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
