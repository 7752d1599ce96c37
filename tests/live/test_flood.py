"""A flood against the leader: it stays, and `/leader` answers within a second, while it lasts and after it.

The figure is 50,000 datagrams a second from one sender, of any kind, that has echoed where that is asked for.  The
sender has one core and the group the other; what it offered, what the kernel dropped and what was heard are reported.
`make soak` floods with every kind, and fails where the rate was not offered.  `make test` floods with two kinds, for
two seconds, among other tests: there the bounds hold at the rate that was offered, which is 10,000 at least
(decision 86).
"""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hosts import Started, processes, until

from doyen.core.codec import VERSION
from doyen.net.keys import key_id, new_key, write_keys

pytestmark = [pytest.mark.live]
DOYEN = [sys.executable, "-m", "doyen"]
RATE, RATE_MIN, COUNT = 50_000, 10_000, 20_000
ROUNDS = 3  # Attempts to offer a rate, where others want the processors, too.
GROUP = "flood"


Kind = Callable[[Random, bytes], list[bytes]]


def envelope(i: int, channel: str, message: list[object]) -> bytes:
    return msgspec.msgpack.encode([VERSION, GROUP, f"x{i}", 1, channel, message])


def garbage(rng: Random, known: bytes) -> list[bytes]:
    return [rng.randbytes(rng.randrange(20, 200)) for _ in range(COUNT)]


def forged(rng: Random, known: bytes) -> list[bytes]:
    return [b"\xc1" + known + rng.randbytes(150) for _ in range(COUNT)]


def made_up_members(rng: Random, known: bytes) -> list[bytes]:
    def updates(i: int) -> list[object]:
        return [[f"m{(i * 5 + j) % 100_000}", 1, 0, "", "127.0.0.1", 9] for j in range(5)]

    return [
        envelope(i, "m", ["p", i, "leader", [[f"x{i}", 1, 0, "", "127.0.0.1", 9], *updates(i)]]) for i in range(COUNT)
    ]


def pings(rng: Random, known: bytes) -> list[bytes]:
    """Well formed, and each is to be answered."""
    return [envelope(7, "m", ["p", i, "leader", []]) for i in range(COUNT)]


def handshakes(rng: Random, known: bytes) -> list[bytes]:
    """Questions for an echo, and echoes of what was never asked."""
    return [b"\xc1" + rng.randbytes(8) + (bytes(8) if i % 2 else rng.randbytes(8)) for i in range(COUNT)]


def rooms(rng: Random, known: bytes) -> list[bytes]:
    """Each asks for a payment."""
    return [b"\xc0" + rng.randbytes(4 + rng.randrange(60)) for _ in range(COUNT)]


def recorded(rng: Random, known: bytes) -> list[bytes]:
    """What members say to the leader while this looks on, again and again; needs root."""
    raise NotImplementedError("it is taken from the wire")


def overheard(port: int, count: int) -> list[bytes]:
    """Return so many datagrams that others send to that port on loopback."""
    found: list[bytes] = []
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800)) as wire:
        wire.bind(("lo", 0))
        wire.settimeout(20)
        while len(found) < count:
            packet = wire.recv(65_536)
            udp = packet[(packet[0] & 15) * 4 :]
            if packet[9] == socket.IPPROTO_UDP and int.from_bytes(udp[2:4], "big") == port and len(udp) > 8:
                found.append(udp[8:])
    return found


