"""A pytest plugin (`-p loops`) that runs all tests on another event loop: DOYEN_LOOP is uvloop or eager.

Python 3.11 has no `asyncio.eager_task_factory`; there the same is done with the task that is written in Python.
"""

import asyncio
import os
import sys
import warnings
from typing import Any


class EagerTask(asyncio.tasks._PyTask):  # type: ignore[name-defined, misc]
    """A task whose first step is taken while it is made, as with Python 3.12's eager tasks."""

    def __init__(self, coro: Any, *, loop: Any, **further: Any) -> None:
        begins: list[Any] = []
        plain, loop.call_soon = loop.call_soon, lambda step, *_, **__: begins.append(step)
        try:
            super().__init__(coro, loop=loop, **further)
        finally:
            loop.call_soon = plain
        outer = asyncio.current_task(loop)
        if outer is not None:
            asyncio.tasks._leave_task(loop, outer)
        try:
            self._context.run(begins[0])
        finally:
            if outer is not None:
                asyncio.tasks._enter_task(loop, outer)


def eager(loop: Any, coro: Any, **further: Any) -> Any:
    if not loop.is_running():
        return asyncio.Task(coro, loop=loop, **further)
    return EagerTask(coro, loop=loop, **further)


def eager_policy() -> Any:
    """Return a policy that makes loops whose tasks begin at once."""

    class EagerPolicy(asyncio.DefaultEventLoopPolicy):
        def new_event_loop(self) -> Any:
            loop = super().new_event_loop()
            loop.set_task_factory(asyncio.eager_task_factory if sys.version_info >= (3, 12) else eager)
            return loop

    return EagerPolicy()


def pytest_configure() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.14 would rather have no policies; 3.16 has none.
        match os.environ.get("DOYEN_LOOP", ""):
            case "uvloop":
                import uvloop

                asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
            case "eager":
                asyncio.set_event_loop_policy(eager_policy())
            case "":
                pass
            case other:
                raise ValueError(f"DOYEN_LOOP={other}: give uvloop or eager")
