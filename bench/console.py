"""The line of the console at size: how soon its pages answer, and what they cost the event loop.

A server with ten thousand topics, 2,500 groups, ten million messages and a million dead letters,
its pages asked for one after the other as a browser asks. No peer has such a line.
"""

import gzip
import html
import http.client
import json
import re
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from bench import interactions, large_scene
from bench.figures import Check, Figure, times_of
from bench.large_scene import (
    ARCHIVE,
    DEAD_GROUP,
    FIRST,
    HUGE,
    RARE,
    SMALL,
    Size,
    archive_key,
    client_name,
    group_name,
    join,
    topic_name,
)
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
TOPIC, GROUP = f"/topics/{topic_name(ARCHIVE)}", f"/groups/{group_name(0)}"
DEAD, RARELY_DEAD = f"/dlq/{DEAD_GROUP}", f"/dlq/{group_name(0)}"
SINGLE = (
    TOPIC,
    f"{TOPIC}/messages",
    f"{TOPIC}/groups",
    f"{TOPIC}/produce",
    GROUP,
    f"{GROUP}/clients",
    f"{GROUP}/subscriptions",
    f"{GROUP}/offsets",
    f"{GROUP}/history",
    DEAD,
    f"{DEAD}?error_class=ValueError",
    f"{DEAD}?state=all",
    f"{DEAD}/resend",
    RARELY_DEAD,
    "/bulk/groups?action=pause&scope=all&q=mail",
    "/create/job",
    "/engine",
    "/alerts",
    "/trace",
    "/reports",
    "/settings",
    "/help",
)
# As long as everything there is: no 300 ms for them, yet they may not hold anybody up.
WHOLE = ("/metrics", "/topics?format=csv", "/groups?format=csv", "/topics?format=xlsx")
ALL_LISTS, ALL_WHOLE, AT_REST = "KiteMQ, every page", "KiteMQ, whole answers", "KiteMQ, idle"
ALL_FOUND = "KiteMQ, every look-up"
BODY_FIRST, BODY_WHOLE = "body search, first hits", "body search, oldest hit"
TIMES = 20
SETTLE_S = 15.0  # until the first walk over all figures is done, and the first sample of lag
SEARCH_MAX_S = 60.0  # of one search through bodies
LINKS = re.compile(r'(?:<link[^>]+|<script[^>]+)(?:href|src)="(/static/[^"]+)"')
PROGRESS = re.compile(r'<progress value="(\d+)" max="(\d+)"')
MATCHES = re.compile(r"<strong>([\d,]+) match")
NEXT = re.compile(r'href="([^"]+)"[^>]*data-search-next')


class WatchedServer(Server):
    """A server whose event loop is probed every millisecond."""

    def command(self) -> Sequence[str]:
        where = ["--data", str(self.data), "--host", "127.0.0.1", "--port", str(self.port)]
        return [sys.executable, "-m", "bench.watched", *where, "--log-level", "warning"]

    def delay_ms(self) -> float:
        """The worst lateness of the loop since it was asked last."""
        return float(self.get(DELAY_PATH))


class Reader:
    """A browser's connection: pages are compressed, and the connection stays open."""

    def __init__(self, server: WatchedServer) -> None:
        self.server = server
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)

    def read(self, path: str) -> bytes:
        """An answer as it is sent, after all redirects; raises OSError without success."""
        headers = {"Accept": "text/html", "Accept-Encoding": "gzip"}
        self._connection.request("GET", path, headers=headers)
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status in (302, 303):
            return self.read(answer.headers["Location"])
        if answer.status != 200:
            raise OSError(f"{path} answered {answer.status}")
        return body

    def text(self, path: str) -> str:
        """A page as text."""
        return gzip.decompress(self.read(path)).decode()

    def json(self, path: str) -> Any:
        """An answer of the API."""
        body = self.read(path)
        return json.loads(gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body)


@dataclass(frozen=True)
class ConsoleLine:
    """Times of pages as their reader sees them, and how long the loop was held up meanwhile."""

    name: str
    title: str
    checks: Sequence[Check] = ()

    def measure(self, scale: Scale, folder: Path) -> list[Figure]:
        is_full = scale.rounds > 1
        size = HUGE if is_full else SMALL
        if is_full:
            data = large_scene.ensure(size)
        else:
            large_scene.build(data := folder / "scene", size)
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
            figures = _figures(Reader(server), size, times)
            return [rest, *figures, *interactions.measure(server.url, times)]
        finally:
            server.stop()


