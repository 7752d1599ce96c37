"""Announce-listen elections as kinds: announce, le-a, le-s, le-m.  [LE Ch. 5]"""

from collections.abc import Callable
from typing import Any, Literal

from msgspec.structs import replace

from doyen.core import kinds
from doyen.core.clock import FOREVER, ms, seconds
from doyen.core.effects import Out
from doyen.core.ids import Term
from doyen.core.kinds import PRESET, Place, Time, presets, weak
from doyen.core.rank import shortest
from doyen.core.reasons import Account, Reasons, first
from doyen.election.announce.config import AnnounceConfig
from doyen.election.announce.wakeup import RankMap, TimerShape
from doyen.errors import ConfigError


class Announce(kinds.ElectionChoice, frozen=True, kw_only=True):
    """Announce-listen, as its fields say; LE-S unless they say otherwise.  Weak, cheap, needs no membership.  [LE]"""

    kind = "announce"

    announce_interval: Time = PRESET
    """The time between two announcements (T_A). Shorter costs traffic, longer delays a takeover."""
    listen_timeout: Time = PRESET
    """How long a leader may be silent (T_L). Too short: losses look like a departure."""
    suppress_interval: Time = PRESET
    """Each claims the lead after a random part of this (T_S). With 0 all do so at once (LE-A)."""
    leader_is: Literal["best", "earliest"] = PRESET
    """Whether the best process leads, or the one that woke up earliest (LE-M)."""
    timer: TimerShape = PRESET
    """How wake-ups are drawn. Exponential: fewer messages, and a leader that is known later."""
    rank_map: RankMap = PRESET
    """Whether a process with a better rank wakes up earlier."""
    observed_rank: Literal["none", "delay", "loss", "neighbours"] = PRESET
    """What makes a process the better leader, as it observes it: least delay, least loss, most neighbours."""
    observe_interval: Time = PRESET
    """The time between two probes by which a process observes the others, where its rank asks for it."""
    group_size: int = PRESET
    """The expected number of members; shapes the exponential timer and the number of Byes."""
    leader_count: int = PRESET
    """How many leaders there are (k). A process gives way once it has heard k better ones."""
    query_timeout: Time = PRESET
    """How long a process asks who leads before it claims the lead (T_Q); 0: it does not ask."""
    bye_loss: float = PRESET
    """The estimated share of lost messages, from which the number of Byes follows."""
    bye_target_prob: float = PRESET
    """The probability with which all are to hear a farewell (Bye); 0: none is sent."""
    bye_from_all: bool = PRESET
    """Whether members that do not lead say farewell (Bye), too."""
    ageing_after: Time = PRESET
    """How long a leader may be silent before it gives way to any new claim; inf: forever."""


class AnnounceAtOnce(Announce, frozen=True, kw_only=True):
    """LE-A: everybody claims at once."""

    kind = "le-a"


class AnnounceSuppressed(Announce, frozen=True, kw_only=True):
    """LE-S: a claim that is heard suppresses the lesser ones."""

    kind = "le-s"


class AnnounceEarliest(Announce, frozen=True, kw_only=True):
    """LE-M: the first to wake leads, and stays."""

    kind = "le-m"


preset = presets(
    AnnounceConfig,
    local=lambda size: AnnounceConfig(
        announce_interval=ms(200), listen_timeout=ms(600), suppress_interval=ms(150), group_size=size
    ),
    # Radio with a tenth of all packets lost, devices that sleep, and little traffic to spend.
    iot=lambda size: AnnounceConfig(
        announce_interval=seconds(5),
        listen_timeout=seconds(25),
        suppress_interval=seconds(3),
        group_size=size,
        bye_loss=0.1,
    ),
)


