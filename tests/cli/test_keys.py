"""`doyen keys`."""

import json
from pathlib import Path

import pytest

from doyen.cli import main
from doyen.errors import ConfigError
from doyen.net.keys import CLEAR, key_id, key_text, new_key, read_keys, write_keys
from doyen.net.rotation import rotate


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


def test_steps_of_a_rotation_can_be_repeated_and_not_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOYEN_RUNTIME_DIR", str(tmp_path / "r"))
    path = tmp_path / "keys"
    file = ("--file", str(path))
    run(capsys, "new", *file)
    (old,) = read_keys(path)
    assert "begin with step 1" in run(capsys, "rotate", "--step", "2", *file)[2]
    assert run(capsys, "rotate", *file)[0] == 0
    assert read_keys(path)[0] == old
    new = read_keys(path)[1]
    code, out, _ = run(capsys, "rotate", *file, "--json")
    assert code == 0 and json.loads(out)["step"] == 1 and read_keys(path) == (old, new)
    assert "step 2 is next" in run(capsys, "rotate", "--step", "3", *file)[2]
    for _ in range(2):
        assert run(capsys, "rotate", "--step", "2", *file)[0] == 0
        assert read_keys(path) == (new, old)
    for _ in range(2):
        code, out, advice = run(capsys, "rotate", "--step", "3", *file)
        assert code == 0 and f"removed {key_id(old).hex()}" in out and "--step" not in advice
        assert read_keys(path) == (new,)
    assert run(capsys, "rotate", *file)[0] == 0  # The next rotation.
    assert read_keys(path)[0] == new and len(read_keys(path)) == 2


def test_a_shared_file_is_rotated_by_one_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOYEN_RUNTIME_DIR", str(tmp_path / "r"))
    waits: list[float] = []
    monkeypatch.setattr("doyen.cli.keys.time.sleep", waits.append)
    path = tmp_path / "keys"
    run(capsys, "new", "--file", str(path))
    (old,) = read_keys(path)
    code, out, advice = run(capsys, "rotate", "--shared", "--file", str(path))
    assert code == 0 and "step 3 of 3" in out and advice == ""
    assert len(read_keys(path)) == 1 and read_keys(path) != (old,)
    assert waits == [3.0, 3.0]  # Members read the file between the steps.
    run(capsys, "new", "--after-clear", "--file", str(path) + "2")
    code, _, error = run(capsys, "rotate", "--file", str(path) + "2")
    assert code == 2 and "on its way to the group's first key" in error


def test_no_rotation_begins_on_the_way_to_the_first_key(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    key = new_key()
    for keys, then in (([CLEAR, key], "doyen keys use ID"), ([key, CLEAR], "doyen keys remove clear")):
        write_keys(path, keys)
        with pytest.raises(ConfigError, match=f"first key: first {then}"):
            rotate(path, 1)
        assert list(read_keys(path)) == keys
