"""Announce-listen elections by simulation: one run of the real machines, watched from outside.  [LE §5.3, §5.4]

What is measured (times in seconds; a run that never gets there has None):

    tmax             send time of the announcement whose arrival made everybody name one leader; Δ is not in it
    messages         sent until that arrival
    rounds           the winner's announcements until then, that one included
    avg_rounds       mean over the receivers of the winner's announcement at which each first named it
    first_tmax       send time of the last announcement that somebody made at its first wake-up
    first_messages   how many announced at their first wake-up
    leaders          announcers per announce interval: messages / ⌈(tmax+Δ)/T_A⌉
    reestablishment  from an event until all agree again; after a departure, until survivors first agree since any
                     of them last heard the old leader: negative where lost announcements had made them re-elect
                     before it left
    notice           mean over survivors of when each gave the departed leader up, since its departure (machine only)
    inconsistent     share of 100·T_A in which somebody did not name the leader (event false-departure)

An event comes at a random instant after everybody has named the leader once, and two listen timeouts more.
Messages and rounds are then counted from the event on.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from math import ceil, log
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from doyen.core.clock import Duration, Instant, seconds
from doyen.core.commands import LeaveGroup
from doyen.core.config import Config, Doc, need
from doyen.core.host import Host, Port
from doyen.core.ids import NodeId
from doyen.core.leadership import LeaderElected, LeaderLost
from doyen.core.machine import Machine
from doyen.election.announce.config import AnnounceConfig
from doyen.election.announce.machine import Announce
from doyen.election.announce.messages import Announcement
from doyen.election.announce.sup_al import Form, SuppressThenAnnounce
from doyen.election.announce.wakeup import RankedPlace, RankMap
from doyen.sim.network import Delay, Loss, NetworkConfig
from doyen.sim.node import SimNode
from doyen.sim.trace import Trace
from doyen_papers.analysis.setting import Setting
from doyen_papers.studies.baselines import AnnounceListen, Suppression
from doyen_papers.studies.frame import simulation

Named = NodeId | tuple[NodeId, ...]  # The leader a node names; the k of them where there are k.

CHANNEL: Final = "election"
FORMS: Final[dict[str, Form]] = {"sup-al-receipt": "receipt", "sup-al-redraw": "redraw", "sup-al-spread": "spread"}
HORIZON_ROUNDS: Final = 10_000
WINDOW_ROUNDS: Final = 100  # Over which inconsistency is measured.
RECEIPT_ROUNDS: Final = 50  # After which SUP+AL by receipt is judged.


FORGOTTEN: Final = 1e-6  # Chance of a longer run of losses than the settling time covers,
MEMORY_MAX: Final = 2000  # in T_A: the settling time never covers more.


class Extensions(Config, frozen=True, kw_only=True):
    """Future work of the chapter (§5.7): all of it is off by default, and only the machine engine has it."""

    leader_count: Annotated[int, Doc("k leaders: yield after hearing k better.")] = 1
    rank_map: Annotated[RankMap, Doc("A better place wakes earlier: perfectly, or likely.")] = "none"
    query_s: Annotated[float, Meta(ge=0), Doc("T_Q: ask before the first claim; 0 is off.")] = 0.0
    bye: Annotated[bool, Doc("A departing leader says Bye.")] = False
    bye_loss: Annotated[float, Doc("The loss that the number of Byes is made for.")] = 0.0
    ageing_s: Annotated[float, Doc("How long a leader is silent before it yields to any fresh claim.")] = float("inf")


class Run(Struct, kw_only=True):
    """The figures of one run."""

    tmax: float | None = None
    messages: float | None = None
    rounds: float | None = None
    avg_rounds: float | None = None
    first_tmax: float | None = None
    first_messages: float | None = None
    leaders: float | None = None
    reestablishment: float | None = None
    notice: float | None = None
    inconsistent: float | None = None
    converged: bool = False
    trace_hash: str = ""


def simulate(setting: Setting, seed: int, *, extensions: Extensions = Extensions(), trace: Trace | None = None) -> Run:  # noqa: B008
    """Simulate one run of the machines."""
    refuse(setting, extensions)
    return _Experiment(setting, seed, extensions, trace).run()


def _announces(machine: Machine) -> bool:
    return machine.announcing if isinstance(machine, SuppressThenAnnounce) else True


def refuse(setting: Setting, extensions: Extensions) -> None:
    """Refuse what makes no sense, before anything runs."""
    event, variant = setting.event, setting.variant
    started = event == "start" or not variant.startswith("sup")
    need(started, "event", f"{event} needs an election: {variant} is over after one round")
    need(
        event != "joiner-better" or variant != "le-m",
        "event",
        "joiner-better cannot happen in le-m: a late joiner wakes last, so it is never better",
    )
    need(
        setting.loss_model != "load" or setting.delay_s != 0,
        "delay_s",
        "0 is too short for the load model: messages sent together must still be on their way",
    )
    trips = 2 if variant == "le-a" else 4  # Suppressed replies come up to T_Q/2 later.
    least, given = trips * setting.delay_s, extensions.query_s
    need(
        not given or given >= least,
        "query_s",
        f"{given:g}s is too short for an answer: give at least {trips}·delay = {least:g}s",
    )
    knows = extensions == Extensions() or variant.startswith("le-")
    need(knows, "variant", f"{variant} knows none of the extensions: choose le-a, le-s or le-m")


class _Experiment:
    """One run, and a record of who names whom in it."""

    def __init__(self, setting: Setting, seed: int, extensions: Extensions, trace: Trace | None) -> None:
        self.setting, self.extensions = setting, extensions
        self.interval, self.delay = seconds(setting.announce_s), seconds(setting.delay_s)
        self.config = _config(setting, extensions)
        loss = Loss(
            model=setting.loss_model,
            prob=setting.loss,
            capacity=setting.load_capacity,
            window=seconds(setting.load_window_s),
        )
        network = NetworkConfig(delay=Delay(mean=self.delay), loss=loss)
        self.sim = simulation(seed, setting.nodes, network, trace)
        self.streams = self.sim.streams
        self.sim.watchers.append(self._on_fact)
        self.sim.send_watchers.append(self._on_send)
        self.living = 0
        self.members: list[SimNode] = []
        self.names: list[Named] = []  # By node: whom it names.
        self.counts: Counter[Named] = Counter()  # How many name each.
        self.first_named_at: list[dict[Named, Instant]] = []  # By node: the send that made it name each first,
        self.last_named_at: list[Instant] = []  # and the one that made it name whom it names now.
        self.sent_at: list[list[Instant]] = []  # By node: its announcements.
        self.first_senders: list[int] = []
        self.changed_at: Instant = 0  # When somebody last named another,
        self.changed_by: Instant = 0  # by which send,
        self.changed_count = 0  # and how many messages had been sent by then.
        self.departing: SimNode | None = None  # The leader that will depart,
        self.first_agreement: tuple[Instant, Instant, int, NodeId] | None = None  # and the others', since it was heard.
        self.given_up_at: dict[int, Instant] = {}  # By survivor: when it last gave that leader up.
        self.done: Callable[[], bool] | None = None  # What a run waits for, asked at each change.
        self.on_lost: Callable[[SimNode, NodeId, Instant], None] | None = None
        width = len(str(setting.nodes))
        for i in range(setting.nodes):
            self._add(f"n{i:0{width}d}", RankedPlace(setting.nodes - 1 - i, setting.nodes))

    def run(self) -> Run:
        for node in self.members:
            self.sim.start(node)
        if self.setting.variant.startswith("sup"):
            result = self._without_election()
        elif self.setting.event == "start":
            result = self._start()
        else:
            result = self._after_settling()
        if self.setting.event == "start" and self.first_senders:
            result.first_tmax = max(self.sent_at[i][0] for i in self.first_senders) / 1e9
            result.first_messages = len(self.first_senders)
        result.trace_hash = self.sim.trace.digest()
        return result

    # Scripts.

    def _without_election(self) -> Run:
        variant, last = self.setting.variant, 0
        rounds = RECEIPT_ROUNDS if variant == "sup-al-receipt" else 1
        self.sim.run(until=max(self.config.suppress_interval, rounds * self.interval if variant != "sup" else 0))
        last = max((times[-1] for times in self.sent_at if times), default=0)
        result = Run(converged=True, rounds=rounds, tmax=last / 1e9, messages=self.sim.message_count)
        announcing = [node.name for node in self.members if _announces(self._machine(node))]
        result.leaders = len(announcing) if variant != "sup" else self.sim.message_count
        if variant == "sup-al-receipt":
            named = {self._machine(node).leader for node in self.members}
            result.converged = len(announcing) == 1 and named == set(announcing)
        return result

    def _start(self) -> Run:
        if self.setting.nodes == 1:  # [LE §5.3.1] Who is alone leads at once; its first announcement is counted.
            self.sim.run(until=self.config.suppress_interval + self.config.query_timeout)
            return Run(converged=True, tmax=0.0, messages=1, rounds=1, leaders=1)
        if not self._run_until(self._agreed, self._horizon()):
            return Run()
        return self._measured(0, 0, self.first_named_at)

    def _after_settling(self) -> Run:
        leader, event = self._best(), self.setting.event
        if not self._run_until(lambda: self._knowing(leader), self._horizon()):
            return Run()
        settling = 2 * min(self.config.listen_timeout, 50 * self.interval) + 2 * self.interval
        loss = self.setting.loss_prob
        if 0 < loss < 1:  # Long enough for any run of losses that chance will bring.
            settling += min(MEMORY_MAX, int(log(FORGOTTEN) / log(loss)) + 1) * self.interval
        if event == "leader-departs":
            self.departing = leader
            self.on_lost = self._note_loss
        phase = int(self.streams.of("event").random() * self.interval)
        self.sim.run(until=self.sim.now + settling + (phase if event != "false-departure" else 0))
        match event:
            case "leader-departs":
                return self._leader_departs(leader)
            case "false-departure":
                return self._false_departure(leader)
            case _:
                return self._joins(leader, better=event == "joiner-better")

    def _leader_departs(self, leader: SimNode) -> Run:
        begun, count = self.sim.now, self.sim.message_count
        self.living -= 1
        self.counts[self.names[leader.index]] -= 1
        if self.extensions.bye:
            self.sim.tell(leader, LeaveGroup(), channel=CHANNEL)
        self.sim.crash(leader)
        if self.living == 0:
            return Run(converged=True, tmax=0.0, messages=0, rounds=0, reestablishment=0.0)
        self.sim.run(until=begun + self.delay)  # What the leader said last may still arrive.
        if not self._run_until(lambda: self.first_agreement is not None, begun + self._horizon()):
            return Run()
        assert self.first_agreement is not None
        self.changed_at, self.changed_by, self.changed_count, named = self.first_agreement
        named_at: list[dict[Named, Instant]] = [{named: at} for at in self.last_named_at]
        result = self._measured(begun, count, named_at, winner=self.sim.by_name[named])
        self._took(result, self.changed_at - begun)
        if self.given_up_at:
            result.notice = sum(at - begun for at in self.given_up_at.values()) / len(self.given_up_at) / 1e9
        return result

    def _joins(self, leader: SimNode, *, better: bool) -> Run:
        begun, count = self.sim.now, self.sim.message_count
        joiner = self._add("z" if better else "a", RankedPlace())
        self.sim.start(joiner)
        winner = joiner if better else leader
        done = self._agreed if better else lambda: self.names[joiner.index] == winner.name
        if not self._run_until(done, begun + self._horizon()):
            return Run()
        result = self._measured(begun, count, self.first_named_at)
        self._took(result, self.sim.now - begun)
        if not better:
            result.avg_rounds = result.rounds
        return result

    def _false_departure(self, leader: SimNode) -> Run:
        begun, window = self.sim.now, WINDOW_ROUNDS * self.interval
        lost: list[tuple[SimNode, Instant, int]] = []  # The first to lose the leader, when, and messages by then.
        doubt = _Doubt(begun, begun + window)

        def on_lost(node: SimNode, missed: NodeId, now: Instant) -> None:
            if not lost and missed == leader.name:
                sent_now = sum(1 for times in self.sent_at if times and times[-1] == now)  # LE-A: at once.
                lost.append((node, now, self.sim.message_count - sent_now))

        def found() -> bool:
            doubt.update(self.sim.now, self.counts[leader.name] < self.living)
            return bool(lost) and self.names[lost[0][0].index] == leader.name

        self.on_lost = on_lost
        doubt.update(begun, self.counts[leader.name] < self.living)
        result = Run()
        if self._run_until(found, begun + self._horizon()):
            _, at, count = lost[0]
            result = self._measured(at, count, [{leader.name: sent} for sent in self.last_named_at], winner=leader)
            self._took(result, self.sim.now - at)
            result.avg_rounds = result.rounds
        lost.clear()
        self.on_lost = None
        self._run_until(found, begun + window)
        doubt.update(begun + window, False)
        result.inconsistent = doubt.total / window
        return result

    # Questions.

    def _agreed(self) -> bool:
        named = self.names[next(i for i, node in enumerate(self.members) if node.host is not None)]
        if self.counts[named] < self.living:
            return False
        leaders = named if isinstance(named, tuple) else (named,)
        alive = all(self.sim.by_name[leader].host is not None for leader in leaders)
        return alive and len(leaders) == min(self.extensions.leader_count, self.living)

    def _knowing(self, leader: SimNode) -> bool:
        return all(leader.name in named for named in self.first_named_at)

    def _best(self) -> SimNode:
        """Return the node that will lead as far as ranks decide it: of the greatest name, or of the earliest draw."""
        if self.setting.variant != "le-m":
            return self.members[-1]
        return max(self.members, key=lambda node: self._machine(node).claim)

    def _horizon(self) -> Duration:
        if self.setting.loss_prob >= 1.0:  # Nothing will ever be heard: one round shows all there is to see.
            return self.config.suppress_interval + self.config.query_timeout + self.interval
        return HORIZON_ROUNDS * self.interval

    def _run_until(self, done: Callable[[], bool], until: Instant) -> bool:
        self.sim.stopped, self.done = done(), done
        if not self.sim.stopped:
            self.sim.run(until=until)
        reached, self.done, self.sim.stopped = self.sim.stopped, None, False
        return reached

    def _measured(
        self, begun: Instant, count: int, named_at: list[dict[Named, Instant]], *, winner: SimNode | None = None
    ) -> Run:
        """Return what it took since `begun` until the last change, after which all agree (or name the winner again)."""
        sent_at = self.changed_by
        result = Run(converged=True, tmax=(sent_at - begun) / 1e9, messages=max(0, self.changed_count - count))
        self._count_leaders(result, sent_at - begun + self.delay)
        living = [node for node in self.members if node.host is not None]
        named = self.names[living[0].index] if winner is None else winner.name
        if isinstance(named, tuple):
            return result
        winner = self.sim.by_name[named]
        times = [at for at in self.sent_at[winner.index] if at >= begun]
        result.rounds = bisect_right(times, sent_at)
        heard = [bisect_right(times, named_at[node.index].get(named, 0)) for node in living if node is not winner]
        result.avg_rounds = sum(heard) / len(heard) if heard else None
        return result

    # The nodes, and what they do.

    def _took(self, result: Run, duration: Duration) -> None:
        """Note how long an event took until a message that was heard, or one that was not, ended it."""
        result.reestablishment = duration / 1e9
        result.tmax = result.reestablishment - self.setting.delay_s
        self._count_leaders(result, duration)

    def _count_leaders(self, result: Run, duration: Duration) -> None:
        at_least = 1 if self.setting.event == "start" else 0
        spans = max(ceil(duration / self.interval), at_least)
        result.leaders = result.messages / spans if result.messages and spans > 0 else None

    def _add(self, name: str, place: RankedPlace) -> SimNode:
        variant, config = self.setting.variant, self.config

        def build(node: SimNode, port: Port) -> Machine:
            rng = node.rng(CHANNEL)
            if variant == "sup":
                return Suppression(node.name, config, port, rng)
            if variant == "al":
                return AnnounceListen(node.name, config, port, rng)
            if variant.startswith("sup-al-"):
                return SuppressThenAnnounce(node.name, config, port, rng, form=FORMS[variant])
            return Announce(node.name, config, port, rng, place=place, common_seed=self.streams.base("common"))

        def setup(node: SimNode, host: Host) -> None:
            host.add(CHANNEL, lambda port: build(node, port))

        node = self.sim.add(NodeId(name), setup)
        self.members.append(node)
        self.living += 1
        named: Named = node.name if self.extensions.leader_count == 1 else (node.name,)
        self.names.append(named)
        self.counts[named] += 1
        self.first_named_at.append({named: 0})
        self.last_named_at.append(0)
        self.sent_at.append([])
        return node

    def _machine(self, node: SimNode) -> Any:
        assert node.host is not None
        return node.host.ports[CHANNEL].machine

    def _on_send(self, node: SimNode, channel: str, message: Any, now: Instant) -> None:
        if message.__class__ is Announcement:
            times = self.sent_at[node.index]
            machine = self._machine(node)
            if not times and (not isinstance(machine, Announce) or machine.election_no == 1):
                self.first_senders.append(node.index)
            times.append(now)

    def _on_fact(self, node: SimNode, channel: str, fact: Any, now: Instant) -> None:
        if node.host is None:
            return  # Its last words.
        index, before = node.index, self.names[node.index]
        named: Named = fact.term.leader if fact.__class__ is LeaderElected else node.name
        if self.extensions.leader_count > 1:
            named = self._machine(node).leaders
        elif self.on_lost is not None and fact.__class__ is LeaderLost:
            self.on_lost(node, fact.term.leader, now)
        if named == before:
            return
        self.counts[before] -= 1
        self.counts[named] += 1
        self.names[index] = named
        self.last_named_at[index] = self.changed_by = self.sim.sent_at
        self.first_named_at[index].setdefault(named, self.sim.sent_at)
        self.changed_at, self.changed_count = now, self.sim.message_count
        if self.departing is not None and node is not self.departing:
            self._watch_survivors(named)
        if self.done is not None and not self.sim.stopped:
            self.sim.stopped = self.done()

    def _note_loss(self, node: SimNode, missed: NodeId, now: Instant) -> None:
        if self.departing is not None and missed == self.departing.name:
            self.given_up_at[node.index] = now

    def _watch_survivors(self, named: Named) -> None:
        assert self.departing is not None
        if named == self.departing.name:
            self.first_agreement = None
        elif self.first_agreement is None and isinstance(named, str):
            survivors = self.living if self.departing.host is None else self.living - 1
            if self.counts[named] == survivors:
                self.first_agreement = (self.changed_at, self.changed_by, self.changed_count, named)


class _Doubt:
    """Sums up the time within a window in which something was not as it should be."""

    def __init__(self, begin: Instant, end: Instant) -> None:
        self.total: Duration = 0
        self._begin, self._end = begin, end
        self._since: Instant | None = None

    def update(self, now: Instant, doubtful: bool) -> None:
        now = min(max(now, self._begin), self._end)
        if self._since is not None:
            self.total += now - self._since
        self._since = now if doubtful else None


def _config(setting: Setting, extensions: Extensions) -> AnnounceConfig:
    return AnnounceConfig(
        announce_interval=seconds(setting.announce_s),
        listen_timeout=seconds(setting.listen_s),
        suppress_interval=seconds(setting.suppress_interval_s),
        leader_is="earliest" if setting.variant == "le-m" else "best",
        timer=setting.timer,
        group_size=setting.nodes,
        rank_map=extensions.rank_map,
        leader_count=extensions.leader_count,
        query_timeout=seconds(extensions.query_s),
        bye_target_prob=0.99 if extensions.bye else 0.0,
        bye_loss=extensions.bye_loss,
        ageing_after=seconds(extensions.ageing_s),
    )
