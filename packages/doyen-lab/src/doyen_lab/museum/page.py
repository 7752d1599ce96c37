"""The museum as text: a table for a terminal, and a page of Markdown."""

from math import ceil

from doyen_lab.museum.show import Result, Seen

PULLS = ("240", "120824", "2682", "6981")  # Numbers of pull requests among the sources.

HEAD = """# A museum of other people's bugs

Each line is a published failure of a lock or an election.
A small model of the rule runs in made-up time, on the simulator's network, and shows what the report says.
Beside it, the election `quorum` of doyen goes through the same scenario.
`doyen lab museum` runs all of it again in a few seconds, without root; this page is made by `doyen lab museum --page`.

A model is not the product of the report: it has the one rule that failed, and most of them were mended since.
What each model leaves out stands below the table.
"""


def wrong(result: Result) -> str:
    """Return what went wrong under the rule, in words."""
    return {
        "two at once": f"two at once for {result.rule.two_at_once_s:.0f} s",
        "nobody": f"nobody for {result.rule.nobody_s:.0f} s",
        "changes": f"{result.rule.changes} changes of leader",
    }[result.harm]


def ours(seen: Seen) -> str:
    """Return what doyen did, in words; times are rounded up."""
    two = "never two" if not seen.two_at_once_s else f"TWO AT ONCE for {seen.two_at_once_s:.2f} s"
    nobody = f"nobody for less than {ceil(2 * seen.nobody_s) / 2 or 0.5:g} s"
    return f"{two}, {nobody}" + (f", {seen.changes} change" + "s" * (seen.changes != 1) if seen.changes else "")


def held(result: Result) -> str:
    """Return what doyen held to, in words that stay the same while it does."""
    if not result.holds:
        return f"FAILS: {ours(result.doyen)}"
    return f"never two; a leader again within the {result.bound_s:g} s that it states"


def _link(where: str) -> str:
    name, sign, number = where.partition("#")
    kind = "pull" if number in PULLS else "issues"
    return f"[{where}](https://github.com/{name}/{kind}/{number})" if sign and number.isdigit() else where


def page(results: list[Result]) -> str:
    """Return the page."""
    lines = [HEAD, "| what happened | where | the rule | doyen |", "|---|---|---|---|"]
    for result in results:
        where = ", ".join(map(_link, result.where))
        lines.append(f"| {result.happened} (`{result.name}`) | {where} | {wrong(result)} | {held(result)} |")
    lines += ["", "## Where the models are simpler", ""]
    lines += [f"- `{result.name}`: {result.simpler}." for result in results]
    return "\n".join(lines) + "\n"
