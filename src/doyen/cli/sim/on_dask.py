"""Runs of a simulation on Dask's workers: `doyen sim run … --on dask`, or `--on dask://HOST:PORT`."""

import logging
import multiprocessing
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from multiprocessing.forkserver import ensure_running
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import doyen
from doyen.errors import ConfigError
from doyen.sim.runs import Spread, chunk

R = TypeVar("R")

PORT: Final = 8786
ANSWERS_WITHIN_S: Final = 10
WORKERS_LOST_MAX: Final = 20  # Of one chunk: workers may be killed, but a chunk that kills each one must end.
SETTINGS: Final = {
    "distributed.scheduler.allowed-failures": WORKERS_LOST_MAX,
    "distributed.worker.multiprocessing-method": "forkserver",
    # Nobody looks at what follows; at Dask's own intervals it takes a fifteenth of a core while simulations run.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "10s",
    "distributed.scheduler.work-stealing-interval": "1s",
    "distributed.scheduler.active-memory-manager.start": False,
}


@contextmanager
def dask(where: str, jobs: int) -> Iterator[Spread]:
    """Connect to a scheduler, or begin workers of our own; `jobs` is their number, 0: one per core."""
    scheduler = _scheduler(where)
    if find_spec("distributed") is None:
        raise ConfigError(f"--on {where} needs Dask: pip install 'doyen[dask]'")
    if scheduler is None:
        _import_for_workers()
    import dask as settings
    import distributed

    client_of: Any = distributed.Client  # Its functions have no types.
    cluster_of: Any = distributed.LocalCluster
    settings.config.set(SETTINGS)
    quiet = {"set_as_default": False, "timeout": ANSWERS_WITHIN_S}
    if scheduler is None:
        with (
            cluster_of(
                n_workers=jobs or None,
                threads_per_worker=1,
                dashboard_address="127.0.0.1:0",  # Else it asks for a port that another cluster may have, and says so.
                memory_limit=0,
                silence_logs=logging.CRITICAL,
            ) as cluster,
            client_of(cluster, **quiet) as client,
        ):
            yield Spread(jobs or len(cluster.workers), _parts_on(client))
        return
    if jobs:
        raise ConfigError(f"--jobs {jobs} is for processes of this machine: {where} has workers of its own")
    try:
        client = client_of(scheduler, **quiet)
    except (OSError, TimeoutError):
        raise ConfigError(f"--on {where}: no scheduler answers there: start one with `dask scheduler`") from None
    with client:
        _check_workers(client, where)
        yield Spread(sum(client.nthreads().values()), _parts_on(client))


def _import_for_workers() -> None:
    """Begin a process that imports what workers need, once for all, while this one imports the same."""
    multiprocessing.set_forkserver_preload(["distributed", "doyen.sim.scenario"])
    ensure_running()


def _scheduler(where: str) -> str | None:
    """Return the scheduler's address as Dask wants it; None: a cluster of our own."""
    if where == "dask":
        return None
    try:
        url = urlsplit(where)
        host, port = url.hostname, url.port or PORT
        sound = url.scheme == "dask" and host and not (url.path or url.query or url.username)
    except ValueError:
        sound = False
    if not sound:
        raise ConfigError(f"--on {where} is no engine: give dask, or dask://HOST:PORT")
    return f"tcp://{f'[{host}]' if ':' in str(host) else host}:{port}"


def _check_workers(client: Any, where: str) -> None:
    """Refuse workers that would not give the results of this process."""
    try:
        client.wait_for_workers(1, timeout=ANSWERS_WITHIN_S)
    except TimeoutError:
        told = f"the scheduler has no workers: start some with `dask worker {where.removeprefix('dask://')}`"
        raise ConfigError(f"--on {where}: {told}") from None
    found = client.run(_version, on_error="return")
    for worker, version in found.items():
        if version != doyen.__version__:
            has = f"has doyen {version}" if isinstance(version, str) else f"cannot import doyen ({version})"
            raise ConfigError(f"--on {where}: worker {worker} {has}, and here is {doyen.__version__}: install the same")


def _version() -> str:
    return doyen.__version__


def _parts_on(client: Any) -> Callable[[Callable[[int], R], Sequence[list[int]]], Iterator[list[R]]]:
    def parts(once: Callable[[int], R], chunks: Sequence[list[int]]) -> Iterator[list[R]]:
        """Yield the results of each chunk in order; what a lost worker had done is done again by another."""
        shared: Any = client.scatter(once, broadcast=True, hash=False)
        futures = deque(client.submit(chunk, shared, seeds, pure=False) for seeds in chunks)
        while futures:  # What is here already need not be kept by the workers.
            found: list[R] = futures.popleft().result()
            yield found

    return parts
