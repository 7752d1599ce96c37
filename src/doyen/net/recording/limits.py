"""Bounds the memory and the time that a replay may take, whatever its file makes the machines do."""

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from doyen.errors import TransportError

MEMORY: Final = 1 << 30  # Bytes, beyond what the process has.
CPU_S: Final = 60
CPU_S_PER_MIB: Final = 20  # An honest file takes about one.


class _OutOfTime(BaseException):
    """The time is up.  It is not an `Exception`: no machine may take it for its own failure."""


@contextmanager
def bounded(size: int) -> Iterator[None]:
    """Raise `TransportError` when a file of that size takes too much.  For the main thread of a command."""
    cpu_s = CPU_S + CPU_S_PER_MIB * size // (1 << 20)

    def stop(number: int, where: FrameType | None) -> None:
        raise _OutOfTime

    spent = resource.getrusage(resource.RUSAGE_SELF)
    limits = {
        resource.RLIMIT_AS: _address_space() + MEMORY,
        resource.RLIMIT_CPU: int(spent.ru_utime + spent.ru_stime) + 1 + cpu_s,
    }
    before = {which: resource.getrlimit(which) for which in limits}
    handler = signal.signal(signal.SIGXCPU, stop)
    try:
        for which, most in limits.items():
            soft, hard = before[which]
            least = min(limit for limit in (most, soft, hard) if limit != resource.RLIM_INFINITY)
            resource.setrlimit(which, (least, hard))
        yield
    except _OutOfTime:
        raise TransportError(f"the recording takes more than {cpu_s} s to replay: it was not made by doyen") from None
    except MemoryError:
        raise TransportError(f"the recording takes more than {MEMORY >> 20} MiB to replay") from None
    finally:
        for which, limit in before.items():
            resource.setrlimit(which, limit)
        signal.signal(signal.SIGXCPU, handler)


def _address_space() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()
