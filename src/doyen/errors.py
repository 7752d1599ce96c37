"""Every exception doyen raises.

DoyenError
├── ConfigError            what you configured cannot work; nothing was changed
├── LocalProtocolError     our caller broke the rules; nothing was changed
├── RemoteProtocolError    a peer broke the rules; its message was counted and dropped
├── TransportError         the network or the disk refused; the protocol's state is unharmed
├── LeadershipLost         this node no longer leads; whatever only a leader may do must stop
│   └── TermRefused        a fence has seen a greater term; nothing was written
└── InvariantViolated      a bug in doyen: the run must stop, its state is not to be trusted

A message quotes what was given, and that may be the address of a store: no message of these has its password.
"""

import re
from typing import Any, Final

_WHO: Final = re.compile(r"://[^@]*@(?:\S*@)?")  # A password may have what should have been %20 or %40.
_OPTION: Final = re.compile(r"(?i)([?&;][^=&;\s]*(?:pass|token|secret)[^=&;\s]*=)[^&;\s'\"]+")


def without_password(text: str) -> str:
    """Return the text with user and password taken out of every URL in it: `redis://me:pw@ant` → `redis://…@ant`."""
    return _OPTION.sub(r"\1…", _WHO.sub("://…@", text)) if "://" in text else text


class DoyenError(Exception):
    """Base of all; catch it to catch everything doyen raises on purpose."""

    def __init__(self, *words: Any) -> None:
        super().__init__(*(without_password(word) if isinstance(word, str) else word for word in words))


class ConfigError(DoyenError):
    """A configuration that cannot work.  Raised before anything starts; the message names the culprit.

    Where one field is to blame, `field` is its name and `complaint` the rest of the sentence, so that a command can
    name the flag instead, and a file its table.
    """

    def __init__(self, complaint: str, *, field: str | None = None) -> None:
        super().__init__(complaint if field is None else f"{field} {complaint}")
        self.complaint, self.field = without_password(complaint), field


class LocalProtocolError(DoyenError):
    """The caller asked for what the protocol forbids.  State is unchanged; mend the call."""


class RemoteProtocolError(DoyenError):
    """A peer sent what it must not.  Counted and dropped by the driver; never reaches the application."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason  # One of a small fixed set, so that counters stay bounded.


class TransportError(DoyenError):
    """A socket or a file failed.  Protocol state is unharmed; retry or choose another address."""


class InvariantViolated(DoyenError):
    """Something that must never be true was true.  Do not catch it: report it with its replay line."""


class LeadershipLost(DoyenError):
    """This node no longer leads: whatever only a leader may do must stop.  The group's state is unharmed."""

    def __init__(self, term: int, reason: str) -> None:
        super().__init__(f"leadership of term {term} is lost: {reason}")
        self.term, self.reason = term, without_password(reason)


class TermRefused(LeadershipLost):
    """A fence has seen a greater term: another leads by now.  What was to be written was not."""

    def __init__(self, term: int, fence: str, seen: int, *, because: str = "") -> None:
        super().__init__(term, f"fence {fence} refuses it: {because or f'term {seen} was seen'}")
        self.fence, self.seen = fence, seen
