"""Fill the tables of docs/explanation/beside-peers.md, and README's, with what `doyen bench peers --json` measured.

    doyen bench peers --json > peers.json; python scripts/peers_page.py peers.json      (`make bench-figures` does both)

A row that the run has is replaced or added; one that it has not stays, and is marked as of an earlier run.
"""

import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import doyen

ROOT = Path(__file__).parents[1]
PAGE = Path("docs/explanation/beside-peers.md")
NAMES = {"zookeeper": "ZooKeeper, kazoo"}  # Systems that the page calls otherwise.
EARLIER = "†"
NOTE = f"Rows with {EARLIER} were measured in an earlier run."
FIGURES = "| N | | processes |"
RATIOS = "| N | fault | doyen |"
SERVERS = "## Servers that elect among themselves, and clients that hold a lock"
PRODUCTS = {  # Of each row: who elects among themselves, and who holds a lock of theirs.
    "doyen `quorum`, unicast": ("doyen quorum+key", ""),
    "doyen `quorum`, unicast, with a will": ("doyen will+key", ""),
    "doyen `quorum`, multicast": ("doyen quorum-multicast+key", ""),
    "doyen `quorum`, multicast, with a will": ("doyen will-multicast+key", ""),
    "ZooKeeper": ("zookeeper-servers", "zookeeper"),
    "etcd": ("etcd-servers", "etcd"),
}
README_SIZE = "5"
README_ROWS = {
    "**doyen, `gossip`**": "doyen gossip",
    "**doyen, `fast`**": "doyen unicast",
    "**doyen, `quorum`**": "doyen quorum, key",
    "ZooKeeper, kazoo's Election": "ZooKeeper, kazoo",
    "etcd, `etcdctl elect`": "etcd",
    "serf, lowest name leads": "serf",
    "swim-protocol, lowest name leads": "swim-protocol",
}
Row = list[str]


def name_of(system: str) -> str:
    return NAMES.get(system, system.replace("+key", ", key"))


def takeover(times: dict[str, Any]) -> str:
    """Return a median, and in brackets the least and the greatest."""
    if not times["seconds"]:
        return "never" if times["never"] else "–"
    text = f"{times['median_s']:.2f} ({min(times['seconds']):.2f}–{max(times['seconds']):.2f})"
    return f"{text}, {times['never']} never" if times["never"] else text


def figures_row(figures: dict[str, Any]) -> Row:
    idle = figures["idle"]
    join = "–" if figures["join_s"] is None else f"{figures['join_s']:.1f}"
    return [
        str(figures["nodes"]),
        name_of(figures["system"]),
        str(len(figures["processes"])),
        f"{idle['bytes_per_s']['mean']:,.0f}",
        f"{idle['cpu_percent']['mean']:.1f}",
        f"{idle['rss_each']['mean'] / 1e6:.1f}, {idle['pss_each']['mean'] / 1e6:.1f}",
        takeover(figures["kill"]),
        takeover(figures["cut"]),
        join,
    ]


def ratio_rows(checks: list[dict[str, Any]], peers: Row) -> list[Row]:
    """Return theirs divided by ours for each size, fault and way of ours, one column for each peer."""
    found: dict[tuple[str, str, str], Row] = {}
    for check in checks:
        fault, times, _ = check["what"].partition(" × ")
        if not times or name_of(check["peer"]) not in peers:
            continue
        way = name_of(check["system"]).removeprefix("doyen ")
        aim = "–" if check["aim"] is None else f"{check['aim']:g}"
        row = found.setdefault(
            (str(check["nodes"]), fault, way), [str(check["nodes"]), fault, way, aim, *"–" * len(peers)]
        )
        value = check["value"]
        if value is not None:
            text = f"{value:,.0f}" if value >= 10 else f"{value:.2g}"
            row[4 + peers.index(name_of(check["peer"]))] = f"**{text}**" if check["holds"] is False else text
    return list(found.values())


def earlier(text: str, size: int, system: str) -> Row:
    """Return the figures of a client that the run has not, as the page has them from an earlier one."""
    rows = [cells(line) for line in text.splitlines() if line.startswith(f"| {size} ")]
    found = [row for row in rows if system and row[1] == name_of(system) and len(row) == 9]
    return [f"{found[0][i]} {EARLIER}" for i in (3, 4, 6, 7)] if found else ["–"] * 4


def servers_section(text: str, contest: dict[str, Any], when: str) -> str:
    """Return the section with both columns, and theirs divided by ours; "" if the run had no such servers."""
    by_name = {(f["nodes"], f["system"]): f for f in contest["systems"]}
    sizes = sorted({nodes for nodes, system in by_name if system.endswith("-servers")})
    if not sizes:
        return ""
    head = "sent, B/s | CPU, % | killed, s | cut off, s"
    lines = [
        f"Measured on {when} with doyen {doyen.__version__}, voters with a key and a lease of 2 s.",
        "The first four columns are of servers that elect among themselves, the last four of clients that hold a lock "
        "of three such servers.",
        "A cell in bold misses its aim.",
        NOTE,
        "",
        f"| N | | {head} | {head} |",
        "|" + "---|" * 10,
    ]
    for size in sizes:
        for shown, both in PRODUCTS.items():
            if (size, both[0]) in by_name:
                row = [
                    cell
                    for system in both
                    for cell in (
                        [figures_row(by_name[size, system])[i] for i in (3, 4, 6, 7)]
                        if (size, system) in by_name
                        else earlier(text, size, system)
                    )
                ]
                lines.append(f"| {size} | {shown} | {' | '.join(row)} |")
    lines += ["", "Takeover × traffic, theirs divided by ours, in brackets the aim:", ""]
    lines += ["| N | fault | doyen | ZooKeeper's servers | etcd's servers |", "|---|---|---|---|---|"]
    ratios: dict[tuple[int, str, str], dict[str, str]] = {}
    names = {both[0]: name for name, both in PRODUCTS.items()}
    for check in contest["checks"]:
        fault, times, _ = check["what"].partition(" × ")
        shown = names.get(check["system"])
        if times and shown and check["peer"].endswith("-servers") and check["value"] is not None:
            text = f"{check['value']:.3g}" + ("" if check["aim"] is None else f" ({check['aim']:g})")
            text = f"**{text}**" if check["holds"] is False else text
            ratios.setdefault((check["nodes"], fault, shown), {})[check["peer"]] = text
    for (size, fault, shown), peers in sorted(ratios.items()):
        theirs = [peers.get(name, "–") for name in ("zookeeper-servers", "etcd-servers")]
        lines.append(f"| {size} | {fault} | {shown.removeprefix('doyen ')} | {' | '.join(theirs)} |")
    return f"{SERVERS}\n\n" + "\n".join(lines) + "\n\n"


