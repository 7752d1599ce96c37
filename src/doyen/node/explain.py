"""Why this one leads: the answer to `doyen explain`, in words, from what this node saw itself."""

from typing import TYPE_CHECKING

from msgspec import Struct

from doyen.node.chronicle import Chronicle, Entry, clock_text
from doyen.node.promises import promise_of
from doyen.node.reign import Reign

if TYPE_CHECKING:
    from doyen.node.node import Node


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


def explain(node: "Node", chronicle: Chronicle) -> Explanation:
    reign, config = chronicle.reign, node.config
    promise = promise_of(reign.kind, config.rank, config.ring.partition)
    term, which = reign.term, f'"{config.group}"' + (f" / {reign.name}" if reign.name else "")
    if term is None:
        why = chronicle.shortage or (chronicle.ended.text if chronicle.ended else "no election has ended yet")
        sentence = f"Nobody leads {which} as far as {node.name} knows: {why}."
    else:
        who = f"{term.leader} (this node)" if term.leader == node.name else term.leader
        sentence = f"{who} leads {which} (term {term.number}) because {promise.because}."
    lines = [("election", _election_line(chronicle, reign.kind))]
    if reign.term is not None:
        lines.append(("decided", str(chronicle.why)))
    if chronicle.candidates:
        lines.append(("candidates", _candidates_line(node, chronicle)))
    if chronicle.asked and chronicle.initiator == node.name:
        lines.append(("answered", f"{', '.join(chronicle.asked)}{_tolerance(reign)}"))
    if chronicle.started and chronicle.elected and chronicle.elected.clock >= chronicle.started.clock:
        took = (chronicle.elected.clock - chronicle.started.clock) / 1e6
        lines.append(("took", f"{took:.0f} ms, as seen from {node.name}"))
    lease = reign.lease_until()
    left = None if lease is None else max(0.0, (lease - node.clock()) / 1e9)
    if left is not None:
        lines.append(("lease", f"{left:.3f} s left, unless it is renewed"))
    lines.append(("seen", f"by {node.name} alone, since it started: what only others know is not here; ask them, too"))
    lines.append(("promise", promise.in_short))
    return Explanation(
        group=config.group,
        election=reign.name,
        kind=reign.kind,
        node=node.name,
        leader=reign.leader,
        term=None if term is None else term.number,
        sentence=sentence,
        lines=tuple(lines),
        compared={} if reign.term is None else chronicle.why.compared,
        history=tuple(chronicle.entries),
        promise=promise.in_short,
        strong=promise.strong,
        sort=promise.sort,
        lease_left_s=left,
    )


def _election_line(chronicle: Chronicle, kind: str) -> str:
    parts = [kind]
    if chronicle.elected is not None:
        parts.append(f"named here at {clock_text(chronicle.elected.at)}")
    if chronicle.initiator:
        parts.append(f"begun by {chronicle.initiator}")
    if chronicle.ended is not None:
        parts.append(f"after: {chronicle.ended.text}")
    return ", ".join(parts)


def _tolerance(reign: Reign) -> str:
    """Churn-tolerant elections: how many views may lack a member, and how sure that is."""
    point = getattr(reign.machine, "point", None)
    if point is None:
        return ""
    given = reign.machine.config.missing_max
    how = f"estimated, {100 * point.confidence:.0f} % sure" if given == "auto" else "as configured"
    return f" (c+1 = {point.missing_max() + 1}; c = {point.missing_max()} {how})"


def _candidates_line(node: "Node", chronicle: Chronicle) -> str:
    shown = []
    for name in chronicle.candidates[:8]:
        note = node.agent.stack.note(name)  # type: ignore[arg-type]
        shown.append(name if note is None or note.score is None else f"{name} {note.score:g}")
    shown += [f"{name} excluded: suspected {count} times" for name, count in chronicle.excluded[:8]]
    return " · ".join(shown)
