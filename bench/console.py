"""The line of the console at size: how soon its lists answer, and what they cost the event loop.

A server with ten thousand topics and 2,500 groups, its pages asked for one after the other. No
peer has such a line.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Check, Figure, times_of
from bench.large_scene import LARGE, SMALL, build, join
from bench.line import Scale
from bench.server import DELAY_PATH, Server

LISTS = (
    "/",
    "/topics",
    "/topics?sort=-messages",
    "/topics?q=orders&sort=-lag&page=3",
    "/topics?type=all&size=200",
    "/groups",
    "/groups?size=200&sort=oldest",
    "/groups?q=mail&sort=name",
    "/dlq",
    "/clients?size=200",
    "/scheduled",
    "/transactions",
    "/audit",
    "/jobs",
    "/messages",
    "/palette?q=or",
    "/search?q=orders",
    "/api/v1/topics?limit=200",
    "/api/v1/groups?limit=200",
)
# As long as everything there is: no 300 ms for them, yet they may not hold anybody up.
WHOLE = ("/metrics", "/topics?format=csv", "/groups?format=csv", "/topics?format=xlsx")
ALL_LISTS, ALL_WHOLE, AT_REST = "KiteMQ, every list", "KiteMQ, whole answers", "KiteMQ, idle"
TIMES = 20
SETTLE_S = 15.0  # until the first walk over all figures is done, and the first sample of lag


class WatchedServer(Server):
    """A server whose event loop is probed every millisecond."""

    def command(self) -> Sequence[str]:
        where = ["--data", str(self.data), "--host", "127.0.0.1", "--port", str(self.port)]
        return [sys.executable, "-m", "bench.watched", *where, "--log-level", "warning"]

    def delay_ms(self) -> float:
        """The worst lateness of the loop since it was asked last."""
        return float(self.get(DELAY_PATH))


@dataclass(frozen=True)
class ConsoleLine:
    """Times of pages as their reader sees them, and how long the loop was held up meanwhile."""

    name: str
    title: str
    checks: Sequence[Check] = ()

    def measure(self, scale: Scale, folder: Path) -> list[Figure]:
        is_full = scale.rounds > 1
        size = LARGE if is_full else SMALL
        data = folder / "large"
        build(data, size)
        server = WatchedServer(data)
        ready_s = server.start()
        try:
            join(server.url, size)
            server.delay_ms()
            time.sleep(SETTLE_S if is_full else 0)
            rest = Figure(
                AT_REST,
                ready_s=ready_s,
                memory_mib=server.memory_mib(),
                delay_ms=server.delay_ms(),
            )
            times = TIMES if is_full else 1
            lists = [_page(server, path, times) for path in LISTS]
            whole = [_page(server, path, max(1, times // 4)) for path in WHOLE]
            end = Figure("KiteMQ, after all", memory_mib=server.memory_mib())
        finally:
            server.stop()
        return [rest, *lists, _worst(ALL_LISTS, lists), *whole, _worst(ALL_WHOLE, whole), end]


def _page(server: WatchedServer, path: str, times: int) -> Figure:
    """One page asked for again and again; its first time, which is the dearest, counts."""
    took_s: list[float] = []
    delay_ms = 0.0
    for _ in range(times):
        server.delay_ms()
        began_s = time.perf_counter()
        server.get(path)
        took_s.append(time.perf_counter() - began_s)
        delay_ms = max(delay_ms, server.delay_ms())
    return Figure(path, **times_of(took_s), delay_ms=delay_ms)


def _worst(name: str, pages: Sequence[Figure]) -> Figure:
    """The worst of each kind over several pages."""
    return Figure(
        name,
        p50_us=max(page.p50_us or 0.0 for page in pages),
        p99_us=max(page.p99_us or 0.0 for page in pages),
        delay_ms=max(page.delay_ms or 0.0 for page in pages),
    )


CONSOLE = ConsoleLine(
    "console",
    "The console with 10,000 topics and 2,500 groups: times of its lists, delay of the loop",
    (
        Check(ALL_LISTS, "p99_us", 300_000),
        Check(ALL_LISTS, "delay_ms", 20),
        Check(ALL_WHOLE, "delay_ms", 20),
        Check(AT_REST, "ready_s", 3.0),
        Check(AT_REST, "delay_ms", 20),
    ),
)
