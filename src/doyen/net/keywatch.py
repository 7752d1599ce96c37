"""Rotation without a restart: a key file that changed is read again; one that cannot be read changes nothing."""

import asyncio
import logging
import os
from typing import Final

from doyen.errors import ConfigError
from doyen.net.driver import Driver
from doyen.net.keys import Keyring, id_text, load_keyring

log = logging.getLogger("doyen")
LOOK_EVERY_S: Final = 1.0


def watch_key_file(driver: Driver, keyring: Keyring, *, every_s: float = LOOK_EVERY_S) -> None:
    """From now on, until the driver closes.  Everything that holds the ring follows."""
    path = keyring.path
    assert path is not None, "a ring that came from no file has nothing to watch"
    warn_of_clear(driver, keyring)
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
        if fresh.keys != keyring.keys:
            keyring.replace(fresh)
            first, *others = map(id_text, keyring.keys)
            log.warning(
                "%s: keys changed: %s%s",
                driver.host.node,
                "nothing is sealed" if keyring.speaks_clear else f"{first} seals",
                f"; {', '.join(others)} opens too" if others else "",
            )
            warn_of_clear(driver, keyring)

    timer = loop.call_later(every_s, look)
    driver.on_close(lambda: timer.cancel())


def warn_of_clear(driver: Driver, keyring: Keyring) -> None:
    """A group on its way to its first key is no safer than it was before."""
    if keyring.hears_clear:
        log.warning(
            "%s: packets of group %r that are NOT sealed are believed, too: anybody who reaches %s can speak in it "
            "(next: doyen keys %s)",
            driver.host.node,
            driver.codec.group,
            driver.transport.address,
            "use ID, once every member has this file"
            if keyring.speaks_clear
            else "remove clear, once every member seals",
        )


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
