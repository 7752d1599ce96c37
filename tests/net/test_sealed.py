"""Sealed packets: no outsider is believed, nothing counts twice, and a fresh receiver believes no recording."""

import asyncio
import logging
import os
import socket
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from net_nodes import Node, until

from doyen.core.codec import DATAGRAM_MAX, Codec
from doyen.core.ids import Address, Incarnation, NodeId
from doyen.core.leadership import LeaderElected
from doyen.core.view import Member, Status, ViewChanged, ViewEditor
from doyen.election.announce.messages import Bye
from doyen.errors import ConfigError, RemoteProtocolError
from doyen.net import aead, keys, keywatch
from doyen.net import sealed as sealed_module
from doyen.net.aead import NONCE_BYTES
from doyen.net.handshake import ANSWERS_PER_S, MARK, TOKEN_S
from doyen.net.keys import (
    CLEAR,
    Keyring,
    exposure,
    key_id,
    key_text,
    load_keyring,
    new_key,
    parse_key,
    read_keys,
    write_keys,
)
from doyen.net.keywatch import watch_key_file
from doyen.net.sealed import (
    FOR_ONE,
    HANDSHAKE_BYTES,
    HEADER_BYTES,
    NUMBER_BYTES,
    OVERHEAD,
    PLACES_MAX,
    WINDOW,
    Seal,
    Unproven,
    Window,
)

KEY, OTHER = bytes(range(32)), bytes(range(1, 33))
A, B, EVE = Address("10.0.0.1", 1), Address("10.0.0.2", 2), Address("10.6.6.6", 6)
DATA = b"\x96" + b"d" * 60


class Wire:
    """Ends that speak to each other by hand; everything that crosses is kept."""

    def __init__(self, *keys: bytes, group: str = "group") -> None:
        self.now = 1000.0
        self.keys, self.group = keys or (KEY,), group
        self.crossed: list[tuple[bytes, Address, Address]] = []
        self.ends: dict[Address, Seal] = {}
        self.read: list[tuple[Address, bytes]] = []
        self.places: list[Address | None] = []  # Where each that was read would be answered.
        self.refused: list[str] = []
        self._under_way: deque[tuple[bytes, Address, Address]] = deque()

    def boot(self, address: Address) -> Seal:
        self.ends[address] = Seal(Keyring(self.keys), self.group, clock=lambda: self.now)
        self.ends[address].node = NodeId(address.host)
        return self.ends[address]

    def say(self, frm: Address, to: Address, data: bytes = DATA, node: str | None = None) -> bytes:
        sealed = self.ends[frm].seal(data, to, None if node is None else NodeId(node))
        self.deliver(sealed, frm, to)
        return sealed

    def deliver(self, sealed: bytes, frm: Address, to: Address) -> None:
        """And whatever follows from it."""
        self._under_way.append((sealed, frm, to))
        while self._under_way:
            data, source, target = self._under_way.popleft()
            self.crossed.append((data, source, target))
            if target not in self.ends:
                continue
            answers: tuple[bytes | None, ...]
            try:
                plain, answers, place = self.ends[target].open(data, source)
                if plain is not None:
                    self.read.append((target, plain))
                    self.places.append(place)
            except RemoteProtocolError as error:
                self.refused.append(error.reason)
                answers = (error.question,) if isinstance(error, Unproven) else ()
            self._under_way.extend((answer, target, source) for answer in answers if answer is not None)


def two(**options: Any) -> Wire:
    wire = Wire(**options)
    wire.boot(A)
    wire.boot(B)
    return wire


# ── The first key ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("spoken", [(CLEAR,), (CLEAR, KEY), (KEY, CLEAR)])
@pytest.mark.parametrize("heard", [(CLEAR, KEY), (KEY, CLEAR)])
def test_on_the_way_to_a_first_key_everybody_is_heard(spoken: tuple[bytes, ...], heard: tuple[bytes, ...]) -> None:
    wire = Wire(*spoken)
    wire.boot(A)
    wire.keys = heard
    wire.boot(B)
    sealed = wire.say(A, B)
    assert wire.read == [(B, DATA)]
    assert (sealed == DATA) == (spoken[0] == CLEAR)


def test_once_clear_is_removed_only_what_is_sealed_counts() -> None:
    wire = Wire(CLEAR, KEY)
    wire.boot(A)
    wire.keys = (KEY,)
    wire.boot(B)
    wire.say(A, B)
    assert (wire.read, wire.refused) == ([], ["clear"])
    wire.say(B, A)
    assert wire.read == [(A, DATA)]  # Who still speaks in clear opens what is sealed.


# ── Where a boot has echoed ─────────────────────────────────────────────────────────────────────────────────


def test_what_was_recorded_on_its_way_and_comes_from_elsewhere_is_answered_where_its_sender_has_echoed() -> None:
    wire = two()
    wire.say(A, B)
    fresh = wire.ends[A].seal(DATA, B)
    wire.crossed.clear()
    wire.deliver(fresh, EVE, B)
    assert wire.read[-1] == (B, DATA) and wire.places[-1] == A, "it is fresh, but its source may be forged"
    to_eve = [data for data, _, to in wire.crossed if to == EVE]
    assert [len(data) for data in to_eve] == [HANDSHAKE_BYTES] and HANDSHAKE_BYTES <= len(fresh)


