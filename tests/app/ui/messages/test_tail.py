"""The live tail: its stream over a socket, and its page in a real Chromium."""

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Page, Response, expect

from app.services.tail import Tail, TailBatch
from app.ui.messages import tail
from tests.app.ui.conftest import OpenPage, Site
from tests.app.ui.scenery import SCRIPT_BODY, Scenery
from tests.live import LiveServer
from tests.patience import until

HTML = {"accept": "text/html"}
LIMIT_S = 30.0
# How long a script that wants to run has to wait, in ms: so would a key that is pressed.
TIMED = """() => new Promise((done) => {
  const asked = performance.now();
  setTimeout(() => done(performance.now() - asked));
})"""


# What the page itself came by.
PROTOCOL = "() => performance.getEntriesByType('navigation')[0].nextHopProtocol"


def is_refresh(answer: Response, path: str) -> bool:
    """Whether this answers a list that refreshes itself."""
    is_here = urlsplit(answer.url).path == path
    return is_here and answer.request.headers.get("hx-request") == "true"


@pytest.fixture
def browser(site: Site) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.base, headers=HTML, timeout=LIMIT_S) as client:
        yield client


class Stream:
    """An open stream of events, read line by line."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self.mark = ""

    def block(self) -> dict[str, str]:
        """The next block of lines: an event, or a sign of life under the name ""."""
        block: dict[str, str] = {}
        for line in self._lines:
            if not line:
                self.mark = block.get("id", self.mark)
                return block
            name, _, value = line.partition(": ")
            block[name] = value
        return {}

    def bodies(self, count: int) -> list[str]:
        """The bodies of the events to come until there are so many."""
        texts: list[str] = []
        while len(texts) < count:
            block = self.block()
            assert block, "the stream ended"
            if block.get("event") == "rows":
                texts += [row["body"] for row in json.loads(block["data"])["rows"]]
        return texts


@contextmanager
def listening(base: str, query: str, mark: str = "") -> Iterator[Stream]:
    headers = {"last-event-id": mark} if mark else {}
    with (
        httpx.Client(base_url=base, timeout=LIMIT_S) as client,
        client.stream("GET", f"/tail/stream?{query}", headers=headers) as answer,
    ):
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        stream = Stream(answer.iter_lines())
        assert stream.block() == {"retry": "1000"}
        yield stream


def produce(scenery: Scenery, topic: str, count: int, first: int = 0) -> list[str]:
    bodies = [f"{topic} {number}" for number in range(first, first + count)]
    for start in range(0, count, 100):
        scenery.send(topic, [{"body": body} for body in bodies[start : start + 100]])
    return bodies


def test_the_page_ends_where_its_stream_begins(
    site: Site, browser: httpx.Client, scenery: Scenery
) -> None:
    before = produce(scenery, "tail-seam", 5)
    page = browser.get("/tail?topic=tail-seam&format=json").json()
    assert [row["preview"] for row in page["rows"]] == before[::-1]
    after = produce(scenery, "tail-seam", 7, first=5)
    with listening(site.base, f"topic=tail-seam&from={page['mark']}") as stream:
        assert stream.bodies(7) == after


def test_a_reconnect_goes_on_without_gap_or_repeat(site: Site, scenery: Scenery) -> None:
    sent = produce(scenery, "tail-again", 3)
    with listening(site.base, "topic=tail-again") as stream:
        sent = produce(scenery, "tail-again", 1000, first=3)
        got = stream.bodies(300)
        mark = stream.mark
    while len(got) < 1000:
        with listening(site.base, "topic=tail-again&from=0-0-0", mark) as stream:
            got += stream.bodies(min(250, 1000 - len(got)))
            mark = stream.mark
    assert got == sent


def test_several_topics_and_a_filter(site: Site, scenery: Scenery) -> None:
    for topic in ("tail-a", "tail-b"):
        scenery.send(topic, [{"body": "old", "tag": "x"}])
    with listening(site.base, "topic=tail-a&topic=tail-b&filter=x") as stream:
        for number in range(6):
            topic = "tail-a" if number % 2 else "tail-b"
            scenery.send(topic, [{"body": f"no {number}"}, {"body": f"yes {number}", "tag": "x"}])
        assert stream.bodies(6) == [f"yes {number}" for number in range(6)]


def test_a_quiet_stream_gives_signs_of_life(
    site: Site, scenery: Scenery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail, "HEARTBEAT_S", 0.05)
    produce(scenery, "tail-quiet", 1)
    with listening(site.base, "topic=tail-quiet") as stream:
        assert set(stream.block()) == {"", "id"}


def test_a_topic_that_goes_away_ends_the_tail_with_the_reason(site: Site, scenery: Scenery) -> None:
    produce(scenery, "tail-doomed", 1)
    with listening(site.base, "topic=tail-doomed") as stream:
        httpx.delete(f"{site.base}/api/v1/topics/tail-doomed").raise_for_status()
        last = stream.block()
        while last.get("event") != "over":
            assert last
            last = stream.block()
    assert "tail-doomed" in json.loads(last["data"])["detail"]


@pytest.mark.parametrize(
    ("query", "status"),
    [("", 422), ("topic=no-such", 404), ("topic=orders&filter=SQL92:+a+%3E", 422)],
)
def test_what_cannot_be_followed_is_refused(browser: httpx.Client, query: str, status: int) -> None:
    assert browser.get(f"/tail/stream?{query}").status_code == status


def test_the_form_says_at_its_field_what_is_wrong(browser: httpx.Client) -> None:
    for query, field in (
        ("topic=no-such", "topic"),
        ("topic=orders&filter=SQL92:+a+%3E", "filter"),
    ):
        answer = browser.get(f"/tail?{query}")
        assert answer.status_code == 422
        assert re.search(rf'id="field-{field}"[^>]*aria-invalid="true"', answer.text)


def test_topics_named_one_by_one_become_one_address(browser: httpx.Client) -> None:
    answer = browser.get("/tail?topic=orders&topic=payments&filter=paid")
    assert answer.headers["location"] == "/tail?topic=orders,payments&filter=paid"


def test_streams_are_counted_and_bounded(
    site: Site, browser: httpx.Client, scenery: Scenery, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(scenery, "tail-count", 1)
    tails = site.app.console.tails
    until(lambda: tails.count == 0)  # streams of tests before this one
    with listening(site.base, "topic=tail-count"):
        assert tails.count == 1
    until(lambda: tails.count == 0)
    monkeypatch.setattr(tails, "count", 1000)
    assert browser.get("/tail/stream?topic=tail-count").status_code == 503


def test_an_open_stream_does_not_hold_up_the_end_of_the_server(tmp_path: Path) -> None:
    server = LiveServer(tmp_path / "data")
    server.start()
    scenery = Scenery(server.url)
    produce(scenery, "orders", 1)
    scenery.close()
    assert server.app is not None
    assert server.loop is not None
    with listening(server.url, "topic=orders") as stream:
        # As the server process does it before it waits for connections.
        server.loop.call_soon_threadsafe(server.app.services.host.drain)
        while stream.block():
            pass
        began_s = time.monotonic()
        server.stop()
    assert time.monotonic() - began_s < 5


# -- in the browser ----------------------------------------------------------------------------


def bodies_of(page: Page) -> list[str]:
    """The bodies in the table, newest first."""
    script = "rows => rows.map(row => row.querySelector('.tail-body').textContent)"
    bodies: list[str] = page.locator("#tail-rows tr").evaluate_all(script)
    return bodies


def following(page: Page) -> None:
    expect(page.locator("[data-tail-state]")).to_have_text("Streaming")


@pytest.mark.browser
def test_five_thousand_messages_arrive_within_the_cap_and_input_stays_quick(
    open_page: OpenPage, scenery: Scenery
) -> None:
    produce(scenery, "tail-fast", 1)
    page = open_page("/tail?topic=tail-fast&rows=100")
    following(page)
    sent: list[str] = []

    def send() -> None:
        for first in range(0, 5000, 100):
            sent.extend(produce(scenery, "tail-fast", 100, first=first))
            time.sleep(0.1)

    sending = threading.Thread(target=send)
    sending.start()
    delays: list[float] = []
    script = TIMED
    while sending.is_alive():
        delays.append(page.evaluate(script))
        assert page.locator("#tail-rows tr").count() <= 100
    sending.join()
    expect(page.locator("[data-tail-received]")).to_have_text("5,000", timeout=LIMIT_S * 1000)
    expect(page.locator("[data-tail-dropped]")).to_have_text("0")
    assert bodies_of(page) == sent[::-1][:100]
    delays.sort()
    assert delays[len(delays) // 2] < 100


@pytest.mark.browser
def test_pause_freezes_and_counts_and_resume_goes_on(open_page: OpenPage, scenery: Scenery) -> None:
    produce(scenery, "tail-pause", 2)
    page = open_page("/tail?topic=tail-pause&rows=50")
    following(page)
    page.get_by_role("button", name="Pause", exact=True).click()
    sent = produce(scenery, "tail-pause", 80, first=2)
    resume = page.get_by_role("button", name="Resume (80 new)")
    expect(resume).to_be_visible()
    assert bodies_of(page) == ["tail-pause 1", "tail-pause 0"]
    resume.click()
    assert bodies_of(page) == sent[::-1][:50]
    # More came than the page keeps: what was never shown is counted.
    expect(page.locator("[data-tail-dropped]")).to_have_text("30")
    more = produce(scenery, "tail-pause", 1, first=82)
    expect(page.locator("#tail-rows .tail-body").first).to_have_text(more[0])


@pytest.mark.browser
def test_a_broken_connection_is_taken_up_where_it_ended(
    open_page: OpenPage, scenery: Scenery, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(scenery, "tail-break", 1)
    page = open_page("/tail?topic=tail-break")
    requests: list[Any] = []
    page.on("request", lambda r: requests.append(r) if "/tail/stream" in r.url else None)
    following(page)
    sent = produce(scenery, "tail-break", 20)
    expect(page.locator("#tail-rows .tail-body").first).to_have_text(sent[-1])
    read, breaks = Tail.read, iter([ConnectionResetError("cut by the test")])

    async def broken(self: Tail) -> TailBatch:
        for error in breaks:
            raise error
        return await read(self)

    monkeypatch.setattr(Tail, "read", broken)
    sent += produce(scenery, "tail-break", 20, first=20)
    expect(page.locator("[data-tail-received]")).to_have_text("40", timeout=LIMIT_S * 1000)
    following(page)
    assert bodies_of(page)[:40] == sent[::-1]
    assert any("last-event-id" in request.all_headers() for request in requests)


@pytest.mark.browser
def test_bodies_in_the_tail_are_text(open_page: OpenPage, scenery: Scenery) -> None:
    produce(scenery, "tail-safe", 1)
    page = open_page("/tail?topic=tail-safe")
    page.on("dialog", lambda dialog: pytest.fail(f"a body ran: {dialog.message}"))
    following(page)
    scenery.send("tail-safe", [{"body": SCRIPT_BODY, "tag": "<b>t</b>", "keys": ["<i>k</i>"]}])
    row = page.locator("#tail-rows tr").first
    expect(row.locator(".tail-body")).to_have_text(SCRIPT_BODY)
    expect(row.locator(".badge")).to_have_text("<b>t</b>")
    row.get_by_role("link").click()
    expect(page.locator("#drawer-body pre")).to_have_text(SCRIPT_BODY)
    page.get_by_role("link", name="Open page").click()
    expect(page.locator("#message-body pre")).to_have_text(SCRIPT_BODY)


@pytest.mark.browser
def test_without_script_the_newest_messages_are_shown_and_it_is_said(
    open_page: OpenPage, scenery: Scenery
) -> None:
    sent = produce(scenery, "tail-plain", 3)
    page = open_page("/tail?topic=tail-plain", javascript=False)
    assert bodies_of(page) == sent[::-1]
    expect(page.locator("noscript .banner")).to_be_visible()
    expect(page.get_by_role("button", name="Pause", exact=True)).to_be_hidden()


@pytest.mark.browser
def test_seven_tabs_load_while_one_of_them_follows(open_page: OpenPage, scenery: Scenery) -> None:
    """A browser has six connections to a server that speaks HTTP/1.1: the stream takes one."""
    produce(scenery, "tail-tabs", 1)
    page = open_page("/tail?topic=tail-tabs", refresh_s=2)
    following(page)
    lists = ("/topics", "/groups", "/dlq", "/jobs", "/clients", "/alerts")
    tabs = [page.context.new_page() for _ in lists]
    for tab, path in zip(tabs, lists, strict=True):
        tab.goto(path, wait_until="commit")  # all at once: none waits until another is there
    for tab in tabs:
        expect(tab.locator("h1")).to_be_visible()
        assert tab.evaluate(PROTOCOL) == "http/1.1"
    for tab, path in zip(tabs, lists, strict=True):  # each goes on refreshing itself
        with tab.expect_response(lambda answer, path=path: is_refresh(answer, path)) as refreshed:
            tab.bring_to_front()
        assert refreshed.value.status in (200, 304)
    (sent,) = produce(scenery, "tail-tabs", 1, first=1)
    expect(page.locator("#tail-rows .tail-body").first).to_have_text(sent)
