"""Observes what ranks ask for: delay, loss and neighbours, as a node meets them itself.  [LE §5.1, §5.7]

The chapter ranks processes by these and leaves open where a process has them from.  In a settled group only the leader
speaks, so nobody could say anything of the others: where a rank asks for it, every process multicasts a small `Probe`
from time to time, and who hears it answers with an `Echo`.

    delay        half of the mean round trip to each other process, summed
    loss         the share of probes that each other process did not answer, there or back, summed
    neighbours   how many others answered lately

A process that another one hears and this one does not counts as lost, and as far as a probe may take: else a node that
hears hardly anybody would look best.  Whatever is observed counts anew once twice as many probes show it, and then
only when it has clearly changed, so that leadership does not follow the noise.
"""

from math import sqrt
from random import Random
from typing import Any, ClassVar, Final, TypeAlias

from msgspec import Struct

from doyen.core.clock import Duration, Instant, to_seconds
from doyen.core.effects import Out
from doyen.core.ids import Count, NodeId
from doyen.core.machine import Hears
from doyen.core.rank import Vitals, VitalsObserved

CHANNEL: Final = "observed"
UNOBSERVED: Final = -1_000_000  # The standing of a process that has not observed anything yet: worse than any other.
WINDOW: Final = 41  # Probes that are kept; the last one is not judged yet.
JUDGED_MIN: Final = 5  # Fewer show nothing.
CLEAR_SHARE: Final = 0.25  # Delays that have changed by this share have changed,
CLEAR_DELAY_S: Final = 0.001  # if it is more than this for each of the others.
CLEAR_ERRORS: Final = 3.0  # Losses have, if they differ by this many standard errors of a difference,
CLEAR_LOSS: Final = 0.02  # and by more than this for each of the others.
PEERS_MAX: Final = 10_000  # Anybody can make up names.


class Probe(Struct, frozen=True, gc=False, array_like=True, tag="p"):
    """Asks for an echo, and says how many others its sender hears."""

    number: Count
    peer_count: Count


class Echo(Struct, frozen=True, gc=False, array_like=True, tag="e"):
    """Answers the probe of that number."""

    number: Count


Message: TypeAlias = Probe | Echo


class ProbeIsDue(Struct, frozen=True, gc=False):
    """The next probe is sent, and the earlier ones are judged."""


class Peer:
    """One other process, as it was observed."""

    __slots__ = ("heard_at", "peer_count", "trips")

    def __init__(self) -> None:
        self.heard_at: Instant = 0
        self.peer_count = 0  # How many others it hears itself, as it said last.
        self.trips: dict[int, Duration] = {}  # By the number of the probe: the round trip of its echo.


class Observer:
    """One process's observations of all others."""

    MESSAGES: ClassVar[Any] = Probe | Echo
    HEARS: ClassVar[Hears] = {}

    def __init__(self, me: NodeId, interval: Duration, out: Out, rng: Random) -> None:
        self.me, self._interval, self._out, self._rng = me, interval, out, rng
        self.peers: dict[NodeId, Peer] = {}
        self.told: Vitals | None = None  # What the elections know.
        self._number = self._told_by = 0  # Of the last probe; and how many had been judged when it was told.
        self._sent_at: dict[int, Instant] = {}  # The probes that are kept, by number.

    def start(self, now: Instant) -> None:
        self._out.set_timer(ProbeIsDue(), now + int(self._rng.random() * self._interval))

    def on_timer(self, timer: Any, now: Instant) -> None:
        self._forget(now)
        observed = self.vitals()
        if observed is not None:
            self._tell(observed)
        self._number += 1
        self._sent_at[self._number] = now
        self._out.multicast(Probe(self._number, len(self.peers)))
        # A little early at random, so that processes that were started together do not always speak together.
        self._out.set_timer(ProbeIsDue(), now + self._interval - int(self._rng.random() * self._interval / 10))

    def on_message(self, sender: NodeId, message: Message, now: Instant) -> None:
        peer = self.peers.get(sender)
        if peer is None:
            if sender == self.me or len(self.peers) >= PEERS_MAX:
                return
            peer = self.peers[sender] = Peer()
        peer.heard_at = now
        if isinstance(message, Probe):
            peer.peer_count = message.peer_count
            self._out.send(sender, Echo(message.number))
        elif message.number in self._sent_at and message.number not in peer.trips:
            peer.trips[message.number] = now - self._sent_at[message.number]

    def vitals(self) -> Vitals | None:
        """Return what the probes that count show; None where they are too few, or nobody is heard."""
        judged = self._judged()
        if len(judged) < JUDGED_MIN or not self.peers:
            return None
        # Nobody says that it hears more than there are, so one that this process lacks is one that it should hear.
        unheard = max(0, max(peer.peer_count for peer in self.peers.values()) - len(self.peers))
        longest = to_seconds(self._interval)
        delay, loss, neighbours = longest * unheard, float(unheard), 0
        for peer in self.peers.values():
            trips = [peer.trips[number] for number in judged if number in peer.trips]
            delay += to_seconds(sum(trips) // len(trips)) / 2 if trips else longest
            loss += 1.0 - len(trips) / len(judged)
            neighbours += bool(trips)
        return Vitals(neighbour_count=neighbours, delay_sum_s=delay, loss_sum=loss)

    def _judged(self) -> list[int]:
        """Return the probes that count: the last one may be under way still."""
        return [number for number in self._sent_at if number != self._number]

    def _tell(self, observed: Vitals) -> None:
        """Tell the elections what is observed, as far as it differs clearly from what they know."""
        told, count = self.told, len(self._judged())
        if told is not None and count < 2 * self._told_by:
            others = max(1, len(self.peers))
            delay = abs(observed.delay_sum_s - told.delay_sum_s)
            loss = abs(observed.loss_sum - told.loss_sum)
            share = min(1.0, observed.loss_sum / others)
            error = sqrt(2.0 * others * share * (1.0 - share) / count)
            slower = delay > max(CLEAR_SHARE * told.delay_sum_s, CLEAR_DELAY_S * others)
            lossier = loss > max(CLEAR_ERRORS * error, CLEAR_LOSS * others)
            observed = Vitals(
                neighbour_count=observed.neighbour_count,
                delay_sum_s=observed.delay_sum_s if slower else told.delay_sum_s,
                loss_sum=observed.loss_sum if lossier else told.loss_sum,
            )
        else:
            self._told_by = count
        if observed != told:
            self.told = observed
            self._out.emit(VitalsObserved(observed))

    def _forget(self, now: Instant) -> None:
        """Let go of old probes, and of processes that were not heard for as long as those counted."""
        for number in [number for number in self._sent_at if number <= self._number - WINDOW]:
            del self._sent_at[number]
            for peer in self.peers.values():
                peer.trips.pop(number, None)
        silent = [name for name, peer in self.peers.items() if now - peer.heard_at > WINDOW * self._interval]
        for name in silent:
            del self.peers[name]
