"""The kernel for whatever the others do not cover: one timer per process, and messages in flight.  [LE §5.3]

Every delivery takes Δ, so what is in flight is a FIFO, and no heap is needed.  At one instant deliveries come before
timers, and timers in order of id.
"""

from typing import NamedTuple

import numpy as np

from doyen_papers.kernels.cell import (
    BETTER,
    CORRELATED,
    DELAY,
    DEPARTS,
    FALSE,
    FIRST_MESSAGES,
    FIRST_TMAX,
    HORIZON_ROUNDS,
    INCONSISTENT,
    LOAD,
    NEVER,
    START,
    WORSE,
    Cell,
    Flags,
    Floats,
    Ints,
    Stream,
    begin,
    compiled,
    load_loss,
    report,
    uniform,
    wake_up,
)

WINDOW_ROUNDS = 100  # Inconsistency is measured over this many T_A.
SETTLE_MAX = 50  # In T_A: a longer T_L does not lengthen the wait for a steady state.
FORGOTTEN, MEMORY_MAX = 1e-6, 2000  # Chance of a longer run of losses than the settling time covers; in T_A.
STARTING, SETTLING, AFTER = 0, 1, 2


class _Group(NamedTuple):
    """The state of each process in `play`; one more than N for a joiner."""

    named: Ints  # The leader it names; itself while it waits or announces.
    value: Ints  # Wake-up instant of the one named: LE-M prefers less.  0 but in LE-M; never while waiting there.
    rank: Ints  # Greater is better among equal values.
    due: Ints  # Its one timer: the next announcement if it names itself, else the listen deadline.
    sent: Ints  # Announcements since the event.
    named_no: Ints  # Which of its leader's announcements made it name that leader.
    first_no: Ints  # Which of the target's announcements first made it name the target; −1: none yet.
    waiting: Flags  # Before its wake-up.
    fresh: Flags  # Before its first one, and not suppressed yet.
    alive: Flags
    member: Flags  # Among those whose agreement counts.
    followers: Ints  # Members that name this process.
    target: Ints  # One item: the winner, where it can be foreseen; else −1.
    unmet: Ints  # One item: processes that have not named the target yet.


@compiled
def _name_itself(i: int, now: int, stream: Stream, group: _Group, cell: Cell) -> None:
    """A process starts, or has listened in vain: it names itself and draws a wake-up."""
    if group.member[i]:
        group.followers[group.named[i]] -= 1
        group.followers[i] += 1
    group.named[i] = i
    group.value[i] = NEVER if cell.earliest else 0
    group.due[i] = now + wake_up(uniform(stream), cell)
    group.waiting[i] = True


@compiled
def _count_from_here(group: _Group, mail: Ints) -> None:
    """Announcements are counted from now on; what is under way was sent before the first."""
    for i in range(group.named.size):
        group.sent[i], group.named_no[i], group.first_no[i] = 0, 0, -1
    for slot in range(mail.shape[0]):
        mail[slot, 3] = 0


@compiled
def _deliver(
    claimant: int, claim: int, no: int, chance: float, now: int, stream: Stream, group: _Group, cell: Cell
) -> None:
    """An announcement arrives: number `no` of a claimant that woke at `claim`."""
    named, value, rank = group.named, group.value, group.rank
    if cell.model == CORRELATED and chance > 0.0 and uniform(stream) < chance:
        return
    for i in range(named.size):
        old = named[i]
        if i == claimant or not group.alive[i]:
            continue
        if old != claimant and (claim > value[i] or (claim == value[i] and rank[claimant] < rank[old])):
            continue  # A worse claim is ignored: no need to know whether it was lost.
        if cell.model != CORRELATED and uniform(stream) < chance:
            continue
        value[i] = claim
        group.due[i] = now + cell.listen if cell.listen < NEVER else NEVER
        if old != claimant:
            named[i], group.named_no[i] = claimant, no
            group.waiting[i] = group.fresh[i] = False
            if group.first_no[i] < 0 and claimant == group.target[0]:
                group.first_no[i] = no
                group.unmet[0] -= 1
            if group.member[i]:
                group.followers[old] -= 1
                group.followers[claimant] += 1


