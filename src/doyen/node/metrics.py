"""Metrics for Prometheus, written by hand: a few dozen lines instead of a library of five megabytes.

A client that accepts OpenMetrics gets it, everybody else Prometheus' text format.  Names, labels and values are the
same in both; they differ in how a family is announced, and in the end mark.
"""

import os
import resource
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from doyen import __version__
from doyen.core.clock import to_seconds
from doyen.net.driver import Driver
from doyen.node.histogram import Histogram
from doyen.node.stack import Stack

TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_SUFFIXES: Final = {"counter": "_total", "info": "_info"}  # OpenMetrics announces a family without them.

Sample = tuple[Mapping[str, str], float]


def accepted_type(accept: str) -> str:
    """Return the content type to answer an Accept header with: OpenMetrics if it is wanted at least as much as text."""
    wanted = {"application/openmetrics-text": 0.0, "text/plain": 0.0}
    for part in accept.lower().split(","):
        kind, *parameters = (word.strip() for word in part.split(";"))
        given = dict(pair.partition("=")[::2] for pair in parameters)
        if kind in wanted and (kind == "text/plain" or given.get("version", "1.0.0").startswith(("0.0.1", "1."))):
            wanted[kind] = max(wanted[kind], _quality(given.get("q", "1")))
    openmetrics, text = wanted.values()
    return OPENMETRICS if openmetrics > 0 and openmetrics >= text else TEXT


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


class Page:
    """Families of samples, each with its help and type once, and with `common` labels on every sample."""

    def __init__(self, common: Mapping[str, str], *, openmetrics: bool = False) -> None:
        self._common, self._openmetrics = common, openmetrics
        self._lines: list[str] = []

    def add(self, name: str, kind: str, help: str, *samples: Sample) -> None:
        self._announce(name, kind, help)
        for labels, value in samples:
            self._sample(name, labels, value)

    def add_histograms(self, name: str, help: str, *histograms: tuple[Mapping[str, str], Histogram]) -> None:
        self._announce(name, "histogram", help)
        for labels, histogram in histograms:
            for bound, count in histogram.cumulated():
                self._sample(f"{name}_bucket", {**labels, "le": bound}, count)
            self._sample(f"{name}_sum", labels, to_seconds(histogram.sum))
            self._sample(f"{name}_count", labels, histogram.count)

    def _announce(self, name: str, kind: str, help: str) -> None:
        if self._openmetrics:
            name = name.removesuffix(_SUFFIXES.get(kind, ""))
        elif kind == "info":
            kind = "gauge"  # The text format has no type for it.
        self._lines += [f"# HELP {name} {help}", f"# TYPE {name} {kind}"]

    def _sample(self, name: str, labels: Mapping[str, str], value: float) -> None:
        every = {**self._common, **labels}.items()
        inner = ",".join(f'{key}="{text.translate(_ESCAPES)}"' for key, text in every)
        self._lines.append(f"{name}{{{inner}}} {number(value)}" if inner else f"{name} {number(value)}")

    def text(self) -> str:
        return "\n".join([*self._lines, "# EOF\n" if self._openmetrics else ""])


def number(value: float) -> str:
    if abs(value) < 2**53 and value == int(value):
        return str(int(value))
    return "+Inf" if value == float("inf") else "-Inf" if value == -float("inf") else repr(float(value))


class Meter:
    """Collects the figures of a node; `page()` is the whole exposition."""

    def __init__(self, driver: Driver, stack: Stack, link: Any = None) -> None:
        self._driver, self._stack, self._link = driver, stack, link
        self._began_at = time.time()

    def page(self, *, openmetrics: bool = False) -> str:
        driver, stack = self._driver, self._stack
        page = Page({"group": driver.codec.group}, openmetrics=openmetrics)
        page.add("doyen_info", "info", "This node.", ({"name": str(driver.host.node), "version": __version__}, 1))
        page.add("doyen_running", "gauge", "1 while the node takes part in its group.", ({}, driver.running))
        self._elections(page)
        members = Counter(member.status.value for member in stack.members())
        wanted = ("alive", "suspected", "failed", "left", "unknown")
        samples = [({"status": status}, float(members[status])) for status in wanted]
        page.add("doyen_members", "gauge", "Members this node knows, by status.", *samples)
        self._network(page)
        self._process(page)
        return page.text()

    def _elections(self, page: Page) -> None:
        now = self._driver.clock()
        reigns = list(self._stack.reigns.values())

        def each(value: Any) -> list[tuple[dict[str, str], float]]:
            return [({"election": reign.name}, float(value(reign))) for reign in reigns]

        gauge = "gauge"
        page.add("doyen_is_leader", gauge, "1 while this node leads.", *each(lambda r: r.is_leader(now)))
        page.add("doyen_has_leader", gauge, "1 while this node names a leader.", *each(lambda r: r.leader is not None))
        page.add("doyen_term", gauge, "The greatest term seen.", *each(lambda r: r.term_max))
        since = each(lambda r: to_seconds(now - r.since) if r.leader is not None else 0)
        page.add("doyen_leader_age_seconds", gauge, "For how long this node has named its leader.", *since)
        changes = each(lambda r: r.change_count)
        page.add("doyen_leader_changes_total", "counter", "Times that another leader was named.", *changes)
        page.add_histograms(
            "doyen_takeover_seconds",
            "Time from the loss of a leader until this node named the next.",
            *(({"election": reign.name}, reign.takeovers) for reign in reigns),
        )

    def _network(self, page: Page) -> None:
        driver, counter = self._driver, "counter"
        transport = driver.transport
        page.add("doyen_datagrams_sent_total", counter, "Datagrams sent.", ({}, transport.sent_count))
        page.add("doyen_sent_bytes_total", counter, "Bytes of them, without headers.", ({}, transport.sent_bytes))
        page.add("doyen_datagrams_received_total", counter, "Datagrams understood.", ({}, driver.received_count))
        if driver.storage is not None:
            help = "The slowest of the last writes to the state directory."
            page.add("doyen_state_write_seconds", "gauge", help, ({}, driver.storage.slowest_write_s))
        refused = [({"reason": reason}, float(count)) for reason, count in sorted(driver.refused.items())]
        page.add("doyen_datagrams_refused_total", counter, "Datagrams dropped, by reason.", *refused)
        seal = driver.seal
        page.add(
            "doyen_sealed",
            "gauge",
            "1 where packets are authenticated by a key.",
            ({}, seal is not None and not seal.keyring.hears_clear),
        )
        if seal is not None:
            page.add(
                "doyen_handshakes_total", counter, "Handshakes sent to prove freshness.", ({}, seal.handshake_count)
            )
            page.add("doyen_boots_proven_total", counter, "Incarnations of members believed.", ({}, seal.proven_count))
        if self._link is not None:
            links = ({"end": "leader"}, len(self._link.linked)), ({"end": "member"}, len(self._link.accepted))
            page.add("doyen_links", "gauge", "Idle connections to leaders, and from members.", *links)
            broken = [({"found": what}, float(count)) for what, count in sorted(self._link.broken.items())]
            page.add("doyen_links_broken_total", counter, "Connections that ended without a goodbye.", *broken)

    def _process(self, page: Page) -> None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        cpu = used.ru_utime + used.ru_stime
        page.add("process_cpu_seconds_total", "counter", "CPU time used.", ({}, cpu))
        page.add("process_resident_memory_bytes", "gauge", "Memory in use.", ({}, resident_bytes()))
        page.add("process_start_time_seconds", "gauge", "Start of this node, wall clock.", ({}, self._began_at))


def resident_bytes() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
