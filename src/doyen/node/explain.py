"""Explains why a member leads: the answer to `doyen explain`, in words, from what this node saw itself."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from doyen.core.clock import Instant
from doyen.core.ids import NodeId
from doyen.node.reign import Entry, Reign, clock_text

if TYPE_CHECKING:
    from doyen.node.node import Node
    from doyen.node.stack import Stack


class Explanation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to `doyen explain`."""

    group: str
    election: str
    kind: str
    node: str  # Whose word this is.
    leader: str | None
    term: int | None
    sentence: str
    lines: tuple[tuple[str, str], ...]
    compared: dict[str, str]  # Who was weighed against whom, as far as this node knows.
    history: tuple[Entry, ...]
    promise: str
    strong: bool
    sort: str  # weak, timed or quorum.
    lease_left_s: float | None = None


def explain(node: "Node", reign: Reign) -> Explanation:
    """Return why a running node names whom it names."""
    agent = node.agent
    differs = [str(found) for found in agent.driver.differing() if found.election == reign.name]
    return explain_at(agent.stack, reign, node.clock(), differs, agent.alone(reign))


def explain_at(stack: "Stack", reign: Reign, now: Instant, differs: Iterable[str] = (), alone: str = "") -> Explanation:
    """Return the same of any node, also of one in a recording or a simulation, at an instant of its own clock."""
    config, account, term, me = stack.config, reign.account, reign.term, stack.site.node
    promise = config.promise(reign.kind)
    which = f'"{config.group}"' + (f" / {reign.name}" if reign.name else "")
    if term is None:
        why = reign.shortage or reign.silence or (reign.ended.text if reign.ended else "no election has ended yet")
        sentence = f"Nobody leads {which} as far as {me} knows: {why}."
    else:
        who = f"{term.leader} (this node)" if term.leader == me else term.leader
        which += f" (term {term.number})"
        sentence = f"{who} leads {which} because {promise.because}."
        if reign.waits_for:
            sentence = f"{who} is named leader of {which}, and does not act yet: {reign.waits_for}."
    lines = [("election", _election_line(reign))]
    if term is not None:
        lines.append(("decided", str(reign.why)))
    if account.candidates and account.initiator in ("", me):  # Else they are of an election that was overtaken.
        lines.append(("candidates", _candidates_line(stack, reign)))
    if account.answered and account.initiator == me:
        lines.append(("answered", f"{', '.join(account.answered)}{account.tolerance(reign.machine)}"))
    if reign.took is not None:
        lines.append(("took", f"{reign.took / 1e6:.0f} ms, as seen from {me}"))
    if reign.waits_for:
        lines.append(("waiting", f"named leader, but does not act yet: {reign.waits_for}"))
    if alone:
        lines.append(("alone", f"{alone}: others that it does not hear may lead, too"))
    if config.expect > 1:
        text = f"{config.expect} members answer at the same time before the first act, and never again after it"
        lines.append(("expect", f"{text}: it is no quorum, and a later partition may have two leaders"))
    lease = reign.lease_until()
    left = None if lease is None else max(0.0, (lease - now) / 1e9)
    if left is not None:
        lines.append(("lease", f"{left:.3f} s left, unless it is renewed"))
    if term is not None and reign.machine is not None and reign.machine.heir is not None:
        lines.append(("heir", f"{reign.machine.heir} would lead next, as {term.leader} says"))
    if reign.baton_bytes:
        lines.append(("baton", f"{reign.baton_bytes} bytes are handed to the next leader"))
    electors = None if reign.machine is None else reign.machine.electors(now)
    if electors is not None and electors.number:
        text = f"{', '.join(electors.voters)} (set {electors.number}, which wins over --voters)"
        lines.append(
            ("voters", text + (f", being changed from {', '.join(electors.earlier)}" * bool(electors.earlier)))
        )
    lines += [("differs", found) for found in differs]
    lines.append(("seen", f"by {me} alone, since it started: what only others know is not here; ask them, too"))
    lines.append(("promise", promise.in_short))
    return Explanation(
        group=config.group,
        election=reign.name,
        kind=reign.kind.name,
        node=me,
        leader=reign.leader,
        term=None if term is None else term.number,
        sentence=sentence,
        lines=tuple(lines),
        compared={} if term is None else reign.why.compared,
        history=tuple(reign.history),
        promise=promise.in_short,
        strong=promise.strong,
        sort=promise.sort,
        lease_left_s=left,
    )


def _election_line(reign: Reign) -> str:
    parts = [reign.kind.title]
    if reign.elected is not None:
        parts.append(f"named here at {clock_text(reign.elected.at)}")
    if reign.account.initiator:
        parts.append(f"begun by {reign.account.initiator}")
    if reign.ended is not None:
        parts.append(f"after: {reign.ended.text}")
    return ", ".join(parts)


def _candidates_line(stack: "Stack", reign: Reign) -> str:
    shown = []
    for name in reign.account.candidates[:8]:
        note = stack.note(NodeId(name))
        shown.append(name if note is None or note.score is None else f"{name} {note.score:g}")
    shown += [f"{name} excluded: suspected {count} times" for name, count in reign.account.excluded[:8]]
    return " · ".join(shown)
