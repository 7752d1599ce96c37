"""A recording may come from somebody else: whatever is in it, it imports, calls, opens and starts nothing."""

import json
import os
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from flights import bodies_of, group, read, replay, solo, write
from fuzz_recordings import changed, values_changed

from doyen.cli import main
from doyen.errors import TransportError
from doyen.net.recording import recorder as recorder_module
from doyen.net.recording.format import Commanded, Header, Heard, Input, Told, encode
from doyen.net.recording.limits import CPU_S, CPU_S_PER_MIB, MEMORY, bounded

HERE = Path(__file__).parent
STACKS: dict[str, dict[str, Any]] = {
    "swim": {"election": "hybrid", "rank": "score", "late": "spanning"},
    "ring": {"election": "by-key", "late": "le-s"},
    "heartbeat": {"election": "preferred", "membership": "heartbeat", "late": "local"},
    "medley": {"election": "announce", "membership": "medley"},
    "pole": {"election": "pole", "voters": ("n0", "n1", "n2"), "volatile": True, "oracle": "latency"},
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return segments of every stack: from the start, and from the middle of an incarnation."""
    found: list[Path] = []
    with pytest.MonkeyPatch.context() as patch:
        numbers = count(1)
        patch.setattr(recorder_module, "older", lambda path: path.with_name(f"{path.name}.{next(numbers)}"))
        patch.setattr(recorder_module, "SIZE_MIN", 0)
        patch.setattr("doyen.node.agent.check", lambda config: None)
        for name, given in STACKS.items():
            folder = tmp_path_factory.mktemp(name)
            group(folder, record_max=3000, **given)
            paths = sorted(folder.glob("n0.*"), key=lambda path: read(path)[0].now)
            found += [paths[0], paths[len(paths) // 2], paths[-1]]
    return found


def fuzzed(recorded: list[Path], seed: int, cases: int) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(HERE / "fuzz_recordings.py"), str(seed), str(cases), *map(str, recorded)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def check(found: dict[str, Any], cases: int) -> None:
    assert found["wrong"] == [] and found["seen"] == {}
    assert found["peak_mib"] < (MEMORY >> 20) + 100  # What the limit leaves, and what the process had before it.
    ends = Counter(found["ends"])
    assert sum(ends.values()) == cases and ends["TransportError"] > cases / 10 and ends["Diverged"] > cases / 100
    assert ends["stopped"] <= cases / 1000  # By the bound on a replay's time.


def test_a_thousand_changed_recordings_do_no_harm(recorded: list[Path], tell: Callable[[str], None]) -> None:
    found = fuzzed(recorded, 1, 1_000)
    tell(f"1,000 changed recordings: {found['ends']}, at most {found['peak_mib']} MiB")
    check(found, 1_000)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 200))
def test_a_million_changed_recordings_do_no_harm(recorded: list[Path], seed: int) -> None:
    check(fuzzed(recorded, seed, 10_000), 10_000)


@pytest.mark.parametrize(
    "body",
    [
        b"\x05",
        b"\xc0",
        b"\xc3",
        b"\xcb" + bytes(8),
        b"\xa1x",
        b"\xc4\x01x",
        b"\x90",
        b"\x80",
        b"",
        b"\x91" * 5000 + b"\x05",
    ],
)
def test_a_frame_that_was_changed_to_next_to_nothing_is_changed_again(body: bytes) -> None:
    """A change of bytes may leave one number of a short frame, and the next change is of its values."""
    for seed in range(50):
        assert isinstance(values_changed(body, Random(seed)), bytes)
        assert all(isinstance(frame, bytes) for frame in changed([body], Random(seed)))


def test_the_watch_sees_what_it_is_there_for(tmp_path: Path) -> None:
    """A fuzz test that could see nothing would find nothing."""
    program = (
        "import sys\nfrom fuzz_recordings import Watch\nwatch = Watch()\nsys.addaudithook(watch)\nwatch.armed = True\n"
        "import colorsys, os, socket\nopen('/dev/null').close()\nos.system('true')\neval('1')\nwatch.armed = False\n"
        "print(' '.join(sorted({seen.split()[0] for seen in watch.seen})))"
    )
    path = os.pathsep.join([str(HERE), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | {"PYTHONPATH": path}, stdout=subprocess.PIPE, check=True
    )
    assert {b"compile", b"exec", b"import", b"open", b"os.system"} <= set(done.stdout.split())


# One by one.


@pytest.mark.parametrize(
    "name",
    [
        *("os:system", "posix:system", "builtins:eval", "builtins:object", "subprocess:Popen", "pathlib:Path"),
        *("doyen.net.storage:Storage", "doyen.net.driver:Driver", "doyen.core.host:Host", "doyen.core.host:Port"),
        *("doyen.errors:TransportError", "functools:partial", "random:Random", "doyen.core.ids:node_id", "no:such"),
    ],
)
def test_a_file_that_names_a_class_of_nobody_here_is_refused(recorded: list[Path], tmp_path: Path, name: str) -> None:
    path = next(path for path in recorded if read(path)[0].state is not None)
    start, chunk, *rest = bodies_of(path)
    header = msgspec.msgpack.decode(start, type=Header)
    assert header.state is not None
    state = msgspec.structs.replace(header.state, classes=[*header.state.classes, name])
    entries = msgspec.msgpack.decode(chunk)
    entries.append([10**6, len(state.classes) - 1, []])
    bent = [encode(msgspec.structs.replace(header, state=state)), encode(entries), *rest]
    with pytest.raises(TransportError, match="it names a class that no machine of this stack has"):
        replay(write(tmp_path / "bent", bent))


def test_a_file_changes_the_type_of_nothing_that_was_built(recorded: list[Path], tmp_path: Path) -> None:
    path = next(path for path in recorded if read(path)[0].state is not None)
    start, chunk, *rest = bodies_of(path)
    state = msgspec.msgpack.decode(start, type=Header).state
    assert state is not None
    built = [entry for entry in msgspec.msgpack.decode(chunk) if entry[0] < len(state.built)]
    changed = 0
    for number, kind, *_ in built[:: len(built) // 12]:
        for other in {"list", "dict", "set", "Random", *(entry[1] for entry in built[:3])} - {kind}:
            entries = msgspec.msgpack.decode(chunk)
            for entry in entries:
                if entry[0] == number:
                    entry[1:] = [other, [], []]
            with pytest.raises(TransportError, match=rf"object {number} is of another type here"):
                replay(write(tmp_path / "bent", [start, encode(entries), *rest]))
            changed += 1
    assert changed > 50


@pytest.mark.parametrize("name", ["on_message", "__class__", "__dict__", "MESSAGES", "no_such", "start"])
def test_a_file_sets_no_attribute_that_its_class_does_not_have(recorded: list[Path], tmp_path: Path, name: str) -> None:
    path = next(path for path in recorded if read(path)[0].state is not None and "membership" in str(bodies_of(path)))
    start, chunk, *rest = bodies_of(path)
    entries = msgspec.msgpack.decode(chunk)
    changed = 0
    for entry in entries:
        if len(entry) > 3 and entry[3] and changed == 0:
            entry[2].append(1)
            entry[3].append(name)
            changed += 1
    assert changed
    with pytest.raises(TransportError, match="has no attribute"):
        replay(write(tmp_path / "bent", [start, encode(entries), *rest]))


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (Told(None, "telephone", encode({})), "is not declared"),
        (Told(None, "score", encode({"number": "one"})), "is not as declared"),
        (Commanded("election", "__init__", encode({})), "is not declared"),
        (Commanded("election", "_become", encode({})), "is not declared"),
        (Commanded("election", "leave", encode({"whom": 1})), "is not as declared"),
        (Commanded("nowhere", "leave", encode({})), "no machine on 'nowhere'"),
        (Heard(b"\xc1"), "malformed"),
        (Heard(encode([1, "recorded", "bee", 1, "e", ["?"]])), "election"),
        (Heard(encode([1, "other group", "bee", 1, "e", []])), "is for group"),
    ],
)
def test_an_input_that_no_recorder_would_have_written_is_refused(tmp_path: Path, given: Any, complaint: str) -> None:
    path = solo(tmp_path, lasting_s=0.0)
    start, first, *_ = bodies_of(path)
    with pytest.raises(TransportError, match=complaint):
        replay(write(tmp_path / "bent", [start, first, encode(Input(10**18, given, []))]))


@pytest.mark.parametrize(
    ("spends", "complaint"),
    [
        # The kernel here looks at the limit of CPU time only every half minute.
        pytest.param("while True: pass", "takes more than 1 s to replay", marks=pytest.mark.soak),
        ("x = bytearray(1 << 31)", "takes more than 1024 MiB"),
    ],
)
def test_what_a_replay_may_take_is_bounded(spends: str, complaint: str) -> None:
    program = (
        "import mmap\nfrom doyen.net.recording import limits\nlimits.CPU_S = 1\n"
        f"try:\n  with limits.bounded(0):\n    {spends}\nexcept limits.TransportError as error: print(error)\n"
        "print(len(mmap.mmap(-1, 1 << 31)))"  # The bounds end with the replay.
    )
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True, text=True)
    assert complaint in done.stdout and done.stdout.endswith(f"{1 << 31}\n")


LIMITS = [None, 0, 5, 10**6, 1 << 40, 1 << 50]


@pytest.mark.parametrize("hard", LIMITS)
@pytest.mark.parametrize("soft", LIMITS)
def test_a_replay_is_never_allowed_more_than_its_process_was(
    monkeypatch: pytest.MonkeyPatch, soft: int | None, hard: int | None
) -> None:
    before = tuple(resource.RLIM_INFINITY if limit is None else limit for limit in (soft, hard))
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda which: before)
    monkeypatch.setattr(resource, "setrlimit", lambda which, limits: asked.append(limits))
    with bounded(0):
        during, asked[:] = tuple(asked), []
    assert len(during) == 2 and asked == [before, before]
    for least, most in during:
        assert most == before[1] and least != resource.RLIM_INFINITY
        assert all(least <= limit for limit in (soft, hard) if limit is not None)


def test_a_replay_may_take_longer_the_larger_its_file_is(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[int, list[int]] = {}

    def noted(which: int, limits: tuple[int, int]) -> None:
        asked.setdefault(which, []).append(limits[0])

    infinite = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    monkeypatch.setattr(resource, "getrusage", lambda who: SimpleNamespace(ru_utime=7.0, ru_stime=0.5))
    monkeypatch.setattr(resource, "getrlimit", lambda which: infinite)
    monkeypatch.setattr(resource, "setrlimit", noted)
    for mib in (0, 1, 64):
        with bounded(mib << 20):
            pass
    seconds = asked[resource.RLIMIT_CPU][::2]
    assert [later - seconds[0] for later in seconds] == [0, CPU_S_PER_MIB, 64 * CPU_S_PER_MIB]
    assert seconds[0] == 8 + CPU_S, "what the process had used before does not count"


def test_a_state_that_lacks_an_attribute_is_refused(recorded: list[Path], tmp_path: Path) -> None:
    """What a machine built here has besides would stay as it was at the start."""
    path = next(path for path in recorded if read(path)[0].state is not None and "membership" in str(bodies_of(path)))
    start, chunk, *rest = bodies_of(path)
    refused = 0
    for place, entry in enumerate(msgspec.msgpack.decode(chunk)):
        if len(entry) > 3 and len(entry[3]) > 1:
            entries = msgspec.msgpack.decode(chunk)
            entries[place][2].pop()
            entries[place][3].pop()
            with pytest.raises(TransportError):
                replay(write(tmp_path / "bent", [start, encode(entries), *rest]))
            refused += 1
            if refused == 5:
                break
    assert refused == 5


def test_a_file_that_ends_before_its_header_is_called_empty(tmp_path: Path) -> None:
    with pytest.raises(TransportError, match="ends before it begins: nothing was recorded"):
        replay(write(tmp_path / "bent", []))


def test_no_escape_in_a_file_reaches_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    header, *inputs = bodies_of(solo(tmp_path))
    said = msgspec.msgpack.decode(header) | {"doyen": "\x1b]0;mine\x07\n\x9b31mthe same"}
    with pytest.raises(SystemExit) as end:
        main(["replay", str(write(tmp_path / "evil.rec", [encode(said), *inputs]))])
    shown = capsys.readouterr().out
    assert end.value.code == 0 and "mine" in shown
    assert all(c == "\n" or c.isprintable() for c in shown)
