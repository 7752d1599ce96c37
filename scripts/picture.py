"""Draw docs/pictures/takeover.svg from a real run: README's program three times, and the one that leads is killed.

    python scripts/picture.py

The lines and their times are what the processes wrote; only the name of this machine is replaced.
"""

import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from html import escape
from os import environ
from pathlib import Path

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs" / "pictures" / "takeover.svg"
WIDTH, ROW, HEAD, GAP = 350, 19, 30, 14  # In pixels: of a terminal, of a line, of a title bar, between terminals.


def program() -> str:
    """Return README's first program."""
    found = re.search(r"^```python[^\n]*\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert found
    return found.group(1)


class Copy:
    """One process, and what it wrote, with seconds since the first start."""

    def __init__(self, file: Path, env: dict[str, str], begun: float) -> None:
        self.lines: list[tuple[float, str]] = []
        self.process = subprocess.Popen(
            [sys.executable, "-u", str(file)], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._begun = begun
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.lines.append((time.monotonic() - self._begun, line.rstrip().replace(socket.gethostname(), "host")))

    @property
    def works(self) -> bool:
        return any("works" in line for _, line in self.lines)


def run() -> list[list[tuple[float, str]]]:
    """Start three, a second apart; kill the one that works; return what each wrote."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "leader.py"
        file.write_text(program())
        env = environ | {"DOYEN_RUNTIME_DIR": place}
        begun, copies = time.monotonic(), []
        try:
            for _ in range(3):
                copies.append(Copy(file, env, begun))
                time.sleep(1)
            until(lambda: any(copy.works for copy in copies))
            time.sleep(2)
            first = next(copy for copy in copies if copy.works)
            first.process.send_signal(signal.SIGKILL)
            first.lines.append((time.monotonic() - begun, "Killed"))
            until(lambda: any(copy.works for copy in copies if copy is not first))
            time.sleep(2)
            return [copy.lines for copy in copies]
        finally:
            for copy in copies:
                copy.process.kill()
                copy.process.wait()


def until(holds: Callable[[], bool]) -> None:
    """Wait until this holds, at most a minute."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, "nobody works"
        time.sleep(0.01)


def drawn(terminals: list[list[tuple[float, str]]]) -> str:
    """Return the picture: three terminals side by side, a line at the height of its time."""
    moments = sorted({(at, number) for number, lines in enumerate(terminals) for at, _ in lines})
    row = {moment: index + 1 for index, moment in enumerate(moments)}
    height = HEAD + ROW * (len(moments) + 2)
    parts = []
    for number, lines in enumerate(terminals):
        left = number * (WIDTH + GAP)
        parts.append(f'<rect x="{left}" y="0" width="{WIDTH}" height="{height}" rx="8" class="window"/>')
        parts.append(f'<text x="{left + 14}" y="20" class="title">terminal {number + 1}</text>')
        parts.append(f'<text x="{left + 14}" y="{HEAD + ROW - 5}" class="typed">$ python leader.py</text>')
        for at, line in lines:
            y = HEAD + ROW * (row[at, number] + 1) - 5
            kind = "killed" if line == "Killed" else "works" if "works" in line else "plain"
            parts.append(f'<text x="{left + 14}" y="{y}" class="at">{at:6.2f} s</text>')
            parts.append(f'<text x="{left + 84}" y="{y}" class="{kind}">{escape(line)}</text>')
    width = len(terminals) * (WIDTH + GAP) - GAP
    style = (
        "text{font:13px ui-monospace,Menlo,Consolas,monospace;white-space:pre}.window{fill:#1d2330}.title{fill:#8b95a7}"
        ".typed,.plain{fill:#dfe5ee}.at{fill:#67728a}.works{fill:#7ee2a0}.killed{fill:#ff8080;font-weight:bold}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        ' role="img" aria-label="Three terminals run one program; the one that leads is killed, another takes over">\n'
        f"<style>{style}</style>\n" + "\n".join(parts) + "\n</svg>\n"
    )


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(drawn(run()))
    print(TARGET.relative_to(ROOT))
