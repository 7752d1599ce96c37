"""`doyen steer`: put the leader of a store where it serves best."""

import time
from typing import Any

import click

from doyen.cli.output import json_flag, print_json
from doyen.core.clock import parse_duration, to_seconds
from doyen.core.plain import plain
from doyen.engines.etcd_servers import Servers
from doyen.engines.steering import Look, Steering, Verdict
from doyen.engines.url import parse
from doyen.errors import ConfigError, TransportError
from doyen.score.oracles import ORACLES

STEERING = ("latency", "worst-case", "consensus", "request")  # Oracles that go by what etcd's servers measure.
ANSWERS_WITHIN_S = 5.0


@click.group("steer", help="Put the leader of a store where it serves best.")
def command() -> None: ...


@command.command("etcd", help="Move etcd's leader to the server that an oracle holds for best.  URL names all servers.")
@click.argument("url")
@click.option(
    "--oracle", type=click.Choice(STEERING), default="latency", show_default=True, help="What a good leader is."
)
@click.option("--margin", default=10.0, show_default=True, help="How much better it must be, in percent.")
@click.option("--looks", default=2, show_default=True, help="In how many looks, one after the other.")
@click.option("--every", default="30s", show_default=True, help="The time between two looks.")
@click.option("--cooldown", default="5m", show_default=True, help="The time after a move before the next one.")
@click.option("--once", is_flag=True, help="Look once, move the leader if that is due, and end.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and move nothing.")
@json_flag
def etcd(
    url: str,
    oracle: str,
    margin: float,
    looks: int,
    every: str,
    cooldown: str,
    once: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    where = parse(url)
    if where.scheme not in ("etcd", "etcds"):
        raise ConfigError(f"{where} is no etcd: give etcd://HOST:PORT,HOST:PORT,…")
    if not 0 <= margin <= 1000 or looks < 1:
        raise ConfigError(f"--margin {margin:g} --looks {looks}: give 0 to 1000 percent, and at least one look")
    pause_s = to_seconds(parse_duration(every))
    if pause_s < 0.1:
        raise ConfigError(f"--every {every} is too often: at least 100ms")
    steering = Steering(
        ORACLES[oracle], margin=margin / 100, looks=1 if once else looks, cooldown=parse_duration(cooldown)
    )
    servers = Servers(where, ANSWERS_WITHIN_S)
    try:
        while True:
            try:
                look, silent = servers.look(time.monotonic())
            except TransportError as error:
                if once:
                    raise
                click.echo(plain(f"doyen: {error}; it is tried again"), err=True)
            else:
                for server, why in silent.items():
                    click.echo(plain(f"doyen: {server} is left out: {why}"), err=True)
                verdict = steering.look(look, time.monotonic_ns())
                moved = "" if dry_run else _move(servers, steering, look, verdict)
                _say(look, verdict, oracle, moved, dry_run, as_json)
            if once:
                return 0
            time.sleep(pause_s)
    except KeyboardInterrupt:
        return 0
    finally:
        servers.close()


def _move(servers: Servers, steering: Steering, look: Look, verdict: Verdict) -> str:
    """Move the leader if that is due; return what came of it."""
    if verdict.move_to is None or look.leader is None:
        return ""
    steering.tried(time.monotonic_ns())
    try:
        servers.move(look.leader, verdict.move_to)
    except TransportError as error:
        return f"refused: {error}"
    return "moved"


def _say(look: Look, verdict: Verdict, oracle: str, moved: str, dry_run: bool, as_json: bool) -> None:
    if as_json:
        said: dict[str, Any] = {
            "leader": look.leader,
            "oracle": oracle,
            "scores": dict(verdict.scores),
            "best": verdict.best,
            "move_to": verdict.move_to,
            "result": moved or ("dry run" if dry_run and verdict.move_to else "stays"),
            "why": verdict.why,
        }
        print_json(said)
        return
    head = f"{look.leader} → {verdict.move_to}" if verdict.move_to else str(look.leader)
    done = f"{' · ' + moved if moved else ' · dry run' if dry_run and verdict.move_to else ''}"
    click.echo(plain(f"{time.strftime('%H:%M:%S')}  {head}{done}: {verdict.why}"))
    for name, score in verdict.scores.items():
        shown = "not known" if score is None else f"{score:.4g}{'/s' if oracle == 'request' else ' ms'}"
        click.echo(plain(f"  {name:20} {shown:>12}  {look.rates.get(name, 0):.3g} requests/s"))
