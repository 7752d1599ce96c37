"""The formulas beside each simulated cell.  [POLE Eq. 1, 2, §4.4]"""

from doyen.core.ids import NodeId
from doyen_papers.score.oracles import score_all
from doyen_papers.studies.pole import ServiceSetting, oracle_of
from doyen_papers.studies.pole_places import Deployment
from doyen_papers.studies.service import tcp_bits_per_s


def leader_of(setting: ServiceSetting) -> NodeId:
    """Return the leader after the crash, with the dead one's clients in their data centre; the epoch is p1's turn."""
    place = setting.place()
    found = score_all(
        oracle_of(setting.oracle), place.matrix(), place.rates(), exclude=place.leader, reattribute=True, epoch=6
    )
    return found.leader


def by_centre(place: Deployment, leader: NodeId) -> dict[str, float]:
    """Return the mean latency of each data centre's requests, in ms, once the first leader is dead."""
    alive = [server for server in place.servers if server not in (place.leader, leader)]
    consensus = sorted([0.0, *(place.between(leader, other) for other in alive)])[len(place.servers) // 2]
    return {name: consensus + place.between(leader, servers[0]) for name, servers in place.centres}


def mean(setting: ServiceSetting) -> float:
    place = setting.place()
    centres = by_centre(place, leader_of(setting))
    return sum(share * centres[name] for (name, _), share in zip(place.centres, place.shares, strict=True))


def worst(setting: ServiceSetting) -> float:
    place = setting.place()
    centres = by_centre(place, leader_of(setting))
    return max(centres[name] for (name, _), share in zip(place.centres, place.shares, strict=True) if share > 0)


def recovery_s(setting: ServiceSetting) -> float:
    """Return the recovery over two data centres: learn from a quorum, and pull the history if it is missing."""
    place, leader = setting.place(), leader_of(setting)
    rtt = max(place.rtt_ms.values())
    learn = rtt / 1e3
    if leader not in place.outdated:
        return learn
    return learn + rtt / 1e3 + 8 * setting.snapshot_bytes / tcp_bits_per_s(rtt)