class Announced(Account):
    """The claims that were heard decide, and the machine has them all."""

    def reasons(self, machine: Any, term: Term) -> Reasons:
        claims = {node: f"{standing:g}" for standing, node in machine.claims}
        if machine.standing is not None and machine.config.leader_is == "best":
            claims.setdefault(machine.me, f"{machine.standing:g}")
        what = "earliest wake-up" if machine.config.leader_is == "earliest" else "greatest standing"
        return Reasons(f"{what} of those heard", first(claims))


def worst_case(config: AnnounceConfig, around: kinds.Around) -> kinds.WorstCase:
    patience = config.listen_timeout if config.listen_timeout < FOREVER else 0  # FOREVER: no leader is given up.
    failover = config.listen_timeout + config.suppress_interval + 2 * around.delay
    claim = config.suppress_interval or config.announce_interval
    if config.leader_count > 1:  # One that leads does not claim again; the others' announcements come (decision 5).
        claim = max(claim, config.announce_interval)
    return kinds.WorstCase(
        detection=config.listen_timeout + around.delay,
        failover=failover,
        # A leader that is gone is given up, the next one is drawn, and of two the lesser one hears the better.
        settling=patience + claim + config.query_timeout + 2 * config.announce_interval,
        because="a delay of its last word, T_L, then T_S and a delay [LE §5.5]",
    )


def _goes_by_score(config: AnnounceConfig) -> bool:
    return config.leader_is == "best" and config.observed_rank == "none"


def _suppresses(config: AnnounceConfig) -> None:
    if config.suppress_interval == 0:
        raise ConfigError("le-s needs a suppress_interval above 0: with 0 it is le-a", field="election")


TABLE = kinds.Table(
    name="announce", about="Announce-listen elections", config=AnnounceConfig, preset=preset, hidden=("group_size",)
)


def _kind(
    choice: type[Announce],
    about: str,
    because: str = "it has the greatest standing of those that can be heard (ties: the greatest name)",
    *,
    aliases: tuple[str, ...] = (),
    check: Callable[[AnnounceConfig], None] = lambda config: None,
    **wanted: Any,
) -> kinds.ElectionKind:
    """Return the kind whose name says what `wanted` says about the table."""

    def build(place: Place) -> Callable[[Out], Any]:
        from doyen.election.announce.machine import Announce as Machine
        from doyen.election.announce.observed import CHANNEL as OBSERVED
        from doyen.election.announce.observed import UNOBSERVED, Observer

        restored = (place.restore(Machine.RECORD) or 0) if place.durable else None
        config: AnnounceConfig = replace(place.config, **wanted)
        standing = shortest(place.standing)
        if config.observed_rank != "none":
            standing, interval, rng = UNOBSERVED, config.observe_interval, place.rng(OBSERVED)
            place.companion(OBSERVED, lambda out: Observer(place.node, interval, out, rng))
        return lambda out: Machine(
            place.node,
            config,
            out,
            place.rng(place.channel),
            standing=standing if place.eligible else None,
            corrects=True,
            restored=restored,
        )

    return kinds.ElectionKind(
        name=choice.kind,
        aliases=aliases,
        about=about,
        table=TABLE,
        choice=choice,
        check=check,
        build=build,
        promise=lambda config, rank: weak(because),
        worst_case=lambda config, around: worst_case(replace(config, **wanted), around),
        account=Announced,
        stands_again=True,
        heeds_score=lambda config, rank: _goes_by_score(replace(config, **wanted)),
    )


ANNOUNCE = _kind(Announce, "Announce-listen: one multicast per interval, no membership.", aliases=("fast",))
LE_A = _kind(AnnounceAtOnce, "Announce-listen, everybody claims at once.", suppress_interval=0, leader_is="best")
LE_S = _kind(AnnounceSuppressed, "Announce-listen with suppression.", check=_suppresses, leader_is="best")
LE_M = _kind(
    AnnounceEarliest,
    "Announce-listen, the first to wake leads.",
    "it was the first to wake up",
    leader_is="earliest",
    rank_map="none",
    observed_rank="none",
)
