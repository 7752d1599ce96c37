"""`doyen drill`: rehearse a takeover on the live group, and compare it with what was predicted."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final, get_args

import click

from doyen.cli.local import ask, which_election, which_node
from doyen.cli.output import print_json, progress
from doyen.cli.outputs import DRILL, OutputFile
from doyen.errors import ConfigError, DoyenError, LocalProtocolError, TransportError
from doyen.node import control
from doyen.node.control import find_nodes

HOW: Final = ("resign", "kill", "freeze")
WORDS: Final = {"resign": "resigns", "kill": "is killed (SIGKILL)", "freeze": "is stopped (SIGSTOP), and continued"}
PATIENCE: Final = 2.0  # How many times the bound a successor is waited for,
PATIENCE_MIN_S: Final = 10.0  # and at least how long.
LOOK_S: Final = 0.005
ASKED: Final = 20  # Questions to each witness, to see how long an answer takes,
ASK_EVERY_S: Final = 0.05  # spread over a second: a busy machine is not busy at every moment.
LONE_DELAY_S: Final = 0.000_05  # Of one machine to itself, where nobody has measured a round trip.


@click.command(
    "drill",
    help="Rehearse the loss of the leader on the running group: predict how long a takeover takes, ask, end the "
    "leader's reign, and report predicted, measured and bound.  Run it where the leader and another member run.",
)
@which_node
@which_election
@click.option(
    "--how",
    type=click.Choice(HOW),
    default="resign",
    show_default=True,
    help="resign: hand over in order; kill: SIGKILL; freeze: SIGSTOP until another leads.",
)
@click.option("--yes", is_flag=True, help="Do it without asking.")
@click.option("--simulate", type=click.IntRange(3, 1000), default=20, show_default=True, help="Takeovers to simulate.")
@click.option(
    "--report",
    type=OutputFile(DRILL),
    default=None,
    help="Where the report is kept [doyen-drill-GROUP-TIME.json].",
)
def command(
    group: str | None,
    name: str | None,
    as_json: bool,
    election: str,
    how: Any,
    yes: bool,
    simulate: int,
    report: Path | None,
) -> int:
    if not yes and not sys.stdin.isatty():
        raise ConfigError("a drill ends the reign of a living leader: say --yes, or run it in a terminal and answer")
    asked = find_nodes(group, name)[0]
    nodes = {path.stem: path for path in find_nodes(asked.parent.name, None)}
    leader = _leader_here(ask(asked, "leader", election=election), nodes, election)
    told = ask(leader, "timers", election=election)
    here = {str(ask(path, "status")["node"]) for path in nodes.values()}
    told["members"] = sorted(here.union(told["members"]))  # An election without a list of members knows few of them.
    witnesses = {stem: path for stem, path in nodes.items() if how == "resign" or path != leader}
    _check(told, leader, witnesses, how, election)
    answers = _answers(witnesses, election)
    predicted = sorted(took + answer_s for took in predict(told, how, simulate, answers) for answer_s in answers)
    bound_s = told["failover_s"] - (told["detection_s"] if how == "resign" else 0.0)
    plan = {
        "group": told["group"],
        "election": election,
        "kind": told["kind"],
        "how": how,
        "leader": told["leader"],
        "term": told["term"],
        "members": told["members"],
        "round_trip_s": told["round_trip_s"],
        "disk_s": told["disk_s"],
        "answers_s": answers[len(answers) // 2],
        "simulated": simulate,
        "predicted_s": predicted[len(predicted) // 2],
        "predicted_min_s": predicted[0],
        "predicted_max_s": predicted[-1],
        "bound_s": bound_s,
        "because": told["because"],
    }
    if not as_json:
        click.echo(f"{told['leader']} leads {told['group']} (term {told['term']}), {len(told['members'])} members")
        click.echo(f"  predicted  {_span(predicted)}, {simulate} simulated with this group's own timers")
        click.echo(f"  bound      {bound_s:.3f} s, if nothing is lost and nobody is slow")
    if not yes:
        click.confirm(f"{told['leader']} {WORDS[how]}. Go on?", abort=True, err=True)
    _still(told, leader, witnesses, how, election)
    plan["at"] = datetime.now().astimezone().isoformat(timespec="milliseconds")
    plan |= perform(told, leader, witnesses, how, election, bound_s)
    plan["held"] = plan["measured_s"] is not None and plan["measured_s"] <= bound_s
    place = report or Path(f"doyen-drill-{leader.parent.name}-{datetime.now():%Y%m%d-%H%M%S}.json")
    keep(place, plan)
    if as_json:
        print_json(plan | {"report": str(place)})
    else:
        _tell(plan, place)
    return 0 if plan["held"] else 1


def _leader_here(told: dict[str, Any], nodes: dict[str, Path], election: str) -> Path:
    """Return the leader's socket."""
    if told["leader"] is None:
        raise TransportError("nobody leads, so there is no takeover to rehearse: doyen explain says why")
    for path in nodes.values():
        if ask(path, "leader", election=election)["is_me"]:
            return path
    again = f"doyen drill --group {told['group']}" + (f" --election {election}" if election else "")
    raise LocalProtocolError(
        f"{told['leader']} leads {told['group']}, and it does not run here: on its machine, {again}"
    )


