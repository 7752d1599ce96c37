"""Ranks: the rules by which one node is a better leader than another.

A *standing* is a number, and greater is better; a *claim* is a standing with the name of who holds it, so that
no two claims are equal and any two nodes agree which is better.  Elections carry claims; where a standing comes
from (an address, a load, an oracle, a quality factor) is not their business.
"""

from collections.abc import Callable
from typing import Annotated, Final, TypeAlias

from msgspec import Meta, Struct

from doyen.core.clock import Duration
from doyen.core.ids import NodeId

Standing: TypeAlias = int | float
STANDING_MAX: Final = 2**62
FLOAT_MAX: Final = 1.7976931348623157e308  # No float is greater but infinity.
Finite: TypeAlias = Annotated[float, Meta(ge=-FLOAT_MAX, le=FLOAT_MAX)]  # In a message: no nan either.
ORACLE_PARTS_MAX: Final = 8
OracleStanding: TypeAlias = Annotated[tuple[Finite, ...], Meta(max_length=ORACLE_PARTS_MAX)]  # () is the least.
SALTING: Final = "group and election"  # What a node's hashes of names are salted with; alike on all members of a group.
Claim: TypeAlias = tuple[Standing, NodeId]  # Compared as a tuple: the greater claim is the better leader.


def shortest(standing: Standing) -> Standing:
    """The same number.  On the wire a small whole one takes a byte, where a fraction takes nine."""
    return int(standing) if float(standing).is_integer() else standing


class Vitals(Struct, frozen=True, kw_only=True):
    """The properties of a node that ranks ask for."""

    load: float = 0.0  # Work queued or running; fewer is better.
    neighbour_count: int = 0
    delay_sum_s: float = 0.0  # Over all members, as observed.
    loss_sum: float = 0.0  # Over all members, as observed; 1 per member that is never heard.


class VitalsObserved(Struct, frozen=True):
    """A fact: what a node has observed of itself and the others has clearly changed."""

    vitals: Vitals


class ScoreWanted(Struct, frozen=True):
    """A question to the world: what is my score now?  Answered by `ScoreGiven` with the same number, or never."""

    number: int


class ScoreGiven(Struct, frozen=True):
    number: int
    value: Standing


class VectorsChanged(Struct, frozen=True):
    """The inputs of scores have changed: round trips to this many peers are known."""

    peer_count: int


class RoundTripsTold(Struct, frozen=True):
    """An election has measured these round trips by its own heartbeats, or got them from its leader."""

    trips: tuple[tuple[NodeId, Duration], ...]


# [LE §5.1, §5.7] The chapter's selection criteria.  Wake-up time, the sixth, is drawn by the election itself (LE-M).
RANKS: Final[dict[str, Callable[[Vitals], Standing]]] = {
    "address": lambda vitals: 0,  # All alike: the greatest name wins.
    "load": lambda vitals: -vitals.load,
    "neighbours": lambda vitals: vitals.neighbour_count,
    "delay": lambda vitals: -vitals.delay_sum_s,
    "loss": lambda vitals: -vitals.loss_sum,
}
