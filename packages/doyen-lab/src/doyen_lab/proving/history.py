"""Reads what witnesses write.

    standard output = one JSON object per line, each by one write, so that a SIGKILL loses nothing but what had not
                      happened

Instants are CLOCK_MONOTONIC, which all processes of a machine share; nodes run on CLOCK_BOOTTIME, so the clock that a
scenario sets askew is not the one that witnesses read.
"""

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from doyen.core.clock import Instant, ms

ACTING = ms(500)  # A process that acted within this time, and has not said that it stopped, still does.
PAUSE_MIN = ms(300)  # Acts further apart than this do not belong to one stretch of acting.


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line.  `kind`: joined, act, begin, stop, elected, lost, status, failed, ended."""

    kind: str
    at: Instant
    term: int = 0
    leader: str = ""
    reason: str = ""
    rtt: dict[str, float] = {}  # elected: round trips to voters in ms, where an oracle measures them.
    rss: int = 0  # status: bytes.
    present: int = 0  # status: how many members it holds present, itself included.
    refused: dict[str, int] = {}  # status: datagrams that were refused, by reason.
    descriptors: int = 0  # status: open files and sockets.
    tasks: int = 0  # status: those of its event loop.
    leads: bool = False  # status: a leader has a connection to each member.
    keys: list[str] = []  # status: the ids of the keys that it holds, the one that seals first.
    moved: dict[str, str] = {}  # status: where members are that were elsewhere at the status before.


decode_record = msgspec.json.Decoder(Record).decode


class Stretch(Struct, frozen=True):
    """One process acting as leader of one term, without a pause."""

    life: str
    term: int
    first: Instant
    last: Instant


class Life:
    """One process, as its records show it."""

    def __init__(self, label: str, name: str, number: int = 1, *, durable: bool = False) -> None:
        self.label, self.name, self.number = label, name, number
        self.durable = durable  # Whether it has a disk to remember terms on.
        self.records: list[Record] = []
        self.joined_at: Instant | None = None
        self.acted_at: Instant = 0
        self.has_stopped = False
        self.names: str | None = None  # The leader that it names,
        self.term = 0  # of this term.
        self.failure = ""
        self.refused: dict[str, int] = {}
        self.present = 0
        self.keys: list[str] = []
        self.addresses: dict[str, str] = {}  # Where it holds the members to be.

    def __str__(self) -> str:
        return f"{self.label}#{self.number}"

    def add(self, record: Record) -> None:
        self.records.append(record)
        match record.kind:
            case "act":
                self.acted_at, self.has_stopped = record.at, False
            case "stop":
                self.has_stopped = True
            case "elected":
                self.names, self.term = record.leader, record.term
            case "lost" if self.names == record.leader:
                self.names = None
            case "joined":
                self.joined_at = record.at
            case "status":
                self.refused, self.present, self.keys = record.refused, record.present, record.keys
                self.addresses |= record.moved
            case "failed":
                self.failure = record.reason

    def acts(self, now: Instant) -> bool:
        """Return whether this process still acts as leader."""
        return not self.has_stopped and now - self.acted_at < ACTING

    def stretches(self) -> list[Stretch]:
        """Return when it acted, in stretches without a pause."""
        found: list[Stretch] = []
        begun = True
        for record in self.records:
            if record.kind in ("begin", "stop"):
                begun = True
            elif record.kind == "act":
                last = found[-1] if found else None
                if begun or last is None or last.term != record.term or record.at - last.last > PAUSE_MIN:
                    found.append(Stretch(str(self), record.term, record.at, record.at))
                else:
                    found[-1] = Stretch(last.life, last.term, last.first, record.at)
                begun = False
        return found

    def first_act_after(self, instant: Instant) -> Record | None:
        if self.acted_at <= instant:
            return None
        return next((record for record in self.records if record.kind == "act" and record.at > instant), None)


def reigns(lives: Iterable[Life]) -> list[Stretch]:
    """Return the whole time in which each process acted in one term, pauses included, in the order of beginnings."""
    whole: dict[tuple[str, int], Stretch] = {}
    for part in (stretch for life in lives for stretch in life.stretches()):
        before = whole.get((part.life, part.term), part)
        whole[part.life, part.term] = Stretch(
            part.life, part.term, min(part.first, before.first), max(part.last, before.last)
        )
    return sorted(whole.values(), key=lambda reign: reign.first)
