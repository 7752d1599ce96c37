"""The workloads of every peer, and the figures of a run by which peers are held equal."""

from msgspec import Struct

from doyen.core.clock import Duration, ms, seconds
from doyen.core.ids import NodeId
from doyen.election.announce.config import AnnounceConfig
from doyen_lab.simulators.ping import PingConfig


class Election(Struct, frozen=True, kw_only=True):
    """LE-S as the chapter sets it (T_S = T_A = 1 s, T_L = ∞): everybody starts at 0, the greatest name wins."""

    nodes: int = 100
    loss: float = 0.4  # Of each delivery on its own.
    delay: Duration = ms(100)
    duration: Duration | None = seconds(1000)  # None: until everybody names the winner.
    config: AnnounceConfig = AnnounceConfig.paper()


class Elected(Struct, frozen=True):
    tmax_s: float  # When the announcement was sent that made the last process name the winner.
    messages: int  # Sent until that one arrived.
    delivery_count: int = 0  # In the whole run; peers do not spend time on counting them.


class Detection(Struct, frozen=True, kw_only=True):
    """Everybody pings one of the others per period and waits for its ack."""

    nodes: int = 256
    periods: int = 300
    loss: float = 0.05
    delay: Duration = ms(100)
    config: PingConfig = PingConfig()

    @property
    def duration(self) -> Duration:
        return self.periods * self.config.period


class Detected(Struct, frozen=True):
    probes: int
    silent: int  # Probes without an ack in time, emitted as facts.
    delivery_count: int = 0


def names(count: int) -> list[NodeId]:
    width = len(str(count))
    return [NodeId(f"n{i:0{width}d}") for i in range(count)]
