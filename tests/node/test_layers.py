"""Configuration in layers, presets and their worst cases, combinations that make no sense."""

import inspect
from pathlib import Path
from typing import Any, get_args

import pytest

import doyen
from doyen.cli.nodeflags import flag_name
from doyen.core.clock import ms, seconds, to_seconds
from doyen.core.ids import parse_address
from doyen.core.kinds import DELAYS, Network, WorstCase
from doyen.errors import ConfigError
from doyen.node.config import NodeConfig
from doyen.node.join import ALSO_TAKEN
from doyen.node.layers import by_path, configure, misspelt, node_options, variable_name
from doyen.node.registry import election_names
from doyen.testing import Cluster


def configured(
    flags: dict[str, Any] | None = None, env: dict[str, str] | None = None, file: Path | None = None
) -> NodeConfig:
    return configure(by_path({"group": "g"} | (flags or {})), environment=env or {}, file=file)


def worst_case(config: NodeConfig) -> WorstCase:
    kind = config.election_kind()
    assert kind is not None
    return config.worst_case(kind)


def test_the_later_wins_preset_file_environment_flags(tmp_path: Path) -> None:
    file = tmp_path / "doyen.toml"
    file.write_text('preset = "local"\n[swim]\nperiod = "5s"\nhelper_count = 5\n[announce]\nlisten_timeout = "9s"\n')
    plain = configured({"preset": "local"})
    assert plain.tables["swim"].period == ms(200)
    from_file = configured(file=file)
    assert (from_file.tables["swim"].period, from_file.tables["swim"].helper_count) == (seconds(5), 5)
    assert from_file.tables["swim"].ack_timeout == ms(80)  # Still the preset's.
    env = {"DOYEN_SWIM_PERIOD": "6s", "DOYEN_LISTEN_TIMEOUT": "8s"}
    from_env = configured(env=env, file=file)
    assert (from_env.tables["swim"].period, from_env.tables["announce"].listen_timeout) == (seconds(6), seconds(8))
    from_flags = configured({"swim": {"period": "7s"}}, env=env, file=file)
    assert (from_flags.tables["swim"].period, from_flags.tables["swim"].helper_count) == (seconds(7), 5)


def test_every_flag_has_a_variable_and_no_two_are_alike() -> None:
    flags = [flag_name(option) for option in node_options()]
    variables = [variable_name(option) for option in node_options()]
    assert len(flags) > 80
    assert len(set(flags)) == len(flags)
    assert len(set(variables)) == len(variables)
    assert {"--listen-timeout", "--swim-period", "--seed", "--key-file"} <= {*flags}
    assert "DOYEN_TERM" not in variables  # `doyen run` sets it for its command.


@pytest.mark.parametrize(
    ("env", "text", "said"),
    [
        ({"DOYEN_SWIM_PERIOD": "soon"}, "", "DOYEN_SWIM_PERIOD: 'soon' is not a duration"),
        ({"DOYEN_ELECTION": "democracy"}, "", "DOYEN_ELECTION 'democracy' is not installed: one of"),
        ({}, "[swim]\nperiods = 1\n", "[swim] has no field 'periods': do you mean period?"),
        ({}, "colour = 1\n", "has no field 'colour': one of group, name, "),
        ({}, 'elction = "pole"\n', "has no field 'elction': do you mean election?"),
        ({}, 'listen_timeout = "2s"\n', "has no field 'listen_timeout': it is listen_timeout of [announce]"),
        ({}, 'swim-period = "2s"\n', "has no field 'swim-period': it is period of [swim]"),
        ({}, "swim = 1\n", "[swim] must be a table, not 1"),
        ({}, "standing = true\n", "standing = true: give a number"),
        ({}, 'seeds = "ant"\n', 'seeds = "ant": give a list of texts'),
        ({}, "name = 7\n", "name = 7: give a text"),
        ({"DOYEN_LINK": "maybe"}, "", "DOYEN_LINK: give true or false"),
        ({"DOYEN_GROUP_SIZE": "many"}, "", "DOYEN_GROUP_SIZE: give a whole number"),
        ({}, "\x00", "is not TOML"),
        ({}, "group = [\n", "is not TOML"),
        ({}, 'preset = "lam"\n', 'preset = "lam": do you mean lan? one of local, lan, wan, iot'),
        ({}, 'preset = "moon"\n', 'preset = "moon": one of local, lan, wan, iot'),
    ],
)
def test_what_is_wrong_names_its_place(tmp_path: Path, env: dict[str, str], text: str, said: str) -> None:
    file = tmp_path / "doyen.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as raised:
        configure({("group",): "g"}, environment=env, file=file)
    assert said in str(raised.value)


def test_a_file_may_be_empty_or_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "doyen.toml"
    for text in (b"", b"\xef\xbb\xbf", b'\xef\xbb\xbfgroup = "h"\r\n'):
        file.write_bytes(text)
        assert configure({("group",): "g"}, environment={}, file=file).group == "g"


