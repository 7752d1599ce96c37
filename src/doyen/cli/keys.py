"""`doyen keys`: the keys of a group, in a file that every member has; running members follow its changes.

"clear" stands among the keys of a group that gets its first while it runs: what is not sealed counts, too.
"""

import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import click

from doyen.cli.local import ask
from doyen.cli.output import json_flag, print_json
from doyen.errors import ConfigError, TransportError
from doyen.net.keys import CLEAR, KEYS_MAX, id_text, key_text, new_key, parse_key, read_keys, write_keys
from doyen.net.keywatch import LOOK_EVERY_S
from doyen.net.rotation import STEPS, rotate
from doyen.node.control import local_nodes

READ_WITHIN_S: Final = 3 * LOOK_EVERY_S  # A member looks every second, and reads what has stood still for one look.

_file = click.option(
    "--file",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    default="doyen.keys",
    show_default=True,
    envvar="DOYEN_KEY_FILE",
    help="The key file, the same on every member.",
)


@click.group("keys", help="Make, list and rotate the keys of a group.  Running members follow the file.")
def command() -> None: ...


@command.command("new", help="Make a key file with one new key.")
@_file
@click.option(
    "--after-clear",
    is_flag=True,
    help="For a group that runs without a key: its members still speak in clear, and already open what is sealed.",
)
@json_flag
def new(path: Path, after_clear: bool, as_json: bool) -> None:
    if path.exists():
        raise ConfigError(f"--file {path} exists: add a key to it with `doyen keys add --file {path}`, or remove it")
    key = new_key()
    if after_clear:
        advice = (
            f"copy it to every member, and restart them one by one with --key-file {path}; "
            f"once all have it: doyen keys use {id_text(key)} --file {path}"
        )
        _save(path, [CLEAR, key], as_json, "made", advice, id_text(key))
    else:
        _save(path, [key], as_json, "made", f"copy it to every member, and start them with --key-file {path}")


@command.command("list", help="Show the ids of the keys in the file; the keys themselves only with --secret.")
@_file
@click.option("--secret", is_flag=True, help="Show the keys, too.")
@json_flag
def list_(path: Path, secret: bool, as_json: bool) -> None:
    _show(path, read_keys(path), as_json, secret=secret)


@command.command("add", help="Add a key that opens but does not seal: one given, or a new one.")
@_file
@click.argument("key", required=False)
@json_flag
def add(path: Path, key: str | None, as_json: bool) -> None:
    keys = read_keys(path)
    if len(keys) >= KEYS_MAX:
        raise ConfigError(f"--file {path} has {len(keys)} keys, the most there can be: remove one first")
    added = new_key() if key is None else parse_key(key)
    if added in keys:
        raise ConfigError(f"KEY {id_text(added)} is in --file {path} already")
    advice = f"once every member has it: doyen keys use {id_text(added)} --file {path}"
    _save(path, [*keys, added], as_json, "added", advice, id_text(added))


@command.command("rotate", help="Change the group's key in three steps; a step that was done changes nothing.")
@_file
@click.option(
    "--step",
    type=click.IntRange(1, STEPS),
    default=1,
    show_default=True,
    help="1 adds a new key, 2 uses it, 3 removes the old one; every member must have the file before the next.",
)
@click.option("--shared", is_flag=True, help="All three at once: every member reads this very file.")
@json_flag
def rotate_(path: Path, step: int, shared: bool, as_json: bool) -> None:
    rotation = None
    for number in range(1 if shared else step, (STEPS if shared else step) + 1):
        if number > 1:
            _refuse_if_unread(path)
        rotation = rotate(path, number)
        if shared and number < STEPS:
            time.sleep(READ_WITHIN_S)
    assert rotation is not None
    if as_json:
        keys = {"file": str(path), "keys": _rows(read_keys(path), secret=False)}
        print_json({**keys, "step": rotation.step, "old": rotation.old, "new": rotation.new})
        return
    did = (
        "added {new}: it opens, and does not seal yet",
        "{new} seals, {old} still opens",
        "removed {old}: {new} seals",
    )
    text = did[rotation.step - 1].format(old=rotation.old, new=rotation.new)
    click.echo(f"{path}: step {rotation.step} of {STEPS}: {text}")
    if not shared:
        after = f"; then: doyen keys rotate --step {rotation.step + 1} --file {path}" if rotation.step < STEPS else ""
        click.echo(
            f"copy the file to every other member (do not rotate there: that makes another key){after}", err=True
        )


