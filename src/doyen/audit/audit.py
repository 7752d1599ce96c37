"""Holds recordings against the specification: every step is allowed, or the first that is not is shown."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from doyen.audit.electorates import agree
from doyen.audit.moments import Begin, Deed, End, Log, Message, Moment, Persist, Resume, read
from doyen.audit.order import UNSEEN, Placed, laid
from doyen.audit.rates import misfit
from doyen.audit.spec import FRESH, Beat, Record, Refused, Safety, need
from doyen.core.clock import ms
from doyen.core.ids import NodeId
from doyen.core.leadership import LeaderElected, LeaderLost, VotersChanged
from doyen.election.pole import messages as msg
from doyen.election.pole.electorate import Electorate
from doyen.errors import ConfigError
from doyen.net.recording.format import Durable, Fired

NO_STEPS: Final = ("pass_time", "go_on", "assume_start")  # Time, and what is only looked at.
Step = tuple[str, int, str, tuple[Any, ...]]  # (node, its clock, action, what it was given)


class Fault(Struct, frozen=True):
    """The first step that is not allowed; or, if each is by its node's own clock, two clocks that are too far apart."""

    rule: str
    text: str
    path: str
    line: int  # The number of the input in the file.
    node: str


class Unseen(Struct, frozen=True):
    """Messages of one node that were heard, and whose sending no recording could show."""

    node: str
    # "node", "process": there is no recording of it; "before", "after": its recording has only the rest; "disk": it
    # wrote a later promise than any recording shows.
    why: str
    messages: int

    def __str__(self) -> str:
        heard = f"{self.messages:,} {'message' if self.messages == 1 else 'messages'}"
        return {
            "node": f"{self.node}: there is no recording of it, and others heard {heard} of it",
            "process": f"a process of {self.node} of which there is no recording, and others heard {heard} of it",
            "before": f"{self.node} before its recording begins, of which others heard {heard}",
            "after": f"{self.node} after its recording ends: it went on, or sent its last, and others heard {heard}",
            "disk": f"{self.node} after a recording of it ends: it went on, and wrote a later promise to its disk",
        }[self.why]


class Audit(Struct, kw_only=True):
    """The result of an audit."""

    nodes: list[str]  # Whose recordings there are.
    missing: list[str]  # Voters whose recordings there are not: what they sent is taken on trust.
    steps: dict[str, int]  # How many of each were allowed.
    trusted: int = 0  # Messages and leaders that no recording could show.
    unseen: list[Unseen]  # Whose messages those are: what else it did then is not checked.
    terms: list[tuple[int, str]]  # Who led.
    refused: Fault | None = None
    trace: list[Step]  # All of them, the one that was refused included, if they were to be kept.

    @property
    def complete(self) -> bool:
        """Return whether nothing had to be taken on trust."""
        return not self.trusted and not self.missing


def audit(paths: list[Path], *, keep: bool = False) -> Audit:
    """Hold the recordings of one group against the specification; with `keep`, return every step as well."""
    logs = _joined([read(path) for path in paths])
    agree(logs)
    auditor = _Auditor(logs, keep)
    refused: Fault | None = None
    placed: Placed | None = None
    try:
        for placed in laid(logs):
            auditor.take(placed)
    except Refused as error:
        assert placed is not None
        moment = placed.moment
        refused = Fault(error.rule, error.text, moment.path, moment.line, moment.node)
    if refused is None and (found := misfit(logs)) is not None:
        refused = Fault("rate", str(found), found.heard.path, found.heard.line, found.heard.node)
    recorded = {log.node for log in logs}
    return Audit(
        nodes=sorted(recorded),
        missing=sorted(auditor.voters - recorded),
        steps={action: count for action, count in auditor.counts.items() if action not in NO_STEPS},
        trusted=auditor.trusted,
        unseen=[Unseen(node, why, count) for (node, why), count in sorted(auditor.unseen.items())],
        terms=sorted(auditor.state.led.items()),
        refused=refused,
        trace=auditor.trace,
    )


def _joined(logs: list[Log]) -> list[Log]:
    """Return one log for each node; refuse recordings of several groups."""
    found: dict[str, Log] = {}
    first = logs[0]
    for log in logs:
        if log.group != first.group:
            raise ConfigError(f"{log.paths[0]} is of group {log.group!r}, and {first.paths[0]} of {first.group!r}")
        if (log.config.lease, log.config.guard) != (first.config.lease, first.config.guard):
            raise ConfigError(f"{log.paths[0]} and {first.paths[0]} differ in lease or drift_max: they must not")
        other = found.setdefault(log.node, log)
        if other is not log:
            other.lives += log.lives
            other.lives.sort(key=lambda life: life.incarnation)
            other.paths += log.paths
            if len({life.incarnation for life in other.lives}) < len(other.lives):
                raise ConfigError(f"{log.paths[0]} and {other.paths[0]} are of the same process: give one of them")
    return list(found.values())


