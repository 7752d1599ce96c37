"""Exit codes stay as they are: 0 done, 1 failed, 2 bad input, and what some commands promise besides.

`exits.json` has one line for each command line of `lines.EXITS`.  Those of commands that need a running node, or a
signal, are in `test_live.py`.

    pytest tests/holds/test_exit_codes.py                       compare with what is kept
    HOLDS_REWRITE=1 pytest tests/holds/test_exit_codes.py       write it anew
"""

from pathlib import Path
from typing import Any, Final

import golden
import pytest
import reach
from lines import EXITS, filled, write_files

FILE: Final = "exits.json"


def ends(line: str, folder: Path) -> int:
    """Run one command line in a fresh folder, with nobody running; return its exit code."""
    folder.mkdir(exist_ok=True)
    write_files(folder)
    with pytest.MonkeyPatch.context() as patch:
        reach.shut_off(patch, folder)
        code, _, err = reach.command(*filled(line, folder))
    assert "Traceback" not in err
    return code


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if golden.REWRITE:
        folder = tmp_path_factory.mktemp("exits")
        golden.write(FILE, {line: ends(line, folder / str(number)) for number, line in enumerate(EXITS)})
    return golden.read(FILE)


@pytest.mark.parametrize("line", EXITS)
def test_exit_codes_are_as_they_were(line: str, kept: dict[str, Any], tmp_path: Path) -> None:
    assert ends(line, tmp_path) == kept[line]


def test_every_line_is_kept_and_all_three_codes_occur(kept: dict[str, Any]) -> None:
    assert sorted(kept) == sorted(EXITS)
    assert set(kept.values()) == {0, 1, 2}
