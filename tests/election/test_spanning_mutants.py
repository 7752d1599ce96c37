"""Deliberate bugs in the spanning election, each caught, and after how many seeds.  [MADM]

A mutant is the machine with one rule broken.  It is run on random graphs, quiet or failing, until a check fails that
the machine itself passes on the very same seeds.  `pytest -s` prints how many it took.
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import ClassVar

import pytest
from msgspec import Struct

from doyen.core.clock import Instant, seconds
from doyen.core.ids import NodeId
from doyen.core.link import LinkChanged
from doyen.core.machine import Hears, hears
from doyen.core.order import order
from doyen.core.rank import ScoreGiven
from doyen.election.spanning import links, machine, returning
from doyen.election.spanning.gathering import Gathering
from doyen.election.spanning.machine import Spanning
from doyen.election.spanning.messages import (
    Ack,
    Agm,
    Candidate,
    CoParentWaitEnds,
    Eim,
    ElectionId,
    ElectionRepeats,
    Ldm,
    Message,
    Mqfm,
    Phase,
    PulseBegins,
    Timer,
    newer,
)
from doyen_papers.papers.madm.chapter import SEVEN, SEVEN_QUALITY
from doyen_papers.studies import spanning as study
from doyen_papers.studies.graphs import leaf_count, random_setting
from doyen_papers.studies.spanning import (
    Experiment,
    Failure,
    Run,
    SpanningSetting,
    faults_of,
    graph,
    simulate,
)
from doyen_papers.studies.spanning_counts import message_count

SEEDS = 120
EVENTS_MAX = 10_000
Patch = Callable[[pytest.MonkeyPatch], None]
Check = Callable[[int], list[str]]


# ── What is checked ─────────────────────────────────────────────────────────────────────────────────────────


def quiet(seed: int) -> list[str]:
    """Nothing fails: the best of all, in one election, with no request, and with so many messages."""
    setting = random_setting(Random(seed), size_max=20)
    run = simulate(setting, seed, log=True)
    found, nodes = faults_of(run, setting.graph.quality), setting.graph.nodes
    best = min(nodes, key=lambda name: (-setting.graph.quality[name], order(name)))
    if [region.leader for region in run.regions] != [best] or len(run.declarations) != 1:
        found.append("not the best, or not at once")
    if run.messages["request"]:
        found.append("requests")
    if len(setting.initiators) == 1:
        leaves = leaf_count(setting.graph, setting.initiators[0])
        if run.messages["total"] != message_count(len(setting.graph.edges), len(nodes), leaves):
            found.append("messages")
    return found + hearsay(run, setting.graph.quality)


def hearsay(run: Run, quality: Mapping[NodeId, float]) -> list[str]:
    """To a co-parent goes the best of the sender and its children's reports, and nothing that co-parents said."""
    found, reports = [], dict[tuple[ElectionId, NodeId], Candidate]()
    for sent in run.log:
        if isinstance(sent.message, Mqfm):
            election, best = sent.message.election, sent.message.best
            mine = Candidate(quality[sent.sender], sent.sender)
            known = reports.get((election, sent.sender), mine)
            if sent.message.up:
                before = reports.get((election, sent.receiver))
                reports[election, sent.receiver] = best if before is None or best.beats(before) else before
            elif best != (mine if mine.beats(known) else known):
                found.append(f"{sent.sender} tells a co-parent of {best}, not of {known}")
    return found


def failing(seed: int) -> list[str]:
    setting = random_setting(Random(seed), size_max=20, failing=True)
    return faults_of(simulate(setting, seed, prepare=not_without_end), setting.graph.quality)


def not_without_end(experiment: Experiment) -> None:
    def check(now: Instant) -> None:
        assert experiment.sim.event_count < EVENTS_MAX, "it talks forever"

    experiment.sim.checks.append(check)


def changing(seed: int) -> list[str]:
    """Qualities are told anew while an election runs: that of joining counts, so all agree on the best of then."""
    rng = Random(seed)
    setting = random_setting(rng, size_max=12)
    later = {node: rng.random() * 9 for node in setting.graph.nodes}

    def tell_all(experiment: Experiment) -> None:
        for node, value in later.items():
            experiment.sim.tell(experiment.nodes[node], ScoreGiven(1, value))

    def prepare(experiment: Experiment) -> None:
        experiment.sim.at(seconds(1.5), lambda: tell_all(experiment), "new scores")

    run = simulate(setting, seed, prepare=prepare)
    mixed = [d for d in run.declarations if len({e.election for e in run.declarations}) > 1]
    return [*(f"{d.leader} was declared, then another" for d in mixed), *([] if run.terminated else ["no end"])]


