"""Prometheus' text format, written by hand: a few dozen lines instead of a library of five megabytes."""

import os
import resource
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from doyen import __version__
from doyen.core.clock import to_seconds
from doyen.net.driver import Driver
from doyen.node.stack import Stack

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Page:
    """Families of samples, each with its help and type once."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def add(self, name: str, kind: str, help: str, *samples: tuple[Mapping[str, str], float]) -> None:
        self._lines += [f"# HELP {name} {help}", f"# TYPE {name} {kind}"]
        for labels, value in samples:
            inner = ",".join(f'{key}="{text.translate(_ESCAPES)}"' for key, text in labels.items())
            self._lines.append(f"{name}{{{inner}}} {number(value)}" if inner else f"{name} {number(value)}")

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"


def number(value: float) -> str:
    if abs(value) < 2**53 and value == int(value):
        return str(int(value))
    return "+Inf" if value == float("inf") else "-Inf" if value == -float("inf") else repr(float(value))


class Meter:
    """Collects the figures of a node; `page()` is the whole exposition."""

    def __init__(self, driver: Driver, stack: Stack, link: Any = None) -> None:
        self._driver, self._stack, self._link = driver, stack, link
        self._began_at = time.time()

    def page(self) -> str:
        page, driver, stack = Page(), self._driver, self._stack
        me = {"group": driver.codec.group, "name": str(driver.host.node), "version": __version__}
        page.add("doyen_info", "gauge", "This node.", (me, 1))
        page.add("doyen_running", "gauge", "1 while the node takes part in its group.", ({}, driver.running))
        self._elections(page)
        members = Counter(member.status.value for member in stack.members())
        wanted = ("alive", "suspected", "failed", "left")
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

    def _network(self, page: Page) -> None:
        driver, counter = self._driver, "counter"
        transport = driver.transport
        page.add("doyen_datagrams_sent_total", counter, "Datagrams sent.", ({}, transport.sent_count))
        page.add("doyen_sent_bytes_total", counter, "Bytes of them, without headers.", ({}, transport.sent_bytes))
        page.add("doyen_datagrams_received_total", counter, "Datagrams understood.", ({}, driver.received_count))
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
            page.add("doyen_boots_proven_total", counter, "Lives of members believed.", ({}, seal.proven_count))
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
