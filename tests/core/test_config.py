"""A configuration is checked when it is made, by the limits in its types; its help stands beside its fields."""

from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta

from doyen.core.clock import FOREVER, ms, seconds
from doyen.core.config import (
    Amount,
    Config,
    Doc,
    Pause,
    Period,
    Probability,
    Text,
    Timeout,
    field_docs,
    load,
    need,
    options,
    read_value,
)
from doyen.errors import ConfigError
from doyen.node.config import NodeConfig
from doyen.node.registry import tables
from doyen.sim.scenario import Scenario


class Knobs(Config, frozen=True, kw_only=True):
    period: Annotated[Period, Doc("One probe is sent in each.")] = seconds(1)
    spread: Pause = 0
    patience: Timeout = FOREVER
    bound: Annotated[Annotated[int, Meta(ge=0, le=9)] | Literal["auto"], Doc("c.")] = "auto"
    prob: Probability = 0.5
    weight: Amount | None = None
    key: Text = "leader"

    def check(self) -> None:
        need(self.spread < self.period, "spread", "must be less than period")


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"period": 0}, "period 0s is out of range: give more than 0s, and finite"),
        ({"period": FOREVER}, "period inf is out of range: give more than 0s, and finite"),
        ({"period": "1s"}, 'period must not be "1s": give more than 0s, and finite'),
        ({"spread": -1}, "spread -1ns is out of range: give 0s or more, and finite"),
        ({"spread": seconds(1)}, "spread must be less than period"),
        ({"patience": 0}, "patience 0s is out of range: give more than 0s"),
        ({"bound": 10}, "bound 10 is out of range: give 0 to 9"),
        ({"prob": 1.5}, "prob 1.5 is out of range: give 0 to 1"),
        ({"prob": float("nan")}, "prob nan is out of range: give 0 to 1"),
        ({"weight": float("inf")}, "weight inf is out of range: give 0 or more, and finite"),
        ({"key": " "}, "key must not be empty"),
    ],
)
def test_what_is_out_of_range_is_named_with_what_to_give(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError) as error:
        Knobs(**given)
    assert str(error.value) == complaint


def test_what_is_within_its_limits_is_taken() -> None:
    assert Knobs(period=1, patience=FOREVER, bound=9, prob=1, weight=0, key="x").bound == 9
    assert Knobs(bound="auto", weight=None) == Knobs()


def test_a_file_is_named_with_the_table_and_the_field() -> None:
    with pytest.raises(ConfigError, match=r"x.toml: \[knobs\] period 0s is out of range"):
        load(Knobs, {"period": "0s"}, "x.toml", ("knobs",))
    with pytest.raises(ConfigError, match="give a number"):
        load(Knobs, {"prob": "much"}, "x.toml", ("knobs",))
    assert load(Knobs, {"period": "5ms", "bound": 3}, "").period == ms(5)


def test_help_stands_beside_the_field() -> None:
    assert field_docs(Knobs) == {"period": "One probe is sent in each.", "bound": "c."}


def test_every_option_that_can_be_given_has_its_help() -> None:
    kinds = [NodeConfig, Scenario, *(table.config for table in tables().values())]
    bare = [f"{kind.__name__}.{option.name}" for kind in kinds for option in options(kind) if not option.doc]
    assert not bare


def test_a_flag_is_text_and_a_file_has_types() -> None:
    assert read_value(int, "5", "--count", text=True) == 5 and read_value(int, 5, "count") == 5
    with pytest.raises(ConfigError, match="count"):
        read_value(int, "5", "count")


@pytest.mark.parametrize(
    ("hint", "value", "complaint"),
    [
        *((Period, value, "x: give a duration, e.g. '200ms'") for value in (True, None, ["1s"], {})),
        (Period, "soon", "x: 'soon' is not a duration"),
        (Literal["lan", "wan"], "lam", "x: do you mean lan? one of lan, wan"),
        (Literal["lan", "wan"], "qqq", "x: one of lan, wan"),
        (bool, "yes", "x: give true or false"),
        (int, 1.5, "x: give a whole number"),
        (float, "a", "x: give a number"),
        (str, 1, 'x: give a text, e.g. "abc"'),
        (tuple[str, ...], 1, 'x: give a list of texts, e.g. ["abc", "def"]'),
    ],
)
def test_a_value_of_another_type_is_refused_with_what_to_give(hint: Any, value: Any, complaint: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read_value(hint, value, "x")
    assert str(raised.value).startswith(complaint)


@pytest.mark.parametrize(
    ("hint", "text", "found"),
    [
        (tuple[str, ...], "a, b,,c", ("a", "b", "c")),
        (tuple[str, ...], '["a", "b,c"]', ("a", "b,c")),
        (tuple[tuple[int, int], ...], "[[0, 1], [1, 2]]", ((0, 1), (1, 2))),
        (Period, "200ms", ms(200)),
        (int, "7", 7),
        (bool, "true", True),
    ],
)
def test_a_flags_text_is_read_as_its_type(hint: Any, text: str, found: Any) -> None:
    assert read_value(hint, text, "x", text=True) == found


def test_a_list_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="x: not a list as in TOML"):
        read_value(tuple[int, ...], "[1", "x", text=True)
