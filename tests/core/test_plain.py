"""Text of strangers, as a terminal gets it: whatever they chose, it moves no cursor and says the same."""

import json
import unicodedata
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from doyen.core.plain import plain, plain_json, plain_values

CONTROLS = [chr(c) for c in range(0x110000) if unicodedata.category(chr(c)) in ("Cc", "Zl", "Zp")]
TURNS = [chr(c) for c in (0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))]  # They turn its direction.
TEXTS = st.text(st.one_of(st.characters(exclude_categories=("Cs",)), st.sampled_from(CONTROLS + TURNS)))


@given(TEXTS)
def test_json_says_the_same_in_bytes_that_are_text(text: str) -> None:
    found = plain_json(msgspec.json.encode({"name": text}))
    assert json.loads(found) == {"name": text}
    assert not {*CONTROLS, *TURNS} & {*found.decode()}


def test_every_control_and_every_turn_is_escaped_in_json() -> None:
    for text in CONTROLS + TURNS:
        found = plain_json(msgspec.json.encode(text))
        assert json.loads(found) == text and found.isascii(), found


@given(TEXTS)
def test_a_plain_text_is_printable_and_whoever_can_be_printed_stays(text: str) -> None:
    found = plain(text)
    assert found.isprintable() and (found == text) == text.isprintable()


def test_texts_are_plain_however_deep_they_lie() -> None:
    given: Any = {"a\x1b": ["b\n", {"c": "d\x7f", "e": 1}], "f": None, "g": True}
    assert plain_values(given) == {"a\\x1b": ["b\\n", {"c": "d\\x7f", "e": 1}], "f": None, "g": True}
