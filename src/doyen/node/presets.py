"""Timers for the kinds of network that most groups live on, and what they come to in the worst case.

Every figure assumes that nothing is lost and nobody is slow: what the timers alone allow.  `doyen sim` and
`doyen analyze` say what loss makes of them.
"""

from typing import Literal

from msgspec import Struct

from doyen.core.clock import FOREVER, Duration, format_duration, ms, seconds
from doyen.election.announce import AnnounceConfig
from doyen.election.ctolerant.config import CTolerantConfig
from doyen.election.pole.config import PoleConfig
from doyen.election.spanning.config import SpanningConfig
from doyen.membership.arbitration.config import ArbitrationConfig
from doyen.membership.heartbeat import HeartbeatConfig
from doyen.membership.medley import MedleyConfig
from doyen.membership.swim.config import SwimConfig

Preset = Literal["local", "lan", "wan", "iot"]


class Timers(Struct, frozen=True, kw_only=True):
    """One preset's tables, and the one-way delay that they are made for."""

    delay: Duration
    announce: AnnounceConfig
    swim: SwimConfig
    medley: MedleyConfig
    heartbeat: HeartbeatConfig
    ctolerant: CTolerantConfig
    spanning: SpanningConfig
    pole: PoleConfig
    ring: ArbitrationConfig


class WorstCase(Struct, frozen=True, kw_only=True):
    """From a leader's death; nothing lost, nobody slow."""

    detection: Duration  # Until somebody gives it up.
    failover: Duration  # Until everybody names the next.
    because: str  # The sum, in the protocol's own words.


