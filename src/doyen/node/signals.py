"""SIGTERM and Ctrl-C for a command that has something to put in order first."""

import asyncio
import signal
from collections.abc import Callable

ENDING = (signal.SIGTERM, signal.SIGINT)


def on_ending_signal(end: Callable[[signal.Signals], None]) -> None:
    """Call `end` with the signal at the first SIGTERM or Ctrl-C; later ones are ignored until the process is gone.

    `timeout` signals its child and then the child's whole group; were the second to find no handler any more, a
    process that had ended in good order would be reported as killed.
    """
    loop = asyncio.get_running_loop()

    def ending(came: signal.Signals) -> None:
        held = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        for number in ENDING:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        end(came)

    for number in ENDING:
        loop.add_signal_handler(number, ending, number)
