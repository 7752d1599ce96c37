"""Says which files a command may write: a new one, or one of the same sort that a command wrote before.

A file that a person names is never lost by a slip: a recording, a scenario, a configuration or anything else that is
there already is refused before anything runs.  What is overwritten without a word is an earlier report of the same
sort, known by how it begins.
"""

import os
import re
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import click
from msgspec import Struct

from doyen.errors import ConfigError

HEAD_BYTES: Final = 4096


class Sort(Struct, frozen=True):
    """A sort of file that commands write."""

    name: str
    begins: Callable[[bytes], object]  # Whether a file that begins so is one.


def _like(pattern: bytes) -> Callable[[bytes], object]:
    return re.compile(pattern, re.DOTALL).match


PICTURE: Final = Sort(
    "a picture", _like(rb'<svg xmlns="[^"]*" viewBox="0 0 [^>]*font-family="sans-serif" font-size="13"')
)
INCIDENT: Final = Sort("a postmortem", _like(rb"<!DOCTYPE html>\n.*?<title>doyen</title>\n"))
DRILL: Final = Sort("a report of a drill", _like(rb'\{\s*"group": [^\n]*\n.*?"predicted_s":'))
TRACE: Final = Sort("a trace", _like(rb" *\d+\.\d{9}  [a-z]+ +\S"))
REPLAYS: Final = Sort("a list of runs to replay", _like(rb"doyen sim replay "))
MEMBERSHIPS: Final = Sort("a membership trace", _like(rb'\{"format":"[^"]*","version":\d+,"membership":'))
COUNTEREXAMPLE: Final = Sort("a counterexample", _like(rb"# A counterexample of `doyen check`;"))
REPORT: Final = Sort(
    "a report of papers", _like(rb"<!DOCTYPE html>\n[^\n]*\n<title>doyen: the papers, reproduced</title>")
)


class OutputFile(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """Takes a file to be written, before anything runs: its folder must be there, and it must not replace another sort.

    Without a sort the command only changes a part of the file, and does that itself.
    """

    name = "file"

    def __init__(self, sort: Sort | None = None) -> None:
        self.sort = sort

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(value)
        if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
            self.fail(f"{value} cannot be written: give a file in a folder that exists", param, ctx)
        if self.sort is not None and (why := why_kept(path, self.sort)):
            self.fail(why, param, ctx)
        return path


def plot_flag(about: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the flag that names a picture to be written."""
    return click.option("--plot", type=OutputFile(PICTURE), help=f"Write a picture (SVG): {about}.")


def check_kept(paths: Iterable[Path], sort: Sort, flag: str) -> None:
    """Refuse to write these files if one of them is there and is of another sort."""
    for path in paths:
        if why := why_kept(path, sort):
            raise ConfigError(f"{flag} {why}")


def why_kept(path: Path, sort: Sort) -> str:
    """Return why that file is not overwritten; "" if it may be: it is new, empty, of this sort, or no file on disk."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return ""  # A terminal, a pipe.
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{path} cannot be written: {error.strerror or error}"
    if not head or sort.begins(head):
        return ""
    return f"{path} is there already, and is not {sort.name} of doyen's: give another name, or remove it first"
