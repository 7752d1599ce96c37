"""Elections by score: what one voter does in one step, and what a group comes to.  [POLE]"""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from random import Random
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from doyen.core.clock import FOREVER, Instant, ms, seconds
from doyen.core.commands import LeaveGroup, Resign
from doyen.core.effects import Emit, Multicast, Persist, RecordDurable, Send, SetTimer
from doyen.core.host import Host
from doyen.core.ids import NodeId, Term
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.rank import OracleStanding, ScoreGiven, ScoreWanted
from doyen.election.pole.ballot import Ballot
from doyen.election.pole.config import PoleConfig
from doyen.election.pole.electorate import Electorate
from doyen.election.pole.machine import Pole
from doyen.election.pole.messages import (
    MESSAGES,
    ElectionBegun,
    ElectionEnds,
    Heartbeat,
    HeartbeatAck,
    MeasuringEnds,
    NotVoting,
    Pending,
    PromiseEnds,
    ProposalRepeats,
    Propose,
    QuorumProposed,
    Resigned,
    ScoreQuery,
    ScoreReply,
    Selected,
    Status,
    Vote,
    WaitEnds,
)
from doyen.election.pole.promise import VoterRecord
from doyen.election.pole.reign import Beats, Lease
from doyen.election.pole.resignation import Rivals, clearly_better
from doyen.errors import ConfigError, LocalProtocolError
from doyen.score.oracles import HISTORY
from doyen.score.pingpong import Ping, PingDue, PingPong, PingPongConfig, Pong, VectorsChanged
from doyen.score.topsis import Attribute, quality
from doyen.score.vectors import Scorer, Vectors
from doyen.sim.engine import Simulation
from doyen.sim.network import Delay, Loss, Network, NetworkConfig
from doyen.sim.node import SimNode
from doyen.sim.streams import Streams
from doyen.sim.topology import Topology
from doyen.testing import RecordingOut

A, B, C, D, E = (NodeId(name) for name in "abcde")
CONFIG = PoleConfig(
    election_timeout=ms(100),
    lease=seconds(1),
    heartbeat_interval=ms(200),
    resign_interval=FOREVER,
    retry_max=seconds(2),
)
PRINTED = replace(CONFIG, connected=False)  # As in the paper: anybody stands.
GUARD = CONFIG.guard


def voter(
    out: RecordingOut, me: NodeId = A, voters: Iterable[NodeId] = (A, B, C), value: float = 5.0, **more: Any
) -> Pole:
    more = {"newcomer": True, "score": lambda epoch, gone: (value,)} | more
    return Pole(me, PRINTED, out, Random(1), voters=voters, **more)


def started(out: RecordingOut, **more: Any) -> Pole:
    machine = voter(out, **more)
    machine.start(0)
    out.take()
    return machine


# One step.


def test_alg_1_an_election_begins_with_a_proposal_of_its_own_and_promises_nothing() -> None:
    out = RecordingOut()
    voter(out).start(0)
    assert out.take() == [
        Emit(ElectionBegun(1)),
        Multicast(Propose(1, (5.0,), A)),
        SetTimer(ProposalRepeats(1, ms(100)), ms(100)),
    ]


def test_alg_1_a_lesser_proposal_is_answered_with_mine_to_its_sender_only() -> None:
    out = RecordingOut()
    started(out).on_message(B, Propose(1, (4.0,), B), 10)
    assert out.take()[0] == Send(B, Propose(1, (5.0,), A))


def test_alg_1_a_greater_proposal_overwrites_mine_and_is_passed_on() -> None:
    out = RecordingOut()
    started(out).on_message(B, Propose(1, (6.0,), C), 10)
    assert out.take() == [
        Multicast(Propose(1, (6.0,), C)),
        Emit(QuorumProposed(1, 10 + ms(100))),
        SetTimer(ElectionEnds(1), 10 + ms(100)),
    ]


def test_alg_1_a_tie_goes_to_the_highest_id_and_names_count_as_numbers() -> None:
    ballot = Ballot(1, Electorate(0, frozenset((A, B, C))))
    assert ballot.offer((1.0,), NodeId("p2")) and ballot.offer((1.0,), NodeId("p10"))
    assert not ballot.offer((1.0,), NodeId("p9"))
    assert not ballot.offer((), NodeId("p11"))  # Measured nothing: below every measured one.