def _check(told: dict[str, Any], leader: Path, witnesses: dict[str, Path], how: str, election: str) -> None:
    """Refuse a drill that would leave the group without a leader, or that nobody here could watch."""
    with suppress(LocalProtocolError):  # This election has no voters.
        voters = ask(leader, "voters", election=election)
        if voters["answering"] is not None:  # Else its lease is over for a moment.
            told["members"] = sorted({told["leader"], *voters["answering"]})
        if how != "resign" and not voters["may_fail"]:
            names = ", ".join(voters["voters"])
            raise ConfigError(
                f"{told['group']} would lose its quorum: none of the voters {names} may fail now; "
                "start those that are down (doyen voters), or use --how resign"
            )
    if len(told["members"]) < 2:
        raise LocalProtocolError(f"{told['leader']} is alone in {told['group']}: start another member first")
    if not witnesses:
        raise LocalProtocolError(
            f"only {told['leader']} itself runs here, and it cannot watch how it is replaced: "
            "run the drill where another member runs, too, or with --how resign"
        )


def _still(told: dict[str, Any], leader: Path, witnesses: dict[str, Path], how: str, election: str) -> None:
    """Refuse where the group has changed since it was looked at: a simulation takes seconds, and a person minutes."""
    now = ask(leader, "leader", election=election)
    if not now["is_me"] or now["term"] != told["term"]:
        raise LocalProtocolError(
            f"{told['leader']} no longer leads {told['group']} in term {told['term']}: "
            "nothing was done; run the drill again"
        )
    _check(dict(told), leader, witnesses, how, election)


def _answers(witnesses: dict[str, Path], election: str) -> list[float]:
    """Return what nodes here took to answer, sorted: this machine's own time, which no simulation has.

    All are asked at once, as all of them work at once when a leader is lost.
    """

    def answer_s(path: Path) -> float:
        began = time.monotonic()
        ask(path, "leader", election=election)
        return time.monotonic() - began

    found: list[float] = []
    with ThreadPoolExecutor(len(witnesses)) as pool:
        for _ in range(ASKED):
            time.sleep(ASK_EVERY_S)
            found += pool.map(answer_s, witnesses.values())
    return sorted(found)


def predict(told: dict[str, Any], how: Any, count: int, answers: list[float]) -> list[float]:
    """Return what the simulated takeovers took, sorted."""
    from doyen.node.rebuilt import config_from
    from doyen.testing.rehearsal import How, Machine, rehearse  # It loads the simulator.

    assert how in get_args(How)
    delay_s = LONE_DELAY_S if told["round_trip_s"] is None else told["round_trip_s"] / 2
    found: list[float] = []
    config = config_from(told["config"])
    on = Machine(delay_s=delay_s, step_s=sum(answers) / len(answers), disk_s=told["disk_s"])
    with progress("simulating", count) as show:
        for took in rehearse(config, told["members"], how, kind=told["kind"], on=on, count=count):
            found.append(took)
            show(1)
    return sorted(found)