def single_links(seed: int) -> list[str]:
    """[MADM §6.2.5] Any single link failure, in one election."""
    rng = Random(seed)
    edge = rng.choice([edge for edge in SEVEN if edge != ("3", "4")])
    best = rng.choice("01456")
    found = graph(SEVEN, SEVEN_QUALITY | {best: 0.99})
    failure = Failure("fail-link", (NodeId(edge[0]), NodeId(edge[1])), 1.0)
    run = simulate(SpanningSetting(graph=found, initiators=(NodeId("2"),), failures=(failure,)), 1)
    leaders = [region.leader for region in run.regions]
    return [] if leaders == [best] and len(run.declarations) == 1 else [f"{edge}: {leaders}, not {best} at once"]


def returning_late(seed: int) -> list[str]:
    """The best of all returns after the election: it adopts the leader."""
    found = graph(SEVEN, SEVEN_QUALITY | {"6": 0.99})
    failures = (Failure("fail-node", (NodeId("6"),), 1.0), Failure("recover", (NodeId("6"),), 20.0 + seed))
    run = simulate(SpanningSetting(graph=found, initiators=(NodeId("2"),), failures=failures), seed)
    return [] if len(run.declarations) == 1 else ["it started an election"]


# ── What is broken ──────────────────────────────────────────────────────────────────────────────────────────


def replaced(mutant: type[Spanning]) -> Patch:
    return lambda patch: patch.setattr(study, "Spanning", mutant)


def gathering(mutant: type[Gathering]) -> Patch:
    return lambda patch: patch.setattr(machine, "Gathering", mutant)


class WaitsForCoParentsForEver(Gathering):
    """[MADM Alg. 12] The prose rule."""

    def on_timer(self, timer: Timer, now: Instant) -> bool:
        return not isinstance(timer, CoParentWaitEnds) and super().on_timer(timer, now)


class TellsCoParentsAsLine41Says(Gathering):
    """Only if they have not all told it first."""

    def is_complete(self, now: Instant) -> bool:
        if not self.pending and not self.missing and self.co_parents and self.co_parents_heard:
            self.co_parents_notified = True
        return super().is_complete(now)


class TellsCoParentsWhatParentsHear(Gathering):
    def best_below(self) -> Candidate:
        best = super().best_below()
        for other in self.co_parent_reports.values():
            best = other if other.beats(best) else best
        return best


class WaitsForNoCoParent(Gathering):
    """Every node is done as soon as its children are, so co-parents' words come too late to be passed on."""

    def on_co_parent(self, sender: NodeId) -> None:
        self.co_parents_overdue = True
        self.pending.discard(sender)


class KnowsAWinnerAlready(Spanning):
    """Dedupes LDM on the winner, as printed: "for the first time"."""

    last: NodeId | None = None

    def on_message(self, sender: NodeId, message: Message, now: Instant) -> None:
        if isinstance(message, Ldm):
            if self.last == message.leader.node:
                return
            self.last = message.leader.node
        super().on_message(sender, message, now)


class ForgetsToFreeze(Spanning):
    def on_score_given(self, fact: ScoreGiven, now: Instant) -> None:
        super().on_score_given(fact, now)
        if self.gathering is not None:
            self.gathering.mine = Candidate(self.quality.value, self.me)

    HEARS: ClassVar[Hears] = Spanning.HEARS | hears(ScoreGiven, on_score_given)


class NeverGivesUp(Spanning):
    """No re-initiation when no LDM comes."""

    def on_timer(self, timer: Timer, now: Instant) -> None:
        if not isinstance(timer, ElectionRepeats):
            super().on_timer(timer, now)


class AnswersAsALeafTwice(Spanning):
    """A leaf sends ACK too."""

    def on_message(self, sender: NodeId, message: Message, now: Instant) -> None:
        if isinstance(message, Eim) and self.links.peers == [sender] and newer(message.election, self.election):
            self.out.send(sender, Ack(message.election))
        super().on_message(sender, message, now)


class KeepsToItself(links.Links):
    """Does not pass the declaration on."""

    def send_all(self, message: Message, *, but: NodeId | None = None) -> None:
        if but is None or not isinstance(message, Ldm):
            super().send_all(message, but=but)


class AgreesToNothing(Spanning):
    """Sends no AGM."""

    def on_message(self, sender: NodeId, message: Message, now: Instant) -> None:
        if isinstance(message, Eim) and message.election == self.election:
            message = Agm(message.election)
        super().on_message(sender, message, now)


class ListensToTheDead(Spanning):
    """Reports of any election count in the present one."""

    def on_message(self, sender: NodeId, message: Message, now: Instant) -> None:
        if isinstance(message, Mqfm) and self.gathering is not None:
            message = Mqfm(self.gathering.election, message.best, message.up)
        super().on_message(sender, message, now)


class UsurpsOnReturn(Spanning):
    def on_message(self, sender: NodeId, message: Message, now: Instant) -> None:
        returning = self.phase is Phase.RETURNING
        super().on_message(sender, message, now)
        self.usurp(returning, now)

    def on_timer(self, timer: Timer, now: Instant) -> None:
        returning = self.phase is Phase.RETURNING
        super().on_timer(timer, now)
        self.usurp(returning, now)

    def usurp(self, returning: bool, now: Instant) -> None:
        if returning and self.leader is not None and Candidate(self.quality.value, self.me).beats(self.leader):
            self.initiate(now)


