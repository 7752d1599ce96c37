"""`doyen run -- COMMAND`: only while this process leads."""

import shutil
from pathlib import Path
from typing import Any

import click
import msgspec

from doyen.cli.nodeflags import NodeCommand, chosen_node
from doyen.cli.options import DurationText
from doyen.cli.resident import Resident
from doyen.core.clock import Duration, format_duration, seconds
from doyen.errors import ConfigError
from doyen.membership.occasions import REMEMBER_MAX, check_key
from doyen.node.config import DEFAULT_MEMBERSHIP, NodeConfig


class _Occasion(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """The key of an occasion; True where `--once` has none."""

    name = "key"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value is True:
            return True
        try:
            check_key(value)
        except ConfigError as error:
            self.fail(str(error), param, ctx)
        return value


EXAMPLES = {
    "doyen run --group reports -- ./serve": "on one machine",
    "doyen run --group reports --seed host-a -- ./serve": "across hosts",
    'doyen run --group reports --once "$(date +%F)" -- ./nightly.sh': "daily",
}


@click.command(
    "run",
    cls=NodeCommand,
    examples=EXAMPLES,
    help="Run COMMAND only while this process leads its group (term: DOYEN_TERM). By the default election two may lead "
    "while the network is split.",
)
@click.argument("words", metavar="-- COMMAND [ARG…]", nargs=-1, required=True)
@click.option(
    "--grace",
    type=DurationText(as_seconds=False),
    default="10s",
    help="The time from SIGTERM to SIGKILL [10s].",
)
@click.option(
    "--wait",
    type=DurationText(as_seconds=True),
    default=None,
    help="End with exit code 75 if not elected within this time.",
)
@click.option(
    "--once",
    type=_Occasion(),
    is_flag=False,
    flag_value=True,
    default=None,
    metavar="[KEY]",
    help="At least once per KEY (a date, say), not on every host. A repeat is possible if the runner dies before it "
    "has told the others, a host is out of reach, or nobody who remembers is up.",
)
@click.option(
    "--remember",
    type=DurationText(as_seconds=False),
    default=None,
    help="For how long --once KEY remembers a success [24h].",
)
@click.option(
    "--linger",
    type=DurationText(as_seconds=True),
    default=None,
    help="How long --once stays after a success [0s]. So runners that start late hear of it.",
)
@click.option(
    "--will/--no-will",
    default=True,
    help="quorum: a killed runner's guard resigns for it [--will].",
)
@click.option("--json", "as_json", is_flag=True, help="Write what happens as JSON lines to standard error.")
def command(
    words: tuple[str, ...],
    grace: Duration,
    wait: float | None,
    as_json: bool,
    will: bool,
    once: str | bool | None,
    remember: Duration | None,
    linger: float | None,
    config_file: Path | None,
    **given: Any,
) -> Resident:
    config = chosen_node(config_file, given)
    if shutil.which(words[0]) is None:
        raise ConfigError(f"cannot run {words[0]!r}: there is no such command here, or it may not be executed")
    if config.election == "none":
        raise ConfigError("--election none elects nobody, so nothing would ever run: give one")
    kind = config.election_kind()
    assert kind is not None
    run_once = _once(once, remember, linger)
    if run_once is not None:
        config = _remembering(config)
    # A leader that hands over by itself would let its successor begin while the command still ends.
    tables = config.tables | {kind.table.name: kind.stay_put(config.table(kind.table))}
    return Resident(
        "run",
        msgspec.structs.replace(config, tables=tables),
        words=words,
        grace=grace,
        wait_s=wait,
        as_json=as_json,
        once=run_once,
        will=will,
    )


def _once(key: str | bool | None, remember: Duration | None, linger: float | None) -> dict[str, Any] | None:
    """Return what `--once` comes to; None where it was not given."""
    if key is None:
        for flag, value in (("--remember", remember), ("--linger", linger)):
            if value is not None:
                raise ConfigError(f"{flag} says what --once is to do: give --once KEY, too")
        return None
    if remember is not None and key is True:
        raise ConfigError("--remember needs a key to remember: give --once KEY, e.g. --once 2026-03-01")
    if remember is not None and not 0 < remember <= REMEMBER_MAX:
        raise ConfigError(
            f"--remember {format_duration(remember) if remember else 0} is no time to remember: "
            f"give more than 0, and at most {format_duration(REMEMBER_MAX)}"
        )
    if linger is not None and linger == float("inf"):
        raise ConfigError("--linger inf would never end: give a time, e.g. 1min")
    return {
        "key": "" if key is True else key,
        "remember": seconds(24 * 3600) if remember is None else remember,
        "linger_s": linger or 0.0,
    }


def _remembering(config: NodeConfig) -> NodeConfig:
    """Return the configuration with what remembering needs: a list of members, and a directory."""
    membership = config.membership
    if config.membership_kind() is None:
        if membership == "none":
            raise ConfigError("--membership none keeps no list of members, and --once must ask them: leave it out")
        membership = DEFAULT_MEMBERSHIP
    if not config.state:
        from doyen.runner.once import default_state

        return msgspec.structs.replace(config, membership=membership, state=str(default_state(config.group)))
    return msgspec.structs.replace(config, membership=membership)
