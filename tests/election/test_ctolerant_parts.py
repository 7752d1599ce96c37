"""Beside the election: eventually reliable multicast, the estimator of c, challengers, and the baseline."""

from random import Random
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from doyen.core import Emit, Host, Multicast, NodeId, Send, SetTimer, ms, seconds
from doyen.core.view import Member, Status, ViewChanged, ViewEditor
from doyen.election.churn.challengers import Challengers, clearly_better
from doyen.election.churn.confirming import CONFIRMS_MAX, Confirming
from doyen.election.churn.local import Local
from doyen.election.churn.messages import Confirm, ElectionId, Record
from doyen.errors import ConfigError
from doyen.membership.missing import (
    DigestIsSent,
    MissingConfig,
    MissingEstimated,
    MissingEstimator,
    ViewDigest,
    bound,
    digest_of,
    entry_of,
    missing_max,
)
from doyen.membership.reliable import ABSENT_ROUNDS, RESEND_MAX, CopiesAreSent, ReliableMulticast
from doyen.sim.engine import Simulation
from doyen.sim.network import Delay, Network, NetworkConfig
from doyen.sim.node import SimNode
from doyen.sim.streams import Streams
from doyen.sim.topology import Topology
from doyen.testing import RecordingOut
from doyen_papers.studies.views import ToldViews

A, B, C, D = (NodeId(name) for name in "abcd")


class Standings(dict[NodeId, Any]):
    def __missing__(self, node: NodeId) -> str:
        return "present"


def multicast() -> tuple[ReliableMulticast, RecordingOut, Standings]:
    out, standings = RecordingOut(), Standings()
    return ReliableMulticast(out, ms(250), standings.__getitem__), out, standings


def test_each_gets_a_copy_and_again_until_it_says_so() -> None:
    sender, out, _ = multicast()
    sender.publish(lambda number: ("news", number), [A, B], 0)
    assert out.take() == [Send(A, ("news", 1)), Send(B, ("news", 1)), SetTimer(CopiesAreSent(1, 1), at=ms(250))]
    sender.on_ack(A, 1)
    sender.on_timer(CopiesAreSent(1, 1), ms(250))
    assert out.take() == [Send(B, ("news", 1)), SetTimer(CopiesAreSent(1, 2), at=ms(500))]
    sender.on_ack(B, 1)
    sender.on_timer(CopiesAreSent(1, 2), ms(500))
    assert out.take() == [] and not sender.waiting


def test_newer_news_replace_older_and_late_acks_say_nothing_of_them() -> None:
    sender, out, _ = multicast()
    sender.publish(lambda number: number, [A], 0)
    sender.publish(lambda number: number, [A], ms(10))
    out.take()
    sender.on_ack(A, 1)
    assert sender.waiting == {A}
    sender.on_timer(CopiesAreSent(1, 1), ms(250))
    assert out.take() == []


def test_the_present_are_told_for_ever_ever_more_slowly() -> None:
    sender, out, _ = multicast()
    sender.publish(lambda number: number, [A], 0)
    waits = []
    for round_no in range(1, 60):
        out.take()
        sender.on_timer(CopiesAreSent(1, round_no), 0)
        sent, timer = out.effects
        assert sent == Send(A, 1)
        waits.append(timer.at)  # type: ignore[union-attr]
    assert waits == sorted(waits) and waits[0] == ms(250) and waits[-1] == RESEND_MAX


def test_the_left_get_none_and_the_failed_only_some() -> None:
    sender, out, standings = multicast()
    sender.publish(lambda number: number, [A, B], 0)
    standings[A], standings[B] = "left", "absent"
    for round_no in range(1, ABSENT_ROUNDS + 5):
        sender.on_timer(CopiesAreSent(1, round_no), 0)
    sent = [e.to for e in out.take() if isinstance(e, Send)]
    assert sent.count(A) == 1 and sent.count(B) == ABSENT_ROUNDS
    assert not sender.waiting


def test_who_turns_up_or_returns_is_told_then() -> None:
    sender, out, _ = multicast()
    sender.include(C, 0)
    assert out.take() == []  # There is nothing to tell yet.
    sender.publish(lambda number: number, [A], 0)
    sender.on_ack(A, 1)
    sender.include(A, 1)
    out.take()
    sender.include(B, 1)
    assert Send(B, 1) in out.take()
    sender.forget(A)
    sender.include(A, 2)
    assert Send(A, 1) in out.take()
    sender.stop()
    sender.include(D, 3)
    assert out.take() == []


def test_amended_news_go_to_who_has_not_acknowledged() -> None:
    sender, out, _ = multicast()
    sender.publish(lambda number: ("tentative", number), [A, B, C], 0)
    sender.on_ack(A, 1)
    sender.on_ack(B, 1)
    out.take()
    sender.amend(lambda number: ("final", number), [B], ms(1))
    assert out.take() == [Send(B, ("final", 1))]
    sender.on_timer(CopiesAreSent(1, 1), ms(250))
    assert [e for e in out.take() if isinstance(e, Send)] == [Send(C, ("final", 1)), Send(B, ("final", 1))]


