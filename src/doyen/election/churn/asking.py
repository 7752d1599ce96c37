"""Asks members whom they hold: soon after news, and then ever more slowly.

Extension [CTOL]: so a node that a LEADER never reached, one that returns, and two halves that meet again agree without
  an election; with `ask_interval` inf, as in the paper, nobody asks.
"""

from random import Random
from typing import Final

from doyen.core.clock import FOREVER, Duration, Instant
from doyen.core.effects import Out
from doyen.election.churn.messages import Ask, LeaderIsAsked, MemberIsAsked, Record
from doyen.election.churn.standpoint import Standpoint

ASKED_BESIDE: Final = 2  # Members that are asked beside a tentative leader whether it is final.


class Asking:
    """The next question, and how long the one after it will wait."""

    def __init__(self, point: Standpoint, out: Out, rng: Random, interval: Duration) -> None:
        self._point, self._out, self._rng, self._interval = point, out, rng, interval
        self._number = 0
        self._wait: Duration = 0

    def soon(self, now: Instant) -> None:
        """Begin again with a short wait: there is news, which spread fast by questions."""
        if self._interval < FOREVER:
            self._number += 1
            self._wait = min(2 * self._point.timeout, self._interval)
            self._out.set_timer(MemberIsAsked(self._number), now + self._some(self._wait))

    def on_due(self, timer: MemberIsAsked, question: Ask, now: Instant) -> None:
        """Ask one member, and double the wait."""
        if timer.ask_no != self._number:
            return
        others = self._point.others()
        if others:
            self._out.send(self._rng.choice(others), question)
        self._wait = min(2 * self._wait, self._interval)
        self._out.set_timer(timer, now + self._wait // 2 + self._some(self._wait))

    def on_tentative(self, timer: LeaderIsAsked, held: Record, question: Ask, now: Instant) -> None:
        """Ask a leader that has been tentative for long, and others: perhaps its confirmation was lost here alone."""
        if not held.final and (held.election, held.sequence) == (timer.election, timer.sequence):
            others = [node for node in self._point.others() if node != held.leader]
            for node in (held.leader, *self._rng.sample(others, min(ASKED_BESIDE, len(others)))):
                self._out.send(node, question)
            self._out.set_timer(timer, now + timer.wait)

    def _some(self, span: Duration) -> Duration:
        return int(self._rng.random() * span)
