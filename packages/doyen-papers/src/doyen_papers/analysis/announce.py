"""Closed forms of announce-listen elections: expected times, messages and rounds.  [LE §5.3]

`value(setting, quantity)` is the exact expectation under the rules below, or an error: `NoClosedForm` where only a
simulation can tell, `ConfigError` where the question makes no sense.  What is measured, here and by the simulator:

- Time 0: all processes start together.  Every delivery takes Δ.  At one instant deliveries precede timers.
- `tmax`: when the announcement was *sent* whose arrival made the last process name the best one, so without Δ.
  In SUP, which elects nobody: when the last message was sent.  After an event: reestablishment - Δ.
- `messages`: sent by anybody before that arrival, at tmax + Δ.
- `rounds`: the winner's announcements up to the converging one, included; `avg-rounds`: the mean over receivers.
- A first round is everybody's first wake-up: who announces then, and when the last such announcement is sent.
- N = 1: tmax 0, messages 1, rounds 1 (but SUP's one message leaves at the wake-up).  At loss 1 nothing converges
  (but SUP, in which one's own message suffices).
- The exponential timer's λ is ln N + 1, N being `nodes` whatever the event.
- A leader departs, and a joiner comes, at a uniform phase of the announcement interval.

With `as_printed`, the chapter's own formula is evaluated wherever it differs; each is marked `Deviation` below or in
`announce_forms`, `announce_events`.  Its alternating sums are evaluated through an identity, so at any N.

Deviation [LE §5.3.2.3]: a leader's departure under uncorrelated loss is not the lossless one; no form is known.
Deviation [LE §5.3.3.3]: nor for uncorrelated messages of LE-S, LE-M and SUP; the printed sum is another number
  (`announce_recurrence`).
Ambiguity [LE §5.4]: T_L is unstated there; T_L = ∞, unless a shorter one cannot matter.
"""

from collections.abc import Callable
from math import inf, isinf, log

from msgspec import structs

from doyen.errors import ConfigError
from doyen_papers.analysis import announce_events as events
from doyen_papers.analysis import announce_forms as forms
from doyen_papers.analysis.announce_forms import WakeUp
from doyen_papers.analysis.announce_timers import TimerAdvice, advise_timers
from doyen_papers.analysis.setting import Event, Setting

__all__ = ["QUANTITIES", "NoClosedForm", "TimerAdvice", "advise_timers", "inconsistent_in_all", "value"]

#: Name and meaning of everything `value` can be asked for.
QUANTITIES = {
    "tmax": "send time of the converging announcement, seconds (Δ not counted; SUP: of the last message)",
    "leadership-delay": "until everybody names the best process, seconds (tmax + Δ)",
    "messages": "announcements sent until then",
    "rounds": "announcements of the winner until then",
    "avg-rounds": "announcements of the winner until a process hears one, mean over the receivers",
    "leaders": "announcements per T_A until then",
    "first-round-tmax": "send time of the last first announcement of anybody, seconds",
    "first-round-messages": "processes that announce at their first wake-up",
    "reestablishment": "from the event until everybody concerned names the right process, seconds",
    "notice": "from the leader's departure until a process gives it up, seconds (negative: it had before)",
    "inconsistent": "share of time in which some process does not name the leader",
    "inconsistent-one": "share of time in which a given process does not name the leader",
    "false-departures": "times per T_A that some process gives up a leader that is there",
    "wake-up": "mean wake-up time E[t_s], seconds",
    "wake-up-min": "mean of the earliest wake-up E[t_min], seconds",
    "wake-up-max": "mean of the latest wake-up, seconds",
}

STEPS_MAX = 64  # Announcement intervals within T_S + Δ; with more, LE-S messages take too long to evaluate.
CHAIN_LOSS_MAX = 0.995  # Likewise for LE-A under uncorrelated loss,
CHAIN_NODES_MAX = 1000  # unless the group is small.


class NoClosedForm(ConfigError):
    """Nobody knows a formula for this, or doyen does not evaluate it; the message names the simulation instead."""


def value(setting: Setting, quantity: str, *, as_printed: bool = False) -> float:
    """Return the expectation of one of `QUANTITIES`; with `as_printed`, by the chapter's formula where it is wrong."""
    if quantity not in QUANTITIES:
        raise ConfigError(f"quantity {quantity!r} is unknown: choose from {', '.join(QUANTITIES)}")
    _refuse_event(setting)
    if quantity in _WAKE_UPS:
        return _WAKE_UPS[quantity](_wake(setting), setting.nodes)
    if setting.variant.startswith("sup-al-"):
        return _suppress_then_announce(setting, quantity)
    if quantity in _STEADY:
        return _steady(setting, quantity, as_printed)
    if quantity == "notice":
        return _notice(setting)
    if setting.event != "start":
        return _after_event(setting, quantity, as_printed)
    if quantity == "reestablishment":
        raise ConfigError("start: nothing is re-established; give another event", field="event")
    return _from_start(setting, quantity, as_printed)