def perform(
    told: dict[str, Any], leader: Path, witnesses: dict[str, Path], how: str, election: str, bound_s: float
) -> dict[str, Any]:
    """End the reign, and watch until another member acts; return who did, and when each witness named it."""
    pid = ask(leader, "status")["pid"]
    patience_s = max(PATIENCE_MIN_S, PATIENCE * bound_s)
    found: dict[str, Any] = {"measured_s": None, "next": None, "next_term": None, "named_s": {}}
    waits: list[str] = []  # Who names itself, and was seen not to act yet.
    began = time.monotonic()
    with _ended(leader, pid, how, election, cooldown_s=bound_s):
        while time.monotonic() < began + patience_s:
            looked = waits if waits and found["measured_s"] is None else [*witnesses]  # First of all, when it acts.
            for stem in looked:
                waited, waits = stem in waits, [other for other in waits if other != stem]
                with suppress(DoyenError):  # It may have ended, too.
                    now = ask(witnesses[stem], "leader", election=election, timeout_s=1)
                    after_s = time.monotonic() - began
                    named = now["leader"]
                    if named in (None, told["leader"]) or now["term"] == told["term"]:
                        continue
                    named_s = round(max(0.0, after_s - now["since_s"]), 4)  # It knows itself since when it names it.
                    named_s = found["named_s"][stem] = min(named_s, found["named_s"].get(stem, named_s))
                    if named in witnesses and not now["is_me"]:
                        waits += [stem] * (named == stem)
                    elif found["measured_s"] is None:
                        acted_s = round(named_s + now["since_s"], 4) if waited else named_s
                        found |= {"measured_s": acted_s, "next": named, "next_term": now["term"]}
            if found["measured_s"] is not None and len(found["named_s"]) == len(witnesses):
                break
            time.sleep(LOOK_S)
    return found


@contextmanager
def _ended(leader: Path, pid: int, how: str, election: str, cooldown_s: float) -> Iterator[None]:
    """End the leader's reign; a process that was stopped is continued in the end, whatever happens."""
    if how == "resign":
        with ThreadPoolExecutor(1) as aside:  # It answers once it has handed over; witnesses are asked meanwhile.
            answer = aside.submit(control.ask, leader, "resign", election=election, cooldown=cooldown_s, timeout_s=60)
            yield
            answer.result()
        return
    try:
        os.kill(pid, signal.SIGKILL if how == "kill" else signal.SIGSTOP)
    except PermissionError:
        raise LocalProtocolError(f"process {pid} is another user's: run the drill as that user, or as root") from None
    except ProcessLookupError:
        raise TransportError(f"process {pid} has ended meanwhile: nothing was done") from None
    try:
        yield
    finally:
        if how == "freeze":
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def keep(place: Path, plan: dict[str, Any]) -> None:
    import msgspec

    place.write_bytes(msgspec.json.format(msgspec.json.encode(plan), indent=2) + b"\n")


def _span(predicted: list[float]) -> str:
    return f"{predicted[len(predicted) // 2]:.3f} s ({predicted[0]:.3f} to {predicted[-1]:.3f})"


def _tell(plan: dict[str, Any], place: Path) -> None:
    if plan["measured_s"] is None:
        click.echo(f"  measured   nobody else has led until now: doyen explain --group {plan['group']}")
    else:
        verdict = "within the bound" if plan["held"] else "LATER than the bound"
        click.echo(
            f"  measured   {plan['measured_s']:.3f} s: {plan['next']} leads (term {plan['next_term']}), {verdict}"
        )
        for name, after_s in sorted(plan["named_s"].items(), key=lambda item: item[1]):
            click.echo(f"             {after_s:.3f} s  {name} names {plan['next']}")
    click.echo(f"kept in {place}")
