"""Why a node names this leader: in a few words, and with the values that were compared, as far as it knows them.

Told with every leader (`elected` in the log), so that each decision can be followed afterwards.  Whoever did not decide
says whose word it takes; that one's log has the values.
"""

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from doyen.core.ids import NodeId, Term
from doyen.core.leadership import LeaderLost

if TYPE_CHECKING:
    from doyen.node.chronicle import Chronicle
    from doyen.node.reign import Reign

SHOWN_MAX = 16  # Of those compared; a log line stays a line.


class Reasons(Struct, frozen=True):
    text: str
    compared: dict[str, str] = {}  # By name: a standing, a score, a rank.

    def __str__(self) -> str:
        shown = ", ".join(f"{name} {value}" for name, value in self.compared.items())
        return f"{self.text} ({shown})" if shown else self.text


def reasons(reign: "Reign", chronicle: "Chronicle", term: Term) -> Reasons:
    machine = reign.machine
    if machine is None:
        return Reasons("named while it started")
    match reign.kind:
        case "announce" | "le-a" | "le-s" | "le-m":
            return _announced(machine, term)
        case "base" | "optimistic" | "preferred" | "hybrid":
            return _counted(machine, chronicle, term)
        case "pole":
            return _granted(machine, chronicle, term)
        case "spanning":
            best = machine.leader
            found = {} if best is None else {best.node: f"{best.quality:g}"}
            return Reasons("greatest quality in reach", found | {machine.me: f"{machine.standing:g}"} | found)
        case "by-key":
            if term.leader != machine.me:
                return Reasons(f"{term.leader} says that it owns the key, and its neighbours agree")
            agreed = ", ".join(sorted(machine.granted)) or "there is no other"
            return Reasons(f"this node is closest to the key, and its neighbours agree: {agreed}")
        case "local":
            return Reasons("lowest hash in this node's view", _ranks(machine.rank, sorted(machine.considered)))
        case _:
            return Reasons(reign.kind)


def _announced(machine: Any, term: Term) -> Reasons:
    claims = {node: f"{standing:g}" for standing, node in machine.claims}
    if machine.standing is not None and machine.config.leader_is == "best":
        claims.setdefault(machine.me, f"{machine.standing:g}")
    what = "earliest wake-up" if machine.config.leader_is == "earliest" else "greatest standing"
    return Reasons(f"{what} of those heard", _first(claims))


def _counted(machine: Any, chronicle: "Chronicle", term: Term) -> Reasons:
    record = machine.held
    initiator = "" if record is None else record.election.initiator
    how = "" if record is None or record.final else ", for now"
    if initiator != machine.me or not chronicle.candidates:
        return Reasons(f"{initiator or term.leader} counted the answers and told it{how}")
    excluded = {name: f"excluded, suspected {count} times" for name, count in chronicle.excluded}
    ranks = _ranks(machine.point.rank, [NodeId(name) for name in chronicle.candidates if name not in excluded])
    count = len(chronicle.asked)
    text = f"best rank of the candidates of {count} answer{'s' * (count != 1)}{how}"
    return Reasons(text, _first(ranks | excluded))


def _granted(machine: Any, chronicle: "Chronicle", term: Term) -> Reasons:
    ballot = machine.ballot
    best = ballot.best if ballot.epoch == term.number else None
    if best is None or best[1] != term.leader or not chronicle.candidates:
        return Reasons(f"{term.leader} leads epoch {term.number} by the word of a majority")
    score = "/".join(f"{part:g}" for part in best[0])
    others = {name: "less, or later" for name in sorted(chronicle.candidates) if name != term.leader}
    return Reasons("best score of those that proposed", _first({term.leader: score} | others))


def _ranks(rank: Any, names: list[NodeId]) -> dict[str, str]:
    """A hash as its first digits, a score as it was given; the best comes first."""
    ordered = sorted((rank(name), name) for name in names)
    return {name: f"{-value:g}" if isinstance(value, float) else f"#{value:016x}"[:9] for value, name in ordered}


def _first(compared: dict[str, str]) -> dict[str, str]:
    return dict(list(compared.items())[:SHOWN_MAX])


def lost_words(fact: LeaderLost) -> str:
    """The one word of the fact as a clause."""
    return _LOST.get(fact.reason, fact.reason)


_LOST = {
    "silent": "silent: nothing heard of it for too long",
    "gone": "gone: its process has ended",
    "left": "left: on its own word",
    "outranked": "outranked: a better one is named",
    "resigned": "resigned: on its own word",
}
