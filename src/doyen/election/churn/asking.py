"""Asks members at a low rate whom they hold: soon after news, which so spread fast, and then ever more slowly."""

from random import Random
from typing import Final

from doyen.core.clock import FOREVER, Duration, Instant
from doyen.core.effects import Out
from doyen.core.ids import NodeId
from doyen.election.churn import messages as msg
from doyen.election.churn.standpoint import Standpoint

ASKED_BESIDE: Final = 2  # Members that are asked beside a tentative leader whether it is final.


class Asking:
    """The rounds of one node: in each, one member drawn at random is asked for its leader."""

    __slots__ = ("_out", "_point", "_rng", "_round_no", "_wait")

    def __init__(self, point: Standpoint, out: Out, rng: Random) -> None:
        self._point, self._out, self._rng = point, out, rng
        self._round_no = 0
        self._wait: Duration = 0

    def soon(self, now: Instant) -> None:
        """Begin again at the fastest pace: there is news, or none yet."""
        longest = self._point.config.ask_interval
        if longest < FOREVER:
            self._round_no += 1
            self._wait = min(2 * self._point.timeout, longest)
            self._out.set_timer(msg.MemberIsAsked(self._round_no), now + int(self._rng.random() * self._wait))

    def ask_others(self, leader: NodeId, question: msg.Ask) -> None:
        """Ask some members beside the leader, who may know more of it, where members ask each other at all."""
        others = [node for node in self._point.others() if node != leader]
        if self._point.config.ask_interval < FOREVER:
            for node in self._rng.sample(others, min(ASKED_BESIDE, len(others))):
                self._out.send(node, question)

    def ask(self, timer: msg.MemberIsAsked, question: msg.Ask, now: Instant) -> None:
        """Ask one member, and plan the next round, unless the timer is of an earlier pace."""
        if timer.ask_no != self._round_no:
            return
        others = self._point.others()
        if others:
            self._out.send(self._rng.choice(others), question)
        self._wait = min(2 * self._wait, self._point.config.ask_interval)
        self._out.set_timer(timer, now + self._wait // 2 + int(self._rng.random() * self._wait))
