"""No message of a ring exceeds a datagram: a member whose seat is too long for its neighbourhoods is refused."""

from typing import Any

import pytest

from doyen.core.clock import Duration
from doyen.core.codec import Codec
from doyen.core.ids import Incarnation, NodeId
from doyen.errors import ConfigError
from doyen.membership.ring.geometry import Seat
from doyen.membership.ring.kind import Ring
from doyen.membership.ring.room import OTHERS, ROOM, check_seat, size
from doyen.sim.node import SimNode
from doyen.testing import Cluster

ADDRESS = "255.255.255.255:65535"


def longest(neighbours: int, address: str = "") -> int:
    """Return how long a name may be; without an address, where that is the name, as in a simulation."""
    length = 64
    while size(Seat(2**31, NodeId("n" * length), 2**63, address or "n" * length + ":0")) > ROOM // (
        2 * neighbours + OTHERS
    ):
        length -= 1
    return length


@pytest.mark.parametrize("neighbours", [1, 3, 6, 8])
def test_a_ring_of_the_longest_names_fits_its_datagrams(neighbours: int) -> None:
    names = [f"{i:02}".ljust(longest(neighbours), "n") for i in range(2 * neighbours + 4)]
    cluster = Cluster(names, election="by-key", membership=Ring(neighbours=neighbours), seed=3)
    codec, sent = Codec("g" * 64), dict[str, int]()

    def weigh(sender: SimNode, channel: str, receiver: SimNode, message: Any) -> Duration:
        if channel == "membership":
            data = codec.encode(sender.name, Incarnation(2**63), channel, message)  # Raises if it is too large.
            kind = type(message).__name__
            sent[kind] = max(sent.get(kind, 0), len(data))
        return 0

    cluster.sim.filters.append(weigh)
    cluster.sim.network_changed()
    cluster.run_for("30s")
    assert all(len(cluster.members(name)) == len(names) for name in names)
    for name in names[:2]:
        cluster.crash(name)
        cluster.run_for("15s")
    assert sent.keys() >= {"LeaseRequest", "LeaseAck", "Propose", "Vote", "RosterPart", "Lock"}


def test_a_seat_that_is_too_long_for_a_neighbourhood_is_refused() -> None:
    for neighbours in (5, 12):
        most = longest(neighbours, ADDRESS)
        check_seat(Seat(2**31, NodeId("n" * most), 2**63, ADDRESS), neighbours)
        with pytest.raises(ConfigError, match=f"{neighbours} on each side leave .* give a shorter name"):
            check_seat(Seat(2**31, NodeId("n" * (most + 1)), 2**63, ADDRESS), neighbours)
    with pytest.raises(ConfigError, match="or fewer neighbours on every member"):
        Cluster(["n" * 64, "b"], election="by-key", membership=Ring(neighbours=12)).run_for("1s")
