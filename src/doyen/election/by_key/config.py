"""The configuration of an election by key."""

from msgspec import Struct

from doyen.core.clock import Duration, ms
from doyen.errors import ConfigError


class ByKeyConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: str = "leader"  #: Well known: the same on every member.
    lease: Duration = ms(1000)  #: T_l of the ring; a claim that is not answered is repeated four times in it.

    def __post_init__(self) -> None:
        if not self.key:
            raise ConfigError("must not be empty", field="key")
        if self.lease <= 0:
            raise ConfigError("must be positive", field="lease")
