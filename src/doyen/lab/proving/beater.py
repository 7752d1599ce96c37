"""The command that `doyen run` runs in the lab: says at its start which other of its kind still lives, then beats.

    FOLDER/HOST.PID.jsonl    what it wrote: `begin`, `act` every 5 ms; `beside` for another that lived when it began

It registers before it looks, so of two that start at once at least one sees the other; its child does the same, so that
one that outlives its parent is seen, too.  Nothing but the standard library: it must start fast.
"""

import os
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
    if child := os.fork():
        family = {os.getpid(), child}
        role = host
    else:
        family = {os.getpid(), os.getppid()}
        role = f"{host}-child"
    me = identity(os.getpid())
    log = os.open(f"{folder}/{role}.{me}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    term = os.environ["DOYEN_TERM"]

    def write(kind: str, reason: str = "") -> None:
        line = f'{{"kind":"{kind}","at":{time.monotonic_ns()},"term":{term},"reason":"{reason}"}}\n'
        os.write(log, line.encode())

    write("begin", str(os.getppid()))
    for name in os.listdir(folder):
        known = name.split(".")[1]
        pid = int(known.partition("-")[0])
        if pid not in family and identity(pid) == known:
            write("beside", name)
    while True:
        write("act")
        time.sleep(BEAT_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
