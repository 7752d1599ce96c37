"""A fence in this process's memory: for one server that is the only place where the work arrives."""

import threading
from typing import Any

from doyen.fence.base import Fence, judge, number_of


class Memory(Fence[None]):
    """A fence that a restart forgets: it then takes the first term that comes."""

    def __init__(self, name: str = "memory") -> None:
        super().__init__(name)
        self._seen = 0
        self._lock = threading.Lock()

    def check(self, term: Any) -> None:
        number = number_of(term)
        with self._lock:
            judge(self.name, number, self._seen)
            self._seen = number

    def begin(self, number: int) -> None:
        self.check(number)

    def end(self, number: int, inside: None) -> None:
        self.check(number)
