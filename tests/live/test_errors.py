"""What a user gets wrong on the command line: one clear line on standard error, the right exit code, no traceback."""

import socket
import subprocess
import sys

import pytest

pytestmark = pytest.mark.live
DOYEN = [sys.executable, "-m", "doyen"]
AGENT = ["agent", "--group", "g", "--name", "a"]
MULTICAST = ["--multicast", "239.192.77.3:27604"]


def shown(value: list[str] | str) -> str:
    return " ".join(value) if isinstance(value, list) else "says"


def complaint(*arguments: str, code: int) -> str:
    """The one line; nothing must go to standard output."""
    done = subprocess.run([*DOYEN, *arguments], capture_output=True, text=True, timeout=20)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("doyen: ")
    assert done.returncode == code, done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--multicast", "10.0.0.1:7600"], "multicast 10.0.0.1 is not a multicast address"),
        (
            ["--bind", "127.0.0.1:0", "--multicast", "[ff12::1]:7600"],
            "multicast ff12::1 and bind 127.0.0.1 are of different IP versions",
        ),
        (["--multicast", "239.1.2.3:0"], "multicast 239.1.2.3:0 needs a port"),
        (["--bind", "[::1]:0", *MULTICAST], "of different IP versions"),
        (["--bind", "host.example:7600"], "bind 'host.example' is not a numeric IPv4 or IPv6 address"),
        (["--bind", "127.0.0.1"], "'127.0.0.1' is not an address: give host:port"),
        (["--bind", "127.0.0.1:70000"], "'127.0.0.1:70000' is not an address: give host:port"),
        (["--interface", "lo"], "interface 'lo' is for multicast"),
        (["--announce-interval", "5parsecs"], "--announce-interval '5parsecs' is not a duration"),
        (["--listen-timeout", "-1s"], "--listen-timeout '-1s' is not a duration"),
        (["--announce-interval", "0"], "announce"),
        (["--leader-is", "worst"], "--leader-is 'worst': One of best, earliest"),
        (["--no-such-flag"], "--no-such-flag"),
    ],
    ids=shown,
)
def test_bad_input_is_one_line_and_exit_2(arguments: list[str], said: str) -> None:
    assert said in complaint(*AGENT, *arguments, code=2)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--bind", "192.0.2.250:0"], "cannot listen on 192.0.2.250:0: this machine has no such address"),
        (["--interface", "nope0", *MULTICAST], "there is no interface 'nope0' here (there are lo"),
        (["--bind", "[::1]:0", "--multicast", "[ff12::d0]:27605"], "no IPv6 multicast on loopback"),
    ],
    ids=shown,
)
def test_what_the_machine_refuses_is_one_line_and_exit_1(arguments: list[str], said: str) -> None:
    assert said in complaint(*AGENT, *arguments, code=1)


def test_a_taken_port_is_one_line_and_exit_1() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        said = complaint(*AGENT, "--bind", f"127.0.0.1:{port}", code=1)
    assert f"cannot listen on 127.0.0.1:{port}: the port is taken: choose another, or 0 for any free one" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--standing", "nan"], "standing"),
        (["--status-every", "0"], "status-every"),
    ],
    ids=shown,
)
def test_bad_input_of_the_agent_is_one_line_and_exit_2(arguments: list[str], said: str) -> None:
    agent = subprocess.Popen([*DOYEN, *AGENT, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with agent:
        try:
            out, error = agent.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            agent.kill()
            out, error = agent.communicate()
    assert (agent.returncode, out, error.count("\n")) == (2, "", 1)
    assert said in error


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["bench", "kill", "--nodes", "1"], "--nodes"),
        (["bench", "kill", "--kills", "0"], "--kills"),
        (["bench", "idle", "--nodes", "251"], "--nodes"),
        (["bench", "idle", "--seconds", "nan"], "--seconds"),
        (["bench", "nothing"], "nothing"),
        (["up", "--for", "soon"], "--for"),
        (["up", "--nodes", "1"], "--nodes"),
    ],
    ids=shown,
)
def test_bad_input_of_other_commands_names_the_flag(arguments: list[str], said: str) -> None:
    assert said in complaint(*arguments, code=2)
