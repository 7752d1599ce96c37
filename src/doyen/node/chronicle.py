"""What a node has heard of one election, kept short: how it began, who stood, how it ended.

Every line is from facts that this node saw itself; what only others know is not guessed.
"""

import time
from collections import deque
from typing import Any, Final

from msgspec import Struct

from doyen.core.clock import Instant
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.node.reasons import Reasons, reasons
from doyen.node.reign import Reign

KEPT_MAX: Final = 64  # Facts remembered per election.


class Entry(Struct, frozen=True):
    at: float  # Wall clock.
    clock: Instant
    text: str
    kind: str = ""


class Chronicle:
    """One election's."""

    def __init__(self, reign: Reign) -> None:
        self.reign = reign
        self.entries: deque[Entry] = deque(maxlen=KEPT_MAX)
        self.ended: Entry | None = None  # How the last reign ended.
        self.started: Entry | None = None  # How the present election began.
        self.initiator = ""
        self.asked: dict[str, int] = {}  # By whom was answered, in order.
        self.candidates: tuple[str, ...] = ()
        self.excluded: tuple[tuple[str, int], ...] = ()
        self.elected: Entry | None = None
        self.final: Entry | None = None
        self.shortage = ""
        self.why = Reasons("")  # Of the leader named last.

    def note(self, fact: Any, now: Instant) -> None:
        """Whatever the election tells; by the fact's name, for protocols differ."""
        match type(fact).__name__:
            case "LeaderElected":
                self._on_elected(fact, now)
            case "LeaderLost":
                self._on_lost(fact, now)
            case "AttemptBegan":
                self.asked, self.candidates, self.excluded, self.shortage = {}, (), (), ""
                self.started = self._add(now, f"election of term {fact.election.number} begun here", "begun")
                self.initiator = fact.election.initiator
            case "ResponseCounted":
                self.asked[fact.sender] = 1
                self.excluded, self.candidates = fact.excluded, fact.candidates
            case "LeaderHeld":
                self.initiator = fact.record.election.initiator
                if fact.record.final and (self.final is None or self.final.text != str(fact.record.term)):
                    self.final = Entry(time.time(), now, str(fact.record.term))
            case "Selected":
                self.candidates = tuple(fact.proposers)
                self._add(now, f"epoch {fact.epoch}: {fact.leader} chosen from {', '.join(fact.proposers)}", "chosen")
            case "EpochPromised":
                self.started = self._add(now, f"epoch {fact.epoch} begun", "begun")
            case "CannotElect" | "NotVoting":
                self.shortage = str(fact)
                self._add(now, str(fact), "shortage")

    def _add(self, now: Instant, text: str, kind: str) -> Entry:
        entry = Entry(time.time(), now, text, kind)
        self.entries.append(entry)
        return entry

    def _on_elected(self, fact: LeaderElected, now: Instant) -> None:
        self.shortage = ""
        self.why = reasons(self.reign, self, fact.term)
        self.elected = self._add(now, f"{fact.term.leader} leads, term {fact.term.number}: {self.why}", "elected")

    def _on_lost(self, fact: LeaderLost, now: Instant) -> None:
        self.ended = self._add(now, f"{fact.term.leader} leads no more, term {fact.term.number}: {fact.reason}", "lost")


def clock_text(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at)) + f".{int(at % 1 * 1000):03d}"