# ── The estimator of c ──────────────────────────────────────────────────────────────────────────────────────


def entries(*nodes: NodeId) -> set[int]:
    return {entry_of(node) for node in nodes}


def test_c_is_the_greatest_share_of_views_that_lack_one_member_times_the_group() -> None:
    full, lacking = digest_of({A, B, C, D}, 0, 1), digest_of({A, B, C}, 0, 1)
    assert missing_max(entries(A, B, C, D), [full, full, full], 4) == 0
    assert missing_max(entries(A, B, C, D), [full, full, lacking], 4) == 1
    assert missing_max(entries(A, B, C, D), [full, full, lacking], 40) == 10
    assert missing_max(entries(A, B, C), [full, full, full], 4) == 1  # My own view may be the weak one.


def test_a_member_that_most_views_lack_is_gone_and_counts_for_nothing() -> None:
    lacking = digest_of({A, B, C}, 0, 1)
    assert missing_max(entries(A, B, C, D), [lacking, lacking, lacking], 4) == 0


def test_large_views_are_told_in_slices() -> None:
    nodes = {NodeId(f"n{i}") for i in range(1000)}
    parts = [digest_of(nodes, part, 4) for part in range(4)]
    assert sum(len(part.entries) for part in parts) == 4 * 1000
    assert missing_max({entry_of(node) for node in nodes}, parts, 1000) == 0


def test_the_bound_is_an_order_statistic_with_its_confidence() -> None:
    value, confidence = bound([1, 2, 3], 3, 0.9, 0.95)
    assert value == 3 and confidence == pytest.approx(1 - 0.9**3)
    value, confidence = bound(list(range(1000)), 1000, 0.9, 0.95)
    assert 900 <= value <= 920 and confidence >= 0.95


def test_digests_go_to_a_few_at_each_interval_and_the_estimate_is_told() -> None:
    out, editor = RecordingOut(), ViewEditor()
    machine = MissingEstimator(A, MissingConfig(interval=seconds(10), fresh=seconds(10)), out, Random(1))
    machine.start(0)
    for node in (A, B, C, D):
        editor.put(Member(node=node))
    machine.on_view_changed(ViewChanged(editor.view, (A, B, C, D)), 0)
    out.take()
    for sender, known in ((B, {A, B, C, D}), (C, {A, B, C}), (D, {A, B, C, D})):
        machine.on_message(sender, digest_of(known, 0, 1), seconds(1))
    machine.on_message(NodeId("stranger"), digest_of({A}, 0, 1), seconds(1))
    machine.on_timer(DigestIsSent(), seconds(5))
    effects = out.take()
    assert [e.fact for e in effects if isinstance(e, Emit)] == [MissingEstimated(1, 0.01, 1)]
    assert [e.message for e in effects if isinstance(e, Send)] == [digest_of({A, B, C, D}, 0, 1)] * 2
    assert effects[-1] == SetTimer(DigestIsSent(), at=seconds(15))
    machine.on_timer(DigestIsSent(), seconds(30))  # Nothing fresh: nothing observed.
    assert machine.estimate == MissingEstimated(1, 0.01, 1)


def test_views_count_as_independent_once_per_time_that_a_digest_is_fresh() -> None:
    out, editor = RecordingOut(), ViewEditor()
    machine = MissingEstimator(A, MissingConfig(interval=seconds(5), fresh=seconds(20), quantile=0.5), out, Random(1))
    for node in (A, B, C, D):
        editor.put(Member(node=node))
    machine.on_view_changed(ViewChanged(editor.view, (A, B, C, D)), 0)
    for step in range(1, 9):
        now = step * seconds(5)
        for sender in (B, C, D):
            machine.on_message(sender, digest_of({A, B, C, D}, 0, 1), now)
        machine.on_timer(DigestIsSent(), now)
        # Every 20 s there is one more draw, and each is above the median with a chance of one half.
        assert machine.estimate == MissingEstimated(0, 1 - 0.5 ** max(1, round(step / 4)), step)


def test_the_parts_of_a_large_view_come_in_turn() -> None:
    out, editor, names = RecordingOut(), ViewEditor(), [NodeId(f"n{i}") for i in range(700)]
    machine = MissingEstimator(names[0], MissingConfig(interval=seconds(5), fresh=seconds(20)), out, Random(1))
    for node in names:
        editor.put(Member(node=node))
    machine.on_view_changed(ViewChanged(editor.view, tuple(names)), 0)
    told = []
    for step in range(1, 13):
        out.take()
        machine.on_timer(DigestIsSent(), step * seconds(5))
        told += [{e.message.part for e in out.take() if isinstance(e, Send)}]
    parts = len({part for each in told for part in each})
    assert parts > 2 and all(len(each) == 1 for each in told)
    assert [part for each in told for part in each] == [(step + 1) % parts for step in range(12)]