def test_alg_1_a_greater_epoch_is_adopted_with_the_score_of_that_epoch_and_one_broadcast() -> None:
    out, asked = RecordingOut(), list[int]()

    def score(epoch: int, gone: NodeId | None) -> OracleStanding:
        asked.append(epoch)
        return (1.0,)

    started(out, score=score).on_message(B, Propose(7, (0.5,), B), 10)
    assert asked == [1, 7]
    assert [effect for effect in out.take() if isinstance(effect, Multicast)] == [Multicast(Propose(7, (1.0,), A))]


def test_settled_2_a_newer_epoch_with_a_lower_score_is_not_swallowed() -> None:
    out = RecordingOut()
    machine = started(out)
    machine.on_message(B, Propose(2, (0.0,), B), 10)
    assert machine.epoch == 2


def test_alg_1_all_proposals_end_the_election_at_once() -> None:
    out = RecordingOut()
    machine = started(out)
    machine.on_message(B, Propose(1, (4.0,), B), 10)
    machine.on_message(C, Propose(1, (9.0,), C), 20)
    assert Emit(Selected(1, C, (A, B, C), 20)) in out.take()
    assert (machine.status, machine.chosen) == (Status.CHOSEN, C)


def test_settled_5_the_timer_is_started_once_and_belongs_to_its_epoch() -> None:
    out = RecordingOut()
    machine = started(out, voters=(A, B, C, D, E))
    for sender, at in ((B, 10), (C, 20), (D, 30), (B, 40)):
        machine.on_message(sender, Propose(1, (1.0,), sender), at)
    assert [e.at for e in out.take() if isinstance(e, SetTimer) and isinstance(e.timer, ElectionEnds)] == [20 + ms(100)]
    machine.on_message(B, Propose(2, (1.0,), B), 50)
    machine.on_timer(ElectionEnds(1), 20 + ms(100))
    assert machine.status is Status.ELECTING


def test_settled_5_votes_and_other_epochs_do_not_make_a_quorum() -> None:
    out = RecordingOut()
    machine = started(out, voters=(A, B, C, D, E))
    machine.on_message(B, Vote(1, E), 10)
    machine.on_message(C, Vote(1, E), 10)
    machine.on_message(D, Propose(0 + 1, (1.0,), D), 10)
    assert machine.ballot.proposers == {A, D}


def test_alg_1_a_settled_process_answers_every_proposal_with_its_vote_and_nothing_else() -> None:
    out = RecordingOut()
    machine = started(out)
    machine.on_message(C, Heartbeat(3, 1, True), 10)
    out.take()
    machine.on_message(B, Propose(9, (99.0,), B), 20)
    assert out.take() == [Send(B, Vote(3, C))]


def test_alg_1_a_quorum_of_votes_with_the_leaders_own_brings_a_late_process_in() -> None:
    out = RecordingOut()
    machine = started(out, voters=(A, B, C, D, E))
    for sender in (B, C, D):
        machine.on_message(sender, Vote(4, E), 10)
    assert machine.chosen is None  # Line 60: the leader has not voted, and may be dead.
    machine.on_message(E, Vote(4, E), 20)
    assert (machine.chosen, machine.epoch) == (E, 4)


def test_settled_5_joining_never_lowers_a_promised_epoch_and_the_leader_hears_of_it() -> None:
    out = RecordingOut()
    machine = started(out, restored=VoterRecord(9))
    for sender in (B, C):
        machine.on_message(sender, Vote(4, C), 10)
    assert (machine.chosen, machine.epoch) == (C, 10)
    out.take()
    machine.on_message(C, Heartbeat(4, 7, True), 20)
    assert Send(C, HeartbeatAck(9, 7, False)) in out.take()


def test_a_leader_re_establishes_itself_above_what_a_voter_promised() -> None:
    out = RecordingOut()
    machine = leading(out)
    machine.on_message(B, HeartbeatAck(10, 1, False), 30)
    assert out.take()[:2] == [Multicast(Heartbeat(11, 4, False)), Persist(VoterRecord(11, 11, A))]
    assert machine.is_leader and machine.term == Term(1, A)
    machine.on_record_durable(RecordDurable(), 35)
    machine.on_message(B, HeartbeatAck(11, 5, True), 40)
    assert Emit(LeaderElected(Term(11, A))) in out.take()


