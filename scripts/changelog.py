"""Make CHANGELOG.md from the fragments in `changes/`.

    python scripts/changelog.py             rewrites the section of the version in pyproject.toml
    python scripts/changelog.py --release   the same, then deletes the fragments: the section stays as it is from now on

A fragment is a file `changes/NAME.TYPE.md`, where TYPE is one of TYPES: one sentence per line, for users to read.
The sections of other versions are kept as they are.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
TYPES = {"change": "Changed", "feature": "Added", "fix": "Fixed"}
HEAD = """# Changes

What users see, version by version.
Made from `changes/` by `python scripts/changelog.py`; see [CONTRIBUTING](CONTRIBUTING.md#changes-that-users-see).
"""


def fragments(root: Path = ROOT) -> dict[str, list[Path]]:
    """Return the fragments by type; a file of another name is refused."""
    found: dict[str, list[Path]] = {kind: [] for kind in TYPES}
    for path in sorted(set((root / "changes").iterdir()) - {root / "changes" / "README.md"}):
        name = re.fullmatch(r"[\w-]+\.(\w+)\.md", path.name)
        if not name or name.group(1) not in TYPES:
            raise SystemExit(f"changes/{path.name}: name it changes/NAME.TYPE.md, TYPE being {', '.join(TYPES)}")
        if not path.read_text().strip():
            raise SystemExit(f"changes/{path.name} says nothing")
        found[name.group(1)].append(path)
    return found


def section(version: str, found: dict[str, list[Path]]) -> str:
    """Return one version's section: a list for each type, an item for each fragment."""
    parts = [f"## {version}\n"]
    for kind, title in TYPES.items():
        if found[kind]:
            items = ("- " + path.read_text().strip().replace("\n", "\n  ") for path in found[kind])
            parts.append(f"### {title}\n\n" + "\n".join(items) + "\n")
    return "\n".join(parts)


def page(root: Path = ROOT) -> str:
    """Return CHANGELOG.md as it should be."""
    version = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    written = root / "CHANGELOG.md"
    sections = re.split(r"^(?=## )", written.read_text() if written.exists() else "", flags=re.MULTILINE)[1:]
    others = [text for text in sections if text.splitlines()[0] != f"## {version}"]
    own = [text for text in sections if text not in others]
    found = fragments(root)
    if any(found.values()):
        own = [section(version, found)]
    return "\n".join(text.rstrip() + "\n" for text in (HEAD, *own, *others))


if __name__ == "__main__":
    (ROOT / "CHANGELOG.md").write_text(page())
    if "--release" in sys.argv[1:]:
        for paths in fragments().values():
            for path in paths:
                path.unlink()
