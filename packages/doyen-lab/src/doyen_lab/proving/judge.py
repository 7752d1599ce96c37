"""Judges what witnesses wrote by what the combination promises.

    timed       never two acting at once
    quorum      never two acting at once; never two processes of one term; terms never back, in the order of acts;
                nobody acts a lease after the majority was cut away
    weak        once a region has settled, or the stated bound is over, one of it acts, not two; where links are cut
                one by one, two may act in a region in which some have neither a link nor a neighbour in common, and
                nobody in one that hears another's leader
    both        what a node names never has a lower term than before, over restarts too where it has a disk
    the run     every fault that the scenario is about has happened, and every check had something to look at

`Truth` is what the ground did: from an instant on, who runs and who can speak with whom.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from doyen.core.clock import Duration, Instant
from doyen_lab.proving.history import PAUSE_MIN, Life, Stretch, reigns

STEPS = 10  # Timers and messages one after the other in the longest bound: each may be late by the machine's lateness.
LENIENCY_MAX = 2  # At most this many times the bound is added to it, however late the machine was.


#: What there may be to look at: acts; leaders named, with their terms; reigns after the first; regions that were quiet
#: beyond their bound, or since they had settled; leaders whose majority was cut away for longer than a lease.
CHECKS = ("acts", "namings", "successions", "quiet regions", "leaders cut off")


class Truth(Struct, kw_only=True):
    """Says what holds from `at` on; regions are of processes (`n0#1`) that run and reach each other."""

    at: Instant
    regions: tuple[frozenset[str], ...]
    possible: tuple[frozenset[str], ...] = ()  # The same with those that are still starting; () if there are none.
    bound: Duration  # The time that a region has to settle.
    why: str
    quiet: bool = True  # False: packets are being lost, so no bound holds.
    # Where links are cut one by one: who has no two-way links to a majority (None: that is a matter of regions), and
    # whom each hears, itself included, of those that relay nothing: somebody must act in each of these sets.
    minority: frozenset[str] | None = None
    earshots: tuple[frozenset[str], ...] = ()
    # Regions of a weak election in which two may act: some have neither a link nor a neighbour in common (decision 98).
    stretched: tuple[frozenset[str], ...] = ()
    overheard: dict[frozenset[str], frozenset[str]] = {}  # By region, whom some of it hear one way, and may follow.
    settled_at: dict[frozenset[str], Instant] = {}  # Seen to have one leader, whom all name.
    lateness: Duration = 0  # The machine's: how late the lab's own timers were at the worst, while this was true.

    @property
    def slack(self) -> Duration:
        """Return the time that the machine itself may have added to the bound."""
        return min(STEPS * self.lateness, LENIENCY_MAX * self.bound)


class Expectation(Struct, frozen=True, kw_only=True):
    """The properties that the judge holds a run to, by the promise of its election."""

    strong: bool
    voter_count: int
    lease: Duration | None = None
    alone: bool = False  # Never two acting at once; so does a strong one, and more.
    majority_only: bool = False  # A lesser part need not have a leader; of a strong one it must not.


class Verdict(Struct, frozen=True, kw_only=True):
    violations: tuple[str, ...]
    together_s: float  # Two at once, all in all.
    acts: int
    terms: int
    checked: dict[str, int]  # How much there was to look at, by `CHECKS`.

    @property
    def holds(self) -> bool:
        return not self.violations


def judge(
    lives: Sequence[Life],
    truths: Sequence[Truth],
    expected: Expectation,
    *,
    ended_at: Instant,
    faults: Mapping[str, int],
    wanted: Iterable[str],
    checks: Iterable[str] = (),
) -> Verdict:
    stretches = sorted((found for life in lives for found in life.stretches()), key=lambda stretch: stretch.first)
    checked = looked_at(lives, stretches, truths, expected, ended_at)
    violations = [f"the fault never happened: {fault}" for fault in wanted if not faults.get(fault)]
    violations += [f"there was nothing to judge: {check}" for check in checks if not checked.get(check, 1)]
    violations += terms_back(lives)
    if expected.strong:
        violations += two_at_once(lives) + shared_terms(stretches) + acts_of_older_terms(lives)
        violations += acts_without_majority(lives, truths, expected, ended_at)
    elif expected.alone:
        violations += two_at_once(lives)
    violations += unsettled(lives, truths, expected, ended_at)
    violations += [f"{life}: {life.failure}" for life in lives if life.failure.startswith("witness:")]
    return Verdict(
        violations=tuple(violations),
        together_s=together(stretches) / 1e9,
        acts=sum(record.kind == "act" for life in lives for record in life.records),
        terms=len({stretch.term for stretch in stretches}),
        checked=checked,
    )


def looked_at(
    lives: Sequence[Life],
    stretches: Sequence[Stretch],
    truths: Sequence[Truth],
    expected: Expectation,
    ended_at: Instant,
) -> dict[str, int]:
    kinds = [record.kind for life in lives for record in life.records]
    found = {
        "acts": kinds.count("act"),
        "namings": kinds.count("elected"),
        "successions": max(0, len({(stretch.life, stretch.term) for stretch in stretches}) - 1),
        "quiet regions": sum(end > begin for _, _, begin, _, end in quiet_regions(truths, expected, ended_at))
        + sum(end > due for _, _, due, end in quiet_earshots(truths, ended_at)),
    }
    if expected.lease is not None:
        lease = expected.lease
        found["leaders cut off"] = sum(
            end - begin > lease and any(s.life == life and s.last > begin - lease for s in stretches)
            for life, begin, end in minorities(truths, expected.voter_count, ended_at)
        )
    return found


# Quorum elections.


def two_at_once(lives: Sequence[Life]) -> list[str]:
    """Return reigns that overlap, pauses included: a leader that was succeeded must not act again in its old term."""
    found = []
    ordered = reigns(lives)
    for i, one in enumerate(ordered):
        for other in ordered[i + 1 :]:
            if other.first > one.last:
                break
            found.append(
                f"two at once: {one.life} (term {one.term}) acted {(one.last - other.first) / 1e6:.0f} ms "
                f"after {other.life} (term {other.term}) had begun"
            )
    return found


def shared_terms(stretches: Sequence[Stretch]) -> list[str]:
    by_term: dict[int, set[str]] = {}
    for stretch in stretches:
        by_term.setdefault(stretch.term, set()).add(stretch.life)
    return [f"term {term} had two: {', '.join(sorted(who))}" for term, who in by_term.items() if len(who) > 1]


def acts_of_older_terms(lives: Sequence[Life]) -> list[str]:
    acts = sorted(
        (record.at, record.term, str(life)) for life in lives for record in life.records if record.kind == "act"
    )
    return [
        f"terms went back: {late} acted in term {new} after {early} in term {old}"
        for (_, old, early), (_, new, late) in pairwise(acts)
        if new < old
    ]


def acts_without_majority(
    lives: Sequence[Life], truths: Sequence[Truth], expected: Expectation, ended_at: Instant
) -> list[str]:
    """Return acts more than a lease after the majority was lost; leases count from the sending, without slack."""
    assert expected.lease is not None
    found = []
    by_name = {str(life): life for life in lives}
    for life, begin, end in minorities(truths, expected.voter_count, ended_at):
        late = [
            record.at
            for record in by_name[life].records
            if record.kind == "act" and begin + expected.lease < record.at <= end
        ]
        if late:
            found.append(f"{life} acted {(late[-1] - begin) / 1e6:.0f} ms after it had lost the majority")
    return found


def minorities(truths: Sequence[Truth], voter_count: int, ended_at: Instant) -> list[tuple[str, Instant, Instant]]:
    """Return (life, from, to) of each life that ran without a majority in reach."""
    found: list[tuple[str, Instant, Instant]] = []
    since: dict[str, Instant] = {}
    for truth in truths:
        possible = truth.possible or truth.regions
        without = {life for region in possible for life in region if is_minor(truth, region, {life}, voter_count)}
        for life in [life for life in since if life not in without]:
            found.append((life, since.pop(life), truth.at))
        for life in without:
            since.setdefault(life, truth.at)
    return found + [(life, begin, ended_at) for life, begin in since.items()]


def is_minor(truth: Truth, region: frozenset[str], lives: Iterable[str], voter_count: int) -> bool:
    """Return whether none of these processes of a region has a majority in reach."""
    return 2 * len(region) <= voter_count if truth.minority is None else truth.minority.issuperset(lives)


# All elections.


def terms_back(lives: Sequence[Life]) -> list[str]:
    """Return where a node names a lower term than before; over restarts only where it has a disk."""
    found = []
    greatest: dict[str, int] = {}
    for life in sorted(lives, key=lambda life: (life.label, life.number)):
        before = greatest.get(life.label, 0) if life.durable else 0
        for record in life.records:
            if record.kind == "elected" and record.term:
                if record.term < before:
                    found.append(f"{life} named {record.leader} of term {record.term} after a term {before}")
                before = max(before, record.term)
        greatest[life.label] = before
    return found


def quiet_regions(
    truths: Sequence[Truth], expected: Expectation, ended_at: Instant
) -> Iterator[tuple[Truth, frozenset[str], Instant, Instant, Instant]]:
    """Yield (truth, region, begin, due, end): from `begin` on not two may act in the region, from `due` on one must."""
    ends = [*(truth.at for truth in truths[1:]), ended_at]
    for truth, end in zip(truths, ends, strict=False):  # No truths: nothing is known of regions.
        for region in truth.regions if truth.quiet and not truth.earshots else ():
            lesser_may = not (expected.strong or expected.majority_only)
            if lesser_may or not is_minor(truth, region, region, expected.voter_count):
                due_at = truth.at + truth.bound + truth.slack
                yield truth, region, truth.settled_at.get(region, due_at), due_at, end


def unsettled(lives: Sequence[Life], truths: Sequence[Truth], expected: Expectation, ended_at: Instant) -> list[str]:
    found = []
    by_life = {str(life): life.stretches() for life in lives}
    for truth, region, begin, due_at, end in quiet_regions(truths, expected, ended_at):
        stretches = [stretch for life in sorted(region) for stretch in by_life.get(life, ())]
        outside = truth.overheard.get(region, frozenset())
        heard = [stretch for life in sorted(outside) for stretch in by_life.get(life, ())]
        if end - due_at > PAUSE_MIN and not clipped([*stretches, *heard], due_at, end):
            found.append(f"nobody acted in {_shown(region)} for {(end - due_at) / 1e9:.1f} s, {truth.why}")
        both = together(clipped(stretches, begin, end))
        if both > truth.slack and region not in truth.stretched:
            found.append(f"two acted at once in {_shown(region)} for {both / 1e6:.0f} ms, settled, {truth.why}")
    for truth, earshot, due_at, end in quiet_earshots(truths, ended_at):
        stretches = [stretch for life in sorted(earshot) for stretch in by_life.get(life, ())]
        if end - due_at > PAUSE_MIN and not clipped(stretches, due_at, end):
            found.append(f"nobody whom one hears acted, of {_shown(earshot)}, {truth.why}")
    return found


def quiet_earshots(
    truths: Sequence[Truth], ended_at: Instant
) -> Iterator[tuple[Truth, frozenset[str], Instant, Instant]]:
    """Yield (truth, earshot, due, end): from `due` on somebody must act whom that one hears."""
    for truth, end in zip(truths, [*(truth.at for truth in truths[1:]), ended_at], strict=False):
        for earshot in truth.earshots if truth.quiet else ():
            yield truth, earshot, truth.at + truth.bound + truth.slack, end


def together(stretches: Sequence[Stretch]) -> Duration:
    """Return how long two or more acted at once."""
    edges = sorted([(s.first, 1) for s in stretches] + [(s.last, -1) for s in stretches])
    total = count = 0
    before = 0
    for at, step in edges:
        if count > 1:
            total += at - before
        count, before = count + step, at
    return total


def clipped(stretches: Iterable[Stretch], begin: Instant, end: Instant) -> list[Stretch]:
    """Return the parts of the stretches that lie between."""
    parts = [Stretch(s.life, s.term, max(s.first, begin), min(s.last, end)) for s in stretches]
    return [part for part in parts if part.first < part.last]


def _shown(region: Iterable[str]) -> str:
    return "{" + ", ".join(sorted(region)) + "}"