class _Auditor:
    """Takes moments in order, and has the specification take the steps that they show."""

    def __init__(self, logs: list[Log], keep: bool) -> None:
        names = {log.node for log in logs}
        self.voters: set[str] = set()
        for log in logs:
            self.voters |= log.voters
            for life in log.lives:
                for moment in life.moments:
                    if isinstance(moment.came, Message):
                        names.add(moment.came.sender)
                    elif isinstance(moment.came, Begin | Resume):
                        self.voters |= moment.came.electorate.names
        self._all_recorded = self.voters <= {log.node for log in logs}
        self._begun = {log.node for log in logs if not log.lives[0].is_whole}
        config = logs[0].config
        self.state = Safety(sorted(names | self.voters), config.lease, config.guard)
        self.state.majority = self._is_majority
        self.counts: Counter[str] = Counter()
        self.trusted = 0
        self.unseen: Counter[tuple[str, str]] = Counter()
        self.trace: list[Step] = []
        self._keep = keep
        self._recorded = {log.node for log in logs}
        self._seen: set[str] = set()  # Nodes of which a process was seen.
        # By node: when what is left of its recording begins, by its clock.
        self._resumes_at = {life.node: life.moments[0].now for log in logs for life in log.lives if not life.is_whole}
        self._mute: set[str] = set()  # Nodes that have lost their records.
        # By node: the electorates of its present reign; while voters are replaced, any of them is enough.
        self._electorates: dict[str, list[Electorate]] = {}

    def _is_majority(self, node: str, voters: frozenset[str]) -> bool:
        return any(electorate.is_majority({*map(NodeId, voters)}) for electorate in self._electorates[node])

    def _do(self, moment: Moment, action: str, step: Callable[..., None], *given: Any, **options: Any) -> None:
        if self._keep:  # A step that is refused is the last one.
            self.trace.append((moment.node, moment.now, action, (*given, *options.values())))
        step(*given, **options)
        self.counts[action] += 1

    def take(self, placed: Placed) -> None:
        moment = placed.moment
        node, came, state = moment.node, moment.came, self.state
        if isinstance(came, Begin):
            self._begin(moment, came)
        elif isinstance(came, Resume):
            self._resume(moment, came)
        elif isinstance(came, End):
            self._do(moment, "stop", self.state.stop, node)
        self._do(moment, "pass_time", self.state.pass_time, node, moment.now)
        if isinstance(came, Durable):
            self._do(moment, "write", self.state.write, node)
        elif isinstance(came, Message):
            self._hear(placed, came)
        for deed in moment.deeds:
            self._deed(moment, deed)
        if isinstance(came, Message | Durable | Fired) and state.lead[node]:
            self._do(moment, "go_on", self.state.go_on, node)

    def _begin(self, moment: Moment, came: Begin) -> None:
        node, state = moment.node, self.state
        record = came.record or FRESH
        self._electorates[node] = [came.electorate]
        state.clock[node] = min(moment.now, state.clock[node])  # A machine that was started anew may count anew.
        self._do(moment, "pass_time", self.state.pass_time, node, moment.now)
        if came.record is None and not came.newcomer:
            self._mute.add(node)
            state.assume_start(node, FRESH)
        elif node in self._seen and self._went_on(node, record):
            self.unseen[node, "disk"] += 0  # Nobody heard a message of that.
            self.trusted += 1
            self._do(moment, "assume_start", self.state.assume_start, node, record)
        elif node in self._seen:
            self._do(moment, "restart", self.state.restart, node, record)
        else:
            self._do(moment, "assume_start", self.state.assume_start, node, record)
        self._seen.add(node)

    def _went_on(self, node: str, record: Record) -> bool:
        """Return whether a promise is later than all that a recording shows: then it had ended before its node did.

        A recorder may have stopped, a machine may have lost its power, the file of a process may be missing.
        """
        known = (self.state.disk[node], *self.state.writing[node])
        return record not in known and any(_is_later(record, earlier) for earlier in known)

    def _resume(self, moment: Moment, came: Resume) -> None:
        node, state = moment.node, self.state
        self._electorates[node] = [came.electorate]
        state.clock[node] = moment.now
        state.assume_start(node, came.record)
        state.bound[node], state.lead[node] = came.bound, came.lead
        state.answer[node] = dict(came.answers)
        if came.lead:
            state.assume_led(node, came.lead)
        self._seen.add(node)

    # What comes in.

    def _hear(self, placed: Placed, came: Message) -> None:
        moment, state, message, sender = placed.moment, self.state, came.message, came.sender
        node = moment.node
        text = f"{node} hears of {sender} what {sender} did not send, about epoch {msg.epoch_of(message)}"
        need(placed.source != "nobody", "unsent", text)
        unknown = placed.source in UNSEEN
        if unknown:
            self.trusted += 1
            self.unseen[sender, placed.source] += 1
        match message:
            case msg.Heartbeat() if unknown:
                self._assume_beat(Beat(sender, message.epoch, message.number))
                if message.acting:
                    state.assume_led(sender, message.epoch)
            case msg.HeartbeatAck() if message.granted:
                beat = Beat(node, message.epoch, message.number)
                self._assume_early(beat)
                if beat in state.beats:  # Else it answers an earlier process of that name.
                    if unknown:
                        state.assume_ack(sender, beat)
                    self._do(moment, "hear", self.state.hear, sender, beat)
            case msg.Resigned():
                if placed.source == "will":
                    self._do(moment, "resign", self.state.resign, sender, message.epoch)
                elif unknown:
                    state.assume_end(sender, message.epoch)
                self._do(moment, "release", self.state.release, node, sender, message.epoch)

    def _assume_early(self, beat: Beat) -> None:
        """Take a heartbeat on trust that was sent before what is left of its sender's recording."""
        if beat not in self.state.beats and beat.number * ms(1) < self._resumes_at.get(beat.node, 0):
            self._assume_beat(beat)
            self.trusted += 1
            self.unseen[beat.node, "before"] += 1

    def _assume_beat(self, beat: Beat) -> None:
        """Numbers follow the clock, so that a number tells when it was sent, to the millisecond."""
        latest = max(self.state.clock[beat.node], self._resumes_at.get(beat.node, 0))
        self.state.assume_beat(beat, min((beat.number + 1) * ms(1), latest))

    # What a node does.

    def _deed(self, moment: Moment, deed: Deed) -> None:
        node, state = moment.node, self.state
        match deed:
            case LeaderLost(term) if term.leader == node:
                if state.lead[node] == term.number:
                    self._do(moment, "stop", self.state.stop, node)
                    del self._electorates[node][:-1]
            case LeaderElected(term) if term.leader == node:
                self._do(moment, "begin", self.state.begin, node, term.number)
            case LeaderElected(term):
                self._name(moment, term.leader, term.number)
            case VotersChanged(number, voters, earlier):
                electorate = Electorate(number, frozenset(voters), frozenset(earlier))
                if state.lead[node]:
                    self._electorates[node].append(electorate)
                else:
                    self._electorates[node] = [electorate]
            case Persist(record):
                self._persist(moment, record)
            case Message():
                self._send(moment, deed)

    def _name(self, moment: Moment, leader: str, epoch: int) -> None:
        if self.state.led.get(epoch) is None and (leader not in self._recorded - self._begun or not self._all_recorded):
            self.trusted += 1
            self.state.assume_led(leader, epoch)
        elif leader not in self._recorded:
            self.state.assume_led(leader, epoch)
        else:
            self._do(moment, "name", self.state.name, moment.node, leader, epoch)

    def _check_votes(self, node: str) -> None:
        need(node not in self._mute, "disk", f"{node} votes, although nothing of its earlier votes was on its disk")

    def _persist(self, moment: Moment, record: Record) -> None:
        node, before = moment.node, self.state.mem[moment.node]
        self._check_votes(node)
        if record[1:] != before[1:]:
            text = f"{node} writes that it granted epoch {record.granted}, and promises {record.epoch}"
            need(record.epoch == record.granted, "back", text)
            self._do(moment, "grant", self.state.grant, node, record.to, record.granted)
        elif record.epoch != before.epoch:
            self._do(moment, "promise", self.state.promise, node, record.epoch)
        else:
            self._do(moment, "rewrite", self.state.rewrite, node)

    def _send(self, moment: Moment, sent: Message) -> None:
        node, message = moment.node, sent.message
        match message:
            case msg.Heartbeat():
                self._check_votes(node)
                beat = Beat(node, message.epoch, message.number)
                self._do(moment, "claim", self.state.claim, beat, acting=message.acting)
            case msg.HeartbeatAck() if message.granted and sent.to is not None:
                self._check_votes(node)
                beat = Beat(sent.to, message.epoch, message.number)
                self._assume_early(beat)
                self._do(moment, "ack", self.state.ack, node, beat)
            case msg.Resigned():
                self._do(moment, "resign", self.state.resign, node, message.epoch)


def _is_later(record: Record, earlier: Record) -> bool:
    """Return whether a voter may have come from one promise to another: each epoch is granted once."""
    again = record.granted == earlier.granted and record.to == earlier.to
    return record.epoch >= earlier.epoch and (again or record.granted > earlier.granted)