def granted(effects: list[Any]) -> bool:
    return any(isinstance(e, Send) and isinstance(e.message, HeartbeatAck) and e.message.granted for e in effects)


def leading(out: RecordingOut, at: Instant = 10) -> Pole:
    """A, elected by A, B and C in epoch 1, with B's answer to its first heartbeat, and its own grant on the disk."""
    machine = started(out)
    machine.on_message(B, Propose(1, (4.0,), B), at)
    machine.on_message(C, Propose(1, (3.0,), C), at)
    effects = out.take()
    claim = effects.index(Multicast(Heartbeat(1, 1, False)))
    assert effects[claim + 1] == Persist(VoterRecord(1, 1, A))
    machine.on_message(B, HeartbeatAck(1, 1, True), at + 5)
    assert not machine.is_leader and not machine.leads(at + 5)  # Its own grant is not durable yet.
    machine.on_record_durable(RecordDurable(), at + 5)
    assert Emit(LeaderElected(Term(1, A))) in out.take()
    assert machine.is_leader
    return machine


def test_a_lease_ends_without_any_message() -> None:
    out = RecordingOut()
    machine = leading(out, at=10)
    assert machine.leads(9 + seconds(1)) and not machine.leads(10 + seconds(1))
    timers = [SetTimer(WaitEnds(n), 0) for n in range(5)]
    machine.on_timer(timers[2].timer, 10 + seconds(1))
    assert not machine.is_leader
    assert Emit(LeaderLost(Term(1, A), "lease over")) in out.take()


def test_a_lease_counts_from_when_the_heartbeat_was_sent_not_from_its_ack() -> None:
    lease, beats = Lease(Electorate(0, frozenset((A, B, C))), seconds(1)), Beats(seconds(1))
    first = beats.send(0)
    lease.answered(A, 0)
    lease.answered(B, beats.sent_at(first) or 0)
    assert lease.until == seconds(1)
    beats.send(seconds(3))
    assert beats.sent_at(first) is None  # Too old to mean anything.


def test_a_late_input_is_too_late_whatever_it_is() -> None:
    out = RecordingOut()
    machine = leading(out)
    machine.on_message(B, HeartbeatAck(1, 2, True), seconds(5))
    assert not machine.is_leader and isinstance(out.take()[0], Emit)


def test_a_voter_grants_an_epoch_once_and_durably_first() -> None:
    out = RecordingOut()
    machine = started(out)
    machine.on_message(C, Heartbeat(1, 1, True), 10)
    effects = out.take()
    grant = effects.index(Persist(VoterRecord(1, 1, C)))
    assert effects[grant - 1] == Send(C, Pending(1, 1)) and not granted(effects)
    machine.on_message(C, Heartbeat(1, 2, True), 15)
    assert not granted(out.take())  # The disk still writes.
    machine.on_record_durable(RecordDurable(), 18)
    assert out.take() == [Send(C, HeartbeatAck(1, 2, True))]
    machine.on_message(B, Heartbeat(1, 1, True), 20)  # Nobody can have a majority as well; but if:
    assert not granted(out.take())


def test_a_voter_is_bound_until_its_leaders_lease_is_over_on_any_clock() -> None:
    out = RecordingOut()
    machine = started(out)
    machine.on_message(C, Heartbeat(1, 1, True), 10)
    machine.on_record_durable(RecordDurable(), 15)
    out.take()
    machine.on_message(B, Heartbeat(2, 1, True), 20)
    effects = out.take()
    assert SetTimer(PromiseEnds(2), 15 + GUARD) in effects
    assert [effect for effect in effects if isinstance(effect, Send)] == [Send(B, Pending(2, 1))]
    machine.on_record_durable(RecordDurable(), 25)  # That it follows epoch 2, and has granted nobody that epoch.
    assert not granted(out.take())
    machine.on_timer(PromiseEnds(2), 15 + GUARD)
    assert Persist(VoterRecord(2, 2, B)) in out.take()
    machine.on_record_durable(RecordDurable(), 16 + GUARD)
    assert out.take() == [Send(B, HeartbeatAck(2, 1, True))]


