"""One sentence per line in Markdown.

    python tests/seams/markdown.py FILE…      rewrites the files

Code blocks, tables, headings and indented code stay as they are.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

FENCE = re.compile(r"^\s*(```|~~~)")
ITEM = re.compile(r"^(\s*)([-*+]|\d+[.)])(\s+)(?=\S)")
VERBATIM = re.compile(r"^\s*(\||#{1,6} |<|\[[^\]]+\]: |---\s*$)")
WHOLE = re.compile(r"`[^`]*`|\]\([^)]*\)")  # A sentence does not end in code, nor in a link's address.
END = re.compile(r"(?<=[.!?])([)\"”'*_]*) +(?=[A-ZÀ-Þ0-9`*_(\[\"“§θλδκ\ue000])")
ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|vs|cf|Alg|Eq|Thm|Cor|Prog|Fig|Figs|Sec|Tab|No|pp?|ll?|al|resp|approx|ca|min|max|St|Dr|Def)"
    r"|\[[A-Z]{2,}[^\]]*\b[a-zA-Z]+|(?:^|\s)[A-Z])\.$"
)
OPENS_A_BLOCK = re.compile(r"^([-+*]\s|\d+[.)]\s|#|>|\|)")


def sentences(text: str) -> list[str]:
    """Split a paragraph."""
    masked: list[str] = []

    def mask(found: re.Match[str]) -> str:
        masked.append(found.group())
        return f"\ue000{len(masked) - 1}\ue001"

    hidden = WHOLE.sub(mask, " ".join(text.split()))
    parts, begin = [], 0
    for end in END.finditer(hidden):
        before, after = hidden[begin : end.end(1)], hidden[end.end() :]
        inside = before.count("(") - before.count(")") > 0  # Of a parenthesis, which belongs to its sentence.
        if not inside and not ABBREVIATION.search(before) and not OPENS_A_BLOCK.match(after):
            parts.append(before)
            begin = end.end()
    parts.append(hidden[begin:])
    return [re.sub("\ue000(\\d+)\ue001", lambda found: masked[int(found.group(1))], part) for part in parts]


def rewritten(text: str) -> str:
    """Return the page with one sentence per line."""
    return "\n".join(_lines(text.split("\n")))


def _lines(lines: list[str]) -> Iterator[str]:
    paragraph: list[str] = []
    first = rest = ""  # What stands before a paragraph's first line, and before its others.
    item_width = 0
    fenced = False

    def flush() -> Iterator[str]:
        if paragraph:
            for number, sentence in enumerate(sentences(" ".join(paragraph))):
                yield (rest if number else first) + sentence
            paragraph.clear()

    for line in lines:
        item = ITEM.match(line)
        if FENCE.match(line):
            yield from flush()
            fenced = not fenced
            item_width = len(line) - len(line.lstrip())
            yield line
        elif fenced or not line.strip() or VERBATIM.match(line):
            yield from flush()
            yield line
            if not fenced and line.strip():
                item_width = 0
        elif item:
            yield from flush()
            first, rest = item.group(), " " * len(item.group())
            item_width = len(rest)
            paragraph.append(line[len(first) :])
        elif not paragraph and len(line) - len(line.lstrip()) >= max(4, item_width + 4):
            yield line  # Indented code.
        else:
            if not paragraph:
                indent = line[: len(line) - len(line.lstrip())]
                first = rest = indent
                item_width = len(indent)
            paragraph.append(line.strip())
    yield from flush()


if __name__ == "__main__":
    for name in sys.argv[1:]:
        page = Path(name)
        before = page.read_text()
        after = rewritten(before)
        assert before.split() == after.split(), f"{name}: words were lost"
        page.write_text(after)
