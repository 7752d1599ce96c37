"""What `doyen witness`, and an election by a directory, refuse: one line that names the flag, and nothing started."""

from pathlib import Path

import pytest

from doyen.cli import main

VOTERS = ["--voters", "ant,bee,wit", "--state", "state"]


def refused(capsys: pytest.CaptureFixture[str], *line: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(list(line))
    said = capsys.readouterr().err
    assert ended.value.code == 2 and "Traceback" not in said
    return said


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--group", "g", "--name", "wit", "--state", "state"], "--voters must name all members that vote"),
        (["--group", "g", "--name", "wit", "--voters", "ant,bee,wit"], "--state must name a directory"),
        (["--group", "g", *VOTERS], "--name … must be one of --voters ant,bee,wit"),
        (["--group", "g", "--name", "owl", *VOTERS], "--name owl must be one of --voters ant,bee,wit"),
        (["--group", "g", "--name", "wit", *VOTERS, "--election", "gossip"], "there is no option --election"),
        (["--group", "g", "--name", "wit", *VOTERS, "--score", "5"], "there is no option --score"),
        (["--group", "g", "--name", "wit", *VOTERS, "--json", "--text"], "--json and --text exclude each other"),
        (["--name", "wit", *VOTERS], "--group is missing"),
    ],
)
def test_a_witness_refuses(flags: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert words in refused(capsys, "witness", *flags)


def test_a_directory_must_be_given_and_prepared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["--group", "g", "--election", "directory"]
    assert "--shared must name a directory that all members reach" in refused(capsys, "agent", *line)
    lease = [*line, "--shared", str(tmp_path), "--directory-lease", "300ms"]
    assert "--directory-renew-interval must be at most half of lease" in refused(capsys, "agent", *lease)
    (tmp_path / "file").write_text("")
    place = str(tmp_path / "file")
    assert f"--shared {place}: Not a directory" in refused(capsys, "state", "init", *line, "--shared", place)
