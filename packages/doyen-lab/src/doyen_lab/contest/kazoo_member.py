"""A program that leads by kazoo's Election, at its defaults: kazoo_member.py NAME HOST:PORT,HOST:PORT,…

Run as a file, so that nothing of doyen is loaded into it.  As kazoo's manual advises, it stops acting as soon as its
connection is in doubt, and campaigns again afterwards.  It says, a JSON line each: `candidate` once its place in the
queue exists, `acts`, `stops`.
"""

import json
import sys
import threading
import time
from typing import Any

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import KazooException

PATH = "/contest"


def say(event: str) -> None:
    print(json.dumps({"event": event, "clock": time.clock_gettime_ns(time.CLOCK_BOOTTIME)}), flush=True)


def main() -> None:
    name, hosts = sys.argv[1:]
    in_doubt = threading.Event()
    client: Any = KazooClient(hosts=hosts)  # A session of 10 s, unless told otherwise.

    def on_state(state: str) -> None:
        if state != KazooState.CONNECTED:
            in_doubt.set()

    def lead() -> None:
        say("acts")
        in_doubt.wait()
        say("stops")

    def watch_queue(election: Any) -> None:
        while election.lock.node is None:
            time.sleep(0.02)
        say("candidate")

    client.add_listener(on_state)
    client.start(timeout=60)
    while True:
        in_doubt.clear()
        election = client.Election(PATH, name)
        threading.Thread(target=watch_queue, args=(election,), daemon=True).start()
        try:
            election.run(lead)
        except KazooException:
            time.sleep(0.1)


main()
