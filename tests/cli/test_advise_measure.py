"""`doyen advise --measure`: the file that it writes, and what it refuses."""

from pathlib import Path

import pytest

from doyen.cli import main
from doyen.errors import ConfigError
from doyen_papers.cli.settings_file import changed, difference, write

BEFORE = """\
# Ours.
group = "orders"   # the only one

[swim]
period = "2s"  # as agreed
helper_count = 2

[pole]
lease = "3s"
"""


def test_one_table_changes_and_all_else_stays_to_the_byte() -> None:
    after = changed(BEFORE, "swim", {"period": "1s", "ack_timeout": "50ms"}, Path("x"))
    assert after == BEFORE.replace('"2s"  #', '"1s"  #').replace("[swim]\n", '[swim]\nack_timeout = "50ms"\n')
    shown = difference(BEFORE, after, Path("x")).splitlines()
    assert [line for line in shown if line[0] in "+-"][2:] == [
        '-period = "2s"  # as agreed',
        '+ack_timeout = "50ms"',
        '+period = "1s"  # as agreed',
    ]
    assert changed(after, "swim", {"period": "1s"}, Path("x")) == after


def test_a_table_that_is_not_there_is_added_also_to_an_empty_file() -> None:
    assert changed("", "swim", {"period": "1s"}, Path("x")) == '[swim]\nperiod = "1s"\n'
    assert changed('group = "g"\n', "swim", {"period": "1s"}, Path("x")) == 'group = "g"\n\n[swim]\nperiod = "1s"\n'


@pytest.mark.parametrize(
    "text",
    [
        'swim = { period = "2s" }\n',
        'swim.period = "2s"\n',
        '[swim]\nperiod = """\n2s"""\n',
        '[swim]\n"period" = "2s"\n',
        "group = \n",
    ],
)
def test_what_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--apply x"):
        changed(text, "swim", {"period": "1s"}, Path("x"))


def test_a_file_keeps_its_rights_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text(BEFORE)
    file.chmod(0o640)
    write(file, "new\n")
    assert file.read_text() == "new\n" and file.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("advise", 2, "--nodes N, or --measure 60s"),
        ("advise --nodes 5 --apply x.toml", 2, "--measure 60s"),
        ("advise --measure 1s", 2, "too short: give at least 5s"),
        ("advise --measure 60s --group nobody", 1, "no node of group 'nobody' runs here"),
    ],
)
def test_bad_input_gets_one_line(
    line: str,
    code: int,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DOYEN_RUNTIME_DIR", str(tmp_path / "run"))
    with pytest.raises(SystemExit) as end:
        main(line.split())
    out, said = capsys.readouterr()
    assert end.value.code == code and out == ""
    assert said.count("\n") == 1 and said.startswith("doyen: ") and words in said
    assert not list(tmp_path.iterdir())
