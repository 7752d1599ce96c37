"""Rules that keep a lock in a store, as their own code or thread has them."""

import asyncio
from contextlib import suppress
from typing import ClassVar

from doyen_lab.museum.rules import Rule


class RenewsWithoutLooking(Rule):
    """Extend the lock's expiry without asking who holds it now."""

    async def run(self) -> None:
        await self.takes(10.0)
        with self.leading():
            while True:
                await asyncio.sleep(5.0)
                with suppress(OSError):
                    await self.ask("touch", 10.0)


class GoesOnWithoutTheStore(Rule):
    """Extend one's own lock; where the store does not answer, send what is due and try again later."""

    async def run(self) -> None:
        while True:
            await self.takes(60.0, 10.0)
            with self.leading():
                while True:
                    await asyncio.sleep(10.0)
                    with suppress(OSError):
                        if not (await self.ask("extend", 60.0)).done:
                            break


class StartsAfterAnError(Rule):
    """Wait for the lock, but begin as if it were held when that fails with an error."""

    async def run(self) -> None:
        with suppress(OSError):
            while not (await self.ask("take", 25.0)).done:
                await asyncio.sleep(1.0)
        with self.leading():
            while True:
                await asyncio.sleep(5.0)
                with suppress(OSError):
                    await self.ask("extend", 25.0)


class OutlivesItsOwner(Rule):
    """Take a lock that expires late, so that a slow holder keeps it; each process is a new owner."""

    ttl_s: ClassVar[float] = 1500.0

    async def run(self) -> None:
        owner = f"{self.name} {asyncio.get_running_loop().time()}"
        await self.takes(self.ttl_s, 5.0, owner=owner)
        with self.leading():
            while True:
                await asyncio.sleep(self.ttl_s / 5)
                with suppress(OSError):
                    if not (await self.ask("extend", self.ttl_s, owner=owner)).done:
                        return


class SessionOfAMinute(OutlivesItsOwner):
    """Keep leadership in a session with a lease of 60 s."""

    ttl_s = 60.0


class WorksOnAfterItsLockExpired(Rule):
    """Take the lock, have a watchdog extend it, and do a job of a minute; nothing looks again before the job ends."""

    async def run(self) -> None:
        while True:
            await self.takes(30.0)
            with self.leading():
                watchdog = asyncio.create_task(self._extend())
                await asyncio.sleep(60.0)
                watchdog.cancel()
            await asyncio.sleep(5.0)

    async def _extend(self) -> None:
        while True:
            await asyncio.sleep(10.0)
            with suppress(OSError):
                if not (await self.ask("extend", 30.0)).done:
                    return  # It stops extending, and tells nobody.


class ComparesWallClocks(Rule):
    """Take a lease whose holder's time stamp is older than the lease, by this host's own clock."""

    async def run(self) -> None:
        while True:
            with suppress(OSError):
                await self._look()
            await asyncio.sleep(2.0)

    async def _look(self) -> None:
        wall_s = asyncio.get_running_loop().time()
        found = await self.ask("read")
        holder, renewed_s = found.record or (None, 0.0)
        if holder in (None, self.name) or renewed_s + 15.0 < wall_s:
            self.leads = (await self.ask("write", record=(self.name, wall_s), seen=found.version)).done
        else:
            self.leads = False


class PooledSession(Rule):
    """Hold a session's lock on a pooled connection, which the pool ends after a while; look every 5 s."""

    session_s = 63.0

    async def run(self) -> None:
        while True:
            await self.takes(0.0)
            with self.leading():
                while True:
                    await asyncio.sleep(5.0)
                    try:
                        if not (await self.ask("extend")).done:
                            break
                    except OSError:
                        break
            await asyncio.sleep(1.0)


class StrandedSession(PooledSession):
    """Hold a session's lock through a pooler: it stays with the pooled connection when its client is gone."""

    session_s = 120.0

    async def run(self) -> None:
        self.name += f" {asyncio.get_running_loop().time()}"  # Another client each time.
        await super().run()


class OneIdentityForAll(Rule):
    """Ask for the lock under the name of the service, the same on every node."""

    async def run(self) -> None:
        await self.takes(10.0, owner="Oban")
        with self.leading():
            while True:
                await asyncio.sleep(3.0)
                with suppress(OSError):
                    if not (await self.ask("extend", 10.0, owner="Oban")).done:
                        return


class RenewsByTheServicesName(Rule):
    """Renew the one row of the service without asking whose it is, and stay leader when an election fails."""

    async def run(self) -> None:
        await self.takes(30.0, 15.0)
        with self.leading():
            while True:
                await asyncio.sleep(15.0)
                with suppress(OSError):
                    await self.ask("touch", 30.0)