def _figures(reader: Reader, size: Size, times: int) -> list[Figure]:
    first = _first_load(reader, "/topics")
    lists = [_page(reader, path, times) for path in (*LISTS, *SINGLE)]
    after_pages_mib = reader.server.memory_mib()
    whole = [_page(reader, path, max(1, times // 4)) for path in WHOLE]
    look_ups = [_watched(reader, name, path, times) for name, path in _look_ups(reader, size)]
    bodies = [_body_search(reader, BODY_FIRST, RARE), _body_search(reader, BODY_WHOLE, FIRST)]
    return [
        first,
        *lists,
        _worst(ALL_LISTS, lists),
        Figure("KiteMQ, after all pages", memory_mib=after_pages_mib),
        *whole,
        _worst(ALL_WHOLE, whole),
        *look_ups,
        _worst(ALL_FOUND, look_ups),
        *bodies,
        Figure("KiteMQ, after all", memory_mib=reader.server.memory_mib()),
    ]


def _look_ups(reader: Reader, size: Size) -> list[tuple[str, Callable[[int], str]]]:
    """Addresses of what people search for; each time for another key, which was not found yet."""
    archive = quote(topic_name(ARCHIVE))

    def key(turn: int) -> str:
        return archive_key((size.messages // 3 + turn * 7919) % size.messages)

    found = reader.json(f"/api/v1/topics/{archive}/messages/by-key?key={key(0)}")
    texts: dict[str, Callable[[int], str]] = {
        "topic": lambda turn: topic_name(size.topics // 2 + turn),
        "group": lambda turn: group_name(size.groups // 2 + turn),
        "client": client_name,
        "key": key,
        "message id": lambda _: str(found["items"][0]["message_id"]),
        "nothing": lambda turn: f"no-such-name-{turn}",
    }

    def searching(path: str, text: Callable[[int], str], first: int) -> Callable[[int], str]:
        return lambda turn: path + quote(text(first + turn))

    by_key = f"/messages?by=key&topic={archive}&key="
    return [
        *((f"header search by {kind}", searching("/palette?q=", texts[kind], 1)) for kind in texts),
        *(
            (f"page of search by {kind}", searching("/search?q=", texts[kind], 30))
            for kind in texts
        ),
        ("messages by key, one topic", searching(by_key, key, 60)),
        ("messages by key, all topics", searching("/messages?by=key&key=", key, 90)),
    ]


def _first_load(reader: Reader, path: str) -> Figure:
    """The bytes that a browser loads with its first page."""
    page = reader.read(path)
    links = {*LINKS.findall(gzip.decompress(page).decode()), "/static/icons.svg"}
    size_bytes = len(page) + sum(len(reader.read(link)) for link in links)
    return Figure("first load of a page", size_kib=size_bytes / 1024)


def _page(reader: Reader, path: str, times: int) -> Figure:
    """One page asked for again and again; its first time, which is the dearest, counts."""
    return _watched(reader, path, lambda _: path, times)


def _watched(reader: Reader, name: str, path: Callable[[int], str], times: int) -> Figure:
    server, took_s, sizes = reader.server, [], []
    delay_ms = cpu_s = 0.0
    for turn in range(times):
        server.delay_ms()
        before_s, began_s = server.cpu_s(), time.perf_counter()
        sizes.append(len(reader.read(path(turn))))
        took_s.append(time.perf_counter() - began_s)
        cpu_s += server.cpu_s() - before_s
        delay_ms = max(delay_ms, server.delay_ms())
    return Figure(
        name,
        **times_of(took_s),
        delay_ms=delay_ms,
        page_cpu_ms=cpu_s / times * 1000,
        size_kib=statistics.median(sizes) / 1024,
    )


def _body_search(reader: Reader, name: str, text: str) -> Figure:
    """The newest messages first, page by page as the script goes on, until one matches."""
    path = f"/messages?topic={topic_name(ARCHIVE)}&since=all&contains={text}"
    server, steps_s, scanned, matches = reader.server, [], 0, 0
    server.delay_ms()
    before_s, began_s = server.cpu_s(), time.perf_counter()
    while path and not matches and time.perf_counter() - began_s < SEARCH_MAX_S:
        step_s = time.perf_counter()
        page = reader.text(path)
        steps_s.append(time.perf_counter() - step_s)
        if progress := PROGRESS.search(page):
            scanned = int(progress[1])
        if count := MATCHES.search(page):
            matches = int(count[1].replace(",", ""))
        following = NEXT.search(page)
        path = html.unescape(following[1]) if following else ""
    wall_s = time.perf_counter() - began_s
    return Figure(
        name,
        **times_of(steps_s),
        delay_ms=server.delay_ms(),
        wall_s=wall_s,
        cpu_s=server.cpu_s() - before_s,
        search_rate=scanned / wall_s,
    )


def _worst(name: str, pages: Sequence[Figure]) -> Figure:
    """The worst of each kind over several pages."""
    return Figure(
        name,
        p50_us=max(page.p50_us or 0.0 for page in pages),
        p95_us=max(page.p95_us or 0.0 for page in pages),
        p99_us=max(page.p99_us or 0.0 for page in pages),
        delay_ms=max(page.delay_ms or 0.0 for page in pages),
        page_cpu_ms=max(page.page_cpu_ms or 0.0 for page in pages),
        size_kib=max(page.size_kib or 0.0 for page in pages),
    )


CONSOLE = ConsoleLine(
    "console",
    "The console with 10,000 topics, 2,500 groups, 10 M messages and 1 M dead letters: times of "
    "its pages and searches, delay of the loop",
    (
        Check(ALL_LISTS, "p95_us", 300_000),
        Check(ALL_LISTS, "page_cpu_ms", 100),
        Check(ALL_LISTS, "delay_ms", 10),
        Check(ALL_WHOLE, "delay_ms", 10),
        Check(ALL_FOUND, "p95_us", 300_000),
        Check(ALL_FOUND, "delay_ms", 10),
        Check(BODY_FIRST, "delay_ms", 10),
        Check(interactions.NAME, "p95_us", 100_000),
        Check(AT_REST, "ready_s", 3.0),
        Check(AT_REST, "delay_ms", 10),
    ),
)
