"""The site without the playground's parts, and what its page offers."""

from pathlib import Path
from zipfile import ZipFile

import pytest
from playground import ROOT, SCRIPT

import doyen


def test_without_parts_and_without_a_network_the_site_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(SCRIPT, "FETCHED", tmp_path / "fetched")
    monkeypatch.setenv("PATH", str(tmp_path))  # No npm.
    assert not SCRIPT.build_or_say_why(tmp_path / "site")
    assert capsys.readouterr().err == "the site has no playground: npm is not installed\n"
    assert [file.name for file in (tmp_path / "site").iterdir()] == ["index.html"]
    assert "built without the playground" in (tmp_path / "site" / "index.html").read_text()


def test_a_command_that_fails_is_named_with_its_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(SCRIPT, "FETCHED", tmp_path / "fetched")
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\necho 'npm error network is unreachable' >&2\nexit 1\n")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert SCRIPT.main([str(tmp_path / "site")]) == 1
    said = capsys.readouterr().err
    assert said == f"no playground: npm pack pyodide@{SCRIPT.PYODIDE} failed: npm error network is unreachable\n"
    assert not (tmp_path / "site").exists()


def test_doyen_is_packed_as_it_is(tmp_path: Path) -> None:
    SCRIPT.pack(tmp_path / "doyen.zip")
    with ZipFile(tmp_path / "doyen.zip") as archive:
        packed = {name: archive.read(name) for name in archive.namelist()}
    package = Path(doyen.__file__).parent
    assert packed == {path.relative_to(package.parent).as_posix(): path.read_bytes() for path in package.rglob("*.py")}


def test_every_choice_goes_together() -> None:
    elections = {one["name"]: one for one in SCRIPT.choices()["elections"]}
    assert {"quorum", "gossip", "fast", "by-key", "spanning"} <= elections.keys()
    assert elections["by-key"]["memberships"] == ["auto", "ring"]
    assert all(one["memberships"][0] == "auto" and one["promise"] for one in elections.values())


def test_the_page_has_no_inline_script_or_style_and_names_no_other_origin() -> None:
    for file in (ROOT / "docs" / "playground").iterdir():
        text = file.read_text()
        assert "http://" not in text and "https://" not in text, file
        if file.suffix == ".html":
            assert " style=" not in text and " on" + "click" not in text and "<style" not in text
            assert "script-src 'self' 'wasm-unsafe-eval'" in text
        if file.suffix == ".js":
            assert "innerHTML" not in text and "insertAdjacentHTML" not in text
