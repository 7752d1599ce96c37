"""Two processes of one name, as a third hears them.

Who hears its own name from another gives up, if it began later (`driver`).  But two that never hear each other do not
find out by themselves; whoever hears both does.  A later life of a name is believed at once, for processes restart;
if the earlier one then goes on speaking, not just for a last word, it is no former life but another process.  From
then on the earlier one is heard, as it was there first, the later one is not, and is told so.

An earlier life that was never heard before is no straggler: it may be a restart under a clock that was set back.  It
is believed at once, too.
"""

from collections import OrderedDict
from enum import Enum
from typing import Final

from msgspec import Struct

from doyen.core.clock import Duration, Instant, seconds
from doyen.core.ids import Address, Incarnation, NodeId

CHANNEL: Final = "namesake"
RIVALS_MAX: Final = 256  # Names remembered to have had two lives; the one longest unheard of is forgotten first.
WORDS_APART: Final[Duration] = seconds(1)  # A burst that was held up on its way counts as one word.
WORDS_MIN: Final = 4  # So many, and it is no straggler.
SILENT_AFTER: Final[Duration] = seconds(30)  # The earlier one is gone: the later one may have the name.
TELL_EVERY: Final[Duration] = seconds(1)


class Namesake(Struct, frozen=True, array_like=True, tag="N"):
    """To the later one: an earlier process, there, has your name."""

    incarnation: int
    host: str
    port: int

    def __post_init__(self) -> None:
        if len(self.host) > 64 or not 0 < self.port < 65536 or not 0 <= self.incarnation < 2**63:
            raise ValueError("no process can be there")


class Verdict(Enum):
    HEARD = "heard"
    OUTLIVED = "outlived"  # The word of a life that a later one has followed.
    RIVAL = "rival"  # The later of two that both go on.
    RIVAL_TOLD = "rival, to be told"


class _Rivalry:
    __slots__ = ("count", "earlier", "heard_at", "later", "news", "proven", "told_at", "where")

    def __init__(self, earlier: Incarnation, later: Incarnation, now: Instant, *, news: bool) -> None:
        self.earlier, self.later = earlier, later
        self.news = news  # The earlier one was heard second.
        self.count, self.heard_at = 0, now - WORDS_APART  # Words of the earlier one since the later one began.
        self.where: Address | None = None  # The earlier one.
        self.proven = False
        self.told_at: Instant = now - TELL_EVERY


class Rivals:
    def __init__(self) -> None:
        self._by_name: OrderedDict[NodeId, _Rivalry] = OrderedDict()

    def judge(
        self, name: NodeId, incarnation: Incarnation, known: Incarnation, source: Address, now: Instant
    ) -> Verdict:
        """Of a word of that name whose life is not the one `known`, or of a name that two have."""
        found = self._by_name.get(name)
        if found is None or incarnation not in (found.earlier, found.later):
            lives = sorted((incarnation, known))
            found = self._by_name[name] = _Rivalry(lives[0], lives[1], now, news=incarnation < known)
            if len(self._by_name) > RIVALS_MAX:
                self._by_name.popitem(last=False)
        self._by_name.move_to_end(name)
        return (
            self._of_earlier(found, source, now) if incarnation == found.earlier else self._of_later(found, name, now)
        )

    def _of_earlier(self, found: _Rivalry, source: Address, now: Instant) -> Verdict:
        found.where = source
        if now - found.heard_at >= WORDS_APART:
            found.heard_at, found.count = now, found.count + 1
            found.proven = found.proven or found.count >= WORDS_MIN
        return Verdict.HEARD if found.proven or found.news else Verdict.OUTLIVED

    def _of_later(self, found: _Rivalry, name: NodeId, now: Instant) -> Verdict:
        if now - found.heard_at > SILENT_AFTER:
            del self._by_name[name]
            return Verdict.HEARD
        if not found.proven:
            return Verdict.HEARD
        if now - found.told_at < TELL_EVERY:
            return Verdict.RIVAL
        found.told_at = now
        return Verdict.RIVAL_TOLD

    def __contains__(self, name: NodeId) -> bool:
        return name in self._by_name

    def notice(self, name: NodeId) -> Namesake:
        found = self._by_name[name]
        assert found.where is not None
        return Namesake(found.earlier, found.where.host, found.where.port)
