"""SIGTERM makes every node of this process leave in order; the program unwinds, and ends by the signal.

    nodes of an event loop   leave first (their bodies are cancelled), then SystemExit is raised in the loop
    nodes of threads         SystemExit is raised in the main thread at once: bodies unwind, and their nodes leave then

So every `finally` runs, as on Ctrl-C, and the exit status is that of SIGTERM (143 in a shell), which service managers
take for an orderly end.  A node whose `with` the unwinding does not meet leaves when the interpreter ends.

Only where the program has no handler of its own, neither when a node joins nor later.  A plain handler does it, not
asyncio's: that one's wake-up socket is shared with forked children, whose SIGTERM would reach their parent.
"""

import atexit
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

log = logging.getLogger("doyen")

# Begins to leave, from a signal handler, and calls what it is given once it has left; both on the main thread.
Leave = Callable[[Callable[[], None]], None]

_leaving: dict[object, Leave] = {}  # Nodes of event loops.
_at_exit: dict[object, Callable[[], None]] = {}  # Nodes of threads.
_process = 0
_asked = False


def leave_on_sigterm(node: object, leave: Leave) -> None:
    """Have `leave` called at SIGTERM, until `forget(node)`."""
    if _takes_sigterm():
        _leaving[node] = leave


def unwind_on_sigterm(node: object, leave: Callable[[], None]) -> None:
    """Have the main thread unwind at SIGTERM, until `forget(node)`; `leave` is called at the very end if need be."""
    if _takes_sigterm():
        _at_exit[node] = leave


def _takes_sigterm() -> bool:
    """Set the handler; return whether the signal is ours to handle."""
    global _process, _asked
    if threading.current_thread() is not threading.main_thread():
        return False  # Only the main thread may set handlers: somebody else's business.
    if signal.getsignal(signal.SIGTERM) not in (signal.SIG_DFL, _on_sigterm):
        return False
    if _process != os.getpid():
        _leaving.clear()  # Our parent's.
        _at_exit.clear()
        _process, _asked = os.getpid(), False
        atexit.register(_on_exit)
    if not _leaving and not _at_exit:
        _asked = False  # The program caught `SystemExit`, and goes on.
    signal.signal(signal.SIGTERM, _on_sigterm)
    return True


def forget(node: object) -> None:
    _leaving.pop(node, None)
    _at_exit.pop(node, None)
    main = threading.current_thread() is threading.main_thread()
    if not _leaving and not _at_exit and not _asked and main and signal.getsignal(signal.SIGTERM) is _on_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _on_sigterm(number: int, frame: FrameType | None) -> None:
    global _asked
    if _process != os.getpid():
        _die()  # A fork of the process that joined.
    if _asked:
        return  # `timeout` sends two: to its child, and to the child's group.
    _asked = True
    awaited = set(_leaving)

    def left(node: object) -> None:
        awaited.discard(node)
        if not awaited:
            _unwind()

    for node, leave in [*_leaving.items()]:
        leave(lambda node=node: left(node))  # type: ignore[misc]
    if not awaited:
        _unwind()


def _unwind() -> None:
    raise SystemExit(128 + signal.SIGTERM)


def _on_exit() -> None:
    """End by the signal, once everything has unwound."""
    if not _asked or _process != os.getpid():
        return
    for leave in [*_at_exit.values()]:
        try:
            leave()
        except Exception:
            log.exception("a node could not leave in order")
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError, OSError):  # There is none, or it is closed.
            stream.flush()
    _die()


def _die() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)