def test_a_restarted_voter_is_bound_as_if_it_had_just_answered() -> None:
    out = RecordingOut()
    machine = voter(out, restored=VoterRecord(4, 4, C), newcomer=False)
    machine.start(1000)
    machine.on_message(B, Heartbeat(6, 1, True), 1010)
    assert SetTimer(PromiseEnds(6), 1000 + GUARD) in out.take()


def test_a_restarted_leader_is_bound_by_its_own_last_reign_for_others_and_for_itself() -> None:
    """Its process is gone, but a command that it ran may have until the lease ends, by a watchdog."""
    out = RecordingOut()
    machine = voter(out, restored=VoterRecord(4, 4, A), newcomer=False)
    machine.start(1000)
    machine.on_message(B, Heartbeat(6, 1, True), 1010)
    assert SetTimer(PromiseEnds(6), 1000 + GUARD) in out.take()
    alone = voter(out, voters=(A,), restored=VoterRecord(4, 4, A), newcomer=False)
    alone.start(1000)
    assert SetTimer(PromiseEnds(5), 1000 + GUARD) in out.take() and not alone.leads(1000 + GUARD - 1)
    alone.on_timer(PromiseEnds(5), 1000 + GUARD)
    assert not alone.leads(1000 + GUARD)
    alone.on_record_durable(RecordDurable(), 1000 + GUARD)
    assert alone.leads(1000 + GUARD)


def test_who_lost_its_file_does_not_vote() -> None:
    out = RecordingOut()
    machine = voter(out, newcomer=False)
    machine.start(0)
    assert out.take()[0] == Emit(NotVoting()) and not machine.voting
    machine.on_message(B, Propose(3, (1.0,), B), 10)
    machine.on_message(C, Heartbeat(4, 1, False), 20)
    assert out.take() == []
    machine.on_message(C, Heartbeat(4, 2, True), 30)
    assert out.take() == [SetTimer(WaitEnds(1), 30 + GUARD), Emit(LeaderElected(Term(4, C)))]
    machine.on_timer(WaitEnds(1), 30 + GUARD)
    assert out.take() == [Emit(LeaderLost(Term(4, C), "silent"))]


def test_pole_5_the_first_score_is_waited_for_and_not_for_ever() -> None:
    out = RecordingOut()
    machine = voter(out, score=lambda epoch, gone: None)
    machine.start(0)
    assert SetTimer(MeasuringEnds(1), CONFIG.score_timeout) in out.take() and machine.status is Status.MEASURING
    machine.on_timer(MeasuringEnds(1), CONFIG.score_timeout)
    assert Multicast(Propose(1, (), A)) in out.take()


def test_the_world_can_be_asked_for_a_score() -> None:
    out = RecordingOut()
    machine = voter(out, score=None)
    machine.start(0)
    assert Emit(ScoreWanted(1)) in out.take()
    machine.on_score_given(ScoreGiven(1, 7), 10)
    assert Multicast(Propose(1, (7.0,), A)) in out.take()


def test_a_score_that_becomes_known_is_used_at_once() -> None:
    out, known = RecordingOut(), list[OracleStanding]()
    machine = voter(out, score=lambda epoch, gone: known[0] if known else None)
    machine.start(0)
    known.append((3.0,))
    machine.on_vectors_changed(VectorsChanged(2), 10)
    assert Multicast(Propose(1, (3.0,), A)) in out.take()


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), 10**400])
def test_a_score_that_is_no_number_was_not_measured(value: Any) -> None:
    out = RecordingOut()
    machine = voter(out, score=None)
    machine.start(0)
    machine.on_score_given(ScoreGiven(1, value), 10)
    assert Multicast(Propose(1, (), A)) in out.take()
    voter(out, value=value).start(0)
    assert Multicast(Propose(1, (), A)) in out.take()


def test_retries_double_up_to_a_bound() -> None:
    out = RecordingOut()
    machine = started(out)
    waits = []
    timer = ProposalRepeats(1, ms(100))
    for _ in range(7):
        machine.on_timer(timer, 0)
        (timer,) = (e.timer for e in out.take() if isinstance(e, SetTimer))
        waits.append(timer.wait)
    assert waits == [ms(200), ms(400), ms(800), ms(1600), seconds(2), seconds(2), seconds(2)]


