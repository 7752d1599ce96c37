"""Where what is for a member goes: the address that others see counts, for as long as it is one that stays."""

from doyen.core.clock import seconds
from doyen.core.ids import Address, Incarnation, NodeId
from doyen.core.view import Member, Status, ViewChanged, ViewEditor
from doyen.net.address_book import FAN_OUT_MAX, PEERS_MAX, SEEN_FOR, UNREAD_MAX, AddressBook

ME, ANT = NodeId("me"), NodeId("ant")
TOLD, SEEN, MOVED = Address("10.1.0.2", 7600), Address("10.2.0.2", 7600), Address("10.3.0.2", 7600)


def view_of(address: Address, incarnation: int = 1, status: Status = Status.ALIVE) -> ViewChanged:
    editor = ViewEditor()
    editor.put(Member(node=ANT, incarnation=Incarnation(incarnation), status=status, address=address))
    return ViewChanged(editor.view, (ANT,))


def test_a_member_with_two_interfaces_is_reached_at_the_one_that_is_seen() -> None:
    book = AddressBook(ME)
    book.learn(view_of(TOLD))
    assert (book.towards(TOLD, 0), book.reach(ANT)) == (TOLD, TOLD)
    book.heard(ANT, Incarnation(1), SEEN, seconds(1))
    assert (book.towards(TOLD, seconds(2)), book.reach(ANT)) == (SEEN, SEEN)
    book.learn(view_of(TOLD, status=Status.SUSPECTED))  # No news of where it is.
    assert (book.towards(TOLD, seconds(2)), book.reach(ANT)) == (SEEN, SEEN)
    assert book.towards(TOLD, seconds(1) + SEEN_FOR) == TOLD


def test_a_member_that_says_that_it_has_moved_is_reached_there() -> None:
    book = AddressBook(ME)
    book.learn(view_of(TOLD))
    book.heard(ANT, Incarnation(1), SEEN, seconds(1))
    book.learn(view_of(MOVED, incarnation=2))
    assert (book.towards(MOVED, seconds(1)), book.reach(ANT)) == (MOVED, MOVED)
    assert book.towards(TOLD, seconds(1)) == TOLD  # Somebody else may be there by now.


def test_an_old_place_of_a_member_that_moved_does_not_count_more_than_its_view() -> None:
    """With a key, its datagrams count as from where it echoed last, until it has echoed at its new address."""
    book = AddressBook(ME)
    book.heard(ANT, Incarnation(1), SEEN, seconds(1), elsewhere=True)
    assert book.reach(ANT) == SEEN  # No other is known.
    book.learn(view_of(MOVED, incarnation=2))
    book.heard(ANT, Incarnation(2), SEEN, seconds(2), elsewhere=True)
    assert (book.towards(MOVED, seconds(2)), book.reach(ANT)) == (MOVED, MOVED)
    assert book.heard_since(seconds(2)) == {ANT} and book.incarnation_of(ANT) == 2
    book.heard(ANT, Incarnation(2), SEEN, seconds(3))
    assert book.reach(ANT) == SEEN  # It has echoed there, and speaks from there.


def test_a_port_that_a_translation_chose_is_not_where_a_member_stays() -> None:
    book = AddressBook(ME)
    book.learn(view_of(TOLD))
    book.heard(ANT, Incarnation(1), Address("192.0.2.1", 40_001), seconds(1))
    assert book.towards(TOLD, seconds(1)) == TOLD


def test_strangers_fill_no_memory_and_those_heard_last_are_kept() -> None:
    seeds = [Address("10.4.0.1", 1 + i) for i in range(UNREAD_MAX + 5)]
    book = AddressBook(ME, seeds)
    for i in range(PEERS_MAX + 5):
        book.heard(NodeId(f"x{i}"), Incarnation(1), Address("10.9.0.1", 1 + i), i)
    assert len(book) == len(book.heard_from()) == PEERS_MAX
    assert book.of(NodeId("x4")) is None and book.of(NodeId("x5")) is not None
    assert book.incarnation_of(NodeId("x4")) is None and book.heard_since(PEERS_MAX) == {
        NodeId(f"x{PEERS_MAX + i}") for i in range(5)
    }
    assert len([*book.fan_out()]) == len(seeds) + FAN_OUT_MAX
    for seed in seeds:
        book.could_not_read(seed, "clear", 0)
        assert 0 < len(book.unread) <= UNREAD_MAX
    book.could_not_read(Address("10.9.0.1", 1), "clear", 0)
    assert Address("10.9.0.1", 1) not in book.unread, "of strangers it says nothing"