def test_a_variable_that_means_nothing_is_named_with_what_will_have_been_meant() -> None:
    kubernetes = {"DOYEN_SERVICE_HOST": "10.0.0.1", "DOYEN_PORT": "tcp://10.0.0.1:7600", "DOYEN_PORT_7600_TCP": "x"}
    read = {"DOYEN_ELECTION": "pole", "DOYEN_CONFIG": "x", "DOYEN_RUNTIME_DIR": "x", "DOYEN_TERM": "1", "PATH": ""}
    assert misspelt(read | kubernetes) == {}
    assert misspelt({"DOYEN_ELECTON": "pole", "DOYEN_SEEDS": "a", "DOYEN_KEYFILE": "k"}) == {
        "DOYEN_ELECTON": "DOYEN_ELECTION",
        "DOYEN_SEEDS": "DOYEN_SEED",
        "DOYEN_KEYFILE": "DOYEN_KEY_FILE",
    }


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"membership": "none", "election": "base"}, "it elects from a list of members"),
        ({"membership": "none", "election": "spanning"}, "it speaks to its neighbours"),
        ({"membership": "swim", "election": "by-key"}, "the owner of a key is known on the ring only"),
        ({"election": "pole"}, "voters must name all members that vote"),
        ({"election": "pole", "voters": ("a",)}, "state must name a directory"),
        ({"election": "none", "membership": "none"}, "leaves nothing to do"),
        ({"elections": ("x", "x")}, "must have names that differ"),
        ({"elections": ("x=magic",)}, "elections 'magic' is not installed"),
        (
            {"elections": ("x=hybrid",), "membership": "none", "election": "le-s"},
            "cannot carry the election gossip (hybrid)",
        ),
    ],
)
def test_combinations_without_sense_say_why(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        configured(fields)
    assert said in str(raised.value)


def test_auto_membership_is_what_the_elections_need() -> None:
    def kind(**fields: Any) -> str:
        return configured(fields).membership_name()

    assert kind(election="le-s") == "none"
    assert kind(election="hybrid") == "swim"
    assert kind(election="le-s", elections=("x=hybrid",)) == "swim"
    assert kind(election="by-key") == "ring"
    assert kind(election="none") == "swim"
    assert kind(election="pole", voters=("a",), volatile=True) == "none"


def test_where_it_listens_follows_from_its_seeds() -> None:
    def bound(*seeds: str, listed: tuple[str, ...] = (), **fields: str) -> str:
        known = [parse_address(seed, default_port=7600) for seed in listed]
        return str(configured({"seeds": seeds, **fields}).bind_address(known))

    assert bound() == "127.0.0.1:0"
    assert bound("127.0.0.1:7601") == "127.0.0.1:0"
    assert bound("127.0.0.1") == bound("localhost") == "127.0.0.1:7600"
    assert bound("10.0.0.2") == "0.0.0.0:7600"
    assert bound("[fd00::2]") == "[::]:7600"
    assert bound(seeds_file="seeds") == "0.0.0.0:7600"  # It may be written later.
    assert bound(seeds_file="seeds", listed=("127.0.0.1:7601",)) == "127.0.0.1:0"
    assert bound(seeds_file="seeds", listed=("127.0.0.1:7601", "10.0.0.2")) == "0.0.0.0:7600"
    assert bound(multicast="239.192.0.9:7609") == "0.0.0.0:0"
    assert bound(multicast="[ff12::9]:7609") == "[::]:0"
    assert bound(multicast="239.192.0.9:7609", bind="127.0.0.1:0") == "127.0.0.1:0"


@pytest.mark.parametrize("preset", get_args(Network))
@pytest.mark.parametrize("kind", election_names())
def test_every_preset_works_with_every_election_and_says_its_worst_case(preset: str, kind: str) -> None:
    config = configured({"preset": preset, "election": kind, "voters": ("a",), "volatile": True, "shared": "/"})
    worst = worst_case(config)
    assert 0 < worst.detection <= worst.failover < seconds(3600)
    assert worst.because


@pytest.mark.parametrize("election", ["le-a", "le-s", "le-m", "hybrid", "base", "spanning", "pole", "by-key"])
@pytest.mark.parametrize(
    ("preset", "nodes", "seed"),
    [*(("local", 5, seed) for seed in range(3)), ("lan", 5, 1), ("wan", 3, 2), ("iot", 3, 0)],
)
def test_takeovers_in_made_up_time_keep_to_the_worst_case(
    election: str, preset: Network, nodes: int, seed: int
) -> None:
    delay = DELAYS[preset]
    cluster = Cluster(nodes, election=election, seed=seed, preset=preset, group_size=nodes, delay=f"{delay}ns")
    cluster.run_until_leader("10min")
    cluster.run_for(f"{5 + 7.3 * seed}s")
    first = cluster.run_until_leader("10min")
    crashed_at_s, told = cluster.now_s, len(cluster.history)
    cluster.crash(first)
    took_s = cluster.run_until(lambda: cluster.leader() not in (None, first), "10min")
    noticed_s = next(seen.at_s for seen in cluster.history[told:] if seen.kind == "lost" or seen.leader != first)
    worst = worst_case(cluster.config("n1"))
    assert noticed_s - crashed_at_s <= to_seconds(worst.detection)
    assert took_s <= to_seconds(worst.failover) + 0.01  # `run_until` looks every 10 ms.


def test_a_misspelt_argument_of_join_is_answered_with_the_one_that_was_meant() -> None:
    meant = {"standng": "standing", "sed": "seeds", "scor": "score", "keys": "key", "electoin": "election"}
    for given, name in meant.items():
        with pytest.raises(ConfigError, match=rf"there is no field '{given}': do you mean {name}\?"):
            by_path({given: 1}, ALSO_TAKEN)
    with pytest.raises(ConfigError, match=r"there is no field 'swim.perod': do you mean swim.period\?"):
        by_path({"swim": {"perod": "1s"}})
    with pytest.raises(ConfigError, match=r"there is no field 'nonsense': see docs/reference/configuration.md"):
        by_path({"nonsense": 1})
    assert {*ALSO_TAKEN} <= {*inspect.signature(doyen.join).parameters}
