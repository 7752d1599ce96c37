"""Nothing that doyen prints, logs or raises has the password of a store's address, or the token of HTTP."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import doyen
from doyen.cli import main
from doyen.core.ids import Incarnation, NodeId
from doyen.core.outside import Outside
from doyen.engines.half import Stores
from doyen.engines.url import parse
from doyen.errors import DoyenError, without_password
from doyen.node.layers import configure

PASSWORD = "hunter2"
URL = f"postgresql://me:{PASSWORD}@127.0.0.1:1/money?sslpassword={PASSWORD}"
TOKEN = "0123456789abcdef-" + PASSWORD


@pytest.mark.parametrize(
    ("text", "open_text"),
    [
        ("redis://me:hunter2@ant:1/0", "redis://…@ant:1/0"),
        ("redis://:hunter2@ant", "redis://…@ant"),
        ("redis://me:hunter2@x@ant", "redis://…@ant"),
        ("redis://me:my hunter2@ant", "redis://…@ant"),
        ("redis://me:a/hunter2@ant", "redis://…@ant"),
        ("postgresql://ant/db?password=hunter2&user=me", "postgresql://ant/db?password=…&user=me"),
        ("['redis://:hunter2@ant']: give one", "['redis://…@ant']: give one"),
        ("no address, me@ant", "no address, me@ant"),
        ("etcd://ant:2379,bee:2379/reports", "etcd://ant:2379,bee:2379/reports"),
    ],
)
def test_a_text_loses_the_passwords_of_its_urls(text: str, open_text: str) -> None:
    assert without_password(text) == open_text
    assert str(DoyenError(text)) == open_text


def test_no_repr_has_it() -> None:
    choice = doyen.Engine(URL, lease="2s")
    config = configure({("group",): "g", ("http_token",): TOKEN, ("election",): "engine", ("shared",): URL})
    outside = Outside(
        node=NodeId("ant"), incarnation=Incarnation(0), group="g", name="", shared=config.shared, config=None
    )
    for value in (choice, config, outside, parse(URL)):
        assert PASSWORD not in repr(value) and PASSWORD not in repr(list(value.__rich_repr__()))
    assert repr(choice) == "Engine(url='postgresql://…@127.0.0.1:1/money?sslpassword=…', lease='2s')"
    assert config.shared == URL  # The one that is used has it.


WRONG = {
    "another already": lambda: doyen.join("g", election=doyen.Engine(URL), shared="etcd://ant"),
    "not a path": lambda: doyen.join("g", state=doyen.Engine(URL)),  # type: ignore[arg-type]
    "share it": lambda: doyen.join("g", election=doyen.Engine(URL, lease="2s"), engine={"lease": "3s"}),
    "neither a name": lambda: doyen.join("g", election=[URL]),  # type: ignore[arg-type]
    "must be several": lambda: doyen.join("g", seeds=URL),
    "an address": lambda: doyen.join("g", seeds=[URL]),
    "is the address of a store": lambda: doyen.join("g", election="directory", shared=URL),
    "no store": lambda: doyen.join("g", election=doyen.Engine(URL.replace("postgresql", "mysql"))),
    "a text": lambda: doyen.join("g", election="engine", shared=[URL]),  # type: ignore[arg-type]
    "a long text": lambda: doyen.join("g", election="engine", shared=[URL.replace("127", "1" * 70)]),  # type: ignore[arg-type]
    "a slash": lambda: doyen.join("g", election=doyen.Engine(f"redis://me:{PASSWORD}/x@ant")),
    "a per cent": lambda: doyen.join("g", election=doyen.Engine(f"postgresql://me:{PASSWORD}%@ant")),
    "a port": lambda: doyen.join("g", election=doyen.Engine(f"redis://me:{PASSWORD}@ant:x")),
}


@pytest.mark.parametrize("case", WRONG)
def test_no_complaint_has_it(case: str) -> None:
    with pytest.raises((doyen.ConfigError, TypeError)) as raised:
        WRONG[case]()
    assert PASSWORD not in str(raised.value), raised.value
    assert PASSWORD not in repr(raised.value)


def test_config_check_and_state_init_do_not_print_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "node.toml"
    url = f"etcd://me:{PASSWORD}@127.0.0.1:1/reports"
    file.write_text(f'group = "g"\nelection = "engine"\nshared = "{url}"\nhttp_token = "{TOKEN}"\n')
    said = ran(capsys, "config", "check", str(file), "--json")
    assert '"shared":"etcd://…@127.0.0.1:1/reports"' in said and PASSWORD not in said
    assert PASSWORD not in ran(capsys, "config", "check", str(file))
    refused = ran(capsys, "state", "init", "--config", str(file))
    assert "etcd://127.0.0.1:1/reports cannot be reached" in refused and PASSWORD not in refused
    monkeypatch.setattr(Stores, "prepare", lambda self, outside: True)
    for flags in ((), ("--json",)):
        said = ran(capsys, "state", "init", "--config", str(file), *flags)
        assert "etcd://…@127.0.0.1:1/reports" in said and PASSWORD not in said


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return all that a command prints."""
    with pytest.raises(SystemExit):
        main([*arguments])
    said = capsys.readouterr()
    return said.out + said.err


@pytest.mark.live
def test_a_node_that_runs_tells_it_nowhere(tmp_path: Path) -> None:
    """The store does not answer, so that there is something to complain about."""
    record = tmp_path / "ant.rec"
    environment = {
        **os.environ,
        "DOYEN_RUNTIME_DIR": str(tmp_path / "r"),
        "DOYEN_GROUP": "g",
        "DOYEN_NAME": "ant",
        "DOYEN_ELECTION": "engine",
        "DOYEN_SHARED": f"etcd://me:{PASSWORD}@127.0.0.1:1",
        "DOYEN_HTTP": "127.0.0.1:0",
        "DOYEN_HTTP_TOKEN": TOKEN,
        "DOYEN_RECORD": str(record),
    }
    command = [sys.executable, "-m", "doyen"]
    with subprocess.Popen(
        [*command, "agent"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as agent:
        try:
            assert agent.stdout is not None
            heard = ""
            while "cannot be reached" not in heard:
                line = agent.stdout.readline()
                assert line, heard
                heard += line
            for question in ("explain", "leader", "members", "doctor", "voters"):
                for flags in ((), ("--json",)):
                    answer = subprocess.run(
                        [*command, question, *flags], env=environment, capture_output=True, text=True, timeout=60
                    )
                    heard += answer.stdout + answer.stderr
        finally:
            agent.send_signal(signal.SIGINT)
            heard += agent.communicate(timeout=30)[0]
    assert heard.count("cannot be reached") >= 2  # It was said, and more than once.
    assert PASSWORD not in heard
    assert PASSWORD.encode() not in record.read_bytes()
