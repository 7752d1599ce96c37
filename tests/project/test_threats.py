"""Every line of the threat model names a test that exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_each_line_of_the_threat_model_names_a_test_that_exists() -> None:
    text = (ROOT / "SECURITY.md").read_text().split("## The threat model, line by line")[1].split("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")][1:]
    assert len(lines) >= 15
    for line in lines:
        named = re.findall(r"`(tests/\S+\.py)::(\w+)`", line)
        assert named, line
        for file, test in named:
            assert f"def {test}(" in (ROOT / file).read_text(), f"{file} has no {test}"
