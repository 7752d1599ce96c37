"""A group sends nobody more than it got: every kind of message, from and about addresses that have not echoed."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from strangers import WAYS, Besieged

from doyen.core.ids import Address, Incarnation, NodeId
from doyen.errors import RemoteProtocolError
from doyen.net.address_book import AddressBook
from doyen.net.credit import room as room_of
from doyen.net.echoes import AGAIN_BYTES, DEAF_AFTER, ECHOED_FOR_S, ECHOED_MAX, NAMED_EVERY_S, YOUNG_S, Echoes
from doyen.net.handshake import ASKING_BYTES, MARK, NONE, TOKEN_S
from doyen.net.keys import new_key, write_keys
from doyen.net.sealed import Seal

VOTERS = tuple(f"n{i}" for i in range(5))
STACKS: dict[str, dict[str, Any]] = {
    "gossip": {"election": "gossip", "membership": "swim"},
    "fast": {"election": "fast", "membership": "none", "seeds": 5},
    "heartbeat": {"election": "gossip", "membership": "heartbeat"},
    "medley": {"election": "gossip", "membership": "medley"},
    "ring": {"election": "by-key", "membership": "ring", "seeds": 1},
    "spanning": {"election": "spanning", "membership": "swim"},
    "quorum": {"election": "quorum", "voters": VOTERS, "state": "/made-up", "newcomer": True},
    "multicast": {"election": "fast", "membership": "none", "multicast": "239.1.2.3:7000"},
}
OLD_S = YOUNG_S + 10
WORDS = {"zone": "e" * 400}  # What a member says of itself is long: so are the answers.


def measured(group: Besieged, *, long: bool) -> dict[str, tuple[float, str]]:
    """Return the largest ratio of each sort, and the message that got it."""
    worst = dict.fromkeys(("unechoed", "named", "exchange"), (0.0, ""))
    for (channel, tag), opened in sorted(group.kinds().items()):
        what = f"{channel}/{tag}"
        spent, back, _ = group.ask(opened, of="n1", echoes=False, seconds=30 if long else 1)
        worst["unechoed"] = max(worst["unechoed"], (back / spent, what))
        spent, back, _ = group.ask(opened, of="n1", echoes=True, seconds=20 if long else 1)
        worst["exchange"] = max(worst["exchange"], (back / spent, what))
        if long:  # Until everybody has forgotten those whom it named.
            group.cluster.run_for(30)
            worst["named"] = max(worst["named"], (group.out.get(group.named, 0) / spent, what))
    assert group.strangers_count > 10
    return worst


def exchanged(group: Besieged, *, ways: tuple[int, ...]) -> dict[str, float]:
    """Return the largest ratio of each kind of message over a whole exchange, said in several ways to the leader."""
    leader = next(name for name, node in group.nodes.items() if node.is_leader)
    worst: dict[str, float] = {}
    for (channel, tag), messages in sorted(group.variants().items()):
        for opened in messages:
            for way in ways:
                spent, back, _ = group.ask(opened, of=leader, echoes=True, seconds=1, way=way)
                worst[f"{channel}/{tag}"] = max(worst.get(f"{channel}/{tag}", 0.0), back / spent)
    return worst


def shown(worst: dict[str, float]) -> str:
    first = sorted(worst.items(), key=lambda item: -item[1])[:3]
    return f"{len(worst)} kinds, the worst " + ", ".join(f"{ratio:.2f} ({what})" for what, ratio in first)


@pytest.mark.parametrize("stack", STACKS)
def test_every_kind_of_message_in_the_clear(stack: str, tell: Callable[[str], None]) -> None:
    with Besieged(5, meta=WORDS, **STACKS[stack]) as group:
        group.cluster.run_for(OLD_S)
        assert [name for name, node in group.nodes.items() if node.is_leader], "a group that works is measured"
        worst = measured(group, long=False)
        tell(f"amplification in the clear, {stack}: " + ", ".join(f"{w} {r:.2f} ({m})" for w, (r, m) in worst.items()))
        assert 0 < worst["unechoed"][0] <= 1, worst
        assert 0 < worst["exchange"][0] <= 3, worst


@pytest.mark.parametrize("stack", ["gossip", "fast", "quorum"])
def test_the_leader_answers_no_question_with_more_than_three_times_its_bytes(
    stack: str, tell: Callable[[str], None]
) -> None:
    """Not even questions about everybody, by somebody who knows all names."""
    with Besieged(5, meta=WORDS, **STACKS[stack]) as group:
        group.cluster.run_for(20)
        worst = exchanged(group, ways=(2,))
        tell(f"amplification of answers, {stack}: {shown(worst)}")
        assert len(worst) > 7 and 1 < max(worst.values()) <= 3, worst


def test_what_a_node_sends_later_counts_too() -> None:
    """It asks a stranger that says that it leads for a note, again and again."""
    with Besieged(5, meta=WORDS, **STACKS["fast"]) as group:
        group.cluster.run_for(OLD_S)
        asked = next(name for name, node in group.nodes.items() if not node.is_leader)
        query = min(group.variants()["e", "Q"], key=len)
        spent, back, _ = group.ask(query, of=asked, echoes=True, seconds=20, way=1)
        assert 1 < back / spent <= 3, (spent, back)


SOME = ["gossip", "fast", "quorum"]


@pytest.mark.parametrize("stack", [*SOME, *(pytest.param(s, marks=pytest.mark.soak) for s in STACKS if s not in SOME)])
def test_at_any_rate_nobody_gets_more(stack: str, tell: Callable[[str], None]) -> None:
    """All kinds of messages in turn, slowly and fast: from one address, or each from another."""
    with Besieged(5, meta=WORDS, **STACKS[stack]) as group:
        group.cluster.run_for(OLD_S)
        found = [opened for messages in group.variants().values() for opened in messages]
        words = [way(opened, Address("127.1.220.1", 4000)) for opened in found for way in WAYS]
        for per_s, count in ((2, 20), (200, 400), (2000, 2000)):
            forged = group.flood(words, of="n1", per_s=per_s, count=count, echoes=False, moves=False)
            many = group.flood(words, of="n1", per_s=per_s, count=count, echoes=False, moves=True)
            own = group.flood(words, of="n1", per_s=per_s, count=count, echoes=True, moves=False)
            tell(f"at {per_s}/s, {stack}: one forged source {forged:.2f}, many {many:.2f}, its own {own:.2f}")
            assert 0 < forged <= 1 and 0 < many <= 1 and 0 < own <= 3, (per_s, forged, many, own)


def test_lists_of_thirty_members_are_no_exception(tell: Callable[[str], None]) -> None:
    asking = {("notes", "s"), ("leader", "a"), ("m", "d"), ("m", "j"), ("views", "?")}
    with Besieged(30, meta=WORDS, **STACKS["gossip"]) as group:
        group.cluster.run_for(6)
        assert all(len(node.agent.stack.members()) == 30 for node in group.nodes.values())
        found = group.variants()
        worst: dict[str, float] = {}
        for key in sorted(asking & set(found)):
            spent, back, _ = group.ask(found[key][-1], of="n1", echoes=True, seconds=0.2, way=2)
            worst["/".join(key)] = back / spent
        tell(f"amplification of lists of 30 members: {shown(worst)}")
        assert len(worst) >= 4 and 0.9 < max(worst.values()) <= 3, worst


@pytest.mark.soak
@pytest.mark.parametrize("size", [5, 30])
@pytest.mark.parametrize("stack", STACKS)
def test_every_kind_of_message_in_every_way(stack: str, size: int, tell: Callable[[str], None]) -> None:
    fields = STACKS[stack] | ({"voters": VOTERS} if "voters" in STACKS[stack] else {})
    with Besieged(size, meta=WORDS, **fields) as group:
        group.cluster.run_for(OLD_S)
        worst = exchanged(group, ways=(0, 1, 2, 3))
        tell(f"amplification in every way, {stack}, {size} members: {shown(worst)}")
        assert 1 < max(worst.values()) <= 3, worst


@pytest.mark.soak
@pytest.mark.parametrize("stack", STACKS)
def test_every_kind_of_message_for_long_with_third_parties(stack: str, tell: Callable[[str], None]) -> None:
    """The stranger echoes from its own address, and names another in every place of a message."""
    with Besieged(5, **STACKS[stack]) as group:
        group.cluster.run_for(OLD_S)
        worst = measured(group, long=True)
        tell(f"amplification, 30 s, {stack}: " + ", ".join(f"{what} {r:.2f} ({m})" for what, (r, m) in worst.items()))
        assert worst["unechoed"][0] <= 1, worst
        assert worst["named"][0] <= 1, worst
        assert worst["exchange"][0] <= 3, worst


KEYED = ["gossip", "quorum", "ring"]


@pytest.mark.parametrize(
    "stack", [*KEYED, *(pytest.param(s, marks=pytest.mark.soak) for s in STACKS if s not in KEYED)]
)
def test_with_a_key_every_kind_of_message_gets_less_than_it_costs(
    stack: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tell: Callable[[str], None]
) -> None:
    """Recorded and sent again, changed, cut short, and in the clear: to a member that is there, and one that starts."""
    sealed: dict[str, list[bytes]] = {}  # By kind of message: one that crossed, as it was and sealed.
    seal = Seal.seal

    def note(self: Seal, data: bytes, *where: Any) -> bytes:
        made, opened = seal(self, data, *where), msgspec.msgpack.decode(data)
        sealed[f"{opened[4]}/{opened[5][0]}"] = [data, made]
        return made

    monkeypatch.setattr(Seal, "seal", note)
    write_keys(tmp_path / "key", [new_key()])
    worst: dict[str, float] = {}
    with Besieged(5, key_file=str(tmp_path / "key"), meta=WORDS, **STACKS[stack]) as group:
        group.cluster.run_for(20)
        kinds = dict(sealed)
        group.cluster.crash("n3")
        group.cluster.restart("n3")  # It believes nobody yet, and asks.
        group.cluster.run_for("0.1s")
        for what, (clear, made) in sorted(kinds.items()):
            changed = made[:-1] + bytes([made[-1] ^ 1])
            for of in ("n1", "n3"):
                for data in (clear, made, changed, made[:40]):
                    spent, back = group.repeat(data, of=of, seconds=0.2)
                    worst[what] = max(worst.get(what, 0.0), back / spent)
                    assert back <= spent, (what, of, spent, back)
    tell(f"amplification with a key, {stack}: {shown(worst)}")
    assert len(worst) == len(kinds) > 2, worst
    assert stack != "gossip" or max(worst.values()) > 0, "somebody was asked for an echo"


# One node's part of it.


class Node:
    def __init__(self, seeds: tuple[Address, ...] = (), seed: int = 1) -> None:
        self.now = 1000.0
        self.sent: list[tuple[bytes, Address]] = []
        self.refused: list[str] = []
        self.book = AddressBook(NodeId("me"), seeds)
        self.echoes = Echoes(self.book, lambda: self.now, Random(seed), lambda data, to: self.sent.append((data, to)))

    def hears(self, data: bytes, source: Address) -> bool:
        try:
            return self.echoes.hears(data, source)
        except RemoteProtocolError as error:
            self.refused.append(error.reason)
            return False

    def told(self) -> list[tuple[bytes, Address]]:
        told, self.sent = self.sent, []
        return told


A, B, SEED = Address("10.0.0.1", 1), Address("10.0.0.2", 2), Address("10.0.0.3", 3)
DATA = b"d" * 40


def prove(node: Node, address: Address) -> None:
    """Let an address echo."""
    assert not node.hears(DATA, address)
    ((question, to),) = node.told()
    assert to == address and len(question) == ASKING_BYTES
    assert not node.hears(MARK + NONE + question[1:9], address)
    node.told()


def test_two_nodes_hear_each_other_after_one_exchange_and_what_was_dropped_is_said_again() -> None:
    a, b = Node(seeds=(B,)), Node()
    assert a.echoes.lets_out(B, DATA), "a seed may be called"
    assert not b.hears(DATA, A)
    ((question, _),) = b.told()
    assert not a.hears(question, B)
    ((answer, _),) = a.told()
    assert not b.hears(answer, A)
    ((echo, _),) = b.told()
    assert not a.hears(echo, B)
    assert a.told() == [(DATA, B)]
    assert b.hears(DATA, A) and b.echoes.lets_out(A) and a.hears(DATA, B)


def test_a_payment_is_credit_and_no_message() -> None:
    node = Node()
    prove(node, A)
    before = node.hears(DATA, A), node.hears(room_of(50, 30), A)
    assert before == (True, False) and node.refused == ["unproven"]


def test_what_is_for_an_address_that_has_not_echoed_waits_for_its_echo() -> None:
    node = Node()
    assert not node.echoes.lets_out(A, DATA) and node.told() == []
    assert not node.hears(DATA, A)
    ((question, _),) = node.told()
    node.hears(MARK + b"theirown" + question[1:9], A)
    assert node.told() == [(MARK + NONE + b"theirown", A), (DATA, A)]


def test_a_token_is_of_one_address_and_grows_old() -> None:
    node = Node()
    assert not node.hears(DATA, A), "nothing is heard of an address that has not echoed"
    ((question, _),) = node.told()
    echo = MARK + NONE + question[1:9]
    assert not node.hears(echo, B) and node.refused[-1] == "handshake"
    node.now += 2 * TOKEN_S
    assert not node.hears(echo, A) and node.refused[-1] == "handshake"
    assert not node.echoes.has_echoed(A) and not node.echoes.has_echoed(B) and node.told() == []


def test_little_is_said_again_but_to_seeds() -> None:
    for address, again in ((A, False), (SEED, True)):
        node = Node(seeds=(SEED,))
        node.echoes.lets_out(address, bytes(AGAIN_BYTES + 1))
        node.hears(DATA, address)
        question = node.told()[0][0]
        node.hears(MARK + NONE + question[1:9], address)
        assert bool(node.told()) is again


def test_a_source_is_answered_at_a_pace_and_never_for_less_than_an_answer_has() -> None:
    node = Node()
    assert not node.hears(bytes(ASKING_BYTES - 1), A) and node.told() == []
    for _ in range(1000):
        node.now += 0.001
        assert not node.hears(DATA, A)
    assert len(node.told()) == 5
    for i in range(10_000):
        assert not node.hears(DATA, Address("10.1.0.1", 1 + i))
    assert len(node.told()) <= 500


def test_a_question_is_answered_at_a_pace() -> None:
    node = Node()
    for _ in range(100):
        node.now += 0.01
        node.hears(MARK + b"question" + NONE, A)
    assert len(node.told()) in (5, 6)


def test_who_goes_on_sending_and_does_not_echo_is_noticed() -> None:
    node = Node()
    for _ in range(DEAF_AFTER):
        assert "deaf" not in node.refused
        node.now += 1
        node.hears(DATA, A)
    assert node.refused[-1] == "deaf"
    question = node.told()[-1][0]
    node.hears(MARK + NONE + question[1:9], A)
    assert node.hears(DATA, A)


def test_an_address_that_was_silent_for_long_must_echo_again_and_memory_is_bounded() -> None:
    node = Node()
    prove(node, A)
    node.now += ECHOED_FOR_S - 1
    assert node.hears(DATA, A)
    node.now += ECHOED_FOR_S
    assert not node.hears(DATA, A) and not node.echoes.lets_out(A)
    node.told()
    for i in range(ECHOED_MAX + 10):
        node.now += 0.01
        prove(node, Address("10.9.0.1", 1 + i))
    assert not node.echoes.has_echoed(Address("10.9.0.1", 1)) and node.echoes.has_echoed(Address("10.9.0.1", 4000))


def test_a_process_that_has_just_started_asks_those_whom_others_name_with_fewer_bytes_than_it_heard() -> None:
    node = Node()
    named = [Address("10.7.0.1", 1 + i) for i in range(100)]
    node.echoes.on_named(named)
    assert node.told() == [], "it has heard nothing yet"
    prove(node, A)
    for _ in range(10):
        node.hears(DATA, A)
    for _ in range(100):
        node.now += 0.01
        node.echoes.on_named(named)
    asked = sum(len(data) for data, _ in node.told())
    assert 0 < asked <= 10 * len(DATA)


@pytest.mark.parametrize("members", [3, 100])
def test_later_the_whole_group_asks_one_address_that_is_named_in_ten_seconds(members: int) -> None:
    """However many are named: that is what somebody can make it send to them."""
    asked = 0
    for seed in range(members):
        node = Node(seed=seed)
        for i in range(members):
            node.book.heard(NodeId(f"m{i}"), Incarnation(1), Address("10.8.0.1", 1 + i), 0)
        node.now += YOUNG_S + 1
        for _ in range(1000):
            node.now += 0.1
            node.echoes.on_named([A, B])
        asked += len(node.told())
    assert asked <= 2.5 * 100 / NAMED_EVERY_S
    assert members == 3 or asked >= 2


def test_of_those_that_others_name_one_that_has_echoed_hides_no_other() -> None:
    node = Node()
    prove(node, A)
    for _ in range(10):
        node.hears(DATA, A)
    node.told()
    node.echoes.on_named((A, B))
    assert [to for _, to in node.told()] == [B]


def test_one_that_is_named_and_does_not_echo_is_asked_ever_more_seldom_but_never_forgotten() -> None:
    node, asked = Node(), list[float]()
    prove(node, A)
    began = node.now
    while node.now < began + 9:
        node.hears(DATA, A)
        node.told()
        node.echoes.on_named((B,))
        asked += [node.now - began for _, to in node.told() if to == B]
        node.now += 0.05
    assert len(asked) >= 4
    waits = [later - earlier for earlier, later in pairwise(asked)]
    assert all(later > 1.5 * earlier for earlier, later in pairwise(waits)) and waits[0] < 0.4