def heard(port: int) -> dict[str, int]:
    """Return how many datagrams the node has received, and refused by reason."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
        lines = answer.read().decode().splitlines()
    found = {"received": 0}
    for line in lines:
        if line.startswith("doyen_datagrams_received_total"):
            found["received"] += int(float(line.rpartition(" ")[2]))
        elif line.startswith("doyen_datagrams_refused_total"):
            found[line.partition('reason="')[2].partition('"')[0]] = int(float(line.rpartition(" ")[2]))
    return found


def drops(port: int) -> int:
    """Return how many datagrams the kernel has dropped at that port."""
    lines = Path("/proc/net/udp").read_text().splitlines()[1:]
    return sum(int(line.split()[-1]) for line in lines if line.split()[1].endswith(f":{port:04X}"))


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def lost(running: Started) -> int:
    """Return how often any node has said that a leader was lost."""
    return sum(running.log(name).read_text().count('"event":"lost"') for name in running.all)


def asked(port: int) -> tuple[str, float]:
    """Return the leader that `/leader` names, and how many seconds that took."""
    began = time.monotonic()
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/leader", timeout=20) as answer:
            body = answer.read()
    except urllib.error.HTTPError as error:
        body = error.read()
    return str(json.loads(body).get("leader")), time.monotonic() - began


def soaked(kind: Kind, sealed: bool, name: str) -> Any:
    marks = [pytest.mark.soak, pytest.mark.alone, *([pytest.mark.root] if kind is recorded else [])]
    return pytest.param(kind, sealed, RATE, id=name, marks=marks)


@pytest.mark.parametrize(
    ("kind", "sealed", "rate_min"),
    [
        pytest.param(forged, True, RATE_MIN, id="forged, in short"),
        pytest.param(handshakes, False, RATE_MIN, id="handshakes, in short"),
        soaked(forged, True, "forged"),
        soaked(recorded, True, "recorded"),
        soaked(garbage, False, "garbage"),
        soaked(garbage, True, "garbage where there is a key"),
        soaked(pings, False, "pings"),
        soaked(pings, True, "in the clear where there is a key"),
        soaked(handshakes, False, "handshakes"),
        soaked(rooms, False, "rooms"),
        soaked(made_up_members, False, "made-up members"),
    ],
)
def test_a_leader_under_a_flood_stays_and_answers(
    kind: Kind, sealed: bool, rate_min: int, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    seconds = float(os.environ.get("DOYEN_FLOOD_S", "2" if rate_min < RATE else "10"))
    key = new_key()
    write_keys(tmp_path / "key", [key])
    here, there = cores()
    with processes(tmp_path) as running:
        ports: dict[str, int] = {}
        base, http = 21_000 + os.getpid() % 20_000, {}
        for i, name in enumerate(("leader", "other")):
            ports[name], http[name] = base + i, base + 10 + i
            flags = ["--group", GROUP, "--name", name, "--bind", f"127.0.0.1:{ports[name]}", "--preset", "lan"]
            flags += ["--seed", f"127.0.0.1:{base}", "--http", f"127.0.0.1:{http[name]}", "--json"]
            flags += ["--key-file", str(tmp_path / "key")] if sealed else []
            flags += ["--score", "9"] if name == "leader" else []
            running.start(name, [*DOYEN, "agent", *flags], {"DOYEN_RUNTIME_DIR": str(tmp_path / "run")})
            give_core(running.all[name].pid, here)
        until(lambda: len(running.saying('"started"')) == 2, "both have started", 60)
        until(
            lambda: all(asked(port)[0] == asked(http["leader"])[0] != "None" for port in http.values()),
            "they agree",
            60,
        )
        leader = asked(http["leader"])[0]
        packets = overheard(ports[leader], 50) * 20 if kind is recorded else kind(Random(1), key_id(key))
        (tmp_path / "packets").write_bytes(b"".join(len(packet).to_bytes(2, "big") + packet for packet in packets))
        script = Path(__file__).parents[1] / "helpers/flooder.py"
        line = [sys.executable, script, "127.0.0.1", str(ports[leader]), str(RATE), str(seconds), tmp_path / "packets"]
        losses = lost(running)
        for _ in range(ROUNDS):
            slowest, dropped, before = 0.0, drops(ports[leader]), heard(http[leader])
            with subprocess.Popen([*map(str, line)], stdout=subprocess.PIPE, text=True) as sender:
                give_core(sender.pid, there)
                while sender.poll() is None:
                    named, took_s = asked(http[leader])
                    slowest = max(slowest, took_s)
                    assert named == leader
                    time.sleep(0.05)
                assert sender.stdout is not None
                sent, took, sender_busy, echoed = map(float, sender.stdout.read().split())
            busy, began = cpu_s(running.all[leader].pid), time.monotonic()
            for _ in range(20):
                named, took_s = asked(http[leader])
                slowest = max(slowest, took_s)
                assert named == leader
                time.sleep(0.05)
            busy = (cpu_s(running.all[leader].pid) - busy) / (time.monotonic() - began)
            rate = sent / took
            after = heard(http[leader])
            counts = {why: after[why] - before.get(why, 0) for why in after if after[why] > before.get(why, 0)}
            tell(
                f"flood, {kind.__name__}{', key' * sealed}: {rate:,.0f} datagrams/s offered for {took:.1f} s by "
                f"{sender_busy / took:.0%} of a core, {(drops(ports[leader]) - dropped) / sent:.0%} dropped by the "
                f"kernel; counted: {counts}; /leader within {slowest * 1000:.0f} ms; "
                f"{busy:.0%} of a core in the seconds after it"
            )
            assert counts.get("empty", 0) < 100, "the sender sends what it was given"
            assert slowest < 1.0
            assert bool(echoed) is not sealed, "in the clear the flood is heard, with a key it is not"
            assert lost(running) == losses, running.told()[-3000:]
            if rate >= 0.98 * rate_min:
                break
        assert rate >= 0.98 * rate_min, f"{rate:,.0f} datagrams/s were offered, which shows nothing"


def give_core(pid: int, core: set[int]) -> None:
    """Let a process have that core, before whatever else runs there if root says so."""
    os.sched_setaffinity(pid, core)
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, pid, -15)


def cores() -> tuple[set[int], set[int]]:
    """Return the core of the group, and that of the sender."""
    first, *others = sorted(os.sched_getaffinity(0))
    return {first}, set(others) or {first}