@compiled
def _average_no(winner: int, group: _Group) -> float:
    """Mean over the members, but the winner, of which of its announcements made them name it.

    The first that did, if the winner could be foreseen; else the one after which they kept to it.
    """
    total, count = 0, 0
    for i in range(group.named.size):
        if group.member[i] and i != winner:
            total += group.first_no[i] if winner == group.target[0] else group.named_no[i]
            count += 1
    return total / count if count else np.nan


@compiled
def play(out: Floats, first_run: int, seed: np.uint64, cell: Cell) -> None:
    """Any event under LE-A, LE-S, LE-M, one step at a time."""
    nodes, announce, delay, event = cell.nodes, cell.announce, cell.delay, cell.event
    size, horizon, window = nodes + 1, HORIZON_ROUNDS * announce, WINDOW_ROUNDS * announce
    settle = 2 * min(cell.listen, SETTLE_MAX * announce) + 2 * announce
    if 0.0 < cell.loss < 1.0:  # Long enough for any run of losses that chance will bring.
        settle += min(MEMORY_MAX, int(np.log(FORGOTTEN) / np.log(cell.loss)) + 1) * announce
    stream = np.empty(1, np.uint64)
    ints, flags = np.empty((7, size), np.int64), np.empty((4, size), np.bool_)
    rank, named, due = np.arange(size), ints[0], ints[2]
    sent, alive, member, followers = ints[3], flags[2], flags[3], ints[6]
    group = _Group(
        named, ints[1], rank, due, sent, ints[4], ints[5], flags[0], flags[1], alive, member, followers,
        np.empty(1, np.int64), np.empty(1, np.int64),
    )  # fmt: skip
    if event == WORSE:
        rank[nodes] = -1
    # Messages in flight, in a ring from `oldest` (kept for the load) over `head` (arrives next) to `tail`:
    # claimant, when sent, when the claimant woke, which of its announcements.
    room, mail = 64, np.empty((64, 4), np.int64)
    for row in range(out.shape[0]):
        begin(stream, seed, first_run + row)
        oldest = head = tail = later = 0
        leader = 0
        for i in range(size):
            named[i], due[i], alive[i], member[i] = i, NEVER, i < nodes, False
            group.fresh[i], group.waiting[i] = i < nodes, False
        _count_from_here(group, mail)
        for i in range(nodes):
            _name_itself(i, 0, stream, group, cell)
            if not cell.earliest or due[i] <= due[leader]:
                leader = i
        # Whose agreement on whom (−1: on anybody) ends the run.
        wanted = barred = -1
        for i in range(nodes):
            member[i] = event != WORSE
        if event == DEPARTS:
            member[leader], barred = False, leader
        elif event in (BETTER, FALSE):
            wanted = nodes  # In a false departure: nobody; the stray's return ends it.
        elif event == WORSE:
            member[nodes], wanted = True, leader
        needed = 0
        for i in range(size):
            followers[i] = member[i]
            needed += member[i]
        agreed = 1 - leader if event == DEPARTS and nodes == 2 else -1
        now = event_at = since = messages = firsts = first_last = 0
        end_messages = end_rounds = 0
        end_average = 0.0
        # Of false departures: who strayed first, when, until when; and how long anybody was astray.
        stray, stray_at, stray_end, astray = -1, 0, -1, 0
        group.target[0], group.unmet[0] = leader, nodes - 1
        phase = AFTER if event == START else STARTING
        while True:
            if phase == STARTING and group.unmet[0] == 0:
                # Every process has named the leader once.  What they forget meanwhile belongs to the steady state.
                phase, event_at = SETTLING, now + settle
                if nodes == 1:
                    event_at += cell.suppress
                if event != FALSE:
                    event_at += int(uniform(stream) * announce)
            who, timer_at = -1, NEVER
            for i in range(size):
                if due[i] < timer_at:
                    who, timer_at = i, due[i]
            arrival_at = mail[head % room, 1] + delay if head < tail else NEVER
            next_at = min(timer_at, arrival_at)
            if phase == SETTLING and event_at <= next_at:
                phase, now, messages = AFTER, event_at, 0
                _count_from_here(group, mail)
                group.target[0] = wanted if event == BETTER else -1
                if event == DEPARTS:
                    alive[leader], due[leader] = False, NEVER
                elif event in (BETTER, WORSE):
                    alive[nodes] = True
                    _name_itself(nodes, now, stream, group, cell)
                continue
            if phase == AFTER:
                if event == FALSE:
                    if followers[leader] < nodes and now < event_at + window:
                        astray += min(next_at, event_at + window) - now
                    if stray_end >= 0 and next_at >= event_at + window:
                        break
                elif agreed >= 0 and (event != DEPARTS or next_at > event_at + delay):
                    break  # What a departed leader has still under way may undo an agreement.
            if next_at > event_at + horizon:
                break
            now = next_at

            if arrival_at <= timer_at:
                slot = head % room
                x, no, chance = mail[slot, 0], mail[slot, 3], cell.loss
                head += 1
                if cell.model == LOAD:
                    at = mail[slot, 1]
                    while later < tail and mail[later % room, 1] <= at:
                        later += 1
                    while mail[oldest % room, 1] <= at - cell.window and mail[oldest % room, 1] < at:
                        oldest += 1
                    chance = load_loss(cell.loss, later - oldest, cell.capacity)
                else:
                    oldest = head
                _deliver(x, mail[slot, 2], no, chance, now, stream, group, cell)
                if stray >= 0 and stray_end < 0 and named[stray] == leader:
                    stray_end, end_messages, end_rounds, end_average = now, messages, no, no
            else:
                x = who
                expired = named[x] != x
                if expired:
                    if event == FALSE and phase == AFTER and stray < 0 and named[x] == leader:
                        stray, stray_at, messages = x, now, 0
                        _count_from_here(group, mail)
                    _name_itself(x, now, stream, group, cell)
                if not expired or cell.suppress == 0:
                    if group.waiting[x]:
                        group.waiting[x] = False
                        group.value[x] = now if cell.earliest else 0
                    if group.fresh[x]:
                        group.fresh[x], first_last = False, now
                        firsts += 1
                    messages += 1
                    sent[x] += 1
                    due[x] = now + announce
                    if tail - oldest == room:
                        full, mail = mail, np.empty((2 * room, 4), np.int64)
                        for k in range(room):
                            for column in range(4):
                                mail[k, column] = full[(oldest + k) % room, column]
                        head, tail, later, oldest, room = head - oldest, tail - oldest, later - oldest, 0, 2 * room
                    slot = tail % room
                    mail[slot, 0], mail[slot, 1], mail[slot, 2], mail[slot, 3] = x, now, group.value[x], sent[x]
                    tail += 1
                no = sent[x]
            # After a departure the first agreement since anybody heard the old leader counts; else, that which holds.
            if agreed >= 0 and (followers[barred] > 0 if event == DEPARTS else followers[agreed] < needed):
                agreed = -1
            if agreed < 0 and followers[x] == needed and x != barred and (wanted < 0 or x == wanted):
                agreed, since = x, now
                if phase == AFTER:
                    end_messages, end_rounds, end_average = messages, no, _average_no(x, group)
        line = out[row]
        if event == START:
            line[FIRST_TMAX], line[FIRST_MESSAGES] = first_last * 1e-9, firsts
        if phase == AFTER and event == FALSE:
            line[INCONSISTENT] = astray / window
            agreed, since, event_at = stray_end, stray_end, stray_at
        if phase == AFTER and agreed >= 0:
            report(line, cell, since - event_at - delay, end_messages, end_rounds, end_average)
            if event != START:
                line[DELAY] = (since - event_at) * 1e-9
