"""Says for how long two acted at once, and how sure that is."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

WHEN_MAX: Final = 1000
SHOWN_S: Final = 0.005  # What is shorter is shown as 0.00 s.


class Act(Struct, frozen=True):
    """A node that may act as leader for a while; instants are seconds on the common clock."""

    who: str
    term: int
    begin: float
    end: float
    latest: float  # It may have acted until then: its process was killed, and nobody saw when.


class Verdict(Struct, frozen=True, kw_only=True):
    """The time during which two acted at once in one election."""

    election: str
    kind: str
    sort: str  # weak, timed or quorum: what the election promises.
    together_s: float
    at_least_s: float  # By the error of the clocks,
    at_most_s: float  # and by processes that were killed unseen.
    sentence: str
    when: tuple[tuple[float, float, str], ...]  # (begin, end, who)
    lacks: tuple[str, ...] = ()  # Who may have acted beside them, as no recording tells.

    def and_(self, later: "Verdict") -> "Verdict":
        """Return the verdict about this time and a later one."""
        together, least = self.together_s + later.together_s, self.at_least_s + later.at_least_s
        most, lacks = self.at_most_s + later.at_most_s, (*self.lacks, *later.lacks)
        return replace(
            later,
            together_s=together,
            at_least_s=least,
            at_most_s=most,
            sentence="; ".join((_sentence(together, least, most, later.sort), *lacks)),
            when=(*self.when, *later.when)[:WHEN_MAX],
            lacks=lacks,
        )

    @property
    def breaks(self) -> bool:
        """Return whether the election's promise was surely broken."""
        return self.sort == "quorum" and self.at_least_s > 0


def judge(
    acts: Sequence[Act],
    apart: Callable[[Act, Act], float],
    *,
    election: str = "",
    kind: str = "",
    sort: str = "weak",
    lacks: Sequence[str] = (),
) -> Verdict:
    """Return the verdict; `apart` says by how many seconds the clocks of two may be wrong against each other."""
    ordered = sorted(acts, key=lambda act: act.begin)
    surely: list[tuple[float, float]] = []
    maybe: list[tuple[float, float]] = []
    when: list[tuple[float, float, str]] = []
    for number, one in enumerate(ordered):
        for other in ordered[number + 1 :]:
            if one.who == other.who:
                continue
            error = apart(one, other)
            begin, end, latest = other.begin, min(one.end, other.end), min(one.latest, other.latest)
            if end > begin:
                when.append((begin, end, f"{one.who} (term {one.term}) and {other.who} (term {other.term})"))
            if end - begin > error:
                surely.append((begin + error / 2, end - error / 2))
            if latest - begin > -error:
                maybe.append((begin - error / 2, max(end, latest) + error / 2))
    together, least, most = _length((b, e) for b, e, _ in when), _length(surely), _length(maybe)
    return Verdict(
        election=election,
        kind=kind,
        sort=sort,
        together_s=together,
        at_least_s=least,
        at_most_s=max(most, together),
        sentence="; ".join((_sentence(together, least, max(most, together), sort), *lacks)),
        when=tuple(when[:WHEN_MAX]),
        lacks=tuple(lacks),
    )


def _sentence(together: float, least: float, most: float, sort: str) -> str:
    bounded = least + 5e-4 <= most < float("inf")
    # With bounds it has as many places as they have: rounded to fewer, it could lie outside of them.
    said = f"two acted at once for {together:.{3 if bounded and together > 0 else 2}f} s"
    if most == float("inf"):
        return f"{said}, by wall clocks: no messages between them tell how wrong that is"
    if bounded:
        said += f" (between {least:.3f} and {most:.3f} s, by the error of the clocks)"
    if together <= 0 or sort == "weak":
        return said + ("; this election allows it" if together >= SHOWN_S else "")
    if least > 0:
        return f"{said}: this election promises that it never happens"
    return f"{said}: the clocks do not tell whether that broke the promise"


def _length(spans: Iterable[tuple[float, float]]) -> float:
    """Return the length of the union."""
    total, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        if end > until:
            total += end - max(begin, until)
            until = end
    return total
