"""`doyen keys`: the keys of a group, in a file that every member has; running members follow its changes."""

from pathlib import Path
from typing import Any

import click

from doyen.cli.output import print_json
from doyen.errors import ConfigError
from doyen.net.keys import KEYS_MAX, key_id, key_text, new_key, parse_key, read_keys, write_keys

_file = click.option(
    "--file",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    default="doyen.keys",
    show_default=True,
    envvar="DOYEN_KEY_FILE",
    help="The key file, the same on every member.",
)
_json = click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")


@click.group("keys", help="Keys of a group: make, list, add, use, remove.  Running members follow the file.")
def command() -> None: ...


@command.command("new", help="Make a key file with one new key.")
@_file
@_json
def new(path: Path, as_json: bool) -> None:
    if path.exists():
        raise ConfigError(f"--file {path} exists: add a key to it with `doyen keys add --file {path}`, or remove it")
    _save(path, [new_key()], as_json, "made", f"copy it to every member, and start them with --key-file {path}")


@command.command("list", help="The ids of the keys in the file; the keys themselves only with --secret.")
@_file
@click.option("--secret", is_flag=True, help="Show the keys, too.")
@_json
def list_(path: Path, secret: bool, as_json: bool) -> None:
    _show(path, read_keys(path), as_json, secret=secret)


@command.command("add", help="Add a key that opens but does not seal: one given, or a new one.")
@_file
@click.argument("key", required=False)
@_json
def add(path: Path, key: str | None, as_json: bool) -> None:
    keys = read_keys(path)
    if len(keys) >= KEYS_MAX:
        raise ConfigError(f"--file {path} has {len(keys)} keys, the most there can be: remove one first")
    added = new_key() if key is None else parse_key(key)
    if added in keys:
        raise ConfigError(f"KEY {key_id(added).hex()} is in --file {path} already")
    advice = f"once every member has it: doyen keys use {key_id(added).hex()} --file {path}"
    _save(path, [*keys, added], as_json, "added", advice, key_id(added).hex())


@command.command("use", help="Seal with that key from now on.")
@click.argument("id")
@_file
@_json
def use(id: str, path: Path, as_json: bool) -> None:
    keys = read_keys(path)
    chosen = _find(keys, id, path)
    others = [key for key in keys if key != chosen]
    advice = f"once every member uses it, remove the old: doyen keys remove {key_id(keys[0]).hex()} --file {path}"
    _save(path, [chosen, *others], as_json, "uses", advice if chosen != keys[0] else "", key_id(chosen).hex())


@command.command("remove", help="Forget a key: what it sealed is no longer opened.")
@click.argument("id")
@_file
@_json
def remove(id: str, path: Path, as_json: bool) -> None:
    keys = read_keys(path)
    chosen = _find(keys, id, path)
    if chosen == keys[0]:
        raise ConfigError(f"ID {id} seals: use another first (doyen keys use ID --file {path})")
    _save(path, [key for key in keys if key != chosen], as_json, "removed", "", key_id(chosen).hex())


def _find(keys: tuple[bytes, ...], id: str, path: Path) -> bytes:
    found = [key for key in keys if id and key_id(key).hex().startswith(id.lower())]
    if len(found) != 1:
        known = ", ".join(key_id(key).hex() for key in keys)
        raise ConfigError(f"ID {id!r} names {len(found)} keys of --file {path}: one of {known}")
    return found[0]


def _save(path: Path, keys: list[bytes], as_json: bool, did: str, advice: str, which: str = "") -> None:
    write_keys(path, keys)
    if not as_json:
        click.echo(" ".join(filter(None, (f"{path}:", did, which or key_id(keys[0]).hex()))))
        if advice:
            click.echo(advice, err=True)
    else:
        _show(path, tuple(keys), as_json=True)


def _show(path: Path, keys: tuple[bytes, ...], as_json: bool, *, secret: bool = False) -> None:
    rows: list[dict[str, Any]] = []
    for i, key in enumerate(keys):
        rows.append({"id": key_id(key).hex(), "primary": i == 0, **({"key": key_text(key)} if secret else {})})
    if as_json:
        print_json({"file": str(path), "keys": rows})
        return
    click.echo(f"{path} · {len(keys)} key{'s' if len(keys) > 1 else ''}, {rows[0]['id']} seals")
    for row in rows:
        role = "seals and opens" if row["primary"] else "opens"
        click.echo(f"{row['id']}  {role:<15}{'  ' + row['key'] if secret else ''}".rstrip())
