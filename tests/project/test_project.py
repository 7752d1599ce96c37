"""The files around the code agree with each other: versions, metadata, changelog, lock file, what is cited."""

import importlib.util
import re
import subprocess
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import doyen

ROOT = Path(__file__).parents[2]
PACKAGES = (ROOT, ROOT / "packages" / "doyen-papers", ROOT / "packages" / "doyen-lab")
CITED = re.compile(r"\b(?:docs|tests|scripts|scenarios|examples)/[\w./-]*\w\.(?:md|py|toml|sh)\b")


def project(package: Path) -> dict[str, Any]:
    return dict(tomllib.loads((package / "pyproject.toml").read_text())["project"])


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def changelog() -> ModuleType:
    spec = importlib.util.spec_from_file_location("changelog", ROOT / "scripts" / "changelog.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_three_packages_have_one_version() -> None:
    assert {project(package)["version"] for package in PACKAGES} == {doyen.__version__}
    for package in PACKAGES[1:]:
        own = [Requirement(text) for text in project(package)["dependencies"] if text.startswith("doyen")]
        assert {str(each.specifier) for each in own} == {f"=={doyen.__version__}"}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_metadata_is_complete(package: Path) -> None:
    told = project(package)
    assert told["license"] == "Apache-2.0"
    assert (package / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    assert "Version 2.0, January 2004" in (package / "LICENSE").read_text()
    assert {"description", "readme", "keywords", "classifiers", "authors", "requires-python"} <= told.keys()
    assert "Typing :: Typed" in told["classifiers"]
    assert (package / "src" / told["name"].replace("-", "_") / "py.typed").exists()


def test_the_changelog_is_made_from_its_fragments(changelog: ModuleType) -> None:
    assert (ROOT / "CHANGELOG.md").read_text() == changelog.page(), "run: python scripts/changelog.py"
    assert f"## {doyen.__version__}\n" in changelog.page()


def test_a_release_keeps_what_was_written(changelog: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "changes").mkdir()
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.0"\n')
    (tmp_path / "changes" / "one.fix.md").write_text("A fix.\nIts second sentence.\n")
    (tmp_path / "CHANGELOG.md").write_text(changelog.page(tmp_path))
    released = changelog.page(tmp_path)
    assert "## 1.0\n\n### Fixed\n\n- A fix.\n  Its second sentence.\n" in released
    (tmp_path / "changes" / "one.fix.md").unlink()
    assert changelog.page(tmp_path) == released
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.1"\n')
    (tmp_path / "changes" / "two.feature.md").write_text("News.\n")
    after = changelog.page(tmp_path)
    assert after.index("## 1.1") < after.index("- News.") < after.index("## 1.0") < after.index("- A fix.")
    (tmp_path / "changes" / "three.txt").write_text("What is this?\n")
    with pytest.raises(SystemExit, match=r"three\.txt: name it"):
        changelog.page(tmp_path)


def test_the_lock_file_has_every_dependency_at_a_version_that_fits() -> None:
    lines = [line for line in (ROOT / "requirements.lock").read_text().splitlines() if not line.startswith("#")]
    locked = {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines)}
    assert all(locked.values())
    wanted = [
        Requirement(text)
        for package in PACKAGES
        for told in (project(package),)
        for texts in (told["dependencies"], *told.get("optional-dependencies", {}).values())
        for text in texts
    ]
    wanted = [each for each in wanted if not each.name.startswith("doyen")]
    amiss = [
        str(each)
        for each in wanted
        if not each.specifier.contains(locked.get(canonicalize_name(each.name), "0"), prereleases=True)
    ]
    assert len(wanted) > 15
    assert not amiss, f"{', '.join(amiss)}: run `make lock`"


def test_what_the_project_cites_is_in_the_project() -> None:
    amiss, seen = [], 0
    for path in tracked("*.py", "*.toml", "*.md", "Makefile", "*.yml", "*.yaml"):
        text = path.read_text()
        amiss += [f"{path.relative_to(ROOT)}: {name}" for name in re.findall(r"\bshared/\w+|\bseeds/\d+", text)]
        if path.is_relative_to(ROOT / "tests"):
            continue
        for name in CITED.findall(text):
            seen += 1
            if not (ROOT / name).exists():
                amiss.append(f"{path.relative_to(ROOT)}: {name}")
    assert seen > 100
    assert not amiss, "\n".join(amiss)


def test_no_file_has_the_marks_of_a_merge() -> None:
    marks = re.compile(r"^(<{7}|>{7}) ", re.MULTILINE)
    texts = tracked("*.py", "*.toml", "*.md", "*.yml", "*.yaml", "*.json", "Makefile", "*.sh")
    assert [str(path.relative_to(ROOT)) for path in texts if marks.search(path.read_text())] == []
