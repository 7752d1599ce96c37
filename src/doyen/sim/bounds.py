"""How long a group may take to have one leader per region again, once nothing more goes wrong, by its own timers.

A preset states how long a group takes to replace a leader that died (`worst_case_of`).  After cuts, losses and crashes
more may have to be mended first: members find each other again, and elections that were under way come to an end.
"""

from typing import Final

from doyen.core.clock import FOREVER, Duration
from doyen.election.announce import AnnounceConfig
from doyen.node.config import ANNOUNCING, NodeConfig
from doyen.node.layers import worst_case_of
from doyen.node.promises import promise_of

SYNC_ROUNDS: Final = 4  # Rounds in which somebody tries a member that it holds failed, all but surely.


def settling_of(config: NodeConfig, size: int) -> Duration:
    """Return how long a group of that size may take without faults, whatever went before; travel not counted."""
    if config.election in ANNOUNCING:
        return _announcing(config.announce_config(config.election))
    if promise_of(config.election).sort == "quorum":
        return config.pole.settle_max
    elect = config.ctolerant
    begun = elect.final_timeout + elect.bootstrap_after + _finite(elect.ask_interval)
    return _merging(config, size) + begun + worst_case_of(config).failover


def _announcing(config: AnnounceConfig) -> Duration:
    spread = config.suppress_interval or config.announce_interval
    return _finite(config.listen_timeout) + spread + config.query_timeout + 2 * config.announce_interval


def _merging(config: NodeConfig, size: int) -> Duration:
    """Until the member lists are true again."""
    match config.membership_kind():
        case "swim":
            return SYNC_ROUNDS * _finite(config.swim.sync_interval)
        case "medley":
            return SYNC_ROUNDS * _finite(config.medley.sync_interval)
        case "heartbeat":
            beat = config.heartbeat
            return SYNC_ROUNDS * beat.reconnect_periods * beat.period + beat.fail_after(size)
        case "ring":  # Who was forced out tries again, ever later; one is let in at a time.
            ring = config.ring
            return size * int(ring.lease * (2**ring.backoff_max + 1))
        case _:
            return 0


def _finite(duration: Duration) -> Duration:
    return duration if duration < FOREVER else 0
