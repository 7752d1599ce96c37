"""The loop of a run: which event is next, and to whom it goes.  Large simulations spend their time here.

So names are local, calls are few, `Timers.pop` is written out, and there are three loops.  The quick one is for the
usual case: a plain network, nobody who checks after every event, no lines to write.  Then the next event is the first
of one queue or of one heap, and hardly anything else has to be looked at.  Its like is for networks of many hops, all
alike, where the next event is the first of two heaps.  All do the same (tests/sim/test_quick_paths.py).
"""

import gc
from heapq import heapify, heappop, heappush, heapreplace
from math import inf
from typing import TYPE_CHECKING, Any, Final

from doyen.core.clock import FOREVER, Instant

if TYPE_CHECKING:
    from doyen.sim.engine import Simulation

_COLLECT_EVERY: Final = 500  # Pieces of a run.
_PIECE: Final = tuple(range(256))  # Events; made once, for counting with ready numbers is faster.


def run(sim: "Simulation", until: Instant) -> None:
    # Every event makes tuples that die by themselves; looking among them for cycles costs a tenth of the time.
    collects, pieces = gc.isenabled(), 0
    gc.disable()
    # Stands in the heap for the end: after all that is due until then, and before everything else.
    end: Any = (until, inf, None, None, -1, None)
    heappush(sim.timers.heap, end)
    try:
        while _run_by_hops(sim) if sim.by_hops else _run_quickly(sim):
            sim.trace.flush()  # Often enough that what is hashed and counted is still in the cache.
            pieces += 1
            if collects and pieces % _COLLECT_EVERY == 0:
                gc.collect(1)  # A machine of a user's may well make cycles.
    finally:
        sim.timers.heap.remove(end)
        heapify(sim.timers.heap)
        if collects:
            gc.enable()


def _run_quickly(sim: "Simulation") -> bool:
    """Run up to a few hundred events; return whether there may be more."""
    ordered, unsettled, heap = sim.ordered, sim.unsettled, sim.timers.heap
    records, delay = sim.trace.records, sim.delay
    if _needs_care(sim):
        return _run(sim)
    events = deliveries = 0
    heard_at = sim.sent_at + delay
    try:
        for events in _PIECE:
            first = heap[0]
            if ordered and ordered[0][0] <= first[0]:
                heard_at, _, inlet, sender, message = ordered.popleft()
                sim.now = heard_at
                hear = inlet.hear
                if hear is not None:
                    records.append(inlet.index)
                    deliveries += 1
                    hear(sender, message, heard_at)
                else:
                    sim.sent_at = heard_at - delay
                    sim.deliver(heard_at, inlet, sim.by_name[sender], message, None)
                    sim.settle(heard_at)
                    if _needs_care(sim):
                        events += 1
                        return True
            else:
                port: Any
                at, _, port, timer, index, lane = first
                if lane:
                    heapreplace(heap, lane.popleft())
                elif port is None:  # What the world does may change anything; or it is the end.
                    sim.sent_at = heard_at - delay
                    return _run(sim, 1)
                else:
                    heappop(heap)
                    if lane is not None:
                        sim.timers.retire(lane)
                sim.now = at
                records.append(at)
                records.append(index)
                fire = port.fire  # Python 3.11 calls what a name holds faster than what a slot holds.
                fire(timer, at)
            if unsettled:
                sim.sent_at = heard_at - delay
                sim.settle(sim.now)
                if _needs_care(sim):
                    events += 1
                    return True
        events = len(_PIECE)
        sim.sent_at = heard_at - delay
        return True
    finally:
        sim.event_count += events
        sim.delivery_count += deliveries


def _run_by_hops(sim: "Simulation") -> bool:
    """Run up to a few hundred events where all hops are alike; return whether there may be more."""
    arrivals, unsettled, heap, records = sim.arrivals, sim.unsettled, sim.timers.heap, sim.trace.records
    checks, looks, by_name, events, deliveries, most = sim.checks, sim.looks, sim.by_name, 0, 0, len(_PIECE)
    try:
        while events < most:
            if checks or looks or sim.stopped or not sim.by_hops:  # A watcher may change anything.
                return _run(sim)
            first = heap[0]
            if arrivals and arrivals[0][0] <= first[0]:
                at, _, inlet, sender, message, sim.sent_at, path = heappop(arrivals)
                sim.now = at
                events += 1
                hear = inlet.hear
                if hear is not None:
                    records.append(inlet.index)
                    deliveries += 1
                    hear(sender, message, at)
                else:
                    sim.deliver(at, inlet, by_name[sender], message, path)
            else:
                port: Any
                at, _, port, timer, index, lane = first
                if port is None:  # What the world does; or it is the end.
                    return _run(sim, 1)
                if lane:
                    heapreplace(heap, lane.popleft())
                else:
                    heappop(heap)
                    if lane is not None:
                        sim.timers.retire(lane)
                sim.now = at
                events += 1
                records.append(at)
                records.append(index)
                fire = port.fire
                fire(timer, at)
            if unsettled:
                sim.settle(at)
        return True
    finally:
        sim.event_count += events
        sim.delivery_count += deliveries


def _needs_care(sim: "Simulation") -> bool:
    """Return whether the quick loop cannot go on; asked after every event that is not a machine's own."""
    return bool(sim.arrivals or sim.stopped or sim.checks or sim.looks or not sim.quick)


def _look(sim: "Simulation", at: Instant) -> bool:
    """Return whether a look came before that instant, or at the run's end; then it was made."""
    when, _, look = sim.looks[0]
    ends = sim.timers.heap[0][2] is None and sim.timers.heap[0][3] is None and sim.timers.heap[0][0] == at
    if when > at or (when == at and not ends):
        return False
    heappop(sim.looks)
    sim.now = when
    look()
    return True


def _run(sim: "Simulation", most: int = len(_PIECE)) -> bool:
    """Run up to `most` events in any case; return whether there may be more."""
    ordered, arrivals, heap, trace = sim.ordered, sim.arrivals, sim.timers.heap, sim.trace
    for _ in range(most):
        if sim.stopped:
            return False
        in_order = not arrivals or bool(ordered and ordered[0] < arrivals[0])
        queue = ordered if in_order else arrivals
        at: Any = queue[0][0] if queue else FOREVER
        is_timer = not queue or heap[0][0] < at
        if sim.looks and _look(sim, heap[0][0] if is_timer else at):
            continue
        if is_timer:
            at, _, port, timer, index, _ = heap[0]
            if port is None and timer is None:
                return False
            sim.timers.pop()
            sim.now = at
            trace.records.append(at)
            if port is None:
                sim.act(timer)
            else:
                trace.records.append(index)
                if trace.lines is not None:
                    trace.line(at, "timer", f"{port.host.node}/{port.channel}", timer)
                port.fire(timer, at)
        else:
            entry = ordered.popleft() if in_order else heappop(arrivals)
            _, _, inlet, sender, message, sim.sent_at, path = entry if len(entry) == 7 else sim.complete(entry)
            sim.now = at
            sim.deliver(at, inlet, sim.by_name[sender], message, path)
        sim.event_count += 1
        if sim.unsettled:
            sim.settle(at)
        for check in sim.checks:
            check(at)
    return True