def test_a_member_that_moved_echoes_there_and_is_answered_there_and_may_move_back() -> None:
    wire, moved = two(), Address("10.0.0.9", 9)
    wire.say(A, B)
    wire.now += 1  # Members answer each other at a pace.
    wire.ends[moved] = wire.ends.pop(A)
    wire.say(moved, B)
    wire.say(moved, B)
    assert wire.places[1:] == [A, moved, moved], "its echo followed its first word, which it said again"
    wire.ends[A] = wire.ends.pop(moved)
    wire.say(A, B)
    assert wire.places[-1] == A, "it has echoed there before"


def test_a_boot_echoes_at_few_addresses_and_the_one_longest_unheard_is_forgotten() -> None:
    wire, places = two(), [Address("10.0.1.1", port) for port in range(1, PLACES_MAX + 1)]
    wire.say(A, B)
    for before, place in pairwise([A, *places]):
        wire.now += 1
        wire.ends[place] = wire.ends.pop(before)
        wire.say(place, B)
        wire.say(place, B)
        assert wire.places[-1] == place
    wire.ends[A] = wire.ends.pop(places[-1])
    wire.say(A, B)
    assert wire.places[-1] == places[-1], "it must echo again"


def test_an_echo_from_another_address_than_the_token_went_to_shows_nothing_about_either() -> None:
    wire = two()
    sealed = wire.ends[A].seal(DATA, B)
    with pytest.raises(Unproven) as raised:
        wire.ends[B].open(sealed, A)
    question = raised.value.question
    assert question is not None
    (echo,) = wire.ends[A].open(question, B).answers
    (again,) = wire.ends[B].open(echo, EVE).answers  # With a token for that address.
    assert wire.ends[B].proven_count == 0 and len(again) <= len(echo)
    (echo,) = wire.ends[A].open(again, B).answers
    wire.deliver(echo, EVE, B)
    assert wire.ends[B].proven_count == 1, (
        "who has several addresses comes to be believed at the one that it answers from"
    )


# ── Belief ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_stranger_proves_itself_and_what_it_said_is_said_again() -> None:
    wire = two()
    wire.say(A, B)
    assert wire.refused == ["unproven"]
    assert wire.read == [(B, DATA)]  # By its second saying.
    assert [len(data) for data, _, _ in wire.crossed[1:4]] == [HANDSHAKE_BYTES] * 3
    wire.say(B, A, DATA + b"!")  # Proven both ways: no further word is needed.
    assert wire.read[-1] == (A, DATA + b"!") and len(wire.crossed) == 6


def test_a_packet_counts_once_in_whatever_order() -> None:
    wire = two()
    wire.say(A, B)
    sealed = [wire.ends[A].seal(DATA + bytes([i]), B) for i in range(20)]
    Random(3).shuffle(sealed)
    wire.read.clear()
    for packet in [*sealed, *sealed]:
        wire.deliver(packet, A, B)
    assert len(wire.read) == 20 and wire.refused[-20:] == ["replay"] * 20


def test_a_fresh_receiver_believes_no_recording() -> None:
    wire = two()
    wire.say(A, B)
    for i in range(5):
        wire.say(A, B, DATA + bytes([i]))
    recorded = [(data, to) for data, _, to in wire.crossed]
    wire.boot(B)  # A new life, with the same name, address and key; and A is silent, or gone.
    del wire.ends[A]
    wire.read.clear()
    for data, _ in recorded * 3:
        wire.deliver(data, EVE, B)
        wire.deliver(data, A, B)
    assert wire.read == []


def test_nor_does_it_when_the_true_sender_lives_and_answers() -> None:
    wire = two()
    wire.say(A, B)
    old = wire.say(A, B, DATA + b"old")
    wire.boot(B)
    wire.read.clear()
    wire.now += 10
    for _ in range(3):
        wire.deliver(old, A, B)  # Its sender proves itself, and yet this was said before.
    assert wire.read == []
    wire.say(A, B, DATA + b"new")
    assert wire.read == [(B, DATA + b"new")]


def test_a_recorded_handshake_proves_nothing_to_another_life() -> None:
    wire = two()
    wire.say(A, B)
    recorded = list(wire.crossed)
    wire.boot(B)
    del wire.ends[A]
    for data, _, to in recorded:
        if to == B:
            wire.deliver(data, A, B)
    assert wire.ends[B].proven_count == 0


def test_a_token_grows_old() -> None:
    wire = two()
    with pytest.raises(Unproven, match="recording") as asked:
        wire.ends[B].open(wire.ends[A].seal(DATA, B), A)
    assert asked.value.question is not None
    answers = wire.ends[A].open(asked.value.question, B).answers
    wire.now += 2 * TOKEN_S
    assert len(wire.ends[B].open(answers[0], A).answers) == 1, "it has a token of its own, so it is asked anew"
    assert wire.ends[B].proven_count == 0


