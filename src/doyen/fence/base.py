"""The shape that all fences share: `fence.check(term)`, `with fence(term):` and `async with fence(term):`."""

import asyncio
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, Final, Generic, TypeVar

from doyen.core.ids import TERM_NUMBER_MAX
from doyen.errors import ConfigError, LocalProtocolError, TermRefused

T = TypeVar("T")  # What the body of `with fence(term) as …` gets.
DIGITS: Final = 20  # So that texts of terms are ordered as the terms are.


def number_of(term: Any) -> int:
    """Return the number of a `doyen.Term`, or a number itself; raise `LocalProtocolError` for anything else."""
    try:
        number = term if isinstance(term, int) else term.number
    except AttributeError:
        number = None
    if isinstance(number, bool) or not isinstance(number, int) or not 0 < number <= TERM_NUMBER_MAX:
        raise LocalProtocolError(f"{term!r} is no term: give a doyen.Term, or its number from 1 to 2^53")
    return number


def named(name: str) -> str:
    """Return the name of a fence; raise `ConfigError` where it can be none."""
    if not name or len(name) > 128 or not all(c.isalnum() or c in "-_.:" for c in name):
        raise ConfigError(f"{name!r} is no name of a fence: letters, digits and -_.: only, at most 128")
    return name


def judge(name: str, number: int, seen: int) -> None:
    """Raise `TermRefused` if a greater term was seen."""
    if seen > number:
        raise TermRefused(number, name, seen)


class Fence(ABC, Generic[T]):
    """A fence that keeps the greatest term of one name."""

    def __init__(self, name: str) -> None:
        self.name = named(name)

    def __call__(self, term: Any) -> "Guarded[T]":
        """Return a context: what its body does through the fence is done in this term, or refused."""
        return Guarded(self, number_of(term))

    @abstractmethod
    def check(self, term: Any) -> None:
        """Raise `TermRefused` if a greater term was seen; from now on smaller ones are refused."""

    @abstractmethod
    def begin(self, number: int) -> T:
        """Return what the body gets."""

    @abstractmethod
    def end(self, number: int, inside: T) -> None:
        """Do what the body asked for, if no greater term was seen."""


class Guarded(Generic[T]):
    """One use of a fence.  As an async context manager it asks in a thread, so that the event loop goes on."""

    def __init__(self, fence: Fence[T], number: int) -> None:
        self._fence, self._number = fence, number

    def __enter__(self) -> T:
        self._inside = self._fence.begin(self._number)
        return self._inside

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._fence.end(self._number, self._inside)

    async def __aenter__(self) -> T:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await asyncio.to_thread(self.__exit__, None, None, None)
