"""Whatever is wrong on a node's command line is one line that names the flag, and exit code 2; never a traceback."""

import io
import json
import sys
from pathlib import Path

import pytest

from doyen.cli import COMMANDS, main


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    out, err = capsys.readouterr()
    assert isinstance(end.value.code, int)
    return end.value.code, out, err


NODE = {
    "": "--group is missing",
    "--group g --bind nope": "--bind 'nope' is not an address",
    "--json --group g --seed ::1": "--seed '::1' is not an address",
    "--group g --advertise :": "--advertise ':' is not an address",
    "--group g --seed=": "--seed '' is not an address",
    "--group g --seed :": "--seed ':' is not an address",
    "--group g --seed 10.0.0.300": "--seed '10.0.0.300' is not an address: each of the four numbers must be 0 to 255",
    "--group g --http nope": "--http 'nope' is not an address",
    "--group g --multicast nope": "--multicast 'nope' is not an address",
    "--group g --election foo": "--election 'foo': One of fast, gossip, quorum",
    "--group g --election pole": "--voters must name all members that vote",
    "--group g --election pole --voters a": "--state must name a directory",
    "--group g --election hybrid --membership none": "--membership none cannot carry",
    "--group g --preset lam": "--preset 'lam': do you mean lan? One of local, lan, wan, iot",
    "--group g --preset mars": "--preset 'mars': One of local, lan, wan, iot",
    "--group g --standing nan": "--standing nan is not a standing",
    "--group g --meta x": "--meta 'x' is not key=value",
    "--group g --attribute x": "--attribute 'x' is not name:min:max:weight",
    "--group g --measure x": "--measure 'x' is not name=number",
    "--group g --swim-period soon": "--swim-period 'soon' is not a duration",
    "--group g --config /nope.toml": "--config /nope.toml: No such file",
    "--group g --bogus": "there is no option --bogus (see doyen ",
}


@pytest.mark.parametrize("flags", NODE)
@pytest.mark.parametrize("command", ["agent", "run"])
def test_a_nodes_flags(capsys: pytest.CaptureFixture[str], command: str, flags: str) -> None:
    code, out, err = run(capsys, command, *flags.split(), *(["--", "true"] if command == "run" else []))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("doyen: ") and NODE[flags] in err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("membrs", "No such command 'membrs': do you mean members?"),
        ("xyzzy", "No such command 'xyzzy'"),
        ("resign --cooldown soon", "--cooldown 'soon' is not a duration"),
        ("run --group g -- /etc/passwd", "or it may not be executed"),
    ],
)
def test_mistakes_on_the_command_line(capsys: pytest.CaptureFixture[str], line: str, said: str) -> None:
    code, out, err = run(capsys, *line.split())
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err


@pytest.mark.parametrize("command", ["members", "leader", "watch", "explain", "resign", "leave", "join 10.0.0.1:7600"])
def test_asking_where_nobody_runs_says_so(
    capsys: pytest.CaptureFixture[str], command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOYEN_RUNTIME_DIR", str(tmp_path))
    code, out, err = run(capsys, *command.split(), "--group", "nobody")
    assert (code, out, err.count("\n")) == (1, "", 1) and "runs here" in err


@pytest.mark.parametrize("command", ["", "keys", "state", "sim", "score", "analyze", "bench", "lab", "papers"])
def test_a_command_without_its_subcommand_shows_them_readably(capsys: pytest.CaptureFixture[str], command: str) -> None:
    code, out, err = run(capsys, *command.split())
    assert (code, out) == (2, "")
    assert err.startswith("Usage: doyen") and ("\nCommands:\n" if command else "\nStart:\n") in err


def test_what_a_terminal_cannot_show_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def shown(*arguments: str) -> bytes:
        written = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="latin-1"))
        with pytest.raises(SystemExit) as end:
            main(list(arguments))
        sys.stdout.flush()
        assert end.value.code == 0
        return written.getvalue()

    assert b"-- COMMAND [ARG?]" in shown("run", "--help")
    told = json.loads(shown("presets", "--election", "by-key", "--json"))  # JSON is UTF-8 everywhere.
    assert "2·T_l" in told["presets"][0]["because"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(capsys: pytest.CaptureFixture[str], command: str) -> None:
    code, out, err = run(capsys, command, "--help")
    assert (code, err) == (0, "") and out.startswith(f"Usage: doyen {command}")
    assert max(map(len, out.splitlines())) <= 110