def _refuse_if_unread(path: Path) -> None:
    """Raise an error where a node that runs here has not read the file since it changed: it would be cut off."""
    wanted = [id_text(key) for key in read_keys(path)]
    for _, socket in local_nodes():
        told = ask(socket, "status")
        if set(told["key_ids"]) & {*wanted} and told["key_ids"] != wanted:
            raise TransportError(
                f"{told['node']} of group {told['group']} has not read {path} yet: copy it to where {told['node']} has "
                f"its --key-file, and wait {READ_WITHIN_S:g} s"
            )


@command.command("use", help="Seal with that key from now on.")
@click.argument("id")
@_file
@json_flag
def use(id: str, path: Path, as_json: bool) -> None:
    keys = read_keys(path)
    chosen = _find(keys, id, path)
    others = [key for key in keys if key != chosen]
    advice = f"once every member uses it, remove the old: doyen keys remove {id_text(keys[0])} --file {path}"
    _save(path, [chosen, *others], as_json, "uses", advice if chosen != keys[0] else "", id_text(chosen))


@command.command("remove", help="Forget a key: what it sealed is no longer opened.")
@click.argument("id")
@_file
@json_flag
def remove(id: str, path: Path, as_json: bool) -> None:
    keys = read_keys(path)
    chosen = _find(keys, id, path)
    if chosen == keys[0]:
        what = "is what members speak" if chosen == CLEAR else "seals"
        raise ConfigError(f"ID {id} {what}: use another first (doyen keys use ID --file {path})")
    _save(path, [key for key in keys if key != chosen], as_json, "removed", "", id_text(chosen))


def _find(keys: tuple[bytes, ...], id: str, path: Path) -> bytes:
    wanted = id.lower()
    found = [key for key in keys if wanted and (wanted == "clear" if key == CLEAR else id_text(key).startswith(wanted))]
    if len(found) != 1:
        known = ", ".join(id_text(key) for key in keys)
        raise ConfigError(f"ID {id!r} names {len(found)} keys of --file {path}: one of {known}")
    return found[0]


def _save(path: Path, keys: list[bytes], as_json: bool, did: str, advice: str, which: str = "") -> None:
    write_keys(path, keys)
    if not as_json:
        click.echo(" ".join(filter(None, (f"{path}:", did, which or id_text(keys[0])))))
        if advice:
            click.echo(advice, err=True)
        if find_spec("nacl") is None:
            click.echo(
                "members that use it need PyNaCl: pip install 'doyen[secure]'; it is not installed here", err=True
            )
    else:
        _show(path, tuple(keys), as_json=True)


def _show(path: Path, keys: tuple[bytes, ...], as_json: bool, *, secret: bool = False) -> None:
    rows = _rows(keys, secret=secret)
    if as_json:
        print_json({"file": str(path), "keys": rows})
        return
    count = len(keys) - (CLEAR in keys)
    first = "nothing is sealed yet" if keys[0] == CLEAR else f"{rows[0]['id']} seals"
    open_to_all = " · what is NOT sealed is believed, too" if CLEAR in keys else ""
    click.echo(f"{path} · {count} key{'s' * (count != 1)}, {first}{open_to_all}")
    for row in rows:
        verbs = ("speaks", "hears") if row["id"] == "clear" else ("seals", "opens")
        role = " and ".join(verbs) if row["primary"] else verbs[1]
        click.echo(f"{row['id']}  {role:<15}{'  ' + row['key'] if secret else ''}".rstrip())


def _rows(keys: tuple[bytes, ...], *, secret: bool) -> list[dict[str, Any]]:
    return [
        {"id": id_text(key), "primary": i == 0, **({"key": key_text(key)} if secret else {})}
        for i, key in enumerate(keys)
    ]
