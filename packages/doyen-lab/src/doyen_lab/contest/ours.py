"""Our own system: `doyen agent` at its defaults, by multicast or by unicast, without and with a key."""

import sys
from pathlib import Path

import msgspec

from doyen.core.clock import Instant
from doyen.net.keys import key_text, new_key
from doyen.node.told import Told
from doyen_lab.contest.group import Group

PORT = 7600
MULTICAST = "239.192.0.1:7600"  # Nobody else is on the bridge.
HTTP = "127.0.0.1:7680"
_TOLD = msgspec.json.Decoder(Told)


class Ours(Group):
    """The default election announces to all: by one multicast, or to every seed, as a name with all records gives."""

    prefix = "n"

    def __init__(self, label: str, size: int, folder: Path, *, multicast: bool, key: bool) -> None:
        super().__init__(label, size, folder)
        self.multicast, self.key = multicast, key

    async def start_servers(self) -> None:
        """There are none; the key is made here."""
        if self.key:
            self._key_file.touch(mode=0o600)
            self._key_file.write_text(f"primary {key_text(new_key())}\n")

    @property
    def _key_file(self) -> Path:
        return self._folder / "keys"

    def command(self, name: str) -> list[str]:
        own = self.members[name].host
        found = [sys.executable, "-m", "doyen", "agent", "--group", "contest", "--name", name]
        found += ["--group-size", str(self.size), "--bind", f"{own.ipv4}:{PORT}", "--status-every", "600"]
        if self.multicast:
            found += ["--multicast", MULTICAST]
        else:
            others = (peer.host.ipv4 for other, peer in self.members.items() if other != name)
            found += [flag for address in others for flag in ("--seed", f"{address}:{PORT}")]
        if self.key:
            found += ["--key-file", str(self._key_file), "--http", HTTP]
        return found

    def hear(self, name: str, line: str, at: Instant) -> None:
        told = _TOLD.decode(line)
        if told.event in ("elected", "lost"):
            self.ledger.say(name, told.leader if told.event == "elected" else None, told.clock)