def test_strangers_are_not_heard() -> None:
    out = RecordingOut()
    machine = started(out)
    machine.on_message(E, Propose(9, (9.0,), E), 10)
    machine.on_message(B, Propose(1, (9.0,), E), 10)
    assert out.take() == [] and machine.epoch == 1


def test_its_own_name_from_the_network_makes_nobody_a_leader() -> None:
    out = RecordingOut()
    machine = started(out)
    machine.on_message(A, Heartbeat(5, 1, True), 10)
    assert out.take() == [] and machine.leader is None and machine.epoch == 1


def test_a_wild_epoch_cannot_use_up_all_epochs() -> None:
    out, wild = RecordingOut(), 2**53
    lies = [Propose(wild, (9.0,), B), Heartbeat(wild, 1, True), HeartbeatAck(wild, 1, False), Resigned(wild, C)]
    machine, observer = started(out), voter(RecordingOut(), newcomer=False)
    for lie in [*lies, Vote(wild, B), Vote(wild, C)]:
        machine.on_message(B, lie, 10)
        observer.on_message(B, lie, 10)
    assert machine.epoch == 1 and observer.leader is None
    machine.on_message(B, Propose(2**32, (9.0,), B), 20)
    assert machine.epoch == 2**32


@pytest.mark.parametrize(
    "data",
    [
        ["P", 0, [1.0], "a"],
        ["P", 1, [float("nan")], "a"],
        ["P", 1, [1.0] * 9, "a"],
        ["P", 2**60, [1.0], "a"],
        ["V", 1, ""],
        ["H", -1, 1, True],
        ["S", 1, [float("inf")]],
    ],
)
def test_messages_out_of_range_are_refused(data: list[Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(data), type=MESSAGES)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("lease", 0),
        ("election_timeout", -1),
        ("retry_max", ms(1)),
        ("drift_max", 0.5),
        ("drift_max", float("nan")),
        ("resign_margin", -1.0),
        ("resign_rounds", 0),
        ("score_timeout", FOREVER),
    ],
)
def test_configurations_that_cannot_work(field: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=field):
        replace(CONFIG, **{field: value})


def test_heartbeats_are_as_frequent_as_the_lease_asks_for() -> None:
    assert CONFIG.beat_interval == ms(200)
    assert replace(CONFIG, lease=ms(300)).beat_interval == ms(120)
    assert replace(CONFIG, lease=ms(300), connected=False).beat_interval == ms(100)  # Nobody asks again.


def test_voters_must_be_named() -> None:
    with pytest.raises(ConfigError, match="voters"):
        voter(RecordingOut(), voters=())
    assert not voter(RecordingOut(), me=E).voting  # It may be made one later.


# Resignation.


def test_better_means_clearly_so() -> None:
    assert clearly_better((-80.0,), (-100.0,), 0.1) and not clearly_better((-95.0,), (-100.0,), 0.1)
    assert clearly_better((-3.0, 7.0), (-3.0, 5.0), 0.1) and not clearly_better((-4.0, 99.0), (-3.0, 5.0), 0.0)
    assert clearly_better((1.0,), (), 0.5) and not clearly_better((), (1.0,), 0.0)


def test_a_challenger_must_be_better_several_times_in_a_row() -> None:
    rivals = Rivals(replace(CONFIG, resign_rounds=3), RecordingOut())
    winners = []
    for standing in (9.0, 9.0, 1.0, 9.0, 9.0, 9.0):
        number = rivals.ask(0)
        rivals.reply(B, number, (standing,))
        rivals.reply(C, number - 1, (99.0,))  # Late.
        winners.append(rivals.winner((5.0,)))
    assert winners == [None, None, None, None, None, B]


def test_only_its_leader_is_told_a_score_and_the_leader_is_counted_in() -> None:
    out, asked = RecordingOut(), list[NodeId | None]()

    def score(epoch: int, gone: NodeId | None) -> OracleStanding:
        asked.append(gone)
        return (2.0,)

    machine = started(out, score=score)
    machine.on_message(C, Heartbeat(1, 1, True), 10)
    out.take()
    machine.on_message(B, ScoreQuery(1), 20)
    assert out.take() == []
    machine.on_message(C, ScoreQuery(1), 30)
    assert out.take() == [Send(C, ScoreReply(1, (2.0,)))] and asked[-1] is None


