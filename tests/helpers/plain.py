"""Plain installs: wheels built from the tree, in virtual environments that know nothing of it."""

import os
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "doyen": ROOT,
    "doyen-papers": ROOT / "packages" / "doyen-papers",
    "doyen-lab": ROOT / "packages" / "doyen-lab",
}
BLOCK = re.compile(r"^```(console|python|dockerfile)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def shell_commands(body: str) -> list[str]:
    """Return the commands of a console block: `$ ` begins one, and `> ` goes on with it, as at a prompt of bash."""
    found: list[str] = []
    for line in body.splitlines():
        if line.startswith("$ "):
            found.append(line[2:])
        elif found and (line == ">" or line.startswith("> ")):
            found[-1] += "\n" + line[2:]
    return found


def to_install(page: Path) -> tuple[str, ...]:
    """Return what a page says to install, in its blocks: `pip install WORDS`, and RUN lines of a Dockerfile."""
    found: dict[str, None] = {}
    for kind, body in BLOCK.findall(page.read_text()):
        for line in body.splitlines() if kind != "python" else ():
            if line.startswith(("$", ">")):
                continue
            words = shlex.split(line, comments=True)
            if words[1:2] == ["install"] and words[0].endswith("pip"):
                found |= dict.fromkeys(words[2:])
            elif words[:3] == ["RUN", "pip", "install"]:
                found |= dict.fromkeys(words[3:])
    return tuple(sorted(found))


class Installs:
    """The wheels, made once each, and an environment for each set of packages that a page names."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.environment = cache(self._environment)

    def _environment(self, packages: tuple[str, ...]) -> Path:
        """Return the bin folder of a fresh environment that has these packages, and what they need."""
        ours = {re.split(r"[\[<]", package)[0] for package in packages} & PACKAGES.keys()
        needed = [*PACKAGES] if "doyen-lab" in ours else ["doyen", *(ours - {"doyen"})]
        for name in needed:
            self._build(name)
        folder = self.place / f"venv{len(list(self.place.glob('venv*')))}"
        run([sys.executable, "-m", "venv", "--without-pip", str(folder)])
        pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet"]
        run([*pip, "--find-links", str(self.place / "wheels"), *packages])
        return folder / "bin"

    def _build(self, name: str) -> None:
        wheels = self.place / "wheels"
        if not list(wheels.glob(f"{name.replace('-', '_')}-[0-9]*.whl")):
            run(
                [
                    sys.executable,
                    "-m",
                    "pip",
                    "wheel",
                    "--quiet",
                    "--no-deps",
                    "--wheel-dir",
                    str(wheels),
                    PACKAGES[name],
                ]
            )


def run(command: list[str | Path]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=bare(Path("/usr/bin")))
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


def bare(bin_folder: Path, **more: str) -> dict[str, str]:
    """Return an environment in which nothing leads to the tree: no PYTHONPATH, and only this install on the PATH."""
    kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "LANG", "LC_"))}
    path = f"{bin_folder}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return kept | {"PATH": path, "HOME": os.environ.get("HOME", "/"), **more}
