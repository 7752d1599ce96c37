"""Build the site: gather the pages in `build/docs`, make the navigation, and run mkdocs strictly.

    python scripts/site.py [--serve]        build/site, or a server that shows it

Pages outside `docs/` (CHANGELOG.md, …) become pages of the section "Project".
A link to a file that is no page (`../../examples/bully`) becomes its text, since the site has no such file.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
ABROAD = {  # Files outside docs/, and their place on the site.
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "CHANGELOG.md": "project/changelog.md",
    "README.md": "project/readme.md",
    "LICENSE": "project/LICENSE.txt",
}
SECTIONS = {  # Folders of docs/ in the order of the navigation; in each the first pages, others follow by title.
    "Tutorials": ("tutorial", ["singleton", "first-group"]),
    "How-to": (
        "how-to",
        [
            "playground",
            "discover",
            "cron",
            "systemd",
            "containers",
            "fastapi",
            "django",
            "schedulers",
            "test-your-program",
        ],
    ),
    "Reference": ("reference", ["glossary", "commands", "python", "configuration", "http"]),
    "Explanation": (
        "explanation",
        ["choosing", "guarantees", "trust", "beside-peers", "partial-links", "architecture"],
    ),
    "Papers": ("papers", ["README"]),
    "Decisions": ("decisions", ["README"]),
    "Project": ("project", ["readme", "changelog", "stability", "contributing", "security"]),
}
PLAYGROUND = "docs/playground/index.html"
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:|#)([^)#\s]*)(#[^)]*)?\)")
NESTED = re.compile(r"^ {2,3}(?=([-*]|\d+\.) )", re.MULTILINE)  # mkdocs wants four spaces before an inner list.
FENCE = re.compile(r"(^```.*?^```|`[^`\n]*`)", re.MULTILINE | re.DOTALL)


def place(source: Path) -> str | None:
    """Return where a file of the repository is on the site, if it is there at all."""
    if not source.is_relative_to(ROOT):
        return None
    name = source.relative_to(ROOT).as_posix()
    if name in ABROAD:
        return ABROAD[name]
    page = source.suffix in {".md", ".svg", ".png"} or name == PLAYGROUND
    return name.removeprefix("docs/") if name.startswith("docs/") and source.is_file() and page else None


def staged(source: Path) -> str:
    """Return a page with its links turned to where their targets are on the site."""
    here = os.path.dirname(place(source) or "")

    def turned(link: re.Match[str]) -> str:
        image, text, target, anchor = link.groups()
        found = Path(os.path.normpath(source.parent / target))
        if (found / "README.md").exists() and found.is_dir():
            found /= "README.md"
        there = place(found)
        if there is None and found.exists():
            return text
        return f"{image}[{text}]({os.path.relpath(there, here) if there else target}{anchor or ''})"

    parts = FENCE.split(source.read_text())  # Every second part is code.
    return "".join(
        part if number % 2 else NESTED.sub("    ", LINK.sub(turned, part)) for number, part in enumerate(parts)
    )


def gather(into: Path) -> None:
    """Write all pages and pictures into a folder."""
    shutil.rmtree(into, ignore_errors=True)
    sources = [*(ROOT / "docs").rglob("*"), *(ROOT / name for name in ABROAD)]
    for source in sources:
        there = place(source)
        if there is not None:
            target = into / there
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.suffix == ".md":
                target.write_text(staged(source))
            else:
                shutil.copyfile(source, target)


def title(page: Path) -> str:
    """Return a page's first heading without its markup."""
    heading = re.search(r"^# (.*)$", page.read_text(), re.MULTILINE)
    return re.sub(r"[`*]", "", heading.group(1)) if heading else page.stem


def navigation(pages: Path) -> list[dict[str, object]]:
    """Return the navigation as mkdocs takes it."""
    made: list[dict[str, object]] = [{"Start here": "index.md"}]
    for name, (folder, first) in SECTIONS.items():
        found = {page.stem: page for page in (pages / folder).glob("*.md")}
        order = [stem for stem in first if stem in found]
        order += sorted(found.keys() - set(order), key=lambda stem: (stem[0].isdigit() and stem, title(found[stem])))
        entries: list[object] = [{title(found[stem]): f"{folder}/{stem}.md"} for stem in order]
        notes = sorted((pages / folder / "notes").glob("*.md"))
        if notes:
            entries.append({"Notes": [{title(page): f"{folder}/notes/{page.name}"} for page in notes]})
        made.append({name: entries})
    return made


def main() -> int:
    """Gather, and run mkdocs."""
    import playground  # Beside this file.

    pages = ROOT / "build" / "docs"
    gather(pages)
    playground.build_or_say_why(pages / "playground")
    config = ROOT / "build" / "mkdocs.yml"  # JSON is YAML.
    paths = {"docs_dir": "docs", "site_dir": "site"}
    config.write_text(json.dumps({"INHERIT": "../mkdocs.yml", **paths, "nav": navigation(pages)}, indent=1))
    act = ["serve"] if "--serve" in sys.argv[1:] else ["build", "--strict"]  # Not --quiet: it would not count warnings.
    env = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run([sys.executable, "-m", "mkdocs", *act, "--config-file", str(config)], env=env, check=False)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
