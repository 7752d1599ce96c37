"""Fields by the names of their flags; for commands, and for the processes that they become."""

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct

from doyen.core.config import Option, options
from doyen.errors import ConfigError


def flag_of(option: Option) -> str:
    """Return the flag of an option: `network.loss.prob` → `--network-loss-prob`; `listen_s` → `--listen`."""
    return "--" + "-".join(option.path).removesuffix("_s").replace("_", "-")


@contextmanager
def named_by_flag(*kinds: type[Struct]) -> Iterator[None]:
    """Let complaints about a field name its flag."""
    by_field = {option.path[-1]: flag_of(option) for kind in kinds for option in options(kind)}
    try:
        yield
    except ConfigError as error:
        if error.field is None:
            raise
        flag = by_field.get(error.field, "--" + error.field.replace("_", "-"))
        raise ConfigError(f"{flag} {error.complaint}") from None
