"""SIGTERM makes every node of this process leave in order; then the process ends as it would have without them.

Only where the program has no handler of its own, neither when a node joins nor later.  A plain handler does it, not
asyncio's: that one's wake-up socket is shared with forked children, whose SIGTERM would reach their parent.
"""

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

# Begins to leave, from a signal handler, and calls what it is given once it has left; both on the main thread.
Leave = Callable[[Callable[[], None]], None]

_leaving: dict[object, Leave] = {}
_process = 0
_asked = False


def leave_on_sigterm(node: object, leave: Leave) -> None:
    """Have `leave` called at SIGTERM, until `forget(node)`."""
    global _process, _asked
    if threading.current_thread() is not threading.main_thread():
        return  # Only the main thread may set handlers: somebody else's business.
    handler = signal.getsignal(signal.SIGTERM)
    if handler not in (signal.SIG_DFL, _on_sigterm):
        return
    if _process != os.getpid():
        _leaving.clear()  # Our parent's.
        _process, _asked = os.getpid(), False
    _leaving[node] = leave
    signal.signal(signal.SIGTERM, _on_sigterm)


def forget(node: object) -> None:
    _leaving.pop(node, None)
    main = threading.current_thread() is threading.main_thread()
    if not _leaving and not _asked and main and signal.getsignal(signal.SIGTERM) is _on_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _on_sigterm(number: int, frame: FrameType | None) -> None:
    global _asked
    if _process != os.getpid():
        _end()  # A fork of the process that joined.
    if _asked:
        return  # `timeout` sends two: to its child, and to the child's group.
    _asked = True
    awaited = set(_leaving)

    def left(node: object) -> None:
        awaited.discard(node)
        if not awaited:
            _end()

    for node, leave in [*_leaving.items()]:
        leave(lambda node=node: left(node))  # type: ignore[misc]
    if not awaited:
        _end()


def _end() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)
