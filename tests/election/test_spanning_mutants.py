"""Deliberate bugs in the spanning election, each caught, and after how many seeds.  [MADM]

A mutant is the machine with one rule broken.  It is run on random graphs, quiet or failing, until a check fails that
the machine itself passes on the very same seeds.  `pytest -s` prints how many it took.
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import pytest
from msgspec import Struct

from doyen.core.clock import Instant, seconds
from doyen.core.ids import NodeId
from doyen.core.order import order
from doyen.core.rank import ScoreGiven
from doyen.election.spanning import Candidate, ElectionId, Phase, Spanning, healing, machine, orphan, returning
from doyen.election.spanning.gathering import Gathering
from doyen.election.spanning.messages import (
    Ack,
    CoParentsOverdue,
    DeclarationOverdue,
    Eim,
    Ldm,
    Mqfm,
    Timer,
    message_count,
)
from doyen_papers.papers.madm.chapter import SEVEN, SEVEN_QUALITY
from doyen_papers.studies import spanning as study
from doyen_papers.studies.graphs import leaf_count, random_setting
from doyen_papers.studies.spanning import Experiment, Failure, Run, Setting, faults_of, graph, simulate

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
        assert experiment.sim.event_count < EVENTS_MAX, "it talks for ever"

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
    run = simulate(Setting(graph=found, initiators=(NodeId("2"),), failures=(failure,)), 1)
    leaders = [region.leader for region in run.regions]
    return [] if leaders == [best] and len(run.declarations) == 1 else [f"{edge}: {leaders}, not {best} at once"]


def returning_late(seed: int) -> list[str]:
    """The best of all returns after the election: it adopts the leader."""
    found = graph(SEVEN, SEVEN_QUALITY | {"6": 0.99})
    failures = (Failure("fail-node", (NodeId("6"),), 1.0), Failure("recover", (NodeId("6"),), 20.0 + seed))
    run = simulate(Setting(graph=found, initiators=(NodeId("2"),), failures=failures), seed)
    return [] if len(run.declarations) == 1 else ["it started an election"]


# ── What is broken ──────────────────────────────────────────────────────────────────────────────────────────


def replaced(mutant: type[Spanning]) -> Patch:
    return lambda patch: patch.setattr(study, "Spanning", mutant)


class WaitsForCoParentsForEver(Spanning):
    """[MADM Alg. 12] The prose rule."""

    def _on_overdue(self, g: Gathering, timer: Timer, now: Instant) -> None:
        if not isinstance(timer, CoParentsOverdue):
            super()._on_overdue(g, timer, now)


class TellsCoParentsAsLine41Says(Spanning):
    """Only if they have not all told it first."""

    def evaluate(self, now: Instant) -> None:
        g = self.gathering
        if g is not None and not g.pending and not g.missing and g.co_parents and g.co_parents_heard:
            g.told = True
        super().evaluate(now)


class TellsCoParentsWhatParentsHear(Spanning):
    def say(self, peer: NodeId, message: Any) -> None:
        g = self.gathering
        if g is not None and isinstance(message, Mqfm) and not message.up:
            message = Mqfm(message.election, g.best(), False)
        super().say(peer, message)


class WaitsForNoCoParent(Spanning):
    """Every node is done as soon as its children are, so co-parents' words come too late to be passed on."""

    def _on_co_parent(self, sender: NodeId, now: Instant) -> None:
        if self.gathering is not None:
            self.gathering.co_wait_over = True
            self.gathering.pending.discard(sender)
            self.evaluate(now)


class KnowsAWinnerAlready(Spanning):
    """Dedupes LDM on the winner, as printed: "for the first time"."""

    last: NodeId | None = None

    def _on_ldm(self, sender: NodeId, message: Ldm, now: Instant) -> None:
        if self.last != message.leader.node:
            self.last = message.leader.node
            super()._on_ldm(sender, message, now)


class ForgetsToFreeze(Spanning):
    def on_score_given(self, fact: ScoreGiven, now: Instant) -> None:
        super().on_score_given(fact, now)
        if self.gathering is not None:
            self.gathering.mine = Candidate(self.standing, self.me)


