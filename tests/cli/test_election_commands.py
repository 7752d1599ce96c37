"""Scores, spanning and POLE elections from outside: what is wrong is refused in one line that names it."""

from pathlib import Path

import pytest

from doyen.cli import main

PANEL = 'attributes = ["x", "y"]\n' + "".join(
    f'[[expert]]\nname = "{name}"\nweight = {{weight}}\npreferences = [[0.5, 0.6], [0.4, 0.5]]\n' for name in "ab"
)
ATTRIBUTE = '[[attribute]]\nname = "cpu"\nmin = {low}\nmax = {high}\nweight = {weight}\n'
SPANNING = "sim spanning --graph 0-1,1-2 --quality {quality} --initiators 0"
FILE = 'leader = "c"\n[[centre]]\nname = "w"\nservers = ["a", "b"]\n[[centre]]\nname = "e"\nservers = ["c"]\n'


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    texts = {
        "panel_whole": PANEL.format(weight="9" * 400),
        "panel_great": PANEL.format(weight="1e308"),
        "table": "node,cpu\n0,1\n",
        "wide": ATTRIBUTE.format(low=-1.7e308, high=1.7e308, weight=1),
        "weightless": ATTRIBUTE.format(low=0, high=1, weight=0),
        "quality": "\nNode,Quality\n0,.1\n1,.2\n2,.3\n",
        "far": FILE + '[[link]]\nbetween = ["w", "e"]\nrtt_ms = 1e300\n',
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return {name: tmp_path / name for name in texts}


def run(capsys: pytest.CaptureFixture[str], command: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(command.split())
    out, err = capsys.readouterr()
    return int(end.value.code or 0), out, err


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("score weights {panel_whole}", 'expert "a": weight'),
        ("score weights {panel_great}", "weights are too great"),
        ("score topsis {table} --attributes {wide}", "cpu is too far from max"),
        ("score topsis {table} --attributes {weightless}", "weight 0"),
        (SPANNING + " --fail-link 0-1@1e300", "--fail-link 0-1@1e+300"),
        (SPANNING + " --fail-node 1@1 --recover 1@1e300", "--recover 1@1e+300"),
        (SPANNING + " --pulse nan", "--pulse nan"),
        (SPANNING + " --pulse inf", "--pulse inf"),
        (SPANNING + " --pulse 1e300", "--pulse 1e+300"),
        (SPANNING + " --pulse 3", "--pulse 3 must be from 4"),
        (SPANNING + " --trace /nowhere/at/all", "--trace"),
        ("sim pole --deployment 1 --trace /nowhere/at/all", "--trace"),
        ("sim membership --trace /nowhere/at/all", "--trace"),
        (f"sim pole --deployment 1 --snapshot {'9' * 400}MB", "--snapshot must be 0 to 1 TB"),
        ("sim pole --deployment 1 --oracle preference:p9", "--oracle 'p9': one of p1"),
        ("sim pole --deployment 1 --oracle preference:p1,p1", "--oracle 'preference:p1,p1'"),
        ("sim pole --deployment {far}", "rtt_ms must be 0 to 10000"),
    ],
)
def test_what_is_wrong_is_refused_in_one_line_and_nothing_computed(
    capsys: pytest.CaptureFixture[str], files: dict[str, Path], command: str, says: str
) -> None:
    code, out, err = run(capsys, command.format(**files) + " --json")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err


def test_a_header_may_come_after_an_empty_line(capsys: pytest.CaptureFixture[str], files: dict[str, Path]) -> None:
    code, out, err = run(capsys, SPANNING.format(**files) + " --json")
    assert (code, err) == (0, "")
    assert '"leader":"2"' in out


def test_a_quantum_below_what_floats_can_count_is_none(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "rtt").write_text(",a,b\na,0,1\nb,1,0\n")
    (tmp_path / "rates").write_text("a,1\nb,2\n")
    flags = f"--rtt {tmp_path}/rtt --rates {tmp_path}/rates --oracle latency --quantum 1e-320"
    code, out, err = run(capsys, f"score pole {flags} --json")
    assert (code, err) == (0, "")
    assert '"leader":"b"' in out
