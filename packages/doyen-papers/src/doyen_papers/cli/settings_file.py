"""Writes timers into a node's TOML file: one table changes, everything else stays as it is, to the byte."""

import os
import re
import tomllib
from difflib import unified_diff
from pathlib import Path
from typing import Any

from doyen.errors import ConfigError


def changed(text: str, table: str, values: dict[str, str], where: Path) -> str:
    """Return the text of a TOML file with these values, all of them text, in that table.

    Raises `ConfigError` if the result would not be exactly the old file with these values: the table may be written in
    a way that is not understood here.
    """
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"--apply {where} is not TOML: {error}; nothing was written") from None
    lines = text.splitlines()
    head = next((i for i, line in enumerate(lines) if re.fullmatch(rf"\s*\[\s*{table}\s*\]\s*(#.*)?", line)), None)
    if head is None:
        lines += ["", f"[{table}]"] if lines else [f"[{table}]"]
        head = len(lines) - 1
    end = next((i for i in range(head + 1, len(lines)) if re.match(r"\s*\[", lines[i])), len(lines))
    for field, value in values.items():
        found = re.compile(rf"(\s*{field}\s*=\s*)(\"[^\"]*\"|[^\s#\"]+)(\s*(#.*)?)")
        at = next((i for i in range(head + 1, end) if found.fullmatch(lines[i])), None)
        if at is None:
            lines.insert(head + 1, f'{field} = "{value}"')
            end += 1
        else:
            lines[at] = found.sub(rf'\g<1>"{value}"\g<3>', lines[at])
    after = "\n".join(lines) + "\n"
    if _read(after) != before | {table: _table(before, table) | values}:
        raise ConfigError(f"--apply {where} has its table {table} in a form that cannot be changed here: do it by hand")
    return after


def difference(before: str, after: str, where: Path) -> str:
    """Return the lines that change, as `diff -u` shows them."""
    return "\n".join(unified_diff(before.splitlines(), after.splitlines(), str(where), str(where), lineterm="", n=1))


def write(where: Path, text: str) -> None:
    """Replace the file by one of the same rights, all at once."""
    beside = where.with_name(f".{where.name}.new")
    try:
        rights = where.stat().st_mode & 0o777 if where.exists() else 0o644
        beside.write_text(text, encoding="utf-8")
        beside.chmod(rights)
        os.replace(beside, where)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise ConfigError(f"--apply {where}: {error.strerror}: nothing was written") from None


def _read(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _table(read: dict[str, Any], table: str) -> dict[str, Any]:
    found = read.get(table, {})
    return found if isinstance(found, dict) else {}
