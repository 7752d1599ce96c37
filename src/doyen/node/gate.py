"""Decides when a node that is named leader may act for the first time: nobody is silently alone.

    members   `expect` of them, this node included, have answered at the same time
    seeds     one of those given has answered, or `alone_after` is over
    machine   every node of the group that is registered on this machine has answered, or `alone_after` is over
    others    nobody that runs something else, or has another key, may act; who has started earlier is let go first
    name      no earlier process of this name was heard
    calm      no leader was named and no member came for the time in which a rival election ends; where seeds answer
              after a leader was named, for the time in which a dead leader is noticed: they may not know this node yet

Only the first act in a process's life waits: a node that had all of this, also as a follower, takes over at once, or
where its election has tentative leaders once it is final (decision 38).
A quorum needs no gate but `expect`: a leader there has a majority behind it.
"""

from msgspec import Struct

from doyen.core.clock import FOREVER, Duration, Instant, format_duration


class Seen(Struct, frozen=True, kw_only=True):
    """The others, as a node sees them at one instant."""

    present_count: int = 1  # Members that answer, this node included.
    silent_seeds: tuple[str, ...] = ()  # The seeds given, if none has answered; this node's own addresses are none.
    silent_here: tuple[str, ...] = ()  # Nodes registered on this machine that have not answered.
    met_others: bool = False  # Whether anybody has ever answered, also one that has left since.
    namesake: bool = False  # Whether an earlier process has this node's name: one of them will give up.
    acting: tuple[str, ...] = ()  # Who runs something else, or has another key, and is let act; what to do about it.
    barred: tuple[str, ...] = ()  # Who has another key, and lets this node act; what to do about it.
    earlier: tuple[str, ...] = ()  # Who runs something else, and has started earlier, but may not act yet.
    calls: bool = False  # Whether it calls by multicast: others may be there that it cannot name.


class Gate:
    """The first act of one node in one election.  While closed, `why` says what it waits for, `advice` what to do."""

    def __init__(
        self, now: Instant, *, settle: Duration, notice: Duration, alone_after: Duration, expect: int, quorum: bool
    ) -> None:
        self._began_at = self._changed_at = now
        self._settle, self._notice, self._alone_after, self._expect = settle, notice, alone_after, expect
        self._quorum = quorum
        self._led = False  # Whether a leader is named.
        self._was_silent = False  # Whether somebody had not answered when it looked last,
        self._lacked_seeds = False  # and whether no seed had.
        self.defers = False  # Whether it lets others act that run something else.
        self.met = expect <= 1  # Whether `expect` members have answered at the same time.
        self.open = quorum and self.met
        self.why = "" if self.open else "the election has not settled"
        self.advice = ""  # What a person can do about it; nothing where it passes by itself.
        self.calms = False  # Whether it only waits for calm, which comes by itself, and soon.
        self.alone = ""  # Once open: why this node may be alone, for its log,
        self.knows_why_alone = False  # and whether that says what to do.

    def look(self, now: Instant, seen: Seen) -> bool:
        """Open if nothing is left to wait for; return whether this is the moment at which it opens."""
        if self.open:
            return False
        self.met = self.met or seen.present_count >= self._expect
        waited = now - self._began_at >= self._alone_after
        silent = _named(seen)
        ahead = seen.acting or (() if waited else seen.earlier)
        if (self._was_silent and not silent) or (self.defers and not ahead):
            self._changed_at = now  # A node that answers only now may have begun an election of its own.
        if self._lacked_seeds and not seen.silent_seeds and self._led:
            self._settle = max(self._settle, self._notice)
        self._was_silent, self._lacked_seeds = bool(silent), bool(seen.silent_seeds)
        self.defers = bool(ahead) and not self._quorum
        lone = seen.present_count == 1 and not silent and not seen.calls and not seen.met_others
        self.calms, self.advice = False, ""
        if not self.met:
            self.why = f"{seen.present_count} of the {self._expect} members expected answer"
            self.advice = "start the others, or give a smaller number (expect=, --expect)"
        elif self._quorum:
            self._do_open(seen, "")
        elif ahead:
            self.why, _, self.advice = ahead[0].rpartition(": ")
            self.why += f" (and {len(ahead) - 1} more like it)" if len(ahead) > 1 else ""
        elif seen.namesake:
            self.why = "another process has its name"
        elif silent and not waited:
            limit = "forever" if self._alone_after >= FOREVER else f"up to {format_duration(self._alone_after)}"
            self.why = f"no answer yet from {silent}; it waits {limit} (alone_after)"
            self.advice = "start it, or give an address that answers (seeds=['HOST'], --seed HOST)"
        elif not self._led or (not lone and now - self._changed_at < self._settle):
            self.why, self.calms = "the election settles", True
        else:
            self._do_open(
                seen, f"{silent} did not answer within {format_duration(self._alone_after)}" if silent else ""
            )
        return self.open

    def named(self, now: Instant, *, leader: bool) -> None:
        """Note that another leader was named, or that the leader was lost."""
        self._led, self._changed_at = leader, now

    def joined(self, now: Instant) -> None:
        """Note that a member came, which may have begun an election of its own."""
        self._changed_at = now

    def _do_open(self, seen: Seen, silent: str) -> None:
        self.open, self.why, self.advice = True, "", ""
        if silent:
            self.alone = silent
        elif seen.present_count == 1 and not seen.met_others and not self._quorum:
            self.alone, self.knows_why_alone = (*seen.barred, "nobody was found")[0], bool(seen.barred)


def _named(seen: Seen) -> str:
    """Return who is silent, in words."""
    seeds = [f"seed {', '.join(seen.silent_seeds)}"] if seen.silent_seeds else []
    here = [f"{', '.join(seen.silent_here)} on this machine"] if seen.silent_here else []
    return " and ".join(seeds + here)
