"""Rotation without a restart: a key file that changed is read again; one that cannot be read changes nothing.

It is read once it has stood still from one look to the next, for it may be half written, and cut at the end of a line
it would be a file with fewer keys.  What could not be read is tried again at every look: rights may have been mended.
"""

import asyncio
import logging
from pathlib import Path
from typing import Final

from doyen.errors import ConfigError
from doyen.net.discovery import stamp
from doyen.net.driver import Driver
from doyen.net.keys import Keyring, exposure, id_text, load_keyring

log = logging.getLogger("doyen")
LOOK_EVERY_S: Final = 1.0


def watch_key_file(driver: Driver, keyring: Keyring, *, every_s: float = LOOK_EVERY_S) -> None:
    """Read a key file again whenever it changes, until the driver closes, for everybody who holds the ring."""
    path = keyring.path
    assert path is not None, "a ring that came from no file has nothing to watch"
    warn_of_exposure(driver, path)
    warn_of_clear(driver, keyring)
    loop = asyncio.get_running_loop()
    glimpsed = stamp(path)
    read: tuple[int, int, int] | None = (0, 0, 0)  # The file may have changed since the ring was made of it.
    timer: asyncio.TimerHandle

    def look() -> None:
        nonlocal glimpsed, read, timer
        timer = loop.call_later(every_s, look)
        found = stamp(path)
        stands, glimpsed = found == glimpsed, found
        if not stands or found == read:
            return
        try:
            fresh = load_keyring(path)
        except ConfigError as error:
            driver.complain("key file", f"{error}; going on with the keys read before")
            return
        read = found
        if fresh.keys != keyring.keys:
            keyring.replace(fresh)
            first, *others = map(id_text, keyring.keys)
            log.warning(
                "%s: keys changed: %s%s",
                driver.host.node,
                "nothing is sealed" if keyring.speaks_clear else f"{first} seals",
                f"; {', '.join(others)} opens too" if others else "",
            )
            warn_of_exposure(driver, path)
            warn_of_clear(driver, keyring)

    timer = loop.call_later(every_s, look)
    driver.on_close(lambda: timer.cancel())


def warn_of_exposure(driver: Driver, path: Path) -> None:
    wrong = exposure(path)
    if wrong:
        log.warning("%s: %s", driver.host.node, wrong)


def warn_of_clear(driver: Driver, keyring: Keyring) -> None:
    """Warn that a group on its way to its first key is no safer than it was before."""
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
