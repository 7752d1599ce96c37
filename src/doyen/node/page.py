"""The page of a node: its files, and what they draw.  Loaded when somebody opens it.

    GET /                  the page, for a browser; its files are below /page/
    GET /page/now          who leads, why, what is promised, what would unseat it, and the members
    GET /page/lanes        what happened, as lanes (`doyen.eyes.lanes`); what happens next comes by /events?lanes
    GET /page/views        who sees whom: other members are asked for their view, through this node
    POST /resign, /drain   with the token, and the node's name in the header `doyen-confirm`

A log of events begins when the page is first opened; before that a node has only the history of its elections.
"""

import asyncio
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from doyen import __version__
from doyen.core.clock import FOREVER, Duration, Instant
from doyen.core.ids import NodeId
from doyen.errors import DoyenError
from doyen.eyes import assets
from doyen.eyes.lanes import Change, Fold
from doyen.node import shown
from doyen.node.agent import VIEWS
from doyen.node.events import Event
from doyen.node.reign import Reign
from doyen.node.views import Row

if TYPE_CHECKING:
    from doyen.node.node import Node

TICK_S: Final = 0.5  # How often an open page looks whether its node was stopped (SIGSTOP, a suspended machine),
STOPPED_S: Final = 1.5  # which it was if it looks so late.
LEFT_AFTER_S: Final = 60.0  # A page that nobody asks for any more looks no further.
ACT_S: Final = 5.0  # How long a request waits for its action to end.

Answer = tuple[int, str, bytes]


def file(path: str) -> Answer | None:
    """Return a file of the page; None where there is none."""
    found = assets.found("index.html" if path == "/" else path.removeprefix("/page/"))
    return None if found is None else (200, *found)


def page_of(node: "Node") -> "Page":
    """Return the page of that node; the first who asks opens it."""
    attached = node.agent.attached
    if attached.page is None:
        attached.page = Page(node)
        node.agent.listeners.append(attached.page.on_event)
    opened: Page = attached.page
    return opened


