"""Refuses recordings that count majorities of different voters: two such majorities need not meet.

A charter has one stamp, (epoch, serial), and names one electorate (decision 34).  The number of an electorate is not
enough: two leaders may write different voters under one number, of which one at most is committed.
"""

from doyen.audit.moments import Begin, Log, Moment, Resume
from doyen.core.leadership import VotersChanged
from doyen.election.pole.electorate import Electorate
from doyen.errors import ConfigError


def agree(logs: list[Log]) -> None:
    """Raise `ConfigError` where two recordings name different voters under one charter, or in its absence."""
    moments = [moment for log in logs for life in log.lives for moment in life.moments]
    changed = any(_is_later(moment) for moment in moments)
    found: dict[tuple[int, int], tuple[Moment, Electorate]] = {}
    for moment in moments:
        came = moment.came
        if not isinstance(came, Begin | Resume) or (changed and _only_follows(moment.node, came)):
            continue
        first, electorate = found.setdefault(came.stamp, (moment, came.electorate))
        if electorate != came.electorate:
            raise ConfigError(
                f"{moment.path} and {first.path} differ in voters: {_text(came.electorate)}, and {_text(electorate)}"
            )


def _is_later(moment: Moment) -> bool:
    """Return whether a moment shows that voters were replaced while the group ran."""
    came = moment.came
    if isinstance(came, Begin | Resume) and came.stamp != (0, 0):
        return came.electorate.number > 0
    return any(isinstance(deed, VotersChanged) for deed in moment.deeds)


def _only_follows(node: str, came: Begin | Resume) -> bool:
    """Return whether a node does not vote by its configuration: then that may name the voters of a later day."""
    mute = isinstance(came, Begin) and came.record is None and not came.newcomer
    return came.stamp == (0, 0) and (mute or node not in came.electorate.names)


def _text(electorate: Electorate) -> str:
    text = ", ".join(sorted(electorate.voters))
    return f"{text} after {', '.join(sorted(electorate.earlier))}" if electorate.earlier else text