def test_a_will_resigns_the_term_that_is_led_and_there_is_none_without_one() -> None:
    out = RecordingOut()
    assert started(out).will() is None
    machine = leading(out)
    assert machine.will() == Resigned(1, None)
    machine.reign.rivals.reply(C, machine.reign.rivals.ask(25), (9.0,))
    machine.on_message(B, HeartbeatAck(10, 1, False), 30)  # Epoch 11 is claimed, and not led yet.
    assert machine.will() == Resigned(1, C)
    machine.on_timer(WaitEnds(2), seconds(9))
    assert machine.will() is None


def test_hand_over_is_to_another_voter() -> None:
    machine = leading(RecordingOut())
    for to in (A, E):
        with pytest.raises(LocalProtocolError, match="hand over"):
            machine.resign(Resign(to), 20)


# Groups, in made-up time.

Scoring = Callable[[NodeId, int, Instant], OracleStanding | None]


class Group:
    def __init__(
        self, size: int, scoring: Scoring, config: PoleConfig = CONFIG, seed: int = 1, loss: float = 0
    ) -> None:
        streams = Streams(seed)
        network = NetworkConfig(
            delay=Delay(model="uniform", mean=ms(10), spread=ms(8)), loss=Loss(model="uncorrelated", prob=loss)
        )
        self.sim = Simulation(Network(network, Topology(size, None), streams), streams, disk_delay=ms(2))
        self.names = [NodeId(f"p{i + 1}") for i in range(size)]
        self.scoring, self.config = scoring, config
        self.reigns: list[tuple[float, NodeId, int]] = []
        self.ends: list[tuple[float, NodeId]] = []
        self.sim.watchers.append(self._on_fact)
        self.nodes = {name: self.sim.add(name, self._setup) for name in self.names}

    def start(self, *names: str) -> "Group":
        for name in names or self.names:
            self.sim.start(self.nodes[NodeId(name)])
        return self

    def run(self, to_s: float) -> "Group":
        self.sim.run(until=seconds(to_s))
        return self

    def machine(self, name: str) -> Pole:
        host = self.nodes[NodeId(name)].host
        assert host is not None
        found: Any = host.ports["election"].machine
        return found

    def leader(self) -> NodeId | None:
        """All living name it, and it leads."""
        machines = [self.machine(node.name) for node in self.sim.up()]
        named = {machine.leader for machine in machines}
        leader = named.pop() if len(named) == 1 else None
        return leader if any(machine.me == leader and machine.is_leader for machine in machines) else None

    def _setup(self, node: SimNode, host: Host) -> None:
        host.add(
            "election",
            lambda port: Pole(
                node.name,
                self.config,
                port,
                node.rng("election"),
                voters=self.names,
                score=lambda epoch, gone: self.scoring(node.name, epoch, self.sim.now),
                restored=node.restored("election", VoterRecord),
                newcomer=node.incarnation == 1,
            ),
        )

    def _on_fact(self, node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        if isinstance(fact, LeaderElected) and fact.term.leader == node.name:
            self.reigns.append((now / 1e9, node.name, fact.term.number))
        if isinstance(fact, LeaderLost) and fact.term.leader == node.name:
            self.ends.append((now / 1e9, node.name))


def by_number(best: int) -> Scoring:
    """p<best> has the best score, and the others the lower the farther from it."""
    return lambda name, epoch, now: (-abs(float(name[1:]) - best),)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7])
def test_a_timely_run_elects_the_best_score(size: int) -> None:
    for best in range(1, size + 1):
        assert Group(size, by_number(best), seed=best).start().run(1).leader() == f"p{best}"


@pytest.mark.parametrize("size", [3, 5, 7])
def test_a_better_latecomer_joins_and_does_not_depose(size: int) -> None:
    group = Group(size, by_number(2)).start(*[f"p{i}" for i in range(1, size + 1) if i != 2]).run(2)
    leader = group.leader()
    assert leader in ("p1", "p3")
    group.start("p2").run(5)
    assert group.leader() == leader and group.machine("p2").status is Status.FOLLOWING