def test_the_estimate_covers_the_truth_in_a_simulated_group() -> None:
    """Of 24 nodes each is missing from 3 views: every node comes to a bound of 3 or more, and not of everybody."""
    size, truth = 24, 3
    streams = Streams(4)
    sim = Simulation(Network(NetworkConfig(delay=Delay(mean=ms(5))), Topology(size, None), streams), streams)

    def setup(node: SimNode, host: Host) -> None:
        host.add("missing", lambda port: MissingEstimator(node.name, MissingConfig(), port, node.rng("missing")))

    nodes = [sim.add(NodeId(f"n{i:02d}"), setup) for i in range(size)]
    for node in nodes:
        sim.start(node)
    views = ToldViews(sim)
    views.complete(nodes)
    for i, node in enumerate(nodes):
        for step in range(1, truth + 1):
            views.set(nodes[(i + step) % size], [Member(node=node.name, status=Status.FAILED)])
    sim.run(until=seconds(600))
    found = [node.host.ports["missing"].machine.estimate.missing_max for node in nodes if node.host]  # type: ignore[attr-defined]
    assert len(found) == size and all(truth <= value < size / 2 for value in found)
    assert sim.traffic["missing"].bytes / size / 600 < 40  # Bytes per node and second: a low rate.


def test_bad_digests_and_configurations_are_refused() -> None:
    for given in ({"entries": b"abc"}, {"entries": b"", "part": 1}, {"entries": b"", "parts": 10**6}):
        with pytest.raises(ValueError, match="digest"):
            ViewDigest(**given)  # type: ignore[arg-type]
    for field, value in (("interval", 0), ("fan_out", 0), ("quantile", 1.0), ("fresh", 1), ("window", 0)):
        with pytest.raises(ConfigError) as caught:
            MissingConfig(**{field: value})  # type: ignore[arg-type]
        assert caught.value.field == field


def test_a_score_is_clearly_better_by_its_share_of_the_larger_magnitude() -> None:
    assert clearly_better(10.0, 9.0, 0.1) and not clearly_better(10.0, 9.01, 0.1)
    assert clearly_better(-9.0, -10.0, 0.1) and not clearly_better(-9.0, -9.9, 0.1)
    assert clearly_better(1.0, -1.0, 2.0) and not clearly_better(1.0, 1.0, 0.0)


def test_a_challenger_that_stays_better_for_long_enough_is_due_from_the_first_instant_on() -> None:
    at_once = Challengers(0.1, 0, ms(50))
    assert at_once.weigh(1.0, {A: 9.0, B: 1.0}, 0) == ([A], ms(50))
    assert at_once.weigh(1.0, {A: 9.0}, ms(20)) == ([], ms(50))  # The world has time to answer.
    lasting = Challengers(0.1, ms(10), ms(50))
    assert lasting.weigh(1.0, {A: 9.0}, 0) == ([], ms(10))
    assert lasting.weigh(1.0, {B: 9.0}, ms(5)) == ([], ms(15))  # Another one: a's time is broken.
    assert lasting.weigh(1.0, {A: 9.0, B: 9.0}, ms(15)) == ([B], ms(65))
    assert lasting.weigh(1.0, {}, ms(16)) == ([], None)


def test_the_baseline_names_the_best_of_its_own_view() -> None:
    editor = ViewEditor()
    local = Local(B, RecordingOut(), rank=lambda node: float(ord(node)))
    assert local.leader is None and local.named is None
    for node in (B, A):
        editor.put(Member(node=node))
        local.on_view_changed(ViewChanged(editor.view, (node,)), 0)
        assert local.leader == local.named == node


@hypothesis.given(
    st.lists(st.builds(ElectionId, st.integers(1, 3), st.sampled_from("abc"), st.integers(1, 3)), max_size=6)
)
def test_elections_have_one_order_and_the_later_incarnation_of_an_initiator_counts(found: list[ElectionId]) -> None:
    def place(election: ElectionId) -> tuple[int, int, int]:
        return election.number, -ord(election.initiator), election.incarnation

    for one in found:
        assert one.outranks(None)
        for other in found:
            assert one.outranks(other) == (place(one) > place(other))


@pytest.mark.parametrize("times", [1, 2, CONFIRMS_MAX, CONFIRMS_MAX + 3])
def test_a_confirmation_is_repeated_as_often_as_asked_and_never_more_than_a_few_times(times: int) -> None:
    out = RecordingOut()
    confirming, election = Confirming(ms(10), out), ElectionId(1, A, 1)
    held = Record(election, 2, True, B, 1)
    confirming.send(Confirm(election, 1, 2), times, held, 0)
    said = 0
    while effects := out.take():
        said += sum(isinstance(effect, Multicast) for effect in effects)
        for effect in effects:
            if isinstance(effect, SetTimer):
                confirming.repeat(effect.timer, held, effect.at)
    assert said == min(times, CONFIRMS_MAX)