def inconsistent_in_all(setting: Setting, *, departure_every_s: float, join_every_s: float) -> float:
    """[LE §5.3.4] Return the share of time in disagreement: departures, late joiners of any rank, false departures.

    Ambiguity: the chapter adds the parts as if they never met; so do we, up to 1.
    """
    share = value(setting, "inconsistent")
    departures: tuple[Event, ...] = ("leader-departs",)
    joins: tuple[Event, ...] = ("joiner-worse",) if setting.variant == "le-m" else ("joiner-better", "joiner-worse")
    parts = (("departure_every", departure_every_s, departures), ("join_every", join_every_s, joins))
    for name, every_s, kinds in parts:
        if every_s <= 0:
            raise ConfigError(f"{every_s:g}s is not an interval: give a positive duration (inf: never)", field=name)
        if not isinf(every_s):
            delays = [value(structs.replace(setting, event=kind), "reestablishment") for kind in kinds]
            share += sum(delays) / len(delays) / every_s
    return min(1.0, share)


def _suppress_then_announce(setting: Setting, quantity: str) -> float:
    """[LE §5.7] Only where SUP merely spreads announcements in time: N messages, the last by order statistics."""
    if setting.variant == "sup-al-spread" and setting.announce_s >= setting.suppress_interval_s:
        if quantity in ("messages", "first-round-messages"):
            return float(setting.nodes)
        if quantity in ("tmax", "first-round-tmax"):
            return _WAKE_UPS["wake-up-max"](_wake(setting), setting.nodes)
    raise _unknown(setting, f"{quantity} of {setting.variant}")


# ── From the start ──────────────────────────────────────────────────────────────────────────────────────────


def _from_start(setting: Setting, quantity: str, as_printed: bool) -> float:
    if setting.nodes == 1 and setting.variant != "sup":
        alone = {"tmax": 0.0, "leadership-delay": 0.0, "first-round-tmax": _wake(setting).mean()}
        return alone.get(quantity, 1.0)
    _refuse_unconverging(setting, quantity)
    match quantity:
        case "tmax":
            return _tmax(setting, as_printed)
        case "leadership-delay":
            return _tmax(setting, as_printed) + setting.delay_s
        case "rounds":
            return 1.0 if setting.variant == "sup" else _rounds(setting, setting.nodes - 1, as_printed)
        case "avg-rounds":
            return 1.0 if setting.variant == "sup" else forms.rounds_correlated(setting.loss_prob)
        case "messages":
            return _messages(setting, as_printed)
        case "leaders":
            return _leaders(setting)
        case "first-round-messages":
            return _first_messages(setting, as_printed)
        case _:
            return _first_tmax(setting)


def _tmax(setting: Setting, as_printed: bool) -> float:
    """E[t_s], of the winner, + T_A (E[rounds] - 1).  [LE §5.3.1]

    Deviation [LE §5.3.1.3]: printed, under uncorrelated loss, as T_A times the rounds of N receivers: one round
    and one receiver too many.
    """
    wake, nodes = _wake(setting), setting.nodes
    if setting.variant == "sup":
        return _first_tmax(setting)
    rounds = _rounds(setting, nodes - 1, as_printed)
    first = wake.mean_least(nodes) if setting.variant == "le-m" else wake.mean()
    return first + setting.announce_s * (rounds if as_printed and _uncorrelated(setting) else rounds - 1)


def _rounds(setting: Setting, receivers: int, as_printed: bool = False) -> float:
    if as_printed and _uncorrelated(setting):
        return forms.rounds_uncorrelated(setting.nodes, setting.loss_prob)
    if not _independent(setting, receivers):
        return forms.rounds_correlated(setting.loss_prob)
    if setting.listen_s < inf and setting.variant != "al":
        raise _unknown(setting, "rounds of uncorrelated loss with a finite T_L, in which one may forget meanwhile")
    return forms.rounds_uncorrelated(receivers, setting.loss_prob)


