"""A request to the directory as single steps, for a real file system and for a simulated one alike.

    doyen.group               which group the directory is for; made once, by a person (`doyen state init`)
    epoch-0000000000000007    who claimed epoch 7: made by an exclusive link, whole at once, never changed
    renewal-0000000000000007  how epoch 7 stands: replaced by its holder at each renewal
    stands-0000000000000008-bee   bee wants to claim epoch 8, with its score

A file is one line of JSON and a line with its checksum.  The highest epoch is never removed, and lower ones only by
the holder of a higher one: so a claim that arrives late, of a number that was used and removed, is seen to be late.
"""

import re
from collections.abc import Generator, Iterable
from typing import Any, Final, TypeAlias, TypeVar
from zlib import crc32

import msgspec
from msgspec import Struct

from doyen.core.hashes import blake2b
from doyen.core.ids import Incarnation, NodeId, TermNumber
from doyen.core.outside import Outside
from doyen.election.directory.messages import Candidate, Found, Phase, ToDirectory, Top

MARKER: Final = "doyen.group"
TEMPORARY: Final = ".doyen-"  # Begins the names of files that are being written.
SIZE_MAX: Final = 4096
REMOVED_MAX: Final = 16  # Files that one renewal removes at most.
SHOWN_MAX: Final = 5

T = TypeVar("T", bound=Struct)


class Unfit(OSError):
    """The directory is not one that this election may use."""


# The steps.


class ListNames(Struct, frozen=True):
    """Return the names of all files."""


class Read(Struct, frozen=True):
    """Return a file's content; None where there is none."""

    name: str


class Link(Struct, frozen=True):
    """Make a file that is whole from its first instant; do nothing where one of that name exists."""

    name: str
    data: bytes


class Replace(Struct, frozen=True):
    """Write a file, whole or not at all."""

    name: str
    data: bytes


class Remove(Struct, frozen=True):
    """Remove a file, if that can be done."""

    name: str


Step: TypeAlias = ListNames | Read | Link | Replace | Remove


# What is in the files.


class Marker(Struct, frozen=True):
    group: str
    election: str = ""


class Claim(Struct, frozen=True):
    epoch: TermNumber
    node: NodeId
    incarnation: Incarnation
    lease: int  # In nanoseconds, as all durations.


class Renewal(Struct, frozen=True):
    epoch: TermNumber
    node: NodeId
    incarnation: Incarnation
    serial: int
    phase: Phase
    lease: int
    free: bool = False
    heir: NodeId | None = None


def packed(record: Struct) -> bytes:
    line = msgspec.json.encode(record)
    return b"%s\n%08x\n" % (line, crc32(line))


def unpacked(data: bytes | None, kind: type[T]) -> T | None:
    """Return the record of a file; None where there is no file, or not a whole one of that kind."""
    line, _, check = (data or b"").partition(b"\n")
    try:
        return msgspec.json.decode(line, type=kind) if check == b"%08x\n" % crc32(line) else None
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


def numbered(kind: str, epoch: int, node: str = "") -> str:
    """Return the name of a file of that epoch; a member's name is spelt so that it can be one."""
    spelt = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else f"%{ord(c):x}." for c in node)
    return f"{kind}-{epoch:016}" + (f"-{spelt}" if spelt else "")


_NUMBERED: Final = re.compile(r"(epoch|renewal|stands)-(\d{16})(-.+)?", re.ASCII)


def epochs(names: Iterable[str], kind: str) -> dict[str, int]:
    """Return the files of that kind, by name, with their epochs."""
    found = {name: match for name in names if (match := _NUMBERED.fullmatch(name))}
    return {name: int(match[2]) for name, match in found.items() if match[1] == kind and int(match[2]) > 0}


# The requests.


