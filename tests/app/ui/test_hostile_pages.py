"""Every page of the console with hostile texts in its address: an answer, never a failure.

Pages and the names in their queries are read from the code, so that a new one is tried as well.
"""

import base64
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from starlette.routing import Route

from app.ui import routes
from engine.broker import DEAD_LETTER_PREFIX
from tests.app.ui.bodies.containers import container
from tests.live import LiveServer

UI = Path(routes.__file__).parent
SOURCES = sorted(UI.rglob("*.py"))
ASKED = re.compile(r'(?:\.get|\.one|query_params)\(\s*"([a-z_]{1,24})"|query_params\["([a-z_]+)"')
CONSTANT = re.compile(r"^[A-Z_]*(?:FIELDS|CRITERIA|NAMES|SORTS|FACETS)[A-Z_]* = \(([^)]*)\)", re.M)
# Written as they stand in an address.
TEXTS = (
    "", "%00", "%FF%FE", "%ED%A0%80", "%E2%80%AE", "%E2%82%AC", "%C2%B2", "%D9%A3", "-1", "0",
    "9" * 18, "9" * 30, "9" * 4400, "1e400", "NaN", "1,2,,x", "..%2F..", "%3Cscript%3E", "%27%22",
    "a" * 5000, "%7B", "%5B" * 1500, "%0D%0Aa:b", "%", "%zz", "2026-01-01T00:00", "0000-00-00",
    "9999-12-31T23:59:59", "json", "all", "desc", "UTC", "../../etc", "SQL92:a%20%3D",
    "SQL92:" + "(" * 600, "%25DLQ%25g", "a:b:c:d", "1:2", "true",
)  # fmt: skip
BODIES: tuple[bytes, ...] = (
    rb'["\ud800", "\udfff", 1e999, NaN]', b"[" * 3000, b"{\"a\": " + b"9" * 4000 + b"}",
    container({"type": "record", "fields": 7}, b"\x02\x02", count=1), b"\x00", b"\xff\xfe",
    "\u202eRTL\u2028\x85".encode(), b"\x81\xff", b"<script>alert(1)</script>", b" ",
)  # fmt: skip
NAME = re.compile(r"\{([a-z_]+)(?::[a-z]+)?\}")
STREAMS = ("/tail/stream",)


def pages() -> list[str]:
    """The paths of all that can be read."""
    paths = [
        route.path
        for route in routes.router.routes
        if isinstance(route, Route) and "GET" in (route.methods or ())
    ]
    return sorted(path for path in paths if path not in STREAMS)


def query_names(sources: Iterable[Path] = SOURCES) -> set[str]:
    """Every name that these files may look for in a query."""
    names_of_query: set[str] = set()
    for source in sources:
        text = source.read_text()
        names_of_query |= {name for pair in ASKED.findall(text) for name in pair if name}
        for names in CONSTANT.findall(text):
            names_of_query |= set(re.findall(r'"([a-z_]{1,24})"', names))
    return names_of_query


def names_of(path: str) -> list[str]:
    """Those that the page at this path may look for: its module's, and what modules share."""
    route = next(each for each in routes.router.routes if getattr(each, "path", "") == path)
    module = str(route.endpoint.__module__).removeprefix("app.ui.").replace(".", "/")
    shared = (
        "framework/tables", "framework/pages", "messages/query", "bodies/columns",
        "dead_letters/filters", "reports/ranges", module,
    )  # fmt: skip
    return sorted(query_names(UI / f"{name}.py" for name in shared))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with LiveServer(tmp_path_factory.mktemp("hostile") / "data") as live:
        with httpx.Client(base_url=live.url, timeout=60) as http:
            _build(http)
        yield live


def _build(http: httpx.Client) -> None:
    """A topic whose messages are odd, a group that has some of them as dead letters."""
    messages = [
        {
            "body": base64.b64encode(body).decode(), "encoding": "base64", "tag": "t",
            "keys": ["k"], "properties": {"p\u00fc": "\u202e\u0645", "n": "9" * 30},
        }
        for body in BODIES
    ]  # fmt: skip
    one_queue = {"name": "t", "read_queues": 1, "write_queues": 1}
    assert http.post("/api/v1/topics", json=one_queue).status_code == 201
    sent = http.post("/api/v1/topics/t/messages", json={"messages": messages})
    assert sent.status_code == 201, sent.text
    assert http.post("/api/v1/groups", json={"name": "g", "retry_max": 0}).status_code == 201
    for __ in range(4):
        got = http.post("/api/v1/groups/g/receive", json={"topic": "t", "max": 32}).json()
        nacks = [{"receipt": each["receipt"], "delay_level": -1} for each in got["deliveries"]]
        if nacks:
            answer = http.post("/api/v1/groups/g/nack", json={"nacks": nacks})
            assert answer.status_code == 200, answer.text


def _filled(path: str, value: str | None) -> str:
    """The path with its parameters: those that exist, or all of them `value`."""
    known = {"topic": "t", "group": "g", "queue": "0", "offset": "0", "name": "x", "id": "1"}
    return NAME.sub(lambda m: value if value is not None else known.get(m[1], "x"), path)


@pytest.fixture
def http(server: LiveServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=60, headers={"accept": "text/html"}) as client:
        yield client


def _check(http: httpx.Client, address: str) -> None:
    answer = http.get(httpx.URL(f"{http.base_url}".rstrip("/") + address))
    assert answer.status_code != 500, address[:300]


@pytest.mark.parametrize(("turn", "path"), list(enumerate(pages())))
def test_no_page_fails_whatever_its_query_says(http: httpx.Client, turn: int, path: str) -> None:
    everything = sorted(query_names())
    place = _filled(path, None)
    # Each page meets a third of the texts under all names at once, and each name once alone.
    for text in [text for text in TEXTS if len(text) <= 400][turn % 3 :: 3]:
        _check(http, place + "?" + "&".join(f"{name}={text}" for name in everything))
    for index, name in enumerate(names_of(path)):
        _check(http, f"{place}?{name}={TEXTS[(index * 7 + turn) % len(TEXTS)]}")


@pytest.mark.parametrize("path", [path for path in pages() if "{" in path])
def test_no_page_fails_whatever_its_path_names(http: httpx.Client, path: str) -> None:
    for text in TEXTS:
        if text not in ("", "..%2F..", "../../etc"):
            _check(http, _filled(path, text[:2000]))


def test_every_odd_message_is_shown_in_every_view(server: LiveServer, http: httpx.Client) -> None:
    for topic in ("t", quote(f"{DEAD_LETTER_PREFIX}g")):
        for offset in range(len(BODIES)):
            assert http.get(f"/messages/{topic}/0/{offset}").status_code == 200
            for view in ("json", "avro", "msgpack", "protobuf", "text", "hex"):
                _check(http, f"/messages/{topic}/0/{offset}?view={view}&body=all")
                _check(http, f"/messages/{topic}/0/{offset}?view={view}&format=json")


def test_every_list_shows_the_odd_messages_by_every_decoder(http: httpx.Client) -> None:
    for view in ("", "json", "avro", "msgpack", "protobuf", "text", "hex"):
        for place in ("/topics/t/messages", "/messages", "/dlq/g", "/messages/export"):
            fields = "fields=a,a[0].b,[0]"
            _check(http, f"{place}?topic=t&since=all&view={view}&{fields}")
            _check(http, f"{place}?topic=t&since=all&view={view}&format=json")