class NeverGivesUp(Spanning):
    """No re-initiation when no LDM comes."""

    def _on_overdue(self, g: Gathering, timer: Timer, now: Instant) -> None:
        if not isinstance(timer, DeclarationOverdue):
            super()._on_overdue(g, timer, now)


class AnswersAsALeafTwice(Spanning):
    """A leaf sends ACK too."""

    def _on_eim(self, sender: NodeId, message: Eim, now: Instant) -> None:
        if self.links == [sender] and machine.newer(message.election, self.election):
            self.out.send(sender, Ack(message.election))
        super()._on_eim(sender, message, now)


class KeepsToItself(Spanning):
    """Does not flood the declaration."""

    def _on_ldm(self, sender: NodeId, message: Ldm, now: Instant) -> None:
        if self.gathering is not None and message.election == self.election:
            self.become_settled(message.election, message.leader, now)
        else:
            super()._on_ldm(sender, message, now)


class AgreesToNothing(Spanning):
    """Sends no AGM."""

    def _on_eim(self, sender: NodeId, message: Eim, now: Instant) -> None:
        if message.election == self.election:
            self._on_co_parent(sender, now)
        else:
            super()._on_eim(sender, message, now)


class ListensToTheDead(Spanning):
    """Reports of any election count in the present one."""

    def _on_mqfm(self, sender: NodeId, message: Mqfm, now: Instant) -> None:
        if self.gathering is not None:
            message = Mqfm(self.gathering.election, message.best, message.up)
        super()._on_mqfm(sender, message, now)


class RepeatsItsSequence(Spanning):
    def begin(self, now: Instant) -> None:
        self.sequence_max = max(self.sequence_max - 1, 0)
        super().begin(now)


class UsurpsOnReturn(Spanning):
    def become_settled(self, election: ElectionId, winner: Candidate, now: Instant) -> None:
        back = self.phase is Phase.RETURNING
        super().become_settled(election, winner, now)
        if back and Candidate(self.standing, self.me).beats(winner):
            self.begin(now)


class IgnoresNewLinks(Spanning):
    """Ends of a link that comes up do not compare."""

    def _gain(self, peer: NodeId, now: Instant) -> None:
        self.links = sorted([*self.links, peer], key=order)


class DropsNobody(Spanning):
    """Waits for children that are gone."""

    def _lose(self, peer: NodeId, now: Instant) -> None:
        g = self.gathering
        if g is not None and g.parent != peer:
            self.links.remove(peer)
        else:
            super()._lose(peer, now)

    def _on_overdue(self, g: Gathering, timer: Timer, now: Instant) -> None:
        if isinstance(timer, DeclarationOverdue):
            super()._on_overdue(g, timer, now)


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

    for module in (machine, healing, returning):
        patch.setattr(module, "newer", newer)


def no_other_parent(patch: pytest.MonkeyPatch) -> None:
    def stay(node: Spanning, g: Gathering, now: Instant) -> None:
        g.parent = None

    patch.setattr(orphan, "seek_parent", stay)


class Mutant(Struct, frozen=True):
    name: str
    patch: Patch
    check: Check


MUTANTS = [
    Mutant("co-parents are waited for without bound", replaced(WaitsForCoParentsForEver), quiet),
    Mutant("Algorithm 12 line 41 as printed", replaced(TellsCoParentsAsLine41Says), quiet),
    Mutant("co-parents hear what parents hear", replaced(TellsCoParentsWhatParentsHear), quiet),
    Mutant("co-parents are not told", replaced(WaitsForNoCoParent), quiet),
    Mutant("LDM deduped on the winner", replaced(KnowsAWinnerAlready), failing),
    Mutant("quality not frozen", replaced(ForgetsToFreeze), changing),
    Mutant("ties not by the lowest id", ties_to_the_first_heard, quiet),
    Mutant("ids compared as text", ids_as_text, quiet),
    Mutant("elections ordered without a sequence", order_without_sequence, failing),
    Mutant("a sequence used again", replaced(RepeatsItsSequence), failing),
    Mutant("no other parent is sought", no_other_parent, single_links),
    Mutant("no re-initiation", replaced(NeverGivesUp), failing),
    Mutant("a leaf sends ACK too", replaced(AnswersAsALeafTwice), quiet),
    Mutant("the declaration is not passed on", replaced(KeepsToItself), quiet),
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
