"""A will: a leader's resignation, kept by another process, which sends it once everything that acted has ended.

    leader ──writes, with each renewal of its lease──▶ file in memory ──read once, by──▶ keeper ──▶ voters, three times
                                                         keeper: sleeps until the kernel says that the leader is gone

The file is shared by both processes and by nobody else, so that the keeper need not wake up before its time, and what
was written last is there whatever ended the leader.  It has two places for a will: the first byte says which of them
holds, and is written last, so a leader that is killed while it writes leaves the will before.

    byte 0   0: no will; 1, 2: the place that holds it
    byte 1   not 0: the process has begun others, which may act as well: nothing is ever sent
    place    length (4 bytes), then lines: "UNTIL HOST PORT", and for each datagram "ROUND HOST PORT HEX"

A keeper is the shadow of `doyen run`, or for a Python program a process that runs this file (decision 96).  Nothing
but the standard library, and little of it: a keeper must weigh nothing.
"""

import _socket
import os
import select
import signal
import sys
import time
from contextlib import suppress

ROUNDS = 3  # A will is sent this often: a datagram may be lost.
APART_S = 0.03  # From one round to the next.
PLACE = 1 << 20  # The bytes of one place; the file is sparse.


class Will:
    """The leader's end of the file, and the pidfd by which its keeper learns that this process has ended.

    Raises `OSError` or `AttributeError` where the system has no such things: Linux has them since 5.3.
    """

    def __init__(self) -> None:
        self.process = os.pidfd_open(os.getpid())
        self.file = os.memfd_create("doyen-will")
        self._place = 0
        os.pwrite(self.file, b"\0\0", 0)

    @property
    def is_void(self) -> bool:
        return os.pread(self.file, 1, 1) != b"\0"

    def write(self, until: int, source: tuple[str, int], rounds: list[list[tuple[str, int, bytes]]]) -> None:
        """Keep these datagrams; `until` is the end of the lease on CLOCK_BOOTTIME: later they are of no use."""
        lines = [f"{until} {source[0]} {source[1]}"]
        for number, datagrams in enumerate(rounds):
            lines += [f"{number} {host} {port} {data.hex()}" for host, port, data in datagrams]
        text = "\n".join(lines).encode()
        if len(text) + 4 > PLACE:
            self.revoke()
            return
        place = 2 if self._place == 1 else 1
        os.pwrite(self.file, len(text).to_bytes(4, "big") + text, place * PLACE)
        os.pwrite(self.file, bytes([place]), 0)
        self._place = place

    def revoke(self) -> None:
        """Keep none, as the process no longer leads."""
        if self._place:
            self._place = 0
            os.pwrite(self.file, b"\0", 0)

    def void(self) -> None:
        """Never send one, whatever is written: somebody else may act."""
        os.pwrite(self.file, b"\1", 1)


def send_once_gone(file: int, process: int) -> None:
    """Wait until the process of that pidfd has ended, with all its threads; then send what it left, if it holds."""
    waits = select.poll()
    waits.register(process, select.POLLIN)
    waits.poll()
    until, host, port, datagrams = read(file)
    for number in range(ROUNDS):
        if time.clock_gettime_ns(time.CLOCK_BOOTTIME) >= until:
            return
        if number:
            time.sleep(APART_S)
        send(host, port, [rest for of_round, *rest in datagrams if of_round == str(number)])


def read(file: int) -> tuple[int, str, str, list[list[str]]]:
    """Return until when the will holds, where its author listened, and its datagrams; one that is void never holds."""
    place, void = os.pread(file, 2, 0)
    if not place or void:
        return 0, "", "", []
    length = int.from_bytes(os.pread(file, 4, place * PLACE), "big")
    head, *lines = os.pread(file, length, place * PLACE + 4).decode().split("\n")
    until, host, port = head.split(" ")
    return int(until), host, port, [line.split(" ") for line in lines]


def send(host: str, port: str, datagrams: list[list[str]]) -> None:
    """Send datagrams from the leader's own address, if it is free, so that voters remember no other for it."""
    family = _socket.AF_INET6 if ":" in host else _socket.AF_INET
    sender = _socket.socket(family, _socket.SOCK_DGRAM)
    try:
        with suppress(OSError):  # A process of the same name may have come back.
            sender.bind(address(family, host, port))
        for to_host, to_port, data in datagrams:
            with suppress(OSError):  # No route, say: the others may have one.
                sender.sendto(bytes.fromhex(data), address(family, to_host, to_port))
    finally:
        sender.close()


def address(family: int, host: str, port: str) -> tuple[str, int]:
    """Return a numeric address as a socket wants it: with the scope of a link-local one."""
    found = _socket.getaddrinfo(host.encode(), int(port), family, _socket.SOCK_DGRAM, 0, _socket.AI_NUMERICHOST)
    return found[0][4]  # type: ignore[return-value]


def main(file: int, process: int) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # They are for the process, which may leave in order.
    os.setsid()
    for other in map(int, os.listdir("/proc/self/fd")):
        if other not in (0, 1, 2, file, process):
            with suppress(OSError):  # The one by which they were listed.
                os.close(other)
    send_once_gone(file, process)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