def _messages(setting: Setting, as_printed: bool) -> float:
    wake, nodes, loss = _wake(setting), setting.nodes, setting.loss_prob
    announce_s, delay_s = setting.announce_s, setting.delay_s
    if setting.variant == "sup":
        return _first_messages(setting, as_printed)
    if setting.variant == "al":
        return nodes * (_rounds(setting, nodes - 1) + forms.extra_rounds(announce_s, delay_s))
    if as_printed and setting.variant != "le-m":
        if _uncorrelated(setting):
            raise _unknown(setting, "messages as printed: see doyen papers run le/recurrences")
        # Deviation [LE §5.3.3.1-2]: the chapter counts the suppression interval only.
        return _first_messages(setting, as_printed)
    if setting.listen_s < _listen_needed_s(setting):
        raise _unknown(setting, "messages with so short a T_L, after which the suppressed start anew")
    _refuse_tie(setting)
    if _independent(setting):
        span_s = wake.span_s
        if delay_s > announce_s or (span_s > 0 and not span_s <= delay_s <= announce_s - span_s):
            raise _unknown(setting, f"messages of {setting.variant} under uncorrelated loss")
        if loss > CHAIN_LOSS_MAX and nodes > CHAIN_NODES_MAX:
            raise _unknown(setting, f"messages of {nodes} processes at a loss above {CHAIN_LOSS_MAX}")
        return forms.messages_lea_uncorrelated(nodes, loss)
    if wake.span_s == 0:
        return forms.messages_lea_correlated(nodes, loss, announce_s, delay_s)
    _refuse_crowded(setting)
    if setting.variant == "le-m":
        return forms.messages_lem_correlated(wake, nodes, loss, announce_s, delay_s)
    return forms.messages_les_correlated(wake, nodes, loss, announce_s, delay_s)


def _leaders(setting: Setting) -> float:
    """Return the announcers per T_A, where convergence takes one T_A for certain, or all announce in every one."""
    if setting.variant == "al" and 0 < setting.delay_s <= setting.announce_s:
        return float(setting.nodes)
    if setting.loss_prob == 0 and setting.suppress_interval_s + setting.delay_s <= setting.announce_s:
        return _messages(setting, as_printed=False)
    raise _unknown(setting, "leaders at once, but without loss and with T_A ≥ T_S + Δ")


def _first_messages(setting: Setting, as_printed: bool) -> float:
    wake, nodes, loss = _wake(setting), setting.nodes, setting.loss_prob
    if setting.variant == "al":
        return float(nodes)
    _refuse_first_round(setting)
    if as_printed and setting.variant in ("le-a", "le-s") and not _uncorrelated(setting):
        return forms.first_messages_les_printed(wake, nodes, loss, setting.delay_s)
    if _all_deaf(setting):
        return float(nodes)
    if setting.variant == "sup":
        return forms.messages_sup(wake, nodes, loss, setting.delay_s)
    _refuse_crowded(setting)
    form = forms.first_messages_lem if setting.variant == "le-m" else forms.first_messages_les
    return form(wake, nodes, loss, setting.announce_s, setting.delay_s)


def _first_tmax(setting: Setting) -> float:
    wake, nodes, loss = _wake(setting), setting.nodes, setting.loss_prob
    if wake.span_s == 0:
        return 0.0
    _refuse_first_round(setting)
    if _all_deaf(setting):
        return wake.mean_greatest(nodes)
    if setting.variant != "sup" and loss > 0 and setting.announce_s + setting.delay_s < wake.span_s:
        raise _unknown(setting, "the last first announcement, if repetitions may precede it (T_A + Δ < T_S)")
    form = forms.last_first_les if setting.variant == "le-s" else forms.last_send_sup
    return form(wake, nodes, loss, setting.delay_s)


# ── Steady state and events ─────────────────────────────────────────────────────────────────────────────────

_STEADY = ("inconsistent", "inconsistent-one", "false-departures")
_WAKE_UPS: dict[str, Callable[[WakeUp, int], float]] = {
    "wake-up": lambda wake, _: wake.mean(),
    "wake-up-min": WakeUp.mean_least,
    "wake-up-max": WakeUp.mean_greatest,
}


