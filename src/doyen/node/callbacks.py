"""`join(on_elected=…, on_lost=…)`: functions of the application that are called with each term, one after the other."""

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import Any, TypeAlias

from doyen.errors import ConfigError
from doyen.node.campaign import Campaign
from doyen.node.term import Term

log = logging.getLogger("doyen")

# Gets the term; a plain function, or one that returns something to await.  Of `doyen.sync` the term is its own.
Callback: TypeAlias = Callable[[Any], object]


def check_callback(field: str, callback: object) -> None:
    """Raise `ConfigError` for what cannot be called."""
    if callback is not None and not callable(callback):
        raise ConfigError(
            f"must be a function that takes the term, not {callback!r}: give e.g. lambda term: print(term.number)",
            field=field,
        )


async def follow(campaign: Campaign, on_elected: Callback | None, on_lost: Callback | None) -> None:
    """Call `on_elected` whenever this node may act, and `on_lost` when that is over, before the others are notified.

    An `on_elected` that takes its time is cancelled when leadership is lost.
    """
    async for term in campaign.terms():
        async with term:
            try:
                await _called("on_elected", on_elected, term)
                await asyncio.get_running_loop().create_future()  # Until leadership is lost, which cancels it.
            finally:
                await _called("on_lost", on_lost, term)


async def _called(field: str, callback: Callback | None, term: Term) -> None:
    try:
        result = None if callback is None else callback(term)
        if inspect.isawaitable(result):
            await result
    except Exception:  # The application's bug, not the node's: it goes on.
        log.exception("%s failed in term %d of %s", field, term.number, term.leader)