@pytest.mark.parametrize("size", [3, 5, 7])
def test_a_crashed_winner_is_replaced_by_failure_detection(size: int) -> None:
    group = Group(size, by_number(size)).start().run(2)
    group.sim.crash(group.nodes[NodeId(f"p{size}")])
    group.run(2 + 1.2 + 0.1 + 0.2)  # Its lease, T, and the claim.
    assert group.leader() == f"p{size - 1}"


@pytest.mark.parametrize("size", [3, 5, 7])
def test_score_errors_never_cost_liveness(size: int) -> None:
    """Scores at random, other at every question, and missing half of the time."""
    rng = Random(size)

    def scoring(name: NodeId, epoch: int, now: Instant) -> OracleStanding | None:
        return (rng.random(),) if rng.random() < 0.5 else None

    for seed in range(10):
        group = Group(size, scoring, seed=seed, loss=0.05).start().run(7)
        assert group.leader() is not None
        group.sim.crash(group.nodes[group.leader() or group.names[0]])
        assert group.run(14).leader() is not None


def test_without_a_quorum_nobody_leads() -> None:
    group = Group(5, by_number(5)).start("p1", "p2").run(10)
    assert group.leader() is None and not group.reigns


def test_a_leader_cut_off_stops_before_another_acts() -> None:
    group = Group(5, by_number(5)).start().run(2)
    group.sim.partition("cut", [group.nodes[NodeId("p5")]], [group.nodes[NodeId(f"p{i}")] for i in range(1, 5)])
    group.run(2.7)
    assert group.machine("p5").is_leader
    group.run(3.01)
    assert not group.machine("p5").is_leader
    group.run(4)
    assert [name for _, name, _ in group.reigns] == ["p5", "p4"]
    assert group.ends[0][1] == "p5" and 2.7 < group.ends[0][0] < group.reigns[1][0] < 3.1
    group.sim.heal("cut")
    group.run(8)
    assert group.leader() == "p4" and group.machine("p5").leader == "p4"


def test_hand_over_to_anybody_without_an_election() -> None:
    group = Group(5, by_number(5)).start().run(2)
    group.sim.tell(group.nodes[NodeId("p5")], Resign(NodeId("p2")), channel="election")
    group.run(2.15)
    assert group.leader() == "p2"


def test_resigning_without_an_heir_leaves_it_to_the_others() -> None:
    group = Group(5, by_number(5)).start().run(2)
    group.sim.tell(group.nodes[NodeId("p5")], Resign(), channel="election")
    assert group.run(3).leader() == "p4"


def test_who_resigns_enters_the_next_epoch_and_waits_for_its_heir_there() -> None:
    group = Group(5, by_number(5)).start().run(2)
    before = group.machine("p5").epoch
    group.sim.tell(group.nodes[NodeId("p5")], Resign(NodeId("p2")), channel="election")
    group.run(2.0001)  # Before anybody has answered.
    assert (group.machine("p5").epoch, group.machine("p5").chosen) == (before + 1, "p2")


@pytest.mark.parametrize("resigned", [2, 3, 7])
@pytest.mark.parametrize("heir", [B, None])
def test_after_a_resignation_the_next_epoch_is_above_the_leaders_last(resigned: int, heir: NodeId | None) -> None:
    """The leader may have gone on to epochs of which the voter has not heard."""
    out = RecordingOut()
    machine = started(out)
    machine.on_message(C, Heartbeat(2, 1, True), 10)
    assert (machine.epoch, machine.chosen, machine.term) == (2, C, Term(2, C))
    machine.on_message(C, Resigned(resigned, heir), 20)
    assert machine.epoch == resigned + 1


def test_leaving_is_quick_for_the_others() -> None:
    group = Group(3, by_number(3)).start().run(2)
    group.sim.tell(group.nodes[NodeId("p3")], LeaveGroup(), channel="election")
    group.run(2.4)
    assert [name for _, name, _ in group.reigns] == ["p3", "p2"]


FLAPPING = replace(CONFIG, resign_interval=ms(300), resign_rounds=2, cool_down=seconds(10))