def test_an_echo_alone_grows_old() -> None:
    wire = two()
    with pytest.raises(Unproven) as asked:
        wire.ends[B].open(wire.ends[A].seal(DATA, B), A)
    assert asked.value.question is not None
    (answer,) = wire.ends[A].open(asked.value.question, B).answers
    (echo,) = wire.ends[B].open(answer, A).answers
    wire.now += 2 * TOKEN_S
    with pytest.raises(RemoteProtocolError, match="too old"):
        wire.ends[A].open(echo, B)
    assert (wire.ends[A].proven_count, wire.ends[B].proven_count) == (0, 1)


def test_one_that_was_forgotten_proves_itself_again_and_its_past_stays_past(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealed_module, "BOOTS_MAX", 1)
    wire = two()
    wire.say(A, B)
    past = wire.say(A, B, DATA + b"past")
    wire.boot(EVE)
    wire.say(EVE, B)  # B has room for one: A is forgotten.
    proven_count = wire.ends[B].proven_count
    wire.read.clear()
    wire.now += 1
    wire.deliver(past, A, B)
    assert wire.ends[B].proven_count == proven_count + 1
    assert wire.read == [(B, DATA + b"past")]  # Said again, freshly.
    assert wire.crossed[-1][0] != past
    wire.deliver(past, A, B)
    assert len(wire.read) == 1


def test_an_echo_of_ones_own_words_is_not_believed() -> None:
    wire = two()
    sealed = wire.ends[A].seal(DATA, B)
    with pytest.raises(RemoteProtocolError, match="our own"):
        wire.ends[A].open(sealed, EVE)


def test_what_is_for_one_member_opens_nowhere_else() -> None:
    """A voter's word to one candidate, handed to another by who cannot read it, would be a second vote."""
    wire = two()
    wire.boot(EVE)  # A member like the others: the enemy only carries packets to it.
    for to in (B, EVE):
        wire.say(A, to)
        wire.say(to, A)
    wire.read.clear()
    vote = wire.ends[A].seal(DATA, B, NodeId(B.host))
    wire.deliver(vote, A, EVE)
    assert (wire.read, wire.refused[-1]) == ([], "addressee")
    wire.deliver(vote, A, B)
    assert wire.read == [(B, DATA)]
    wire.deliver(vote, A, B)
    assert (len(wire.read), wire.refused[-1]) == (1, "replay")  # Numbers are counted as before.


def is_for_one(sealed: bytes) -> bool:
    return bool(int.from_bytes(sealed[HEADER_BYTES - NUMBER_BYTES : HEADER_BYTES], "big") & FOR_ONE)


def test_what_was_for_one_member_is_said_again_for_it_alone() -> None:
    wire = two()
    wire.say(A, B, node=B.host)
    assert wire.read == [(B, DATA)]  # By its second saying.
    assert is_for_one(wire.crossed[-1][0]) and not is_for_one(wire.crossed[-2][0])


def test_a_driver_seals_what_it_says_to_a_member_for_that_member() -> None:
    async def main() -> None:
        node = sealed_node("a", Keyring([KEY]))
        sent: list[bytes] = []
        node.driver.transport.send = lambda data, to: sent.append(data)  # type: ignore[method-assign]
        verbs = node.driver.verbs(node.driver.host.ports["election"])
        node.driver.addresses.heard(NodeId("b"), Incarnation(1), B, 0)
        verbs.send(NodeId("b"), Bye(1))
        verbs.send(B, Bye(1))  # A seed, whose name is not known yet.
        assert list(map(is_for_one, sent)) == [True, False]
        theirs = sealed_node("b", Keyring([KEY])).driver.seal
        assert theirs is not None
        with pytest.raises(RemoteProtocolError, match="may be a recording"):  # It opens.
            theirs.open(sent[0], A)

    asyncio.run(main())


# ── Outsiders ───────────────────────────────────────────────────────────────────────────────────────────────


