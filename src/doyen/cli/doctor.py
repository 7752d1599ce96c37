"""`doyen doctor`: what is wrong here, and what to do about it."""

import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal

import click
from msgspec import Struct

from doyen.cli.local import ask
from doyen.cli.nodeflags import NodeCommand, chosen_node
from doyen.cli.output import json_flag, print_json
from doyen.cli.voters import in_words
from doyen.core.clock import at_most, seconds
from doyen.core.ids import Incarnation, NodeId
from doyen.errors import ConfigError, DoyenError
from doyen.net.keys import CLEAR, exposure, id_text, read_keys
from doyen.net.own_address import is_loopback
from doyen.net.storage import is_node_directory, look_at, write_time_s
from doyen.node.agent import udp_config
from doyen.node.attachments import check
from doyen.node.config import NodeConfig
from doyen.node.control import local_nodes
from doyen.node.lines import BAD, CARE, paint
from doyen.node.outside import outside_of
from doyen.node.registration import is_private, runtime_dir

CONFIRMED_AFTER_S: Final = 1.0  # Two may lead for a moment, while one takes over from the other.


class Finding(Struct, frozen=True):
    verdict: Literal["ok", "note", "wrong"]
    what: str
    advice: str = ""


EXAMPLES = {
    "doyen doctor": "this machine, and the nodes that run here",
    "doyen doctor --config node.toml": "a configuration, too",
}


@click.command(
    "doctor",
    cls=NodeCommand,
    examples=EXAMPLES,
    help="Checks this machine, a configuration, and the nodes that run here.  Exit code 1: something is wrong.",
)
@json_flag
def command(as_json: bool, config_file: Path | None, **given: Any) -> None:
    findings = [*_machine(), *check_configuration(config_file, given), *check_nodes(given.get("group"))]
    wrong = sum(finding.verdict == "wrong" for finding in findings)
    if as_json:
        print_json({"wrong": wrong, "findings": findings})
    else:
        click.echo(f"{wrong or 'nothing'} wrong, {sum(f.verdict == 'note' for f in findings)} worth knowing")
        marks = {"ok": "✓", "note": "·", "wrong": "✗"}
        for finding in findings:
            text = f" {marks[finding.verdict]} {finding.what}" + (f": {finding.advice}" if finding.advice else "")
            click.echo(paint(text, {"note": CARE, "wrong": BAD}.get(finding.verdict, ""), sys.stdout))
    sys.exit(1 if wrong else 0)


def _machine() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding("ok", f"Python {version}")
    late = max(_oversleep() for _ in range(20))
    yield Finding(
        "ok" if late < 0.05 else "note",
        f"timers are {late * 1000:.0f} ms late at the worst of 20",
        "" if late < 0.05 else "the machine is busy: timers below ten times that will cost false alarms",
    )
    place = runtime_dir()
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        writable = os.access(place, os.W_OK) and is_private(place)
    except OSError:
        writable = False
    yield (
        Finding("ok", f"control sockets in {place}")
        if writable
        else Finding("wrong", f"no control socket can be made in {place}", "set DOYEN_RUNTIME_DIR to a folder of yours")
    )
    try:
        import nacl  # noqa: F401

        yield Finding("ok", "packets can be sealed (PyNaCl)")
    except ImportError:
        yield Finding(
            "note",
            "packets cannot be sealed",
            "pip install 'doyen[secure]', then doyen keys new",
        )


def _oversleep() -> float:
    began = time.monotonic()
    time.sleep(0.002)
    return time.monotonic() - began - 0.002


def _keys(path: Path) -> Iterator[Finding]:
    try:
        keys = read_keys(path)
    except ConfigError as error:
        yield Finding("wrong", "the key file cannot be used", str(error))
        return
    if CLEAR in keys:
        then = "doyen keys use ID, once every member has it" if keys[0] == CLEAR else "doyen keys remove clear"
        yield Finding("note", f"key file {path}: what is not sealed is believed, too", then)
    else:
        yield Finding("ok", f"key file {path}: {id_text(keys[0])} seals")
    what, _, then = exposure(path).rpartition(": ")
    if then:
        yield Finding("wrong", what, then)