def test_pole_5_a_leader_resigns_to_a_clearly_better_one_after_its_cool_down() -> None:
    def scoring(name: NodeId, epoch: int, now: Instant) -> OracleStanding:
        return (2.0 if name == "p1" and now > seconds(3) else 1.0,)

    group = Group(3, scoring, FLAPPING).start().run(9.9)
    assert group.leader() == "p3"
    assert group.run(12).leader() == "p1"


def test_a_flapping_better_node_leads_at_most_once_per_cool_down() -> None:
    def scoring(name: NodeId, epoch: int, now: Instant) -> OracleStanding:
        flaps = name == "p1" and (now // seconds(2)) % 2
        return (9.0 if flaps else 1.0 if name == "p1" else 5.0,)

    group = Group(3, scoring, FLAPPING).start().run(200)
    times = [at for at, name, _ in group.reigns if name == "p1"]
    assert len(times) > 3
    assert all(later - earlier >= 10 for earlier, later in pairwise(times))


def test_a_slightly_better_node_changes_nothing() -> None:
    group = Group(3, lambda name, epoch, now: (1.05 if name == "p1" and now > seconds(1) else 1.0,), FLAPPING)
    assert group.start().run(60).leader() == "p3"


def test_a_quality_factor_elects() -> None:
    attributes = (Attribute(name="cpu", min=0, max=10, weight=1.0),)
    cpu = {"p1": 2.0, "p2": 9.0, "p3": 4.0}

    def scoring(name: NodeId, epoch: int, now: Instant) -> OracleStanding | None:
        return (quality({"cpu": cpu[name]}, attributes).value,)

    assert Group(3, scoring).start().run(1).leader() == "p2"


# Vectors.


def test_pole_3_3_round_trips_are_means_over_a_window() -> None:
    vectors = Vectors(A, seconds(10))
    assert vectors.measured(B, ms(10), 0) and not vectors.measured(B, ms(20), seconds(5))
    assert vectors.rtt == {B: 15.0}
    vectors.measured(B, ms(30), seconds(12))
    assert vectors.rtt == {B: 25.0}


def test_pole_3_3_a_peer_leaves_the_vector_after_missed_pongs() -> None:
    out = RecordingOut()
    machine = PingPong(A, PingPongConfig(missed_max=2), out, Random(1), voters=(A, B, C), rate=lambda: 3.0)
    machine.start(0)
    assert out.take()[0] == Multicast(Ping(1, 3.0))
    machine.on_message(B, Pong(1, 7.0), ms(40))
    assert out.take() == [Emit(VectorsChanged(1))]
    assert (machine.vectors.rtt, machine.vectors.rates) == ({B: 40.0}, {B: 7.0})
    machine.on_message(C, Ping(9, 8.0), ms(50))
    assert out.take() == [Send(C, Pong(9, 3.0))]
    for i in (1, 2):
        assert B in machine.vectors.rtt
        machine.on_timer(PingDue(), seconds(i))
    machine.on_timer(PingDue(), seconds(3))
    assert machine.vectors.rtt == {} and machine.vectors.rates[B] == 7.0
    assert Emit(VectorsChanged(0)) in out.take()


def test_an_answer_to_a_forgotten_ping_measures_nothing() -> None:
    out = RecordingOut()
    machine = PingPong(A, PingPongConfig(missed_max=1), out, Random(1), voters=(A, B))
    machine.start(0)
    for i in range(1, 4):
        machine.on_timer(PingDue(), seconds(i))
    machine.on_message(B, Pong(1, 0.0), seconds(4))
    assert machine.vectors.rtt == {}


def test_a_dead_leaders_clients_stay_in_their_data_centre() -> None:
    vectors = Vectors(A, seconds(10))
    for peer, rate in ((B, 10.0), (C, 6.0), (D, 1.0)):
        vectors.told(peer, rate)
    make = partial(Scorer, HISTORY, A, (A, B, C, D), vectors=vectors, rate=lambda: 2.0)
    assert make().situation(1, C).rates == {A: 2.0, B: 10.0, D: 1.0}
    places = {A: "x", C: "x", D: "x", B: "y"}
    assert make(places=places).situation(1, C).rates == {A: 5.0, B: 10.0, D: 4.0}