class Page:
    """The content of one node's page, in a browser and in a terminal (`doyen top`)."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self.tells: list[Callable[[bytes], None]] = []  # Called with what the lanes gain, as server-sent events.
        self.number = 0  # Of the last change that watchers were told.
        self._folds: dict[str, Fold] = {}
        self._acting: set[asyncio.Task[None]] = set()
        self._asked_at: Instant = 0  # By the node's own clock,
        self._looked: tuple[Instant, float] | None = None  # and when it looked last, also by the wall clock.
        self._timer: asyncio.TimerHandle | None = None
        node.agent.driver.on_close(self._close)
        for name, reign in node.agent.stack.reigns.items():
            self._begin(name, reign)

    def _begin(self, name: str, reign: Reign) -> Fold:
        """Make the lanes of an election from what the node remembers of it."""
        agent = self._node.agent
        count = 1 if reign.machine is None else reign.machine.leader_count
        fold = self._folds[name] = Fold(self._node.group, name, leader_count=count)
        past: list[dict[str, Any]] = [
            {"kind": entry.kind, "at": entry.at, "election": name, "leader": entry.leader, "term": entry.term}
            | {"reason": entry.why}
            for entry in reign.history
            if entry.leader is not None
        ]
        past += map(msgspec.to_builtins, shown.already(agent.stack, self._node.clock()))
        for event in sorted(past, key=lambda event: float(event["at"])):
            fold.add(event)
        return fold

    def on_event(self, event: Event) -> None:
        """Follow an event, and tell watchers what it changes in the lanes of each election."""
        self._look()
        told = msgspec.to_builtins(event)
        for name, reign in self._node.agent.stack.reigns.items():
            if name not in self._folds:
                self._begin(name, reign)
            self._tell(name, self._folds[name].add(told))

    def _tell(self, election: str, done: list[Change]) -> None:
        if not done:
            return
        self.number += 1
        change = {"number": self.number, "election": election, "changes": done}
        for tell in self.tells:
            tell(b"event: lanes\ndata: " + msgspec.json.encode(change) + b"\n\n")

    # Whether its own process was stopped.

    def _look(self) -> None:
        """Find out whether this process was stopped since it looked last, and show it."""
        now, wall = self._node.clock(), time.time()
        before, self._looked = self._looked, (now, wall)
        if before is not None and now - before[0] > STOPPED_S * 1e9:
            for name, fold in self._folds.items():
                self._tell(name, fold.did_not_run(self._node.name, min(before[1] + TICK_S, wall), wall))

    def _look_again(self) -> None:
        self._timer = None
        self._look()
        if self.tells or self._node.clock() - self._asked_at < LEFT_AFTER_S * 1e9:
            self._watch()
        else:
            self._looked = None

    def _watch(self) -> None:
        if self._timer is None and self._node.agent.driver.running:
            self._timer = asyncio.get_running_loop().call_later(TICK_S, self._look_again)

    def _close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _led_since(self, election: str, reign: Reign) -> float | None:
        """Return since when the leader leads, by its own word once that has come, and show it in the lanes."""
        leader = self._node.agent.stack.leader_info(reign)
        if leader is None:
            return None
        fold = self._folds.get(election)
        if fold is not None and leader.since < reign.since_wall:
            self._tell(election, fold.led_before(leader.name, leader.since))
        return leader.since

    # What is asked for.

    def answer(self, path: str, query: dict[str, list[str]], *, may_act: bool) -> dict[str, Any] | None:
        """Return the JSON of a path below /page; None where there is none."""
        self._look()
        self._asked_at = self._node.clock()
        self._watch()
        agent = self._node.agent
        election = query.get("election", [""])[-1]
        if election not in agent.stack.reigns and election:
            return None
        match path:
            case "/page/now":
                return self.now(election, may_act=may_act)
            case "/page/lanes":
                if election not in agent.stack.reigns:
                    return {"number": self.number, "lanes": Fold(self._node.group).whole(time.time())}
                if query.get("number") == [str(self.number)]:  # The asker has them all.
                    return {"number": self.number, "lanes": None}
                fold = self._folds.get(election) or self._begin(election, agent.stack.reigns[election])
                return {"number": self.number, "lanes": fold.whole(time.time())}
            case "/page/views":
                asked = self._ask(election)
                return {"asked": asked, "rows": self.views(election)}
        return None

    def now(self, election: str, *, may_act: bool) -> dict[str, Any]:
        """Return who leads, since when, what is promised, and what would unseat the leader."""
        node, agent = self._node, self._node.agent
        driver, reign = agent.driver, agent.stack.reigns.get(election)
        told: dict[str, Any] = {
            "group": node.group,
            "node": node.name,
            "pid": os.getpid(),
            "version": __version__,
            "at": time.time(),
            "running": driver.running,
            "failure": None if driver.failure is None else str(driver.failure),
            "sealed": driver.seal is not None and not driver.seal.keyring.hears_clear,
            "membership": node.config.membership_name(),
            "elections": sorted(agent.stack.reigns),
            "election": election,
            "may_act": may_act,
            "members": shown.members(agent.stack, node.clock()),
            "leader": None,
        }
        if reign is None:
            return told | {"sentence": "This group elects nobody.", "lines": [], "promise": "", "unseats": []}
        why, lease = node.explain(election), reign.lease_until()
        whole = reign.kind.lease(node.config.table(reign.kind.table))
        return told | {
            "kind": reign.kind.title,
            "leader": reign.leader,
            "term": why.term,
            "since": self._led_since(election, reign),
            "is_me": reign.is_leader(node.clock()),
            "mine": reign.mine is not None,
            "acts": reign.acts(node.clock()),
            "waits_for": reign.waits_for,
            "alone": agent.alone(reign),
            "sentence": why.sentence,
            "lines": why.lines,
            "promise": why.promise,
            "sort": why.sort,
            "heir": None if reign.machine is None else reign.machine.heir,
            "resigns": reign.kind.resigns,
            "lease_left_s": why.lease_left_s if reign.mine is not None else None,
            "lease_s": None if whole is None else whole / 1e9,
            "lease_until": None if lease is None or reign.mine is None else time.time() + (lease - node.clock()) / 1e9,
            "unseats": self._unseats(reign),
        }

    def _unseats(self, reign: Reign) -> list[str]:
        """Return in sentences what would end the present reign."""
        node, leader = self._node, reign.leader
        if leader is None:
            return []
        worst = node.config.worst_case(reign.kind)
        found = [
            f"Silence: {leader} is given up within {_about(worst.detection)} at the worst, and everybody names the "
            f"next within {_about(worst.failover)} ({worst.because})."
        ]
        lease = reign.kind.lease(node.config.table(reign.kind.table))
        electors = None if reign.machine is None else reign.machine.electors(node.clock())
        if lease is not None:
            found.append(f"Its lease: {leader} stops by its own clock {_about(lease)} after its last renewal.")
        if electors is not None and electors.may_fail is not None:
            left = electors.may_fail
            which = f"{len(electors.answering or ())} of {len(electors.voters)} voters answer it"
            more = "no further one may fail" if left <= 0 else f"{left} more may fail"
            found.append(f"Lost votes: {which}; {more}.")
        if reign.kind.resigns:
            found.append(f"Its own word: doyen resign --group {node.group}, where {leader} runs.")
        if reign.kind.heeds_score(node.config.table(reign.kind.table), node.config.rank):
            found.append("A better one: a member with a better score, where the election hands over for it.")
        return found

    def _ask(self, election: str) -> bool:
        """Ask those members that are due to be asked; return whether anybody was."""
        node, agent = self._node, self._node.agent
        now = node.clock()
        known = [NodeId(member.name) for member in shown.members(agent.stack, now) if member.state != "left"]
        reign = agent.stack.reigns.get(election)
        leader = () if reign is None or reign.leader is None else (reign.leader,)  # It alone knows whether it acts.
        heard = agent.driver.addresses.heard_from()
        names = [name for name in dict.fromkeys((*leader, *known, *heard)) if name != node.name]
        questions = agent.views.questions(election, names, now)
        for name, question in questions:
            agent.driver.ask(VIEWS, name, question)
        return bool(questions)

    def views(self, election: str) -> list[dict[str, Any]]:
        """Return what each member sees, as far as it has come here."""
        node, agent = self._node, self._node.agent
        now = node.clock()
        reign = agent.stack.reigns.get(election)
        lease = None if reign is None or reign.mine is None else reign.lease_until()
        own = {
            "name": node.name,
            "age_s": 0.0,
            "asking": False,
            "leader": None if reign is None else reign.leader,
            "term": None if reign is None or reign.term is None else reign.term.number,
            "acts": None if reign is None else reign.acts(now),
            "lease_left_s": None if lease is None else max(0.0, (lease - now) / 1e9),
            "seen": [
                {
                    "name": member.name,
                    "state": member.state,
                    "since_s": member.since_s,
                    "rtt_s": member.rtt_s,
                    "health": member.health,
                    "by": member.suspected_by,
                }
                for member in shown.members(agent.stack, now)
            ],
        }
        states = {member.name: member.state for member in shown.members(agent.stack, now)}
        rows = {n: row for n, row in agent.views.rows.get(election, {}).items() if states.get(n) != "left"}
        # A member that has failed says nothing any more, however new its last word is.
        return [own, *(_row(n, row, now) | {"gone": states.get(n) == "failed"} for n, row in sorted(rows.items()))]

    # What is done.

    async def act(self, path: str, query: dict[str, list[str]], confirmed: str) -> tuple[int, str]:
        """Resign or drain, once the asker has named this node; return a status and what became of it."""
        node = self._node
        if confirmed != node.name:
            return 409, f"confirm it: send the name of this node ({node.name}) in the header doyen-confirm"
        election = query.get("election", [""])[-1]
        campaigns = node.agent.stack.reigns
        if path == "/drain":
            asyncio.get_running_loop().call_later(0.05, lambda: node.spawn(node.leave()))  # The answer leaves first.
            return 202, f"{node.name} leaves the group in order, and ends"
        if election not in campaigns or campaigns[election].mine is None:
            return 409, f"{node.name} does not lead, so it cannot resign"
        campaign = node.election(election) if election else node.own_election
        to = query.get("to", [""])[-1] or None
        task = asyncio.get_running_loop().create_task(campaign.resign(query.get("cooldown", ["30s"])[-1], to))
        self._acting.add(task)
        task.add_done_callback(self._acting.discard)
        await asyncio.wait({task}, timeout=ACT_S)
        if not task.done():
            return 202, f"{node.name} hands over once what acts on its leadership has stopped"
        error = task.exception()
        if isinstance(error, DoyenError):
            return 409, str(error)
        if error is not None:
            raise error
        return 200, f"{node.name} resigned"


def _about(duration: Duration) -> str:
    """Return a time as people say it, in three digits."""
    return "an unbounded time" if duration >= FOREVER else f"{duration / 1e9:.3g} s"


def _row(name: str, row: Row, now: int) -> dict[str, Any]:
    answered = row.heard_at is not None
    return {
        "name": name,
        "age_s": None if row.heard_at is None else (now - row.heard_at) / 1e9,
        "silent": row.unanswered >= 2,
        "asking": row.awaited(now),  # What else stands here is of an earlier look.
        "leader": row.leader,
        "term": row.term,
        "acts": row.acts,
        "lease_left_s": row.lease_left_s,  # When it answered.
        "seen": [_cell(seen) for seen in row.seen.values()] if answered else [],
    }


def _cell(seen: Any) -> dict[str, Any]:
    return {
        "name": seen.name,
        "state": seen.state,
        "since_s": seen.since_ms / 1000,
        "rtt_s": None if seen.rtt_us is None else seen.rtt_us / 1e6,
        "health": 2.0 ** -min(seen.suspicions, 60),
        "by": seen.by,
    }
