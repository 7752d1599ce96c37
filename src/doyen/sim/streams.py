"""Random streams of made-up worlds: one per purpose and node, so that a fault that never fires changes nothing.

A simulation of a thousand nodes has thousands of streams, most of which give a handful of draws.  Seeding a
Mersenne Twister costs as much as a hundred events, so a stream begins as splitmix64, whose state is one number,
and becomes a Mersenne Twister (seeded from that number) once it is clearly in demand.
"""

from hashlib import blake2b
from random import Random
from typing import Final

_MASK: Final = 2**64 - 1
_GOLDEN: Final = 0x9E3779B97F4A7C15
_STRIDE: Final = 0xD1342543DE82EF95  # Between the first states of neighbouring nodes' streams.
CHEAP_DRAWS: Final = 12


def mix(state: int) -> int:
    """Turn neighbouring states into unrelated numbers, by the finaliser of splitmix64."""
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
    return state ^ (state >> 31)


class Stream(Random):
    """A `Random` that is cheap to make, and fast once it is used in earnest."""

    def __init__(self, key: int) -> None:
        self._state, self._left = key, CHEAP_DRAWS
        self.gauss_next = None

    def random(self) -> float:
        if self._left <= 0:
            self._upgrade()
            return super().random()
        self._left -= 1
        self._state = state = (self._state + _GOLDEN) & _MASK
        # `mix`, written out: most streams of a large simulation are used once or twice.
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        return ((state ^ (state >> 31)) >> 11) * 2**-53

    def getrandbits(self, k: int, /) -> int:
        self._upgrade()
        return super().getrandbits(k)

    def _upgrade(self) -> None:
        """Make this object's further draws those of a Mersenne Twister, at its full speed."""
        if self._left < 0:
            return  # A caller kept the slow method, as `Random.shuffle` does: go on, do not seed again.
        self._left = -1
        super().seed(mix(self._state))
        self.random = super().random  # type: ignore[method-assign]
        self.getrandbits = super().getrandbits  # type: ignore[method-assign]


class Streams:
    """All streams of one run."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._bases: dict[str, int] = {}

    def base(self, purpose: str) -> int:
        base = self._bases.get(purpose)
        if base is None:
            digest = blake2b(f"{self.seed}/{purpose}".encode(), digest_size=8).digest()
            base = self._bases[purpose] = int.from_bytes(digest, "little")
        return base

    def of(self, purpose: str, index: int = 0) -> Stream:
        return Stream((self.base(purpose) + index * _STRIDE) & _MASK)