def test_every_bit_is_guarded() -> None:
    wire = two()
    wire.say(A, B)
    wire.read.clear()
    sealed = wire.ends[A].seal(DATA, B)
    for bit in range(8 * len(sealed)):
        bent = bytearray(sealed)
        bent[bit // 8] ^= 1 << bit % 8
        wire.deliver(bytes(bent), A, B)
    for size in range(len(sealed)):
        wire.deliver(sealed[:size], A, B)
    assert wire.read == [] and set(wire.refused) <= {"clear", "key", "seal", "addressee", "replay", "unproven"}
    wire.deliver(sealed, A, B)
    assert wire.read == [(B, DATA)]


def test_another_groups_packets_do_not_open() -> None:
    here, there = two(), two(group="elsewhere")
    here.deliver(there.ends[A].seal(DATA, B), A, B)
    assert here.refused == ["seal"]


def test_packets_in_the_clear_are_refused_where_there_is_a_key() -> None:
    wire = two()
    wire.deliver(DATA, A, B)
    assert wire.refused == ["clear"] and len(wire.crossed) == 1


def test_nobody_can_be_flooded_by_it() -> None:
    """An outsider plays back what it recorded, from a victim's address, as fast as it likes."""
    wire = two()
    recorded = []
    for _ in range(50):
        wire.boot(A)
        wire.say(A, B, DATA)
        recorded += [data for data, _, to in wire.crossed if to == B]
        wire.crossed.clear()
    wire.boot(B)
    del wire.ends[A]
    spent = 0
    for data in recorded * 40:
        spent += len(data)
        wire.now += 0.0001
        wire.deliver(data, EVE, B)
    got = sum(len(data) for data, _, to in wire.crossed if to == EVE)
    seconds_gone = len(recorded) * 40 * 0.0001
    assert 0 < got < spent
    assert got <= HANDSHAKE_BYTES * (ANSWERS_PER_S * (1 + seconds_gone) + 1)
    for data, frm, to in wire.crossed:
        assert to != EVE or len(data) <= HANDSHAKE_BYTES, (frm, len(data))


@pytest.mark.parametrize("kind", ["datagrams", "questions"])
def test_who_plays_a_member_back_from_elsewhere_does_not_keep_it_from_proving_itself(kind: str) -> None:
    """A thousand recordings a second, from many ports, while the member itself says something once a second."""
    wire = two()
    wire.say(A, B)
    recorded = wire.ends[A].seal(DATA, None)
    if kind == "questions":  # A asks B for an echo.
        wire.boot(A)
        wire.crossed.clear()
        wire.now += 1
        wire.say(B, A)
        recorded = next(data for data, frm, to in wire.crossed if (frm, to) == (A, B))
    wire.boot(B)
    wire.read.clear()
    for i in range(1, 3001):
        wire.now += 0.001
        wire.deliver(recorded, Address(EVE.host, 1000 + i), B)
        if i % 1000 == 0:
            wire.say(A, B, DATA + bytes([i // 1000]))
    assert (B, DATA + bytes([1])) in wire.read
    assert sum(to.host == EVE.host for _, _, to in wire.crossed) < 3 / 0.2 + 2


@pytest.mark.parametrize("group", ["g", "orders", "a-group-with-a-name-of-some-length"])
@pytest.mark.parametrize("incarnation", [1, 2**40])
def test_the_groups_name_is_bound_by_the_seal_and_not_written_in_it(group: str, incarnation: int) -> None:
    wire = two(group=group)
    data = Codec(group).encode(NodeId(group), Incarnation(incarnation), "election", Bye(1))  # A namesake of its group.
    wire.say(A, B, data)
    wire.say(A, B, data)
    assert wire.read == [(B, data)] * 2
    shorter = len(data) - len(msgspec.msgpack.encode(group)) + OVERHEAD
    assert shorter <= len(wire.crossed[-1][0]) <= max(shorter, HANDSHAKE_BYTES + 1)
    assert len(wire.crossed[-1][0]) >= HANDSHAKE_BYTES  # What is smaller would never be asked for an echo.


def test_nothing_that_is_said_can_be_read_on_the_way() -> None:
    wire = two(group="a-group-of-its-own")
    data = Codec("a-group-of-its-own").encode(NodeId("a-name-of-its-own"), Incarnation(1), "election", Bye(1))
    wire.say(A, B, data)
    assert b"of-its-own" in data and (B, data) in wire.read and len(wire.crossed) > 1
    for crossed, _, _ in wire.crossed:
        assert b"of-its-own" not in crossed and b"election" not in crossed


@pytest.mark.parametrize("plain", [b"\x94", b"\x94\xff", b"\x94\x01\x95", b"\x95", b"\x95\x01", b"\x94\x02\x94\x01"])
def test_whatever_is_packed_amiss_is_no_datagram(plain: bytes) -> None:
    wire = two()
    wire.say(A, B)
    keyring = wire.ends[A].keyring
    counted = wire.ends[A].boot + (1000).to_bytes(NUMBER_BYTES, "big")
    header = MARK + keyring.primary + counted
    amiss = header + keyring.seal(plain, header + b"group", counted + bytes(NONCE_BYTES - len(counted)))
    wire.read.clear()
    wire.deliver(amiss, A, B)
    ((_, opened),) = wire.read
    with pytest.raises(RemoteProtocolError):
        Codec("group").decode(opened)


def test_what_is_no_datagram_of_the_group_is_sealed_as_it_is() -> None:
    wire = two(group="orders")
    wire.say(A, B)
    for data in (
        b"\x96",
        b"\x96\x01",
        b"\x96\x01\xa6order",
        b"",
        Codec("other").encode(NodeId("n"), Incarnation(1), "c", Bye(1)),
    ):
        wire.say(A, B, data)
        assert wire.read[-1] == (B, data)


def test_memory_for_boots_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealed_module, "BOOTS_MAX", 8)
    wire, boots = two(), []
    for _ in range(20):
        wire.now += 0.01
        boots.append(wire.boot(A))
        wire.say(A, B)
    wire.now += 1
    wire.crossed.clear()
    believed = []
    for number in reversed(
        range(20)
    ):  # Whoever is asked for an echo here does not give it, so nobody else is forgotten.
        with suppress(Unproven):
            wire.ends[B].open(boots[number].seal(DATA, B), A)
            believed.append(number)
    assert believed == [*reversed(range(12, 20))]


def test_memory_for_the_pace_of_questions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealed_module, "BOOTS_MAX", 8)
    wire = two()
    boots = [wire.boot(A) for _ in range(20)]

    def is_asked(number: int) -> bool:
        with pytest.raises(Unproven) as unproven:
            wire.ends[B].open(boots[number].seal(DATA, B), A)
        return unproven.value.question is not None

    assert all(map(is_asked, range(20)))
    assert not any(map(is_asked, range(12, 20))), "too soon"
    assert is_asked(0), "that it was asked is forgotten"


# ── The window ──────────────────────────────────────────────────────────────────────────────────────────────


def test_the_window_is_a_set_of_numbers_as_far_as_it_reaches() -> None:
    rng = Random(11)
    window, seen, highest = Window(100, A), set(range(101)), 100
    for _ in range(20_000):
        number = max(1, highest + rng.randrange(-WINDOW - 50, 60 if rng.random() < 0.99 else 5000))
        expected = number in seen or number <= highest - WINDOW
        assert window.has(number) == expected
        if not expected:
            window.take(number)
            seen.add(number)
            highest = max(highest, number)


def test_a_fork_does_not_repeat_a_nonce() -> None:
    seal = Seal(Keyring([KEY]), "group")
    seal.seal(DATA, A)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, seal.seal(DATA, A))
        os._exit(0)
    os.waitpid(child, 0)
    theirs, ours = os.read(read, 1000), seal.seal(DATA, A)
    os.close(read)
    os.close(write)
    assert theirs[5:29] != ours[5:29] and theirs[5:21] != ours[5:21]


# ── Keys ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_rotation_step_by_step_never_loses_a_packet() -> None:
    """Add everywhere, use everywhere, remove everywhere; between any two steps all understand all."""
    wire = two()
    steps = [(KEY, OTHER), (OTHER, KEY), (OTHER,)]
    wire.say(A, B)
    for step in steps:
        for end in (A, B):
            wire.ends[end].keyring.replace(Keyring(step))
            wire.read.clear()
            wire.say(A, B)
            wire.say(B, A)
            assert {to for to, _ in wire.read} == {A, B}, (step, end)
    wire.ends[A].keyring.replace(Keyring([KEY]))
    wire.say(A, B)
    assert wire.refused[-1] == "key"


def test_a_key_file_reads_back_and_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    write_keys(path, [KEY, OTHER])
    assert read_keys(path) == (KEY, OTHER) and path.stat().st_mode & 0o777 == 0o600
    assert load_keyring(path).primary == key_id(KEY)
    assert parse_key(key_text(KEY)) == KEY and len(new_key()) == 32


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "0 primary"),
        ("primary " + key_text(KEY) + "\nprimary " + key_text(OTHER), "2 primary"),
        ("primary abc", "line 1"),
        ("# fine\nwhat is this", "line 2"),
        ("also " + key_text(KEY), "0 primary"),
    ],
)
def test_a_bad_key_file_is_refused_with_the_line(tmp_path: Path, text: str, word: str) -> None:
    path = tmp_path / "keys"
    path.write_text(text)
    with pytest.raises(ConfigError, match=word):
        read_keys(path)