def at_most(worst: Duration) -> str:
    """A bound for people: in whole milliseconds, and never below what it is."""
    return format_duration(ms(-(-worst // 1_000_000)) if worst < FOREVER else worst)


def timers(preset: Preset, group_size: int) -> Timers:
    match preset:
        case "local":
            return Timers(
                delay=ms(1),
                announce=AnnounceConfig(
                    announce_interval=ms(200),
                    listen_timeout=ms(600),
                    suppress_interval=ms(150),
                    group_size=group_size,
                ),
                swim=SwimConfig(period=ms(200), ack_timeout=ms(80), join_interval=ms(200), sync_interval=seconds(5)),
                medley=MedleyConfig(
                    period=ms(200),
                    ack_timeout=ms(80),
                    suspicion_timeout=seconds(1),
                    lifeguard=True,
                    join_interval=ms(200),
                    sync_interval=seconds(5),
                    unhealthy_half_life=seconds(600),
                ),
                heartbeat=HeartbeatConfig(period=ms(100)),
                ctolerant=CTolerantConfig(
                    response_timeout=ms(50),
                    resend_interval=ms(50),
                    final_timeout=seconds(1),
                    begin_spread=ms(50),
                    bootstrap_after=ms(500),
                    ask_interval=seconds(5),
                ),
                spanning=SpanningConfig(
                    hop_delay=ms(20), diameter_max=max(1, min(group_size, 64)), pulse_interval=ms(500)
                ),
                pole=PoleConfig(
                    election_timeout=ms(50), lease=ms(500), heartbeat_interval=ms(100), retry_max=seconds(5)
                ),
                ring=ArbitrationConfig(lease=ms(500), arbitration=ms(250)),
            )
        case "lan":
            return Timers(
                delay=ms(1),
                announce=AnnounceConfig.lan(group_size),
                swim=SwimConfig.lan(group_size),
                medley=MedleyConfig.lan(group_size),
                heartbeat=HeartbeatConfig.lan(group_size),
                ctolerant=CTolerantConfig.lan(group_size),
                spanning=SpanningConfig.lan(group_size),
                pole=PoleConfig.lan(group_size),
                ring=ArbitrationConfig(lease=ms(500), arbitration=ms(250)),
            )
        case "wan":
            return Timers(
                delay=ms(150),
                announce=AnnounceConfig.wan(group_size),
                swim=SwimConfig.wan(group_size),
                medley=MedleyConfig.wan(group_size),
                heartbeat=HeartbeatConfig.wan(group_size),
                ctolerant=CTolerantConfig.wan(group_size),
                spanning=SpanningConfig.wan(group_size),
                pole=PoleConfig.wan(group_size),
                ring=ArbitrationConfig(lease=ms(3000), arbitration=ms(1500), drift=1e-4),
            )
        case "iot":  # Radio with a tenth of all packets lost, devices that sleep, and little traffic to spend.
            return Timers(
                delay=ms(200),
                announce=AnnounceConfig(
                    announce_interval=seconds(5),
                    listen_timeout=seconds(25),
                    suppress_interval=seconds(3),
                    group_size=group_size,
                    bye_loss=0.1,
                ),
                swim=SwimConfig(period=seconds(5), ack_timeout=seconds(1), suspicion_mult=5.0),
                medley=MedleyConfig(
                    lifeguard=True, sync_interval=seconds(60), unhealthy_half_life=seconds(600), period=seconds(2)
                ),
                heartbeat=HeartbeatConfig(period=seconds(5), fail_periods=16.0),
                ctolerant=CTolerantConfig(
                    response_timeout=seconds(2),
                    resend_interval=seconds(1),
                    final_timeout=seconds(30),
                    begin_spread=seconds(2),
                    bootstrap_after=seconds(10),
                ),
                spanning=SpanningConfig(
                    hop_delay=seconds(1), diameter_max=max(1, group_size - 1), pulse_interval=seconds(10)
                ),
                pole=PoleConfig(election_timeout=seconds(2), lease=seconds(15), heartbeat_interval=seconds(3)),
                ring=ArbitrationConfig(lease=seconds(15), arbitration=seconds(6), drift=1e-4, resends=4),
            )


def worst_case(election: str, membership: str, made: Timers, group_size: int) -> WorstCase:
    """What the timers alone allow, summed up."""
    delay, n = made.delay, group_size
    if election in ("announce", "le-a", "le-s", "le-m"):
        a = made.announce
        spread = 0 if election == "le-a" else a.suppress_interval
        return WorstCase(
            detection=a.listen_timeout + delay,
            failover=a.listen_timeout + spread + 2 * delay,
            because="a delay of its last word, T_L, then T_S and a delay [LE §5.5]",
        )
    if election == "pole":
        p = made.pole
        return WorstCase(
            detection=p.guard + delay,
            failover=2 * p.guard + p.election_timeout + 6 * delay,
            because="a delay of its last word, a guard until silence counts, T to elect, a guard until voters are "
            "free, five delays",
        )
    if election == "by-key":
        r = made.ring
        return WorstCase(
            detection=2 * r.lease + r.arbitration + r.recent + delay,
            failover=2 * r.lease + r.arbitration + r.recent + r.lease * _ring_hops(r, n) + 2 * delay,
            because="2·T_l + T_a until it is voted out, T_arb until it must have left [ARB Cor. 3], T_l a hop of news",
        )
    detection, why = _membership_worst_case(membership, made, n)
    if election == "spanning":
        s = made.spanning
        return WorstCase(
            detection=detection, failover=detection + s.declaration_wait, because=f"{why}; then R(0) + (D+2)·δ"
        )
    if election == "local":
        return WorstCase(detection=detection, failover=detection, because=why)
    c = made.ctolerant
    return WorstCase(
        detection=detection,
        failover=detection + c.begin_spread + 4 * delay,
        because=f"{why}; then begin_spread, and QUERY, RESPONSE, NOTIFYLEADER, LEADER",
    )


def _ring_hops(ring: ArbitrationConfig, n: int) -> int:
    """News ride on leases, to k neighbours on either side at a time."""
    return -(-n // (2 * ring.neighbours))


def _membership_worst_case(membership: str, made: Timers, n: int) -> tuple[Duration, str]:
    """Until everybody knows of a death."""
    if membership == "heartbeat":
        return made.heartbeat.fail_after(n) + made.heartbeat.period, "fail_after and a period"
    if membership == "ring":
        r = made.ring
        known = 2 * r.lease + r.arbitration + r.recent + r.lease * _ring_hops(r, n)
        return known, "2·T_l + T_a, T_arb [ARB Cor. 3], T_l per hop of news"
    if membership == "medley":
        m = made.medley
        rounds = int(m.turn_max_mult * max(1, n - 1))
        return m.period * rounds + 2 * m.suspicion_timeout, "the longest turn, and the longest suspicion"
    spread = made.swim.period * max(1, n - 1).bit_length()
    return made.swim.worst_detection(n) + spread, "a round of probes, the longest suspicion, and its news"
