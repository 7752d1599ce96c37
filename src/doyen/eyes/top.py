"""`doyen top`: the page of a node in a terminal, by Textual.  Only this module loads Textual."""

import time
from collections.abc import Callable
from typing import Any, ClassVar, Final

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Footer, Input, Static

from doyen.core.plain import plain, plain_values
from doyen.errors import DoyenError
from doyen.eyes import terminal

EVERY_S: Final = 0.5
FOLLOWED_S: Final = 120.0
STALE_S: Final = 2.5  # A node that has not answered for this long is silent: what it said last may be over.
STYLES: Final = {"good": "green", "care": "yellow", "bad": "red", "faint": "grey54", "strong": "bold", "": ""}

Ask = Callable[..., Any]  # (do, **fields) → what the node answers


class Confirm(ModalScreen[bool]):
    """Asks for the name of the node before it is done."""

    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar[Any] = [Binding("escape", "dismiss(False)", "No")]
    CSS = """
    Confirm { align: center middle; }
    Confirm > VerticalScroll { width: 60; height: auto; border: round; padding: 1; }
    """

    def __init__(self, question: str, name: str) -> None:
        super().__init__()
        self._question, self._name_wanted = question, name

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(Text(f"{self._question}\nType {self._name_wanted} to confirm; Escape: no."))
            yield Input()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value == self._name_wanted)