# ── On real sockets ─────────────────────────────────────────────────────────────────────────────────────────


def sealed_node(name: str, keyring: Keyring, **options: Any) -> Node:
    return Node(name, seal=Seal(keyring, "group"), **options)


def test_nodes_with_a_key_elect_and_those_without_it_are_not_heard(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        a = sealed_node("a", Keyring([KEY]), standing=1)
        await a.driver.start()
        naked = Node("naked", standing=9, seeds=(a.address,))
        await naked.driver.start()
        b = sealed_node("b", Keyring([KEY]), standing=2, seeds=(a.address, naked.address))
        stranger = sealed_node("stranger", Keyring([OTHER]), standing=8, seeds=(a.address,))
        for node in (b, stranger):
            await node.driver.start()
        await until(lambda: a.election.leader == b.election.leader == "b")
        await until(lambda: naked.driver.refused["key"] > 0 and min(a.driver.refused[r] for r in ("key", "clear")) > 3)
        await until(lambda: stranger.election.is_leader and naked.election.is_leader)
        assert a.election.leader == "b"
        assert {f.term.leader for f in a.facts if isinstance(f, LeaderElected)} <= {"a", "b"}
        for node in (a, b, stranger, naked):
            node.driver.close()

    with caplog.at_level(logging.WARNING, logger="doyen"):
        asyncio.run(main())
    said = [record.getMessage() for record in caplog.records if "key id" in record.getMessage()]
    wanted = f"packets from 127.0.0.1 are sealed with a key I do not have (key id {key_id(OTHER).hex()})"
    assert any(wanted in line and "doyen keys list" in line for line in said)
    assert len([line for line in said if line.startswith("a:")]) == 1  # Said once, counted every time.


def test_a_member_that_moved_is_looked_for_where_a_view_says_until_it_has_echoed_there() -> None:
    """Else what is for it would go to its old address, for as long as one packet of the echo was lost."""

    async def main() -> None:
        a = sealed_node("a", Keyring([KEY]))
        await a.driver.start()
        b = sealed_node("b", Keyring([KEY]), seeds=(a.address,))
        await b.driver.start()
        await until(lambda: a.driver.addresses.of(NodeId("b")) == b.address)
        seal = b.driver.seal
        assert seal is not None
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as moved:  # It answers no question.
            moved.bind(("127.0.0.9", 0))
            there = Address(*moved.getsockname())
            editor = ViewEditor()
            editor.put(Member(node=NodeId("b"), incarnation=Incarnation(2), status=Status.ALIVE, address=there))
            a.driver.addresses.learn(ViewChanged(editor.view, (NodeId("b"),)))
            b.driver.close()
            before = a.driver.received_count
            word = b.driver.codec.encode(NodeId("b"), Incarnation(1), "election", Bye(1))
            moved.sendto(seal.seal(word, a.address), (a.address.host, a.address.port))
            await until(lambda: a.driver.received_count > before)
        assert a.driver.addresses.of(NodeId("b")) == there
        a.driver.close()

    asyncio.run(main())


def test_the_largest_datagram_fits_sealed_too() -> None:
    async def main() -> None:
        a = sealed_node("a", Keyring([KEY]))
        await a.driver.start()
        b = sealed_node("b", Keyring([KEY]), seeds=(a.address,))
        await b.driver.start()
        await until(lambda: a.election.leader == b.election.leader == "b")
        largest = a.driver.seal.seal(b"\x96" + bytes(DATAGRAM_MAX - 1), None)  # type: ignore[union-attr]
        assert len(largest) == DATAGRAM_MAX + OVERHEAD <= 1500 - 48  # An Ethernet frame, IPv6 and UDP.
        a.driver.transport.send(largest, b.address)
        a.driver.transport.send(MARK + bytes(DATAGRAM_MAX + OVERHEAD), b.address)
        await until(lambda: b.driver.refused["malformed"] == 1 and b.driver.refused["oversized"] == 1)
        a.driver.close()
        b.driver.close()

    asyncio.run(main())


def test_a_changed_key_file_is_followed_and_a_damaged_one_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "keys"
    write_keys(path, [KEY])

    async def main() -> None:
        ring = load_keyring(path)
        node = sealed_node("a", ring)
        await node.driver.start()
        watch_key_file(node.driver, ring, every_s=0.01)
        path.write_text("nonsense")
        await until(lambda: "going on with the keys" in caplog.text)
        assert ring.primary == key_id(KEY)
        write_keys(path, [OTHER, KEY])
        await until(lambda: ring.primary == key_id(OTHER))
        assert node.driver.seal is not None and node.driver.seal.seal(b"", None)[1:5] == key_id(OTHER)
        node.driver.close()

    with caplog.at_level(logging.WARNING, logger="doyen"):
        asyncio.run(main())
    assert f"{key_id(OTHER).hex()} seals; {key_id(KEY).hex()} opens too" in caplog.text


def followed(path: Path, change: Callable[[Keyring], Any]) -> None:
    """Runs what changes the file under a node that follows it."""

    async def main() -> None:
        ring = load_keyring(path)
        await change(ring)
        node = sealed_node("a", ring)
        await node.driver.start()
        watch_key_file(node.driver, ring, every_s=0.01)
        await until(lambda: ring.keys == (OTHER, KEY))
        node.driver.close()

    asyncio.run(main())


def test_a_key_file_whose_rights_are_mended_is_read_after_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """`chmod` changes neither its size nor its time."""
    path = tmp_path / "keys"
    write_keys(path, [KEY])
    real, refusals = keys.read_keys, [3]

    def unreadable(path: Path) -> tuple[bytes, ...]:  # Root may read anything, so no rights are taken away here.
        if refusals[0]:
            refusals[0] -= 1
            raise ConfigError(f"key file {path}: Permission denied")
        return real(path)

    async def change(ring: Keyring) -> None:
        write_keys(path, [OTHER, KEY])
        monkeypatch.setattr(keys, "read_keys", unreadable)

    with caplog.at_level(logging.WARNING, logger="doyen"):
        followed(path, change)
    assert refusals == [0] and "going on with the keys read before" in caplog.text


def test_a_changed_key_file_that_others_can_read_is_complained_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "keys"
    write_keys(path, [KEY])

    async def change(ring: Keyring) -> None:
        write_keys(path, [OTHER, KEY])
        path.chmod(0o644)
        caplog.clear()

    with caplog.at_level(logging.WARNING, logger="doyen"):
        followed(path, change)
    complaints = [record.getMessage() for record in caplog.records if "chmod" in record.getMessage()]
    assert len(complaints) == 2, "at the start, and once it was read again"


def test_a_key_file_that_changes_while_a_node_starts_is_not_missed(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    write_keys(path, [KEY])

    async def change(ring: Keyring) -> None:
        write_keys(path, [OTHER, KEY])

    followed(path, change)


def test_a_key_file_is_read_once_it_has_stood_still_and_not_again_before_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "keys"
    write_keys(path, [KEY])
    looks = iter("abccddd")  # What the file is at each look: it changes, and stands still twice.
    seen, read_at = [""], []

    def stamped(path: Path) -> str:
        seen[0] += next(looks, "d")
        return seen[0][-1]

    def loaded(path: Path) -> Keyring:
        read_at.append(len(seen[0]))
        return Keyring([KEY])

    async def main() -> None:
        node = sealed_node("a", Keyring([KEY]))
        await node.driver.start()
        ring = load_keyring(path)
        monkeypatch.setattr(keywatch, "stamp", stamped)
        monkeypatch.setattr(keywatch, "load_keyring", loaded)
        watch_key_file(node.driver, ring, every_s=0.001)
        await until(lambda: len(seen[0]) > 12)
        node.driver.close()

    asyncio.run(main())
    assert read_at == [4, 6]


def test_half_a_key_file_is_not_taken_for_a_whole_one(tmp_path: Path) -> None:
    """Cut at the end of a line it lacks keys, and is well formed."""
    path = tmp_path / "keys"
    write_keys(path, [KEY])
    seen: list[tuple[bytes, ...]] = []

    async def main() -> None:
        ring = load_keyring(path)
        node = sealed_node("a", ring)
        await node.driver.start()
        watch_key_file(node.driver, ring, every_s=0.01)
        whole = f"primary {key_text(OTHER)}\n" + "# a long list\n" * 50 + f"also {key_text(KEY)}\n"
        with open(path, "w") as file:
            for line in whole.splitlines(keepends=True):
                file.write(line)
                file.flush()
                await asyncio.sleep(0.002)
                seen.append(ring.keys)
        await until(lambda: ring.keys == (OTHER, KEY))
        node.driver.close()

    asyncio.run(main())
    assert set(seen) == {(KEY,)}


def test_a_key_file_keeps_its_owner_its_rights_and_the_link_to_it(tmp_path: Path) -> None:
    """`sudo doyen keys add` must leave a file that the agent can read."""
    path, link = tmp_path / "keys", tmp_path / "link"
    write_keys(path, [KEY])
    link.symlink_to(path)
    path.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(path, 12345, 12346)
    write_keys(link, [KEY, OTHER])
    found = path.stat()
    assert link.is_symlink() and read_keys(path) == (KEY, OTHER) and found.st_mode & 0o777 == 0o640
    assert os.geteuid() != 0 or (found.st_uid, found.st_gid) == (12345, 12346)


@pytest.mark.parametrize(("mode", "word"), [(0o600, ""), (0o640, ""), (0o644, "read"), (0o620, "write")])
def test_a_key_file_that_others_can_use_is_complained_of(tmp_path: Path, mode: int, word: str) -> None:
    path = tmp_path / "keys"
    write_keys(path, [KEY])
    path.chmod(mode)
    assert (f"can {word} it" in exposure(path) and "chmod 600" in exposure(path)) if word else exposure(path) == ""


def test_without_a_key_a_node_that_others_can_reach_says_so_loudly(caplog: pytest.LogCaptureFixture) -> None:
    async def main(keyring: Keyring | None) -> None:
        from doyen.net.driver import Driver
        from doyen.net.udp import UdpConfig, UdpTransport

        transport = UdpTransport(UdpConfig(bind=Address("0.0.0.0", 0)))
        seal = None if keyring is None else Seal(keyring, "orders")
        driver = Driver(NodeId("a"), Incarnation(1), Codec("orders"), transport, seal=seal)
        await driver.start()
        driver.close()

    with caplog.at_level(logging.WARNING, logger="doyen"):
        asyncio.run(main(Keyring([KEY])))
        assert "NOT" not in caplog.text
        asyncio.run(main(None))
    assert "packets of group 'orders' are NOT authenticated" in caplog.text and "doyen keys new" in caplog.text


def test_a_quiet_start_is_quiet_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Newcomers that prove themselves, and our own multicasts heard back, are nothing to warn of."""

    async def main() -> None:
        a = sealed_node("a", Keyring([KEY]))
        await a.driver.start()
        b = sealed_node("b", Keyring([KEY]), seeds=(a.address,))
        await b.driver.start()
        await until(lambda: a.election.leader == b.election.leader == "b" and a.driver.refused["unproven"] > 0)
        assert b.driver.seal is not None
        a.driver.transport.send(b.driver.seal.seal(DATA, None), b.address)
        await until(lambda: b.driver.refused["echo"] == 1)
        assert b.driver.refused["replay"] == 0
        a.driver.close()
        b.driver.close()

    with caplog.at_level(logging.WARNING, logger="doyen"):
        asyncio.run(main())
    assert caplog.text == ""


def test_a_library_that_cannot_start_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its random numbers, and what it has chosen for this processor, would not be ready."""
    import nacl
    from nacl import _sodium, bindings  # type: ignore[attr-defined, unused-ignore]

    def broken(*_: object) -> int:
        raise AssertionError("it was used")

    library = SimpleNamespace(sodium_init=lambda: -1, crypto_aead_xchacha20poly1305_ietf_encrypt=broken)
    library.crypto_aead_xchacha20poly1305_ietf_decrypt = broken
    broken_one = SimpleNamespace(ffi=_sodium.ffi, lib=library)
    monkeypatch.setitem(sys.modules, "nacl._sodium", broken_one)
    monkeypatch.setattr(nacl, "_sodium", broken_one)
    seal, open_ = aead.load()
    monkeypatch.undo()
    sealed = seal(b"plain", b"with", bytes(24), bytes(32))
    assert sealed == bindings.crypto_aead_xchacha20poly1305_ietf_encrypt(b"plain", b"with", bytes(24), bytes(32))
    assert open_(sealed, b"with", bytes(24), bytes(32)) == b"plain"


def test_the_seal_is_what_pynacl_itself_makes_and_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    import nacl
    from nacl import bindings

    seal, open_ = aead.load()
    with monkeypatch.context() as without_library:
        without_library.setitem(sys.modules, "nacl._sodium", None)
        without_library.delattr(nacl, "_sodium")
        _, open_by_bindings = aead.load()
    assert open_by_bindings.__code__ is not open_.__code__
    rng = Random(7)
    for size in (0, 1, 15, 16, 17, 1400):
        plain, associated, nonce, key = (rng.randbytes(n) for n in (size, size % 64, 24, 32))
        sealed = seal(plain, associated, nonce, key)
        assert sealed == bindings.crypto_aead_xchacha20poly1305_ietf_encrypt(plain, associated, nonce, key)
        assert open_(sealed, associated, nonce, key) == plain
        for wrong in (
            (sealed[:-1], associated, nonce, key),
            (sealed[:15], associated, nonce, key),
            (sealed, associated + b"x", nonce, key),
            (sealed, associated, nonce[:-1], key),
            (sealed, associated, nonce, key[:-1]),
            (sealed, associated, nonce, bytes(32)),
        ):
            for opens in (open_, open_by_bindings):
                with pytest.raises(aead.Unsealable):
                    opens(*wrong)
    with pytest.raises(ValueError, match="24 bytes"):
        seal(b"", b"", bytes(23), bytes(32))


def test_blank_lines_and_remarks_in_a_key_file_end_nothing(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    write_keys(path, [KEY, OTHER])
    path.write_text("# Ours.\n\n" + path.read_text().replace("\n", "\n  # Another.\n\n"))
    assert read_keys(path) == (KEY, OTHER)


def test_who_was_just_asked_is_answered_all_the_same() -> None:
    """Questions and answers have a pace each: else two that ask each other at one instant would wait."""
    wire = two()
    asked_b = wire.ends[A].seal(DATA, B)
    asked_a = wire.ends[B].seal(DATA, A)
    questions: list[bytes] = []
    for end, data, source in ((B, asked_b, A), (A, asked_a, B)):
        with pytest.raises(Unproven) as raised:
            wire.ends[end].open(data, source)
        assert raised.value.question is not None
        questions.append(raised.value.question)
    assert len(wire.ends[A].open(questions[0], B).answers) == len(wire.ends[B].open(questions[1], A).answers) == 1


@pytest.mark.parametrize(
    ("listed", "advice"), [((CLEAR, KEY), "use ID, once"), ((KEY, CLEAR), "remove clear, once"), ((KEY,), None)]
)
def test_a_group_on_its_way_to_a_first_key_is_told_at_the_start_that_anybody_is_heard(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, listed: tuple[bytes, ...], advice: str | None
) -> None:
    path = tmp_path / "keys"
    write_keys(path, list(listed))

    async def main() -> None:
        ring = load_keyring(path)
        node = sealed_node("a", ring)
        await node.driver.start()
        watch_key_file(node.driver, ring)
        node.driver.close()

    with caplog.at_level(logging.WARNING, logger="doyen"):
        asyncio.run(main())
    assert ("NOT sealed are believed" in caplog.text) is (advice is not None) and (advice or "") in caplog.text


def test_a_key_file_that_cannot_be_read_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="Is a directory: give a file"):
        read_keys(tmp_path)
    with pytest.raises(ConfigError, match="make one with `doyen keys new --file"):
        read_keys(tmp_path / "none")

    def refused(*given: Any, **more: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refused)  # Root may read anything.
    with pytest.raises(ConfigError, match=f"Permission denied: user {os.geteuid()} must be able to read it"):
        read_keys(tmp_path / "keys")
