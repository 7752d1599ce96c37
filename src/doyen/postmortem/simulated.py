"""Watches a simulation for a picture: the same lanes, explanations and verdict as recordings give."""

from collections.abc import Iterable
from typing import Any, Final, Protocol

from doyen.core.clock import Instant
from doyen.core.ids import NodeId
from doyen.core.kinds import ElectionKind
from doyen.eyes.lanes import Arrow, Lane, Lanes, Mark, Span, Window
from doyen.node.events import Event
from doyen.node.stack import Stack
from doyen.postmortem.picture import ARROWS_MAX, Incident, Said
from doyen.postmortem.verdict import Act, judge
from doyen.postmortem.watch import Watch
from doyen.sim.engine import Simulation
from doyen.sim.node import SimNode

SENT_MAX: Final = 100_000  # Messages whose sending is remembered.
SHOWN_MAX: Final = 8  # Names of one side of a cut.
EVENTS_MAX: Final = 50_000_000  # A longer run is watched no further.


class Watchable(Protocol):
    """The part of a world that is watched."""

    @property
    def sim(self) -> Simulation: ...
    @property
    def kind(self) -> ElectionKind: ...
    @property
    def sort(self) -> str: ...
    def stack(self, node: SimNode) -> Stack: ...
    def regions(self) -> list[list[SimNode]]: ...