class IgnoresNewLinks(Spanning):
    """Ends of a link that comes up do not compare."""

    def on_link_changed(self, fact: LinkChanged, now: Instant) -> None:
        if fact.up:
            self.links.gain(fact.peer)
        else:
            super().on_link_changed(fact, now)

    HEARS: ClassVar[Hears] = Spanning.HEARS | hears(LinkChanged, on_link_changed)


class DropsNobody(Spanning):
    """Waits for children that are gone."""

    def on_link_changed(self, fact: LinkChanged, now: Instant) -> None:
        if not fact.up and self.gathering is not None and self.gathering.parent != fact.peer:
            self.links.lose(fact.peer)
        else:
            super().on_link_changed(fact, now)

    HEARS: ClassVar[Hears] = Spanning.HEARS | hears(LinkChanged, on_link_changed)

    def on_timer(self, timer: Timer, now: Instant) -> None:
        if self.gathering is None or isinstance(timer, ElectionRepeats | PulseBegins):
            super().on_timer(timer, now)


class SeeksNoOtherParent(Gathering):
    def seek_parent(self, now: Instant) -> bool:
        self.parent = None
        return False


def sequence_used_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(machine, "ElectionId", lambda sequence, *rest: ElectionId(max(sequence - 1, 1), *rest))


def ties_to_the_first_heard(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Candidate, "beats", lambda self, other: self.quality > other.quality)


def ids_as_text(patch: pytest.MonkeyPatch) -> None:
    """10 before 2."""

    def beats(self: Candidate, other: Candidate) -> bool:
        return (self.quality, other.node) > (other.quality, self.node)

    patch.setattr(Candidate, "beats", beats)


def order_without_sequence(patch: pytest.MonkeyPatch) -> None:
    """[MADM §6.2.2] "The lowest id conducts", and nothing else."""

    def newer(one: ElectionId | None, other: ElectionId | None) -> bool:
        return one is not None and (other is None or order(one.initiator) < order(other.initiator))

    for module in (machine, links, returning):
        patch.setattr(module, "newer", newer)


class Mutant(Struct, frozen=True):
    name: str
    patch: Patch
    check: Check


MUTANTS = [
    Mutant("co-parents are waited for without bound", gathering(WaitsForCoParentsForEver), quiet),
    Mutant("Algorithm 12 line 41 as printed", gathering(TellsCoParentsAsLine41Says), quiet),
    Mutant("co-parents hear what parents hear", gathering(TellsCoParentsWhatParentsHear), quiet),
    Mutant("co-parents are not told", gathering(WaitsForNoCoParent), quiet),
    Mutant("LDM deduped on the winner", replaced(KnowsAWinnerAlready), failing),
    Mutant("quality not frozen", replaced(ForgetsToFreeze), changing),
    Mutant("ties not by the lowest id", ties_to_the_first_heard, quiet),
    Mutant("ids compared as text", ids_as_text, quiet),
    Mutant("elections ordered without a sequence", order_without_sequence, failing),
    Mutant("a sequence used again", sequence_used_again, failing),
    Mutant("no other parent is sought", gathering(SeeksNoOtherParent), single_links),
    Mutant("no re-initiation", replaced(NeverGivesUp), failing),
    Mutant("a leaf sends ACK too", replaced(AnswersAsALeafTwice), quiet),
    Mutant("the declaration is not passed on", lambda patch: patch.setattr(machine, "Links", KeepsToItself), quiet),
    Mutant("no AGM", replaced(AgreesToNothing), quiet),
    Mutant("reports of other elections count", replaced(ListensToTheDead), quiet),
    Mutant("who returns and is better usurps", replaced(UsurpsOnReturn), returning_late),
    Mutant("ends of a new link do not compare", replaced(IgnoresNewLinks), failing),
    Mutant("children that are gone are waited for", replaced(DropsNobody), failing),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_is_caught(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.patch(monkeypatch)
    caught = next((seed for seed in range(SEEDS) if _complaints(mutant, seed)), None)
    monkeypatch.undo()
    assert caught is not None, f"{mutant.name}: survives {SEEDS} seeds"
    print(f"{mutant.name}: caught by seed {caught + 1}")
    assert mutant.check(caught) == []  # The machine itself passes.


def _complaints(mutant: Mutant, seed: int) -> list[str]:
    try:
        return mutant.check(seed)
    except (AssertionError, KeyError, ValueError) as error:  # It broke so badly that it fell over.
        return [repr(error)]


@pytest.fixture(autouse=True)
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not end is known soon."""
    monkeypatch.setattr(study, "ROUNDS_MAX", 12)
