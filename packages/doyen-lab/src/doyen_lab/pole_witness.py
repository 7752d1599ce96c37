"""A process that only watches: every act of every leader, with its epoch and its instant.

Acts come as datagrams on a Unix socket, so from any network namespace.  The first act of each epoch is told at once, as
a line of JSON; a line on standard input is answered by all that was seen.
"""

import os
import selectors
import socket
import sys

import msgspec
from msgspec import Struct

from doyen.core.clock import Duration, Instant


class FirstAct(Struct, frozen=True):
    leader: str
    epoch: int
    clock: Instant


class Reign(Struct):
    leader: str
    first: Instant
    last: Instant
    acts: int = 1


class Seen(Struct, frozen=True, kw_only=True):
    """All of it."""

    acts: int
    reigns: int
    leaders_per_epoch_max: int
    overlap: Duration  # Of the acts of different leaders, in all.
    epochs_back: int  # Acts in an epoch below one that had been acted in before.


class Ledger:
    def __init__(self) -> None:
        self.reigns: dict[int, dict[str, Reign]] = {}  # By epoch, by leader.
        self.acts: list[tuple[Instant, int]] = []

    def note(self, leader: str, epoch: int, at: Instant) -> bool:
        """Whether it is the first of its kind."""
        self.acts.append((at, epoch))
        of_epoch = self.reigns.setdefault(epoch, {})
        reign = of_epoch.get(leader)
        if reign is None:
            of_epoch[leader] = Reign(leader, at, at)
            return True
        reign.first, reign.last = min(reign.first, at), max(reign.last, at)
        reign.acts += 1
        return False

    def seen(self) -> Seen:
        reigns = [reign for of_epoch in self.reigns.values() for reign in of_epoch.values()]
        overlap = sum(
            max(0, min(a.last, b.last) - max(a.first, b.first))
            for i, a in enumerate(reigns)
            for b in reigns[:i]
            if a.leader != b.leader
        )
        back, greatest = 0, 0
        for _, epoch in sorted(self.acts):
            back += epoch < greatest
            greatest = max(greatest, epoch)
        return Seen(
            acts=len(self.acts),
            reigns=len(reigns),
            leaders_per_epoch_max=max((len(of_epoch) for of_epoch in self.reigns.values()), default=0),
            overlap=overlap,
            epochs_back=back,
        )


def main() -> None:
    heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    heard.bind(sys.argv[1])
    heard.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    ledger = Ledger()
    watch = selectors.DefaultSelector()
    watch.register(heard, selectors.EVENT_READ)
    watch.register(sys.stdin, selectors.EVENT_READ)
    _say(ledger.seen())
    while True:
        for key, _ in watch.select():
            if key.fileobj is heard:
                leader, epoch, at = msgspec.msgpack.decode(heard.recv(65536), type=tuple[str, int, int])
                if ledger.note(leader, epoch, at):
                    _say(FirstAct(leader, epoch, at))
            elif sys.stdin.readline():
                _say(ledger.seen())
            else:
                return


def _say(what: Struct) -> None:
    os.write(sys.stdout.fileno(), msgspec.json.encode(what) + b"\n")


if __name__ == "__main__":
    main()