def perform(request: ToDirectory, outside: Outside) -> Generator[Step, Any, Found]:
    """Yield the steps of one request; each is sent its result, or has its `OSError` thrown.  Return what was found."""
    me, epoch = (outside.node, outside.incarnation), request.epoch
    match request.do:
        case "stand":
            name = numbered("stands", epoch, outside.node)
            yield Replace(name, packed(Candidate(epoch, outside.node, request.standing)))
        case "claim":
            yield Link(numbered("epoch", epoch), packed(Claim(epoch, *me, request.lease)))
        case "renew":
            made = Renewal(
                epoch, *me, request.serial, request.phase, request.lease, free=request.free, heir=request.heir
            )
            yield Replace(numbered("renewal", epoch), packed(made))
    names: tuple[str, ...] = yield ListNames()
    yield from _check(outside, names)
    claimed = epochs(names, "epoch")
    odd = [name for name in names if name != MARKER and not name.startswith(TEMPORARY) and not _is_ours(name)]
    top: Top | None = None
    if claimed:
        name = max(claimed, key=claimed.__getitem__)
        top, sound = yield from _top(name, claimed[name])
        odd += [] if sound else [name]
    candidates = []
    for name, number in epochs(names, "stands").items():
        if top is None or number > top.epoch:
            found = unpacked((yield Read(name)), Candidate)
            candidates += [found] if found is not None and found.epoch == number else []
    if request.do == "renew" and top is not None and top.epoch == epoch and (top.node, top.incarnation) == me:
        for name in _outdated(names, epoch)[:REMOVED_MAX]:
            yield Remove(name)
    return Found(top, tuple(candidates), tuple(sorted(odd)[:SHOWN_MAX]))


def _check(outside: Outside, names: tuple[str, ...]) -> Generator[Step, Any, None]:
    """Raise `Unfit` unless the directory was prepared for this group and election."""
    if MARKER not in names:
        raise Unfit(
            f"{outside.shared} is not prepared, or not mounted: once, on one host, "
            f"doyen state init --group {outside.group} --election directory --shared {outside.shared}"
        )
    marker = unpacked((yield Read(MARKER)), Marker)
    if marker is None:
        raise Unfit(f"{outside.shared}/{MARKER} cannot be read: prepare another directory")
    if (marker.group, marker.election) != (outside.group, outside.name):
        whose = f"group {marker.group!r}" + (f", election {marker.election!r}" if marker.election else "")
        raise Unfit(f"{outside.shared} belongs to {whose}: give each election a directory of its own")


def _top(name: str, epoch: int) -> Generator[Step, Any, tuple[Top, bool]]:
    """Return how the highest epoch stands, and whether its files can be read."""
    claim_data: bytes | None = yield Read(name)
    renewal_data: bytes | None = yield Read(numbered("renewal", epoch))
    mark = blake2b((claim_data or b"") + b"\0" + (renewal_data or b""), digest_size=8).hexdigest()
    claim, renewal = unpacked(claim_data, Claim), unpacked(renewal_data, Renewal)
    if claim is None or claim.epoch != epoch:
        return Top(epoch, mark), claim_data is None
    who = (epoch, claim.node, claim.incarnation)
    if renewal is None or (renewal.epoch, renewal.node, renewal.incarnation) != who:
        return Top(epoch, mark, claim.node, claim.incarnation, lease=claim.lease), renewal_data is None
    # A claimant that does not act yet may still be waiting for a longer lease than its own.
    lease = renewal.lease if renewal.phase == "acting" or renewal.free else max(claim.lease, renewal.lease)
    return Top(epoch, mark, claim.node, claim.incarnation, renewal.phase, renewal.free, lease, heir=renewal.heir), True


def _outdated(names: Iterable[str], epoch: int) -> list[str]:
    """Return the files that tell of the time before an epoch was held."""
    names = tuple(names)
    older = [name for kind in ("epoch", "renewal") for name, number in epochs(names, kind).items() if number < epoch]
    return sorted(older + [name for name, number in epochs(names, "stands").items() if number <= epoch])


def _is_ours(name: str) -> bool:
    return any(epochs((name,), kind) for kind in ("epoch", "renewal", "stands"))
