"""The playground of docs/playground, built into a folder and served to a browser on this machine."""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def load_script() -> ModuleType:
    """Return scripts/playground.py as a module."""
    spec = importlib.util.spec_from_file_location("playground_script", ROOT / "scripts" / "playground.py")
    assert spec and spec.loader
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


SCRIPT = load_script()
PARTS = (
    all((SCRIPT.FETCHED / f"pyodide-{SCRIPT.PYODIDE}" / name).is_file() for name in SCRIPT.OF_PYODIDE)
    and [*SCRIPT.FETCHED.glob(f"msgspec-{SCRIPT.MSGSPEC}-*wasm32.whl")] != []
)
needs_playground = pytest.mark.skipif(
    not PARTS, reason="Pyodide and msgspec's wheel for it are not in .venv/playground: make browser"
)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None: ...


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on loopback; yield its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=folder))
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