def cells(line: str) -> Row:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def merged(text: str, heading: str, rows: list[Row], keys: int) -> str:
    """Return the page with these rows in the table under that heading; its first `keys` cells say which row it is."""
    lines = text.splitlines()
    top = next(number for number, line in enumerate(lines) if line.startswith(heading)) + 2
    end = next(
        number for number in range(top, len(lines) + 1) if number == len(lines) or not lines[number].startswith("|")
    )
    kept: dict[tuple[str, ...], Row] = {}
    for line in lines[top:end]:
        row = cells(line)
        row[0] = row[0].rstrip(f" {EARLIER}")
        kept[tuple(row[:keys])] = [f"{row[0]} {EARLIER}", *row[1:]]
    kept |= {tuple(row[:keys]): row for row in rows}
    order = {name: number for number, name in enumerate(dict.fromkeys(key[-1] for key in kept))}
    final = sorted(kept.items(), key=lambda entry: (int(entry[0][0]), *entry[0][1:-1], order[entry[0][-1]]))
    return "\n".join([*lines[:top], *(f"| {' | '.join(row)} |" for _, row in final), *lines[end:]]) + "\n"


def page_with(text: str, contest: dict[str, Any], when: str) -> str:
    section = servers_section(text, contest, when)
    if section:
        text = re.sub(rf"{SERVERS}.*?(?=## Why\n)", "", text, flags=re.DOTALL).replace("## Why\n", f"{section}## Why\n")
    placed = {system for both in PRODUCTS.values() for system in both[:1]} - {"doyen quorum+key"}
    systems = [figures for figures in contest["systems"] if figures["system"] not in placed]
    counts = {
        fault: sorted({len(f[fault]["seconds"]) + f[fault]["never"] for f in systems}) for fault in ("kill", "cut")
    }
    faults = " and ".join(f"{least_and_most(counts[fault])} {fault}s" for fault in ("kill", "cut"))
    sizes = ", ".join(str(size) for size in sorted({f["nodes"] for f in systems}))
    intro = (
        f"Measured on {when} with doyen {doyen.__version__}, with {sizes} members; each system had {faults}.\n"
        "Medians, in brackets the least and the greatest.\n"
    )
    absent = "".join(
        f"Not measured: {name_of(a['system'])} with {a['nodes']} ({a['why']}).\n" for a in contest["absent"]
    )
    text = merged(text, FIGURES, [figures_row(f) for f in systems], 2)
    peers = cells(next(line for line in text.splitlines() if line.startswith(RATIOS)))[4:]
    text = merged(text, RATIOS, ratio_rows(contest["checks"], peers), 3)
    note = f"{NOTE}\n" if EARLIER in text.partition(FIGURES)[2] else ""
    return re.sub(
        r"(## What came out\n\n).*?(?=\| N \| \| processes)",
        lambda found: f"{found[1]}{intro}{absent}{note}\n",
        text,
        count=1,
        flags=re.DOTALL,
    )


def least_and_most(counts: list[int]) -> str:
    return str(counts[0]) if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"


def readme_with(readme: str, page: str) -> str:
    """Return README with the medians of the page's table in its own."""
    lines = readme.splitlines()
    for shown, measured in README_ROWS.items():
        found = next(
            (
                cells(line)
                for line in page.splitlines()
                if re.match(rf"\| {README_SIZE}( {EARLIER})? \| {measured} \|", line)
            ),
            None,
        )
        number = next(number for number, line in enumerate(lines) if line.startswith(f"| {shown}"))
        row = cells(lines[number])
        row[2:4] = ["not measured yet"] * 2 if found is None else [short(found[6]), short(found[7])]
        lines[number] = f"| {' | '.join(row)} |"
    return "\n".join(lines) + "\n"


def short(cell: str) -> str:
    """Return the median alone, as README shows it."""
    if not cell[:1].isdigit():
        return cell
    median = float(cell.split()[0])
    return f"{median:.2f} s" if median < 1 else f"{median:.1f} s"


def main(file: Path, root: Path = ROOT) -> None:
    contest = json.loads(file.read_text())
    when = time.strftime("%Y-%m-%d", time.gmtime(file.stat().st_mtime))
    page = page_with((root / PAGE).read_text(), contest, when)
    readme = readme_with((root / "README.md").read_text(), page)
    (root / PAGE).write_text(page)
    (root / "README.md").write_text(readme)
    print(f"{PAGE} and README.md have the figures of {len(contest['systems'])} systems")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
