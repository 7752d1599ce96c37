"""Connections between two requests: whether the other end has closed one meanwhile, as proxies do after a while."""

import select


def has_ended(fileno: int) -> bool:
    """Return whether a connection on which nothing is owed can be read: then all that can come is its end."""
    poll = select.poll()
    poll.register(fileno, select.POLLIN)
    return bool(poll.poll(0))
