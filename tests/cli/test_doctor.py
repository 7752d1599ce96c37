"""What `doyen doctor` says of a configuration: that it works, only if an agent would start with it."""

import socket
from pathlib import Path
from typing import Any

import pytest

from doyen.cli import doctor
from doyen.cli.doctor import Finding, check_configuration
from doyen.net.keys import write_keys
from doyen.node.control import ask


def findings(**given: Any) -> list[Finding]:
    return list(check_configuration(None, {"group": "orders", **given}))


def of(verdict: str, found: list[Finding]) -> str:
    return "\n".join(f"{finding.what}: {finding.advice}" for finding in found if finding.verdict == verdict)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name server that knows ant.example."""

    def look_up(host: str, port: int, **_: Any) -> list[Any]:
        if host != "ant.example":
            raise socket.gaierror(-2, "Name or service not known")
        return [(None, None, 0, "", (address, port)) for address in ("10.0.0.7", "10.0.0.8")]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


@pytest.mark.usefixtures("names")
def test_seeds_may_be_names() -> None:
    found = findings(seeds=("ant.example", "bee.example:7601", "10.0.0.3"), bind="127.0.0.1:0")
    assert not of("wrong", found)
    assert "seed ant.example:7600: 10.0.0.7, 10.0.0.8" in of("ok", found)
    assert "seed bee.example:7601 has no address now: Name or service not known" in of("note", found)


def test_whoever_looks_for_nobody_is_told() -> None:
    assert "looks for nobody: --seed HOST" in of("note", findings())
    assert "looks for nobody" not in of("note", findings(multicast="239.192.0.9:7609"))


def test_what_an_agent_would_refuse_is_wrong(tmp_path: Path) -> None:
    assert "needs a token" in of("wrong", findings(http="0.0.0.0:8080"))
    assert "cannot be written" in of("wrong", findings(record=str(tmp_path / "no/such/folder")))
    (tmp_path / "file").touch()
    assert "cannot write to the state directory" in of("wrong", findings(state=str(tmp_path / "file")))


def test_a_key_file_that_others_can_read_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    write_keys(path, [bytes(32)])
    assert "key file" not in of("wrong", findings(key_file=str(path)))
    path.chmod(0o644)
    assert f"others than its owner can read it (mode 644): chmod 600 {path}" in of(
        "wrong", findings(key_file=str(path))
    )


def test_a_voter_must_be_named_and_say_once_that_it_is_new(tmp_path: Path) -> None:
    pole = {"election": "pole", "voters": ("ant", "bee"), "state": str(tmp_path)}
    assert "a process without --name is none of the voters" in of("note", findings(**pole))
    assert "'cat' is none of the voters" in of("note", findings(name="cat", **pole))
    assert "ant has promised nothing yet" in of("note", findings(name="ant", **pole))
    assert "ant has promised nothing yet" not in of("note", findings(name="ant", newcomer=True, **pole))
    (tmp_path / "ant").mkdir()
    (tmp_path / "ant/identity.state").write_bytes(b"torn")
    assert "identity.state is damaged: doyen state show" in of("wrong", findings(name="ant", **pole))


def test_what_a_node_waits_for_and_seeds_that_are_silent_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    why, then = "2 of the 3 members expected answer", "start the others"
    told = {"group": "g", "pid": 7, "leader": "ant", "term": 1, "refused": {}, "members": [], "membership": "swim"}
    ant = {"node": "ant", "waits_for": why, "would_wait_for": why, "advice": then}
    bee = {"node": "bee", "waits_for": "", "would_wait_for": why, "advice": then}
    seeds = {"silent_seeds": ["10.0.0.9", "no.example"], "unresolved_seeds": ["no.example"]}
    answers = {"ant": told | ant, "bee": told | bee | seeds}
    monkeypatch.setattr(doctor, "local_nodes", lambda group: [("g", tmp_path / name) for name in answers])
    monkeypatch.setattr(doctor, "ask", lambda path, do, timeout_s: answers[path.name])
    found = list(doctor.check_nodes("g"))
    assert of("wrong", found) == f"g/ant (pid 7) is named leader, but does not act yet: {why}: {then}"
    notes = of("note", found).splitlines()
    assert len(notes) == 3 and notes[0] == f"g/bee (pid 7) could not act as leader yet: {why}: {then}"
    assert "no.example does not resolve: mend the name" in notes[1]
    assert "seed 10.0.0.9 has not answered: start a member there" in notes[2]


def test_a_node_that_listens_on_this_machine_only_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"group": "g", "pid": 7, "leader": "ant", "term": 1, "refused": {}, "membership": "swim", "node": "ant"}
    own = {"name": "ant", "state": "alive", "address": "127.0.0.1:7", "software": ""}
    monkeypatch.setattr(doctor, "local_nodes", lambda group: [("g", tmp_path / "ant")])
    what = "g/ant (pid 7) listens on this machine only ({}): members on other machines cannot reach it: {}"
    then = "for members on other machines: --seed HOST on all of them, on this one, too"
    for address, members, verdict, advice in (
        ("127.0.0.1:7", [own], "note", then),
        ("[::1]:7", [own], "note", then),
        ("127.0.0.1:7", [own, own | {"name": "bee"}], "ok", ""),
        ("10.0.0.1:7", [own], "", ""),
    ):
        answer = told | {"address": address, "members": members}
        monkeypatch.setattr(doctor, "ask", lambda path, do, timeout_s, answer=answer: answer)
        found = [one for one in doctor.check_nodes("g") if "listens on" in one.what]
        assert [(one.verdict, f"{one.what}: {one.advice}") for one in found] == (
            [(verdict, what.format(address, advice))] if verdict else []
        )


def test_a_node_that_does_not_answer_is_wrong_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOYEN_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(doctor, "ask", lambda path, do, timeout_s: ask(path, do, timeout_s=0.05))
    (tmp_path / "g").mkdir()
    with socket.socket(socket.AF_UNIX) as stopped:
        stopped.bind(str(tmp_path / "g/ant.sock"))
        stopped.listen()
        assert [finding.what for finding in doctor.check_nodes("g")] == [
            "ant does not answer within 0.05 s: is it stopped, or very busy?"
        ]