def _steady(setting: Setting, quantity: str, as_printed: bool) -> float:
    nodes, loss = setting.nodes, setting.loss_prob
    announce_s, listen_s = setting.announce_s, setting.listen_s
    if setting.event not in ("start", "false-departure"):
        raise ConfigError(f"{setting.event}: {quantity} is about the time between events; leave it out", field="event")
    if setting.variant in ("sup", "al"):
        raise ConfigError(f"{setting.variant} has no leader to lose, so no {quantity}", field="variant")
    if nodes == 1:
        return 0.0
    _refuse_unconverging(setting, quantity)
    if quantity == "false-departures":
        _refuse_ties(setting)
        return events.false_departures(nodes, loss, announce_s, listen_s)
    if as_printed:
        lost = _printed_lost(setting)
        return max(0.0, 1 - listen_s / (announce_s * (lost + 1)))
    if quantity == "inconsistent" and _independent(setting):
        return events.inconsistent_any(nodes - 1, loss, announce_s, listen_s)
    return events.inconsistent_one(loss, announce_s, listen_s)


def _notice(setting: Setting) -> float:
    if setting.event not in ("start", "leader-departs"):
        raise ConfigError(f"{setting.event}: notice is about leader-departs", field="event")
    if setting.variant in ("sup", "al"):
        raise ConfigError(f"{setting.variant} has no leader that could depart", field="variant")
    if setting.nodes == 1:
        return 0.0
    _refuse_unconverging(setting, "notice")
    _refuse_deaf(setting)
    return events.notice_delay(setting.loss_prob, setting.announce_s, setting.listen_s, setting.delay_s)


def _after_event(setting: Setting, quantity: str, as_printed: bool) -> float:
    if quantity in ("reestablishment", "leadership-delay", "tmax"):
        if setting.event == "leader-departs" and setting.nodes == 1:
            return 0.0  # [LE §5.3.2] The last leaver leaves nobody without a leader.
        total = _REESTABLISHMENT[setting.event](setting, as_printed)
        return total - setting.delay_s if quantity == "tmax" else total
    if setting.event == "joiner-better" and quantity in ("rounds", "avg-rounds"):
        _refuse_unconverging(setting, quantity)
        receivers = setting.nodes if quantity == "rounds" else 1
        return _rounds(setting, receivers, as_printed and quantity == "rounds")
    raise _unknown(setting, f"{quantity} after {setting.event}")


def _leader_departs(setting: Setting, as_printed: bool) -> float:
    """N counts the leader.  A sole survivor needs no announcement: it names itself as it gives the leader up."""
    _refuse_unconverging(setting, "reestablishment")
    _refuse_deaf(setting)
    wake, survivors, loss = _wake(setting), setting.nodes - 1, setting.loss_prob
    times = (setting.announce_s, setting.listen_s, setting.delay_s)
    contenders = survivors if setting.variant == "le-m" else 1
    at_first = events.departure_delay(wake.mean_least(contenders), *times)
    if as_printed:
        return at_first
    if survivors == 1:
        return events.notice_delay(loss, *times)
    if _independent(setting, survivors):
        raise _unknown(setting, "a leader's departure under uncorrelated loss")
    return at_first


def _false_departure(setting: Setting, as_printed: bool) -> float:
    """Return how long a process that gave the leader up takes until it hears it again."""
    _refuse_unconverging(setting, "reestablishment")
    _refuse_deaf(setting)
    if setting.nodes == 1 or (setting.loss_prob == 0 and setting.listen_s >= setting.announce_s):
        raise ConfigError(f"{setting.event}: it cannot happen here, as nothing is lost in T_L", field="event")
    if as_printed:
        return setting.announce_s * (_printed_lost(setting) + 1) - setting.listen_s
    _refuse_ties(setting)
    return events.false_departure_delay(setting.loss_prob, setting.announce_s, setting.listen_s)


def _joiner_better(setting: Setting, as_printed: bool) -> float:
    """The leadership delay, but with all N incumbents to be told.  [LE §5.3.2]

    Deviation [LE §5.3.2.3]: printed, under uncorrelated loss, with T_A times the rounds, not the rounds but one.
    """
    _refuse_unconverging(setting, "reestablishment")
    rounds = _rounds(setting, setting.nodes, as_printed)
    repeated = rounds if as_printed and _uncorrelated(setting) else rounds - 1
    return _wake(setting).mean() + setting.announce_s * repeated + setting.delay_s


def _joiner_worse(setting: Setting, as_printed: bool) -> float:
    """Return how long it takes until the joiner hears the leader, whom the others know."""
    _refuse_unconverging(setting, "reestablishment")
    if as_printed:
        # Ambiguity [LE §5.3.2.1]: the extracted text has brackets where "the next announcement" needs ceilings:
        # E[⌈(t_a - Δ)/T_A⌉] T_A + Δ - E[t_a] is T_A/2 at a uniform phase, and 0 without them.  Ceilings here.
        # Deviation [LE §5.3.2.3]: printed, with uncorrelated loss, by the rounds of all N; a joiner hears for itself.
        return setting.announce_s * (0.5 + _printed_lost(setting))
    return events.joiner_worse_delay(setting.loss_prob, setting.announce_s)


