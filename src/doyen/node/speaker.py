"""A node that tells people what happens: `doyen agent` on a terminal."""

import logging
import os
import sys
import time
from typing import Final

import msgspec

from doyen.node.config import NodeConfig
from doyen.node.events import Event
from doyen.node.lines import WarningLines, dated_line, event_line
from doyen.node.node import Node
from doyen.node.signals import on_ending_signal

_QUIET: Final = ("changed", "updated", "stopped", "alone", "differs")  # Too many to read, or said otherwise.


async def speak(config: NodeConfig) -> int:
    """Run a node until a signal ends it, and write a line for every event."""
    node = Node(config, leave_on_sigterm=False)
    shortage = ""  # Why nobody can be elected: an event says so, and the warning of it would repeat it.
    warnings = WarningLines(sys.stdout)
    warnings.addFilter(lambda record: not shortage or not record.getMessage().endswith(shortage))
    logging.getLogger("doyen").addHandler(warnings)
    early: list[Event] = []  # What happened before the first line was written.
    begun = False

    def on_event(event: Event) -> None:
        nonlocal shortage
        shortage = event.reason if event.kind == "shortage" else shortage
        if not begun:
            early.append(event)
        elif event.kind not in _QUIET:
            say(event_line(msgspec.to_builtins(event), sys.stdout))

    def say(line: str) -> None:
        try:
            print(line, flush=True)
        except OSError:
            node.ended.set()  # The reader is gone.

    node.listeners.append(on_event)
    began = time.time()
    on_ending_signal(lambda _: node.ended.set())
    async with node:
        key = "" if node.agent.driver.seal is not None else " · no key: packets are NOT authenticated"
        kind = config.election_kind()
        elects = "no election" if kind is None else f"election {kind.title}"
        where = f"{config.group} as {node.name} (pid {os.getpid()}) at {node.address}"
        say(dated_line(began, "started", f"{where} · {elects}{key}", sys.stdout))
        begun = True
        for event in early:
            on_event(event)
        say(f"Ctrl-C ends it.  Try meanwhile: doyen members --group {config.group}")
        await node.ended.wait()
    say(dated_line(time.time(), "stopped", node.name, sys.stdout))
    return 0 if node.failure is None else 1
