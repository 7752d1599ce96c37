"""Kernels for a group that starts together, without a queue of events.  [LE §5.3, §5.4]

- `elect`, T_L = ∞: once suppressed, always suppressed, and only better processes suppress.  So fates can be settled
  from the best process down, instead of from the earliest event on.
- `suppress` (SUP), in order of wake-up; `announce_all` (AL), one geometric draw per receiver.
"""

import numpy as np

from doyen_papers.kernels.cell import (
    CORRELATED,
    FIRST_MESSAGES,
    FIRST_TMAX,
    HORIZON_ROUNDS,
    LOAD,
    UNCORRELATED,
    Cell,
    Floats,
    begin,
    compiled,
    load_loss,
    report,
    sends_before,
    tries_until_heard,
    uniform,
    wake_up,
    wake_ups_in_order,
)


@compiled
def elect(out: Floats, first_run: int, seed: np.uint64, cell: Cell) -> None:
    """LE-A, LE-S, LE-M from the start with T_L = ∞.  Process 0 is the best one here, the last the worst."""
    nodes, announce, delay, loss = cell.nodes, cell.announce, cell.delay, cell.loss
    stream = np.empty(1, np.uint64)
    wake = np.empty(nodes, np.int64)
    # Those that announced, but the best, by wake-up, and when each was suppressed.
    rival_wake, rival_end = np.empty(nodes, np.int64), np.empty(nodes, np.int64)
    for row in range(out.shape[0]):
        begin(stream, seed, first_run + row)
        if cell.earliest:
            wake_ups_in_order(stream, wake, cell)
        else:
            for i in range(nodes):
                wake[i] = wake_up(uniform(stream), cell)
        best, first_last, firsts, messages = wake[0], wake[0], 1, 0
        rounds_max, rounds_sum, rivals = 1, 0, 0
        if cell.model == CORRELATED and nodes > 1:
            rounds_max = tries_until_heard(stream, loss)
            rounds_sum = (nodes - 1) * rounds_max
            end = best + (rounds_max - 1) * announce + delay  # When the rest is suppressed: by the first heard.
            for i in range(1, nodes):
                count = sends_before(wake[i], end, cell)
                if count > 0:
                    firsts += 1
                    messages += count
                    first_last = max(first_last, wake[i])
                    tries = tries_until_heard(stream, loss)
                    if tries <= count:
                        end = min(end, wake[i] + (tries - 1) * announce + delay)
        elif nodes > 1:
            for i in range(1, nodes):
                tries = tries_until_heard(stream, loss)
                rounds_max = max(rounds_max, tries)
                rounds_sum += tries
                end = best + (tries - 1) * announce + delay
                for j in range(rivals):
                    if rival_wake[j] + delay >= end:
                        break  # Nor can any that woke later be heard sooner.
                    if loss < 0.75:
                        at = rival_wake[j]
                        while at + delay < end and (at < rival_end[j] or (delay == 0 and at == rival_end[j])):
                            if uniform(stream) >= loss:
                                end = at + delay
                            at += announce
                    else:
                        tries = tries_until_heard(stream, loss)
                        if tries <= sends_before(rival_wake[j], rival_end[j], cell):
                            end = min(end, rival_wake[j] + (tries - 1) * announce + delay)
                count = sends_before(wake[i], end, cell)
                if count > 0:
                    firsts += 1
                    messages += count
                    first_last = max(first_last, wake[i])
                    j = rivals
                    while j > 0 and rival_wake[j - 1] > wake[i]:
                        rival_wake[j], rival_end[j] = rival_wake[j - 1], rival_end[j - 1]
                        j -= 1
                    rival_wake[j], rival_end[j] = wake[i], end
                    rivals += 1
        line = out[row]
        line[FIRST_TMAX] = first_last * 1e-9
        line[FIRST_MESSAGES] = firsts
        tmax = best + (rounds_max - 1) * announce
        if nodes == 1:
            report(line, cell, 0, 1, 1, np.nan)  # Alone, it has named the best process all along.
        elif tmax + delay <= HORIZON_ROUNDS * announce:
            messages += sends_before(best, tmax + delay, cell)
            report(line, cell, tmax, messages, rounds_max, rounds_sum / (nodes - 1))


@compiled
def suppress(out: Floats, first_run: int, seed: np.uint64, cell: Cell) -> None:
    """SUP: a process that hears anything before its wake-up keeps silent; one round."""
    stream = np.empty(1, np.uint64)
    wake, sent_at = np.empty(cell.nodes, np.int64), np.empty(cell.nodes, np.int64)
    for row in range(out.shape[0]):
        begin(stream, seed, first_run + row)
        wake_ups_in_order(stream, wake, cell)
        count = arrived = since = 0
        heard_none = 1.0  # The chance that a process heard none of those that have arrived.
        for i in range(cell.nodes):
            while arrived < count and sent_at[arrived] + cell.delay <= wake[i]:
                if cell.model == CORRELATED:
                    if uniform(stream) >= cell.loss:
                        heard_none = 0.0
                elif cell.model == UNCORRELATED:
                    heard_none *= cell.loss
                else:
                    at = sent_at[arrived]
                    last = arrived
                    while last + 1 < count and sent_at[last + 1] <= at:
                        last += 1
                    while sent_at[since] <= at - cell.window and sent_at[since] < at:
                        since += 1
                    heard_none *= load_loss(cell.loss, last - since + 1, cell.capacity)
                arrived += 1
            if heard_none == 0.0:
                break
            if heard_none == 1.0 or uniform(stream) < heard_none:
                sent_at[count] = wake[i]
                count += 1
        line, tmax = out[row], sent_at[count - 1]
        report(line, cell, tmax, count, 1, np.nan)
        line[FIRST_TMAX], line[FIRST_MESSAGES] = tmax * 1e-9, count


@compiled
def announce_all(out: Floats, first_run: int, seed: np.uint64, cell: Cell) -> None:
    """AL: all announce every T_A from 0, and each waits to hear the best."""
    stream = np.empty(1, np.uint64)
    # Under load round r shares the window with those before it; from `full` on all rounds are alike.
    full = max(1, -(-cell.window // cell.announce)) if cell.model == LOAD else 1
    loss = np.full(full, cell.loss)
    if cell.model == LOAD:
        for r in range(full):
            loss[r] = load_loss(cell.loss, cell.nodes * (r + 1), cell.capacity)
    for row in range(out.shape[0]):
        begin(stream, seed, first_run + row)
        rounds_max, rounds_sum = 1, 0
        for i in range(1, cell.nodes):
            if i == 1 or cell.model != CORRELATED:
                tries = 1
                while tries < full and uniform(stream) < loss[tries - 1]:
                    tries += 1
                if tries == full:
                    tries += tries_until_heard(stream, loss[full - 1]) - 1
            rounds_max = max(rounds_max, tries)
            rounds_sum += tries
        line, tmax = out[row], (rounds_max - 1) * cell.announce
        line[FIRST_TMAX], line[FIRST_MESSAGES] = 0.0, cell.nodes
        if cell.nodes == 1:
            report(line, cell, 0, 1, 1, np.nan)
        elif tmax + cell.delay <= HORIZON_ROUNDS * cell.announce:
            messages = cell.nodes * sends_before(0, tmax + cell.delay, cell)
            report(line, cell, tmax, messages, rounds_max, rounds_sum / (cell.nodes - 1))