_REESTABLISHMENT: dict[str, Callable[[Setting, bool], float]] = {
    "leader-departs": _leader_departs,
    "false-departure": _false_departure,
    "joiner-better": _joiner_better,
    "joiner-worse": _joiner_worse,
}


def _printed_lost(setting: Setting) -> float:
    """The chapter's E[# consecutive lost]: l/(1-l), or the alternating sum.  [LE §5.3.2.2-3]"""
    if _uncorrelated(setting):
        return forms.rounds_uncorrelated(setting.nodes, setting.loss_prob)
    return setting.loss_prob / (1 - setting.loss_prob)


# ── What is asked of a setting ──────────────────────────────────────────────────────────────────────────────


def _wake(setting: Setting) -> WakeUp:
    rate = log(setting.nodes) + 1 if setting.timer == "exponential" else 0.0
    return WakeUp(setting.suppress_interval_s, rate)


def _uncorrelated(setting: Setting) -> bool:
    return setting.loss_model == "uncorrelated"


def _independent(setting: Setting, receivers: int | None = None) -> bool:
    """Return whether it matters that receivers lose independently: not to a single one, nor if nothing is lost."""
    receivers = setting.nodes - 1 if receivers is None else receivers
    return _uncorrelated(setting) and setting.loss_prob > 0 and receivers > 1


def _refuse_ties(setting: Setting) -> None:
    """Arrivals precede timers of their instant; but without a delay they come of timers of that very instant."""
    least, most = forms.whole_steps(setting.listen_s, setting.announce_s) if setting.listen_s < inf else (0, 1)
    if setting.delay_s == 0 and least == most:
        raise _unknown(setting, "false departures where T_L is a multiple of T_A and the delay is 0: ties decide")


def _listen_needed_s(setting: Setting) -> float:
    """Return the T_L from which on no process gives another up before convergence."""
    if setting.nodes == 2:
        return 0.0  # The only one to be suppressed is so by the winner.
    if setting.loss_prob > 0:
        return inf
    return setting.suppress_interval_s if setting.variant == "le-s" else 0.0


def _all_deaf(setting: Setting) -> bool:
    """Return whether all have woken before anything arrives."""
    return setting.delay_s >= setting.suppress_interval_s or setting.loss_prob == 1


def _refuse_event(setting: Setting) -> None:
    if setting.event != "start":
        if setting.variant in ("sup", "al"):
            raise ConfigError(f"{setting.event}: {setting.variant} has no leader; only start", field="event")
        if setting.variant == "le-m" and setting.event == "joiner-better":
            raise ConfigError(f"{setting.event}: in le-m nobody who joins later is better", field="event")


def _refuse_unconverging(setting: Setting, quantity: str) -> None:
    if setting.loss_model == "load":
        raise _unknown(setting, f"{quantity} under load-dependent loss")
    if setting.loss_prob == 1 and setting.variant != "sup":
        raise ConfigError(f"{setting.loss:g}: nothing converges if every announcement is lost", field="loss")


def _refuse_deaf(setting: Setting) -> None:
    if isinf(setting.listen_s):
        raise ConfigError("inf: a leader is never given up; give a finite T_L", field="listen_s")


def _refuse_tie(setting: Setting) -> None:
    """LE-A may have T_S = Δ = 0: all speak before anybody hears.  For the others it is a matter of order."""
    if setting.variant in ("le-m", "sup") and setting.suppress_interval_s == setting.delay_s == 0:
        raise ConfigError(f"0: with suppress_s 0 too, {setting.variant} hangs on the order of steps", field="delay_s")


def _refuse_first_round(setting: Setting) -> None:
    _refuse_tie(setting)
    if setting.listen_s < setting.suppress_interval_s and setting.variant != "sup":
        raise _unknown(setting, "a first round during which T_L < T_S may pass")
    if _independent(setting) and not _all_deaf(setting):
        raise _unknown(setting, f"the first round of {setting.variant} under uncorrelated loss")


def _refuse_crowded(setting: Setting) -> None:
    if setting.suppress_interval_s + setting.delay_s > STEPS_MAX * setting.announce_s:
        raise _unknown(setting, f"T_S + Δ of more than {STEPS_MAX} T_A")


def _unknown(setting: Setting, what: str) -> NoClosedForm:
    return NoClosedForm(f"no closed form for {what}; simulate it: {setting.command()}")
