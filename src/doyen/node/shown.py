"""The values that Python, HTTP and the control socket show of a node, made in one place."""

import time

from msgspec.structs import replace

from doyen.core.clock import Instant, to_seconds
from doyen.core.view import Status
from doyen.node.events import Event, MemberInfo, View
from doyen.node.stack import Stack


def members(stack: Stack, now: Instant) -> list[MemberInfo]:
    """Return the members that a node knows, itself included, sorted by name."""
    own = stack.reigns.get("")
    leader = None if own is None else stack.leader_info(own)
    found = []
    for member in stack.members():
        note, due = stack.note(member.node), stack.refute_by(member.node)
        leads = leader is not None and member.node == leader.name
        meta = note.words if note is not None else leader.meta if leader is not None and leads else {}
        since, trip = stack.since.get(member.node), stack.round_trip(member.node)
        found.append(
            MemberInfo(
                name=member.node,
                address=None if member.address is None else str(member.address),
                state=member.status.value,
                since_s=0.0 if since is None else (now - since[1]) / 1e9,
                score=None if note is None else note.score,
                eligible=note is None or note.eligible,
                health=2.0 ** -min(member.suspicion_count, 60),
                incarnation=member.incarnation,
                software="" if note is None else note.software,
                meta=meta,
                suspected_by=stack.accusers(member.node),
                refute_within_s=None if due is None else max(0.0, (due - now) / 1e9),
                rtt_s=None if trip is None or not member.present else to_seconds(trip),
                me=member.node == stack.site.node,
                leads=leads,
            )
        )
    return found


def view(stack: Stack, now: Instant) -> View:
    """Return what a node sees now: its members, and the leader of the group's own election."""
    own = stack.reigns.get("")
    leader = None if own is None else stack.leader_info(own)
    return View(members=tuple(members(stack, now)), leader=leader, at=time.time())


def differ(one: View, other: View) -> bool:
    """Return whether two views differ in more than what changes all the time: ages and round trips."""
    return one.leader != other.leader or _lasting(one) != _lasting(other)


def _lasting(view: View) -> list[MemberInfo]:
    return [replace(member, since_s=0.0, refute_within_s=None, rtt_s=None) for member in view.members]


def already(stack: Stack, now: Instant) -> list[Event]:
    """Return what holds now as events, which a new reader of events gets first: present members, then leaders."""
    wall = time.time()
    found = []
    for member in stack.members():
        if member.present:
            since = stack.since.get(member.node, (member.status, now))[1]
            found.append(
                Event(
                    kind="joined" if member.status is Status.ALIVE else member.status.value,
                    at=wall - to_seconds(now - since),
                    clock=since,
                    member=member.node,
                    state=member.status.value,
                    by=stack.accusers(member.node),
                    incarnation=member.incarnation,
                    address=None if member.address is None else str(member.address),
                    already=True,
                )
            )
    for reign in stack.reigns.values():
        leader = stack.leader_info(reign)
        if leader is not None:
            found.append(
                Event(
                    kind="elected",
                    at=wall - to_seconds(now - reign.since),
                    clock=reign.since,
                    election=reign.name,
                    leader=leader.name,
                    term=leader.term,
                    address=leader.address,
                    reason=str(reign.why),
                    compared=reign.why.compared,
                    already=True,
                )
            )
        if reign.waits_for:
            why = reign.waits_for
            found.append(Event(kind="waiting", at=wall, clock=now, election=reign.name, reason=why, already=True))
    return found