def check_configuration(config_file: Path | None, given: dict[str, Any]) -> Iterator[Finding]:
    """Check the configuration that was given.  Of a group that runs here its nodes know best, unless more is given."""
    group = given.get("group") or os.environ.get("DOYEN_GROUP")
    more = any(value not in (None, (), False) for name, value in given.items() if name != "group")
    if config_file is None and (group is None or (not more and local_nodes(group))):
        return
    try:
        config = chosen_node(config_file, given)
        check(config)
        udp = udp_config(config)
        reached_from = udp.multicast_from() if config.multicast else None
        for seed in config.numeric_seeds():
            udp.check_peer(seed)
    except DoyenError as error:
        yield Finding("wrong", "the configuration cannot work", str(error))
        return
    kept = "no" if config.membership_kind() is None else config.membership_name()
    kind = config.election_kind()
    elected = "no" if kind is None else kind.title
    yield Finding("ok", f"group {config.group!r}: {kept} membership, {elected} election")
    yield from _others(config)
    yield from _reach(f"group {config.group!r}", reached_from)
    if kind is not None:
        promise = config.promise(kind)
        yield Finding("note" if promise.sort == "weak" else "ok", f"promise: {promise.in_short}")
        worst = config.worst_case(kind)
        detected, failover = at_most(worst.detection), at_most(worst.failover)
        yield Finding(
            "ok",
            f"preset {config.preset}: a dead leader is noticed in {detected}, replaced in {failover}, at the worst",
        )
    for name, elected_by in config.election_kinds().items():
        if elected_by.other_half is not None:
            outside = outside_of(config, name, elected_by, NodeId(config.name or "doctor"), Incarnation(0))
            yield from (Finding(*found) for found in elected_by.other_half().examine(outside, time.sleep))
    if not config.key_file:
        yield Finding(
            "note", "no key: anybody who can send to this group can speak in it", "doyen keys new, then --key-file"
        )
    else:
        yield from _keys(Path(config.key_file))
    if not config.state:
        yield Finding("note", "no state directory: terms begin anew after a restart", "--state DIR")
    else:
        yield from _state(Path(config.state), config)
    with socket.socket(socket.AF_INET6 if ":" in udp.bind.host else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((udp.bind.host, udp.bind.port))
            yield Finding("ok", f"can listen on {udp.bind}")
        except OSError as error:
            advice = "a node may run there already" if error.errno == 98 else "see `ip address`"
            yield Finding(
                "note" if error.errno == 98 else "wrong", f"cannot listen on {udp.bind}: {error.strerror}", advice
            )


def _others(config: NodeConfig) -> Iterator[Finding]:
    """Find out whether other members can be found, and whether they know this one."""
    if not config.looks_for_others():
        yield Finding(
            "note",
            "this node looks for nobody",
            "--seed HOST, --seeds-file or --multicast, unless the others have this one as a seed",
        )
    for seed in config.seed_addresses():
        if seed not in config.numeric_seeds():
            try:
                found = {entry[4][0] for entry in socket.getaddrinfo(seed.host, seed.port, type=socket.SOCK_DGRAM)}
                yield Finding("ok", f"seed {seed}: {', '.join(sorted(map(str, found)))}")
            except OSError as error:
                yield Finding(
                    "note", f"seed {seed} has no address now: {error.strerror}", "it is looked up again forever"
                )
    votes = any(kind.needs.voters for kind in config.election_kinds().values())
    if votes and config.name not in config.voters:
        who = repr(config.name) if config.name else "a process without --name"
        yield Finding("note", f"{who} is none of the voters: it follows and never leads", "--name, as in --voters")


def _state(directory: Path, config: NodeConfig) -> Iterator[Finding]:
    there = next(place for place in (directory, *directory.absolute().parents) if place.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        yield Finding(
            "wrong", f"cannot write to the state directory {directory}", f"give this user {there}, or another"
        )
        return
    own = directory / config.name
    kept = look_at(own) if config.name and is_node_directory(own) else []
    damaged = [found.file for found in kept if found.damage]
    if damaged:
        yield Finding("wrong", f"state of {config.name}: {', '.join(damaged)} is damaged", f"doyen state show {own}")
    elif config.name in config.voters and len(kept) < 2 and not config.newcomer:  # Who it is, and what it promised.
        yield Finding(
            "note",
            f"{config.name} has promised nothing yet, so it will not vote",
            "doyen state init, or --newcomer once",
        )
    else:
        yield Finding("ok", f"state in {own}")
    yield from _disk(there, config)


def _disk(directory: Path, config: NodeConfig) -> Iterator[Finding]:
    """Measure a write, on which a voter's answers depend."""
    try:
        write = seconds(write_time_s(directory))
    except OSError as error:
        yield Finding("wrong", f"cannot write in {directory}: {error.strerror}", "free space, or give another")
        return
    took = f"a write to {directory} takes {at_most(write)}"
    kind = config.election_kind()
    if kind is None or not kind.needs.disk:
        yield Finding("ok", took)
        return
    settled = at_most(config.worst_case(kind, write).settling)
    took = f"{took}: with it a leader is there in {settled} after the last fault, at the worst"
    lease = kind.lease(config.table(kind.table))
    if lease is not None and write > lease // 4:
        advice = f"a faster disk, or --{kind.table.name}-lease of {at_most(4 * write)} or more"
        yield Finding("note", f"{took}; a leader that writes as slowly may lose its lease of {at_most(lease)}", advice)
    else:
        yield Finding("ok", took)


def check_nodes(group: str | None) -> Iterator[Finding]:
    nodes = local_nodes(group or os.environ.get("DOYEN_GROUP"))
    if not nodes:
        yield Finding("note", "no node runs here", "doyen agent --group NAME, or doyen up")
    answers = []
    for _, path in nodes:
        try:
            told = ask(path, "members", timeout_s=3)
        except DoyenError as error:
            yield Finding("wrong", str(error))
            continue
        answers.append(told)
        who = f"{told['group']}/{told['node']} (pid {told['pid']})"
        if told["leader"] is None:
            yield Finding("wrong", f"{who} knows no leader", "doyen explain says why")
        elif told.get("waits_for"):
            what = f"{who} is named leader, but does not act yet: {told['waits_for']}"
            yield Finding("wrong" if told["advice"] else "note", what, told["advice"] or "it acts soon")
        else:
            yield Finding("ok", f"{who}: {told['leader']} leads, term {told['term']}")
        if told.get("state_lost"):
            then = "start it again; a voter of a quorum under another name, for what it promised is lost"
            yield Finding("wrong", f"{who}: {told['state_lost']}", then)
        yield from not_met(who, told)
        yield from _near(who, told)
        yield from refusals(who, told["refused"])
        yield from _voters(who, path)
        versions = {member["software"] for member in told["members"] if member["software"]}
        if len(versions) > 1:
            yield Finding("note", f"{who}: versions differ: {', '.join(sorted(versions))}", "upgrade the older ones")
        for differing in told.get("differs", ()):
            what, _, then = differing["text"].rpartition(": ")
            if what == told.get("waits_for"):
                continue  # It was said above.
            yield Finding("wrong", f"{who}: {what}", then)
        yield from _reach(who, told.get("multicast_from"))
        for member in told["members"]:
            if told["membership"] != "none" and member["address"] is None and member["state"] in ("alive", "suspected"):
                advice = f"--advertise HOST:PORT on {member['name']}"
                yield Finding("wrong", f"{who}: the address of {member['name']} is unknown", advice)
            if member["state"] == "suspected":
                yield Finding("note", f"{who}: {member['name']} is suspected", "doyen watch shows what becomes of it")
    yield from _two_leaders([path for _, path in nodes], answers)


def _voters(who: str, path: Path) -> Iterator[Finding]:
    """Find out whether a quorum's voters are those that are configured, and how many may still fail."""
    try:
        told = ask(path, "voters", timeout_s=3)
    except DoyenError:
        return  # It has none.
    if not told.get("voters"):
        return
    voters, configured = ", ".join(told["voters"]), ", ".join(told["configured"])
    if sorted(told["voters"]) != told["configured"]:
        yield Finding(
            "note", f"{who}: {voters} vote, but --voters says {configured}", f"--voters {','.join(told['voters'])}"
        )
    if told.get("abstains"):
        what = f"{who} is a voter, and does not vote: it has no record of earlier votes"
        advice = f"doyen state init if nobody of its name ever voted; else doyen voters replace {told['node']} ANOTHER"
        yield Finding("wrong", what, advice)
    if told["earlier"]:
        yield Finding("note", f"{who}: the voters are being changed", "doyen voters, again in a while")
    if told["may_fail"] is not None:
        sort: Literal["ok", "note"] = "ok" if told["may_fail"] > 0 else "note"
        yield Finding(sort, f"{who}: of {voters} {in_words(told['may_fail'])}", "" if sort == "ok" else "doyen voters")


def not_met(who: str, told: dict[str, Any]) -> Iterator[Finding]:
    """Find what was given to a node and has not come true: members that are expected, and seeds."""
    if told.get("would_wait_for") and not told["waits_for"]:
        yield Finding("note", f"{who} could not act as leader yet: {told['would_wait_for']}", told["advice"])
    if told.get("alone"):
        sort: Literal["note", "wrong"] = "wrong" if told.get("silent_seeds") else "note"
        then = "others that it does not hear may lead, too: give all members the address of one, --seed HOST"
        yield Finding(sort, f"{who} leads alone: {told['alone']}", then)
    unresolved = told.get("unresolved_seeds", ())
    for seed in unresolved:
        then = "mend the name, or give an address: --seed HOST:PORT"
        yield Finding("note", f"{who}: the name of seed {seed} does not resolve", then)
    for seed in told.get("silent_seeds", ()):
        if seed not in unresolved:
            then = (
                "start a member there that has seeds too (else it listens on its machine only), or give another --seed"
            )
            yield Finding("note", f"{who}: seed {seed} has not answered", then)


def _near(who: str, told: dict[str, Any]) -> Iterator[Finding]:
    """Find out whether a node listens on this machine only; one that has met nobody may be meant for others."""
    host = (told.get("address") or "").rpartition(":")[0].strip("[]")
    if not host or not is_loopback(host):
        return
    what = f"{who} listens on this machine only ({told['address']}): members on other machines cannot reach it"
    alone = sum(member["state"] in ("alive", "suspected") for member in told["members"]) < 2
    then = "for members on other machines: --seed HOST on all of them, on this one, too" if alone else ""
    yield Finding("note" if alone else "ok", what, then)


def _two_leaders(paths: list[Path], answers: list[dict[str, Any]]) -> Iterator[Finding]:
    """Find groups that more than one node of this machine leads, and not for a moment only."""
    found = _leaders(answers)
    if found:
        time.sleep(CONFIRMED_AFTER_S)
        again = []
        for path in paths:
            with suppress(DoyenError):  # It may have ended meanwhile.
                again.append(ask(path, "status", timeout_s=3))
        later = _leaders(again)
        for which in found:
            names = sorted(found[which] & later.get(which, set()))
            if len(names) > 1:
                group, election = which
                what = f"{group}/{election}" if election else group
                advice = "they do not hear each other: give each the address of another, --seed HOST:PORT"
                if any(group == told["group"] and _differs(told, election) for told in again):
                    advice = "they run different elections: give both the same"
                elif _have_other_keys([told for told in again if told["group"] == group and told["is_leader"]]):
                    advice = "they have different keys: give all members the same key file, --key-file"
                yield Finding("wrong", f"{what} has {len(names)} leaders here: {', '.join(names)}", advice)


def _leaders(answers: list[dict[str, Any]]) -> dict[tuple[str, str], set[str]]:
    """Return who leads, by group and election, where these are more than may lead at once."""
    found: dict[tuple[str, str], set[str]] = {}
    at_once: dict[tuple[str, str], int] = {}
    for told in answers:
        for election, count in told.get("leads", {}).items():
            which = told["group"], election
            found.setdefault(which, set()).add(f"{told['node']} (pid {told['pid']})")
            at_once[which] = max(count, at_once.get(which, 1))
    return {which: leaders for which, leaders in found.items() if len(leaders) > at_once[which]}


def _have_other_keys(leaders: list[dict[str, Any]]) -> bool:
    """Return whether two of these nodes have no key in common; a node without any hears those that have none."""
    rings = [{*told["key_ids"]} or {"clear"} for told in leaders]
    return any(one.isdisjoint(other) for one in rings for other in rings)


def _differs(told: dict[str, Any], election: str) -> bool:
    """Return whether a node has found a member that runs something else in that election."""
    return any(found["election"] == election for found in told.get("differs", ()))


def _reach(who: str, multicast_from: str | None) -> Iterator[Finding]:
    if multicast_from is not None and is_loopback(multicast_from):
        yield Finding(
            "wrong",
            f"{who}: multicast only reaches this machine, for it leaves from {multicast_from}",
            "leave --bind away, or give --interface NAME, or the address of an interface as --bind",
        )


_REFUSED = {
    "namesake": "another process has the same name: give one of them another --name",
    "group": "somebody sends for another group to this port: give one of them another port",
    "version": "a member speaks another version: upgrade the older one",
    "seal": "packets are sealed with another key, or forged: doyen keys list on both sides",
    "clear": "packets are not sealed, and this group has a key: give their sender the key file, --key-file",
    "key": "packets are sealed with a key that is not here: doyen keys list on both sides",
    "no address": "members are known whose address is not: give --advertise on them",
    "too large": "messages do not fit a datagram: shorter names or less --meta",
}


def refusals(who: str, refused: dict[str, int]) -> Iterator[Finding]:
    for reason, count in refused.items():
        if reason in _REFUSED:
            yield Finding(
                "wrong" if reason in ("namesake", "clear", "seal", "key") else "note",
                f"{who}: {count} × {reason}",
                _REFUSED[reason],
            )
