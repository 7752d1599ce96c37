"""`doyen keys`."""

import json
from pathlib import Path

import pytest

from doyen.cli import main
from doyen.net.keys import CLEAR, key_id, key_text, read_keys


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["keys", *arguments])
    said = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, said.out, said.err


def test_a_rotation_from_the_first_key_to_the_second(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "keys"
    file = ("--file", str(path))
    assert run(capsys, "new", *file)[0] == 0
    (first,) = read_keys(path)
    code, _, advice = run(capsys, "add", *file)
    assert code == 0 and "doyen keys use" in advice
    assert read_keys(path)[0] == first
    second = read_keys(path)[1]
    assert run(capsys, "remove", key_id(first).hex(), *file)[0] == 2  # It seals.
    code, out, _ = run(capsys, "use", key_id(second).hex()[:6], *file, "--json")
    assert code == 0
    assert json.loads(out)["keys"] == [
        {"id": key_id(second).hex(), "primary": True},
        {"id": key_id(first).hex(), "primary": False},
    ]
    assert run(capsys, "remove", key_id(first).hex(), *file)[0] == 0
    assert read_keys(path) == (second,)


def test_the_first_key_of_a_running_group(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "keys"
    file = ("--file", str(path))
    code, _, advice = run(capsys, "new", "--after-clear", *file)
    assert code == 0 and "restart them one by one" in advice and "doyen keys use" in advice
    clear, key = read_keys(path)
    assert clear == CLEAR
    assert "nothing is sealed yet · what is NOT sealed is believed, too" in run(capsys, "list", *file)[1]
    assert "is what members speak" in run(capsys, "remove", "clear", *file)[2]
    code, _, advice = run(capsys, "use", key_id(key).hex(), *file)
    assert code == 0 and "doyen keys remove clear" in advice
    assert read_keys(path) == (key, CLEAR)
    assert json.loads(run(capsys, "list", "--json", *file)[1])["keys"][1] == {"id": "clear", "primary": False}
    assert run(capsys, "remove", "clear", *file)[0] == 0
    assert read_keys(path) == (key,)
    assert "ID" in run(capsys, "use", "clear", *file)[2]  # The way back is not as easy.


def test_secrets_are_shown_only_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "keys"
    run(capsys, "new", "--file", str(path))
    (key,) = read_keys(path)
    for flags in ((), ("--json",)):
        assert key_text(key) not in run(capsys, "list", "--file", str(path), *flags)[1]
        assert key_text(key) in run(capsys, "list", "--file", str(path), "--secret", *flags)[1]


def test_the_same_key_on_another_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for path in (here, there):
        run(capsys, "new", "--file", str(path))
    run(capsys, "add", key_text(read_keys(here)[0]), "--file", str(there))
    assert read_keys(there)[1] == read_keys(here)[0]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("new", "--file", "{has}"), "--file"),
        (("list", "--file", "{none}"), "doyen keys new"),
        (("add", "nonsense", "--file", "{has}"), "not a key"),
        (("use", "ffffffff", "--file", "{has}"), "ID"),
        (("use", "", "--file", "{has}"), "ID"),
        (("new", "--file", "{none}/deeper"), "cannot be written"),
    ],
)
def test_mistakes_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], word: str
) -> None:
    has = tmp_path / "has"
    run(capsys, "new", "--file", str(has))
    given = [part.format(has=has, none=tmp_path / "none") for part in arguments]
    code, out, err = run(capsys, *given)
    assert (code, out) == (2, "") and word in err and err.count("\n") == 1
