"""What doyen asks of an election: its names, needs, timers, machine, promise and worst case."""

from collections.abc import Callable
from typing import Any

from bully.machine import BullyConfig
from doyen.core.clock import ms
from doyen.core.effects import Out
from doyen.core.ids import Term
from doyen.core.kinds import (
    ADVICE,
    PRESET,
    WEAK,
    Around,
    ElectionChoice,
    ElectionKind,
    Needs,
    Network,
    Place,
    Promise,
    Table,
    Time,
    WorstCase,
)
from doyen.core.reasons import Account, Reasons


class Bully(ElectionChoice, frozen=True, kw_only=True):
    """The greatest name leads.  [BULLY]"""

    kind = "bully"

    answer_timeout: Time = PRESET
    repeat_interval: Time = PRESET


def preset(network: Network, group_size: int) -> BullyConfig:
    wait = {"local": ms(50), "lan": ms(300), "wan": ms(1000), "iot": ms(3000)}[network]
    return BullyConfig(answer_timeout=wait, repeat_interval=4 * wait)


def build(place: Place) -> Callable[[Out], Any]:
    from bully.machine import Bully as Machine

    restored = (place.restore(Machine.RECORD) or 0) if place.durable else None
    return lambda out: Machine(place.node, place.config, out, restored=restored)


def worst_case(config: BullyConfig, around: Around) -> WorstCase:
    known = around.detection
    failover = known.duration + 3 * config.answer_timeout + 2 * around.delay
    return WorstCase(
        detection=known.duration,
        failover=failover,
        settling=known.merging + 2 * config.repeat_interval + 2 * failover,
        because=f"{known.because}; then an answer, a coordinator, and one more attempt",
    )


class Greatest(Account):
    def reasons(self, machine: Any, term: Term) -> Reasons:
        return Reasons("the greatest name that answered")


BULLY = ElectionKind(
    name="bully",
    about="The greatest name leads.",
    table=Table(name="bully", about="Bully elections", config=BullyConfig, preset=preset),
    choice=Bully,
    needs=Needs(members=True, why="it asks everybody greater; give swim, medley or heartbeat"),
    build=build,
    promise=lambda config, rank: Promise(in_short=f"{WEAK} {ADVICE}", because="it has the greatest name"),
    worst_case=worst_case,
    account=Greatest,
    resigns=False,
    heeds_eligible=False,
)