class Simulated:
    """Watches a world from before its start; `incident` tells what was seen so far."""

    def __init__(self, world: Watchable) -> None:
        self.world, self.sim = world, world.sim
        self._watches: dict[int, Watch] = {}  # By node: of its present incarnation.
        self._every: list[tuple[str, Watch]] = []
        self._sent: dict[tuple[str, str, bytes], Instant] = {}
        self._hearing: tuple[SimNode, str, str, Any] | None = None  # (receiver, channel, sender, message)
        self._arrows: list[Arrow] = []
        self._spans: list[Span] = []
        self._since: dict[tuple[str, str], Instant] = {}  # (node, paused or down)
        self._windows: dict[str, tuple[Instant, str]] = {}
        self._cuts: list[Window] = []
        self._marks: list[Mark] = []
        self.sim.watchers.append(self._on_fact)
        self.sim.send_watchers.append(self._on_send)
        self.sim.hear_watchers.append(self._on_hear)
        self.sim.deed_watchers.append(self._on_deed)
        self.sim.network_watchers.append(self._on_network)
        self.sim.checks.append(self._on_event)
        for node in self.sim.nodes:
            if node.host is None:
                self._since[node.name, "down"] = self.sim.now

    # What happens.

    def _watch(self, node: SimNode) -> Watch:
        found, stack = self._watches.get(node.index), self.world.stack(node)
        if found is None or found.stack is not stack:
            found = Watch(stack, lambda at: at if node.clock is None else node.clock.true(at))
            self._watches[node.index] = found
            self._every.append((node.name, found))
        return found

    def _on_fact(self, node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        if node.host is None:
            return
        watch = self._watch(node)
        watch.observe(channel, fact, node.now())
        watch.step(node.now())
        if watch.decided and self._hearing is not None and self._hearing[0] is node:
            self._arrow(watch.decided)
        watch.decided = ""

    def look(self, node: SimNode) -> None:
        """Look at a node whose machines ran elsewhere before: it may lead already."""
        self._watch(node).step(node.now())

    def on_event(self, node: SimNode, event: Event) -> None:
        """Follow an event of a program's own node, whose machines the simulator does not see."""
        watch, now = self._watch(node), node.now()
        reign = watch.stack.reigns[event.election]
        names = "names" if event.kind == "elected" else "no longer names"
        label = f"{node.name} {names} {event.leader}, term {event.term}"
        watch.note(now, event.kind, label, event.reason, event.election)
        watch.explain(reign, now)
        watch.step(now)

    def _on_send(self, node: SimNode, channel: str, message: Any, now: Instant) -> None:
        if len(self._sent) >= SENT_MAX:
            self._sent.pop(next(iter(self._sent)))
        self._sent[node.name, channel, self.sim.encode(message)] = now

    def _on_hear(self, node: SimNode, channel: str, sender: NodeId, message: Any) -> None:
        self._hearing = node, channel, sender, message

    def _arrow(self, decided: str) -> None:
        assert self._hearing is not None
        node, channel, sender, message = self._hearing
        sent = self._sent.get((sender, channel, self.sim.encode(message)))
        self._hearing = None
        if sent is not None and sender != node.name and len(self._arrows) < ARROWS_MAX:
            label = f"{type(message).__name__}: {decided}"
            heard = self.sim.now / 1e9
            self._arrows.append(Arrow(sender=sender, receiver=node.name, sent=sent / 1e9, heard=heard, label=label))

    def _on_event(self, now: Instant) -> None:
        self._hearing = None
        if self.sim.event_count > EVENTS_MAX:
            return
        for index, watch in self._watches.items():
            node = self.sim.nodes[index]
            if watch.leads and node.host is not None and node.state != "paused":
                watch.step(node.now())

    def _on_deed(self, deed: str, node: SimNode) -> None:
        now, name, watch = self.sim.now, node.name, self._watches.get(node.index)
        match deed:
            case "crash":
                self._end(name, "paused", now)
                self._since[name, "down"] = now
                self._mark(node, "stopped", f"{name} is down")
                if watch is not None:
                    watch.stop(now, now)
            case "start":
                self._end(name, "down", now)
                self._mark(node, "started", f"{name} starts")
            case "pause":
                self._since[name, "paused"] = now
                if watch is not None:
                    watch.pause(now)
            case "resume":
                self._end(name, "paused", now)
                if watch is not None:  # It may lead on, and nothing that it emits need say so.
                    watch.step(node.now())
            case _:
                self._mark(node, "note", f"{name}: {deed}")

    def _mark(self, node: SimNode, kind: str, label: str) -> None:
        self._marks.append(Mark(lane=node.name, at=self.sim.now / 1e9, kind=kind, label=label))

    def _end(self, name: str, kind: str, now: Instant) -> None:
        began = self._since.pop((name, kind), None)
        if began is not None and now > began:
            label = f"{name} is {kind}"
            self._spans.append(Span(lane=name, begin=began / 1e9, end=now / 1e9, kind=kind, label=label))

    def _on_network(self) -> None:
        found = {name: kind for kind, named in self.sim.network.obstacles().items() for name in named}
        for name in [name for name in self._windows if name not in found]:
            began, label = self._windows.pop(name)
            self._cuts.append(Window(begin=began / 1e9, end=self.sim.now / 1e9, kind="cut", label=label))
        for name, kind in found.items():
            if name not in self._windows:
                sides = [", ".join(node.name for node in region[:SHOWN_MAX]) for region in self.world.regions()]
                self._windows[name] = self.sim.now, f"{name.partition('#')[0] or kind}: {' | '.join(sides)}"

    # What was seen.

    def incident(
        self, title: str, violations: Iterable[tuple[float, str]] = (), marks: Iterable[tuple[float, str, str]] = ()
    ) -> Incident:
        """Return all that happened so far; violations are (second, in words), marks (second, node, in words)."""
        now, end_s = self.sim.now, self.sim.now / 1e9
        for index, watch in self._watches.items():
            if self.sim.nodes[index].state not in ("paused", "down"):
                watch.stop(now, now)
        for name, kind in [*self._since]:
            self._end(name, kind, now)
        own = [(name, stretch) for name, watch in self._every for stretch in watch.stretches if not stretch.election]
        acts = [
            Act(name, found.term, found.begin / 1e9, found.end / 1e9, found.end / 1e9)
            for name, found in own
            if found.kind == "leads"
        ]
        verdict = judge(acts, lambda one, other: 0.0, kind=self.world.kind.title, sort=self.world.sort)
        spans = [
            Span(
                lane=name,
                begin=found.begin / 1e9,
                end=found.end / 1e9,
                kind=found.kind,
                label=f"{name} {'leads' if found.kind == 'leads' else 'is named, and does not act'}, term {found.term}",
                lease=None if found.lease is None else found.lease / 1e9,
            )
            for name, found in own
        ]
        drawn = [
            Mark(lane=name, at=found.at / 1e9, kind=found.kind, label=found.label, why=found.why)
            for name, watch in self._every
            for found in watch.noted
            if not found.election
        ]
        drawn += [Mark(lane="", at=at, kind="bad", label=text) for at, text in violations]
        drawn += [Mark(lane=name, at=at, kind="note", label=text) for at, name, text in marks]
        windows = [Window(begin=b, end=e, kind="bad", label=f"two acted at once: {who}") for b, e, who in verdict.when]
        windows += [
            Window(begin=began / 1e9, end=end_s, kind="cut", label=label) for began, label in self._windows.values()
        ]
        said = [
            Said(name, found.at / 1e9, found.sentence, found.lines)
            for name, watch in self._every
            for found in watch.explained
            if not found.election
        ]
        left_off = sum(watch.left_off for _, watch in self._every)
        return Incident(
            title=title,
            source="simulation",
            verdicts=(verdict,),
            lanes=Lanes(
                title=title,
                begin=0.0,
                end=end_s,
                lanes=tuple(Lane(id=node.name) for node in self.sim.nodes),
                spans=(*spans, *self._spans),
                marks=(*drawn, *self._marks),
                arrows=tuple(self._arrows),
                windows=(*windows, *self._cuts),
            ),
            said=tuple(sorted(said, key=lambda found: found.at)),
            notes=(f"{left_off:,} more marks and explanations than are shown",) if left_off else (),
        )