class Top(App[None]):
    """Now, time, changes, and who sees whom."""

    TITLE = "doyen"
    ENABLE_COMMAND_PALETTE = False
    CSS = "Static { padding: 0 1; } #lanes, #matrix { margin-top: 1; } Screen > VerticalScroll { height: 1fr; }"
    BINDINGS: ClassVar[Any] = [
        Binding("q", "quit", "Quit"),
        Binding("left", "move(-0.25)", "Earlier", priority=True),
        Binding("right", "move(0.25)", "Later", priority=True),
        Binding("plus,equals_sign", "zoom(0.5)", "Zoom in", key_display="+"),
        Binding("minus", "zoom(2.0)", "Zoom out", key_display="-"),
        Binding("f", "follow", "Follow"),
        Binding("R", "resign", "Resign…"),
    ]

    def __init__(self, ask: Ask, election: str = "") -> None:
        super().__init__()
        self._ask, self._election = ask, election
        self._told: dict[str, Any] = {}
        self._lanes: dict[str, Any] | None = None
        self._rows: list[dict[str, Any]] = []
        self._number = ""
        self._span_s, self._until = FOLLOWED_S, 0.0  # 0: it follows the present.
        self._said = self._trouble = ""  # What became of an action, and why nothing new is shown.
        self._asking = False
        self._heard_at = 0.0  # Wall clock, when the node answered last.

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            for name in ("now", "lanes", "changes", "matrix"):
                yield Static(id=name)
        yield Footer()

    def on_mount(self) -> None:
        self.set_interval(EVERY_S, self.look)
        self.look()

    def look(self) -> None:
        """Ask the node in a thread, unless an earlier question is still open, and draw what it says."""
        if not self._asking:
            self._asking = True
            self.run_worker(self._fetch, thread=True)
        elif self._told and self._age_s() > STALE_S:
            self._trouble = self._trouble or "no answer yet"
            self.draw()

    def _age_s(self) -> float:
        return max(0.0, time.time() - self._heard_at)

    def _fetch(self) -> None:
        try:
            now = self._part("now")
            told = self._part("lanes", number=self._number)
            rows = self._part("views")["rows"]
        except DoyenError as error:
            self._trouble = f"no answer: {error}"
        else:
            self._trouble, self._told, self._rows, self._heard_at = "", now, rows, time.time()
            if told["lanes"] is not None:
                self._number, self._lanes = str(told["number"]), told["lanes"]
        finally:
            self._asking = False
        self.call_from_thread(self.draw)

    def _part(self, part: str, **more: Any) -> Any:
        return plain_values(self._ask("page", part=part, election=self._election, **more))

    # Drawing.

    def draw(self) -> None:
        width = max(40, self.size.width - 4)
        self._put("now", self._now_lines(width))
        if self._lanes is not None:
            end = self._until or time.time()
            begin = end - self._span_s
            known = self._heard_at if self._trouble else None  # Of what came after that nothing is known.
            self._put("lanes", terminal.lanes(self._lanes, begin, end, width, _clock, known))
            latest = [mark for mark in self._lanes["marks"] if mark["at"] <= end]
            self._put("changes", [_change(mark) for mark in sorted(latest, key=lambda mark: -mark["at"])[:8]])
        if self._rows:
            if self._trouble:
                age, node = self._age_s(), plain(self._told["node"])
                said = f"{node} does not answer, so nothing is known here of who agrees; {_ago(age)} ago it was:"
                old = [
                    row | {"asking": False, "age_s": None if row["age_s"] is None else row["age_s"] + age}
                    for row in self._rows
                ]
                self._put("matrix", [[(said, "bad")], *terminal.matrix(old, stale_s=-1.0)])
            else:
                sides = terminal.sides(self._rows, strong=self._told.get("sort") == "quorum")
                self._put("matrix", [[sides], *terminal.matrix(self._rows)])

    def _now_lines(self, width: int) -> list[terminal.Line]:
        now = self._told
        if not now:
            return [[(self._trouble or "asking", "care")]]
        leader = now["leader"]
        lines: list[terminal.Line] = []
        if leader is None:
            lines.append([(f"{now['group']} · nobody leads", "bad"), (f" · as {now['node']} sees it", "faint")])
        elif self._trouble:
            said = f"as {now['node']} last said, {_ago(self._age_s())} ago"
            lines.append([(f"{now['group']} · {leader} led · term {now['term']}", "care"), (f" · {said}", "faint")])
            return [*lines, [(text, "care") for text in (self._trouble, self._said) if text]]
        else:
            lasts, acts = _ago(now["at"] - now["since"]), self._acts()
            words = "has led" if acts else "has been named leader"
            tone = "good" if acts else "care"
            lines.append(
                [
                    (f"{now['group']} · {leader} {words} for {lasts} · term {now['term']}", tone),
                    (f" · as {now['node']} sees it", "faint"),
                ]
            )
        left, whole = self._lease(), now.get("lease_s")
        if left is not None and whole:
            full = round(20 * max(0.0, min(1.0, left / whole)))
            when = "" if now["mine"] else f" when {leader} last answered"
            bar: terminal.Line = [("▓" * full, "good"), ("░" * (20 - full), "faint")]
            lines.append([("lease ", ""), *bar, (f" {left:.2f} s of {whole:.2f} s left{when}", "")])
        lines.append([(now["sentence"], "")])
        if now["promise"]:
            lines.append([(f"promised: {now['promise']}", "faint")])
        if now.get("waits_for"):
            lines.append([(f"does not act yet: {now['waits_for']}", "care")])
        elif leader is not None and not self._acts():
            said = (
                "it does not act yet, as it says itself" if self._acts() is False else "it has not said whether it acts"
            )
            lines.append([(said, "care")])
        if now.get("alone"):
            lines.append([(f"alone: {now['alone']}; others that it does not hear may lead, too", "care")])
        lines += [[(f"· {text}", "faint")] for text in now["unseats"]]
        lines += [[(text, "care")] for text in (self._trouble, self._said) if text]
        return lines

    def _leaders_row(self) -> dict[str, Any] | None:
        """Return what the leader said lately of itself."""
        row = next((row for row in self._rows if row["name"] == self._told["leader"]), None)
        old = row is None or row["age_s"] is None or row["age_s"] > STALE_S or row.get("asking") or row.get("gone")
        return None if old else row

    def _acts(self) -> bool | None:
        """Return whether the leader acts, by its own word; None: that has not come."""
        if self._told["leader"] == self._told["node"]:
            return not self._told["waits_for"]
        row = self._leaders_row()
        return None if row is None or row["leader"] != row["name"] else row["acts"]

    def _lease(self) -> float | None:
        row = self._leaders_row()
        own: float | None = self._told.get("lease_left_s")
        return own if own is not None or row is None else row["lease_left_s"]

    def _put(self, name: str, lines: list[terminal.Line]) -> None:
        text = Text()
        for number, line in enumerate(lines):
            for part, tone in line:
                text.append(part, STYLES[tone])
            if number < len(lines) - 1:
                text.append("\n")
        self.screen_stack[0].query_one(f"#{name}", Static).update(text)  # Also below a question.

    # Keys.

    def action_move(self, share: float) -> None:
        until = (self._until or time.time()) + share * self._span_s
        self._until = 0.0 if until >= time.time() else until
        self.draw()

    def action_zoom(self, factor: float) -> None:
        self._span_s = min(max(self._span_s * factor, 1.0), 30 * 86400.0)
        self.draw()

    def action_follow(self) -> None:
        self._until = 0.0
        self.draw()

    def action_resign(self) -> None:
        node = self._told.get("node", "")
        if not self._told.get("mine"):
            self._said = f"{node} does not lead, so it cannot resign here"
            self.draw()
            return

        def resign() -> None:
            try:
                self._ask("resign", election=self._election, timeout_s=60)
                self._said = f"{node} resigned"
            except DoyenError as error:
                self._said = plain(str(error))

        def done(yes: bool | None) -> None:
            if yes:
                self.run_worker(resign, thread=True)
            else:
                self._said = "nothing was done"

        self.push_screen(Confirm(f"Shall {node} resign?", node), done)


def _change(mark: dict[str, Any]) -> terminal.Line:
    tone = terminal.MARKS.get(mark["kind"], ("", ""))[1]
    why = f": {mark['why']}" if mark.get("why") else ""
    return [(f"{_clock(mark['at'], 0.1)}  ", "faint"), (plain(mark["label"]), tone), (plain(why), "")]


def _clock(at: float, step: float) -> str:
    text = time.strftime("%H:%M" if step >= 60 else "%H:%M:%S", time.localtime(at))
    return text if step >= 1 else f"{text}.{int(at % 1 * 1000):03d}"


def _ago(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"
