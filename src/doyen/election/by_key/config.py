"""The configuration of an election by key."""

from typing import Annotated

from doyen.core.clock import ms
from doyen.core.config import Config, Doc, Text, Timeout


class ByKeyConfig(Config, frozen=True, kw_only=True):
    key: Annotated[Text, Doc("The well-known key: the same on every member.")] = "leader"
    lease: Annotated[Timeout, Doc("T_l of the ring; an unanswered claim is repeated four times in it.")] = ms(1000)
