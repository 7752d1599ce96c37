"""What a running node has besides its machines: a seal on its packets, and a hold on its leader."""

from pathlib import Path

from doyen.agent.config import NodeConfig
from doyen.net.driver import Driver
from doyen.net.sealed import Seal


def seal_of(config: NodeConfig) -> Seal | None:
    """Before the driver is made; PyNaCl is loaded only where there is a key."""
    if not config.key_file:
        return None
    from doyen.net.keys import load_keyring

    return Seal(load_keyring(Path(config.key_file)), config.group)


async def attach(driver: Driver, config: NodeConfig) -> None:
    """Once the driver runs; all of it ends with the driver."""
    keyring = None if driver.seal is None else driver.seal.keyring
    if keyring is not None and keyring.path is not None:
        from doyen.net.keywatch import watch_key_file

        watch_key_file(driver, keyring)
    if config.link:
        from doyen.net.leaderlink import LeaderLink

        await LeaderLink.attach(driver, keyring=keyring)
