"""The command that `doyen run` runs in the lab: says at its start which other of its kind still lives, then beats.

    FOLDER/ROLE.PROCESS.COMMAND.jsonl   what it wrote: `begin`, `act` every 5 ms; `beside` for another that lived then

It registers before it looks, so of two that start at once at least one sees the other; its child does the same, so that
one that outlives its parent is seen, too, and so does a stray, which has left its session and whose parent has ended.
None of them minds SIGTERM: they live as long as they are let.
Nothing but the standard library: it must start fast.
"""

import os
import signal
import sys
import time

BEAT_S = 0.005


def identity(pid: int) -> str | None:
    """A process by its id and its start; None if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else f"{pid}-{fields[19]}"


def main(folder: str, host: str) -> None:
    command, guard, role = identity(os.getpid()), os.getppid(), host
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if not os.fork():
        role = f"{host}-child"
    elif not os.fork():
        os.setsid()
        if os.fork():
            os._exit(0)
        role = f"{host}-stray"
    me = identity(os.getpid())
    log = os.open(f"{folder}/{role}.{me}.{command}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    term = os.environ["DOYEN_TERM"]

    def write(kind: str, reason: str = "") -> None:
        line = f'{{"kind":"{kind}","at":{time.monotonic_ns()},"term":{term},"reason":"{reason}"}}\n'
        os.write(log, line.encode())

    write("begin", str(guard))
    for name in os.listdir(folder):
        _, known, family, _ = name.split(".")
        if family != command and identity(int(known.partition("-")[0])) == known:
            write("beside", name)
    while True:
        write("act")
        time.sleep(BEAT_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
