"""The faults of a long run: kills, restarts, changes of addresses and of keys; each is counted once it took effect."""

import shutil
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Final

from doyen.net.keys import key_id, key_text, new_key, read_keys
from doyen.net.rotation import STEPS, rotate
from doyen_lab.proving.combination import PORT
from doyen_lab.proving.ground import Ground, NotSettled

FAULTS: Final = ("killed", "stopped", "moved", "keys changed", "packets lost")
KEYS_READ_MAX_S: Final = 30.0  # Until all have read a key file that changed: three seconds, on a machine with time.
MOVE_SEEN_MAX_S: Final = 60.0  # Until everybody holds a member to be where it is now: as in tests/live/test_moved.py.


class Upheavals:
    """The faults of one group, one after another."""

    def __init__(self, ground: Ground, rng: Random) -> None:
        self.ground, self.rng, self.leader, self.leader_kills = ground, rng, "", 0
        self._mortal = ground.labels[len(ground.labels) // 4 :]  # The others last, unless they lead: they are measured.
        ground.fields["bind"] = f"0.0.0.0:{PORT}"  # A node that moves is bound to no address.
        key = key_text(new_key())
        for label in ground.labels:
            ground.write_keys(label, key)

    async def next(self) -> str:
        """Let one thing happen, and wait until one leads whom all name; return what happened."""
        happens: list[Callable[[], Awaitable[str]]] = [self._kill_leader, self._kill, self._restart]
        happens += [self._move, self._change_keys]
        text = await self.rng.choices(happens, weights=(4, 4, 3, 4, 3))[0]()
        self.leader = await self.ground.settled()
        return text

    async def _kill_leader(self) -> str:
        victim = self.leader
        at = await self.ground.kill(victim)
        self.leader_kills += 1
        await self.ground.succeeded(victim, at)
        await self.ground.start(victim)
        return f"{victim}, which led, was killed and is back"

    async def _kill(self) -> str:
        victim = self.rng.choice(self._mortal)
        await self.ground.kill(victim)
        await self.ground.settled()
        await self.ground.start(victim)
        return f"{victim} was killed and is back"

    async def _restart(self) -> str:
        label = self.rng.choice(self._mortal)
        await self.ground.stop(label)
        await self.ground.settled()
        await self.ground.start(label)
        return f"{label} was restarted"

    async def _move(self) -> str:
        """Change the address of a host: for its election that is a cut that heals."""
        ground, label = self.ground, self.rng.choice(self.ground.labels)
        address = ground.network.readdress(ground.running[label].index)
        ground.note(f"after {label} had moved to {address}", ground.failover + ground.merging)
        wanted = f"{address}:{PORT}"

        def lost() -> list[str]:
            """Return who does not know yet where it is."""
            lives = [running.life for other, running in ground.running.items() if other != label]
            return [str(life) for life in lives if life.addresses.get(label) != wanted]

        await self._until(lost, MOVE_SEEN_MAX_S, f"hold {label} elsewhere than at {wanted}, where it moved to")
        ground.faults["moved"] += 1
        return f"{label} moved to {address}"

    async def _change_keys(self) -> str:
        """Change the group's key in the three steps of `doyen keys rotate`; everybody has a file of its own."""
        files = list(self.ground.keys.values())
        for step in range(1, STEPS + 1):
            rotate(files[0], step)
            for path in files[1:]:
                _copy(files[0], path)
            wanted = [key_id(key).hex() for key in read_keys(files[0])]

            def behind(wanted: list[str] = wanted) -> list[str]:
                return [str(running.life) for running in self.ground.running.values() if running.life.keys != wanted]

            await self._until(behind, KEYS_READ_MAX_S, f"have not read step {step} of a change of keys")
        self.ground.faults["keys changed"] += 1
        return f"{wanted[0]} is the group's key"

    async def _until(self, late: Callable[[], list[str]], within_s: float, what: str) -> None:
        """Wait until nobody is late any more."""
        ground = self.ground
        timeout_s = within_s + ground.status_every_s + ground.truths[-1].slack / 1e9
        began = time.monotonic()
        try:
            await ground.until(lambda: not late(), timeout_s)
        except TimeoutError:
            raise NotSettled(f"{', '.join(late())} {what}, after {time.monotonic() - began:.0f} s") from None


def _copy(source: Path, target: Path) -> None:
    """Copy a file so that no reader sees a half of it."""
    beside = target.with_suffix(".new")
    shutil.copy(source, beside)
    beside.replace(target)
