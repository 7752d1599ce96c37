"""Medley: SWIM for networks of many hops, where near members are pinged more often than far ones.
[MEDLEY: Yang, Zhu, Li, Gupta, "Medley: A Novel Distributed Failure Detector for IoT Networks", Middleware 2019;
Yang, Wang, Hu, Zhu, Li, Gupta, "Medley: A Membership Service for IoT Networks", TNSM 2022]

A member is chosen as ping target with probability proportional to 1/distance^m: most packets travel one hop, and the
few far ones keep the parts of the network informed of each other.  Everything else is SWIM's.

Time-bounded round robin (`time_bounded`): targets are not drawn but taken by stride, each member's turn coming every
1/probability periods, so that the silence between two pings of one member has a bound.  A member with few neighbours
would still be pinged too seldom.  *Passive feedback*: every ack says for how long nobody had pinged its sender, and the
receiver raises or lowers the sender's weight.  *Active feedback*: a member that was not pinged for too long asks its
nearest member for a ping.

Ambiguity [MEDLEY]: the papers leave open how much a weight changes by feedback, and when to ask; see the config.
Deviation: where an election runs above it, all members watch its leader as if it were near (`leader_weight`; off as
  published; decision 26).
Deviation: no member's turn comes more seldom than every `turn_max_mult`·N periods, however far it is.
"""

from collections.abc import Mapping
from random import Random
from typing import Any, ClassVar

from doyen.core.clock import Instant
from doyen.core.effects import Out
from doyen.core.ids import NodeId
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.machine import Hears, hears
from doyen.membership.medley.config import MedleyConfig
from doyen.membership.medley.targets import Distance, NearFirst
from doyen.membership.swim.machine import Swim
from doyen.membership.swim.messages import PeriodBegins, PingMe
from doyen.membership.swim.roster import Acquaintances


class Hops:
    """The distances that were given; every other member is a neighbour."""

    def __init__(self, hops: Mapping[str, float]) -> None:
        self._hops = dict(hops)

    def __call__(self, node: NodeId) -> float:
        return self._hops.get(node, 1.0)


class Medley(Swim):
    """One member: SWIM's machine with targets of its own.  Further arguments are those of `Swim`."""

    def __init__(
        self,
        node: NodeId,
        config: MedleyConfig,
        out: Out,
        rng: Random,
        *,
        distance: Distance,
        known: Acquaintances | None = None,
        **more: Any,
    ) -> None:
        others = [member for member in known.members if member != node] if known is not None else []
        self.targets = NearFirst(others, rng, config, distance)
        super().__init__(node, config.swim(), out, rng, known=known, targets=self.targets, **more)

    def on_leader_elected(self, fact: LeaderElected, now: Instant) -> None:
        self.targets.favour(fact.term.leader)

    def on_leader_lost(self, fact: LeaderLost, now: Instant) -> None:
        self.targets.favour(None)

    HEARS: ClassVar[Hears] = Swim.HEARS | hears(LeaderElected, on_leader_elected) | hears(LeaderLost, on_leader_lost)

    def _on_period(self, timer: PeriodBegins, now: Instant) -> None:
        asked = self.targets.starved(now)
        if asked is not None:
            self._post.send(asked, PingMe)
        self._prober.on_period(timer, now)
