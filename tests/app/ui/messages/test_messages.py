"""Finding messages by the console: search with its limits, exports, permalinks, decoded bodies."""

import csv
import gzip
import io
import json
import re
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest
from playwright.sync_api import expect

from app.ui.framework import formats
from app.ui.messages import messages
from app.ui.messages import query as message_query
from engine.message import BODY_BYTES_MAX
from engine.search import scan
from tests.app.ui.bodies.containers import PROTOBUF, avro_file
from tests.app.ui.conftest import OpenPage, Site
from tests.app.ui.scenery import Scenery

HTML = {"accept": "text/html"}


@pytest.fixture
def browser(site: Site) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.base, headers=HTML, timeout=30) as client:
        yield client


@pytest.fixture(scope="module")
def haystack(site: Site) -> str:
    """400 messages over four queues, more than 32 matches in each; the topic's name."""
    scenery = Scenery(site.base)
    for first in range(0, 400, 50):
        scenery.send(
            "haystack",
            [
                {
                    "body": f"straw {number}" if number % 2 else f"needle {number}",
                    "tag": "odd" if number % 2 else "even",
                    "properties": {"number": str(number)},
                    "queue": number // 2 % 4,
                }
                for number in range(first, first + 50)
            ],
        )
    scenery.close()
    return "haystack"


def walk(browser: httpx.Client, path: str) -> list[Any]:
    """The contexts of a search from its first page to its last, by following its own links."""
    pages = []
    while path:
        pages.append(browser.get(f"{path}&format=json").json())
        path = pages[-1]["answer"]["scan"]["next_href"]
        assert len(pages) < 200
    return pages


def places(pages: list[Any]) -> list[tuple[int, str]]:
    return [(row["queue"], row["offset"]) for page in pages for row in page["rows"]]


@pytest.fixture(scope="module")
def popular_key(site: Site) -> str:
    """A key of 111 messages of the topic `tail-numbers`."""
    scenery = Scenery(site.base)
    flights = [{"body": f"flight {number}", "keys": ["N14228"]} for number in range(111)]
    scenery.send("tail-numbers", flights)
    scenery.close()
    return "N14228"


@pytest.mark.parametrize(
    ("path", "older"),
    [("/topics/tail-numbers/messages", "next_cursor"), ("/messages", "older")],
)
def test_all_messages_of_a_key_are_reached_by_its_pages(
    browser: httpx.Client, popular_key: str, path: str, older: str
) -> None:
    query = {"by": "key", "topic": "tail-numbers", "key": popular_key}
    first = browser.get(path, params=query | {"format": "json"}).json()
    assert len(first["rows"]) == 64
    page = browser.get(path, params=query)
    assert "1 to 64 of 111 messages with this key. This key has older messages" in page.text
    (link,) = re.findall(r'rel="next" href="([^"]+)"', page.text)
    assert "65 to 111 of 111 messages with this key" in browser.get(link.replace("&amp;", "&")).text
    second = browser.get(f"{link.replace('&amp;', '&')}&format=json").json()
    cursors = second | second.get("page", {}) | second.get("answer", {})
    assert (len(second["rows"]), cursors[older]) == (47, "")
    assert len({row["message_id"] for row in first["rows"] + second["rows"]}) == 111
    journeys = browser.get("/trace", params={"topic": "tail-numbers", "key": popular_key})
    assert 'href="/messages?by=key&amp;topic=tail-numbers&amp;key=N14228"' in journeys.text


def test_a_key_is_counted_up_to_a_limit_and_says_so(
    browser: httpx.Client, popular_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "KEY_TOTAL_MAX", 100)
    query = {"by": "key", "topic": "tail-numbers", "key": popular_key}
    page = browser.get("/messages", params=query)
    assert "1 to 64 of at least 100 messages with this key." in page.text


def test_a_key_without_a_topic_leads_to_all_of_its_messages_by_topic(
    browser: httpx.Client, popular_key: str, scenery: Scenery
) -> None:
    scenery.send("tail-repairs", [{"body": "repaired", "keys": [popular_key]}])
    page = browser.get("/messages", params={"by": "key", "key": popular_key})
    assert page.text.count("<tr>") == 65
    topics = browser.get(
        "/messages", params={"by": "key", "key": popular_key, "format": "json"}
    ).json()["answer"]["topics"]
    assert topics == [["tail-numbers", 111], ["tail-repairs", 1]]
    link = f"/messages?by=key&amp;key={popular_key}&amp;topic=tail-numbers"
    assert f'<a href="{link}">tail-numbers</a> <span class="tally">111</span>' in page.text


@pytest.mark.parametrize("topic", ["", "tail-times"])
def test_a_key_is_searched_in_a_time_range(
    browser: httpx.Client, scenery: Scenery, topic: str
) -> None:
    key = f"TIMED-{topic}"
    scenery.send("tail-times", [{"body": "now", "keys": [key]}])
    query = {"by": "key", "key": key, "topic": topic}
    (row,) = browser.get("/messages", params=query | {"format": "json"}).json()["rows"]
    for times, count in (
        ({}, 1),
        ({"since": "1h"}, 1),
        ({"from": "2026-01-01T00:00", "to": "2026-01-02T00:00"}, 0),
        ({"from": formats.iso(row["stored_ms"])[:-1]}, 1),
        ({"from": formats.iso(row["stored_ms"] + 1)[:-1]}, 0),
    ):
        answer = browser.get("/messages", params=query | times | {"format": "json"})
        assert len(answer.json()["rows"]) == count, times


@pytest.mark.parametrize(
    "query", ["filter=even", "contains=needle", "filter=SQL92:%20number%20%3C%20200"]
)
def test_a_search_continued_to_its_end_finds_each_match_once(
    browser: httpx.Client, haystack: str, query: str
) -> None:
    pages = walk(browser, f"/messages?topic={haystack}&{query}&size=25")
    assert len(pages) >= 8
    assert len(places(pages)) == len(set(places(pages))) == 200
    first, last = pages[0]["answer"]["scan"], pages[-1]["answer"]["scan"]
    assert (first["matched"], first["total"]) == (25, 400)
    assert first["scanned"] < 400
    assert (last["matched"], last["scanned"], last["total"]) == (200, 400, 400)


@pytest.mark.parametrize("order", ["newest", "oldest"])
def test_a_search_comes_newest_first_unless_the_address_says_otherwise(
    browser: httpx.Client, haystack: str, order: str
) -> None:
    pages = walk(browser, f"/messages?topic={haystack}&contains=straw&order={order}")
    stored = [row["stored_ms"] for page in pages for row in page["rows"]]
    assert stored == sorted(stored, reverse=order == "newest")
    assert len(stored) == 200
    is_newest = order == "newest"
    assert ("order=oldest" in pages[0]["answer"]["scan"]["next_href"]) is not is_newest


@pytest.mark.parametrize(
    ("body", "sought", "shown"),
    [
        ("a short needle", "needle", "a short <mark>needle</mark>"),
        (f"{'x' * 900} <b>pin\n  up{'y' * 900}", "<b>pin\n", "<mark>&lt;b&gt;pin</mark> up"),
        ("\x00\x01 a needle \x02", "needle", "·· a <mark>needle</mark> ·"),
        ("é" * 500 + "näedle", "näedle", "é<mark>näedle</mark>"),
    ],
)  # fmt: skip
def test_a_body_is_shown_from_where_the_text_stands_in_it(
    browser: httpx.Client, scenery: Scenery, body: str, sought: str, shown: str
) -> None:
    scenery.send("marks", [{"body": body}])
    query = {"topic": "marks", "contains": sought, "size": 25}
    assert shown in browser.get("/messages", params=query).text
    narrow = {"view": "text"} if "\x00" not in body else {}
    assert shown in browser.get("/messages", params=query | narrow).text


def test_a_search_whose_time_is_up_says_how_far_it_came_and_goes_on(
    browser: httpx.Client, haystack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "BUDGET_S", 0.0)
    monkeypatch.setattr(scan, "STEP_RECORDS_MAX", 100)
    path = f"/messages?topic={haystack}&contains=needle+398&order=oldest"
    page = browser.get(path).text
    text = re.sub(r"<[^>]+>", "", page)
    assert re.search(r"0 matches so far, scanned \d+ of 400", text)
    assert "Continue" in text
    pages = walk(browser, path)
    assert len(pages) > 1
    assert [row["preview"] for page in pages for row in page["rows"]] == ["needle 398"]


def test_the_address_of_a_page_is_a_permalink(browser: httpx.Client, haystack: str) -> None:
    first = browser.get(f"/messages?topic={haystack}&since=1h&filter=odd&format=json").json()
    there = first["answer"]["scan"]["next_href"]
    assert "since" not in there
    assert "from=" in there
    assert browser.get(f"{there}&format=json").json() == browser.get(f"{there}&format=json").json()
    here = browser.get(f"{first['answer']['scan']['here_href']}&format=json").json()
    assert here["rows"] == first["rows"]


def test_no_page_has_more_rows_than_two_hundred(browser: httpx.Client, haystack: str) -> None:
    page = browser.get(f"/messages?topic={haystack}&size=200").text
    assert page.count("<tr>") == 201
    assert (
        len(browser.get(f"/messages?topic={haystack}&size=5000&format=json").json()["rows"]) == 50
    )


@pytest.mark.parametrize(
    ("query", "field", "text"),
    [
        ("topic=no-such", "topic", "Not found"),
        ("topic=haystack&filter=SQL92:+a+%3E", "filter", ""),
        ("topic=haystack&from=yesterday", "from", "Invalid time"),
        ("topic=haystack&from=2026-01-02T00:00&to=2026-01-01T00:00", "to", "later than the start"),
        (f"topic=haystack&contains={'x' * 600}", "contains", "At most 512"),
        ("by=offset&topic=haystack&queue=99", "queue", "Queue must be"),
    ],
)
def test_what_is_wrong_is_told_at_its_field_with_the_values_kept(
    browser: httpx.Client, haystack: str, query: str, field: str, text: str
) -> None:
    answer = browser.get(f"/messages?{query}")
    assert answer.status_code == 422
    assert re.search(rf'id="field-{field}"[^>]*aria-invalid="true"', answer.text)
    assert text in answer.text


def test_a_cursor_of_another_search_is_refused(browser: httpx.Client, haystack: str) -> None:
    page = browser.get(f"/messages?topic={haystack}&since=all&size=25&format=json").json()
    cursor = page["answer"]["scan"]["next_cursor"]
    other = f"/messages?topic={haystack}&since=all&filter=odd&cursor={cursor}"
    assert browser.get(other).status_code == 422


def test_ids_keys_and_places_are_found_across_topics(
    browser: httpx.Client, scenery: Scenery
) -> None:
    (sent,) = scenery.send("shipments", [{"body": "one", "keys": ["lone-key"], "queue": 2}])
    place = f"/messages/shipments/2/{sent['offset']}"
    for query in (
        f"by=id&id={sent['message_id']}",
        f"by=id&id={sent['offset_id']}",
        "by=key&key=lone-key",
        "by=key&key=lone-key&topic=shipments",
        f"by=offset&topic=shipments&queue=2&offset={sent['offset']}",
    ):
        assert place in browser.get(f"/messages?{query}").text, query
    nothing = browser.get("/messages?by=key&key=no-such-key")
    assert (nothing.status_code, "No matches" in nothing.text) == (200, True)


def test_times_are_read_as_utc_and_written_back_as_they_were() -> None:
    form, query = message_query.read({"topic": "t", "from": "2026-11-20T21:24:14.123"}, 0)
    assert (form.errors, query.begin_ms) == ({}, 1_795_209_854_123)
    assert "from=2026-11-20T21%3A24%3A14.123" in message_query.address(query, "/messages")
    _, again = message_query.read({"topic": "t", "since": "1h"}, 7_200_000)
    assert again.begin_ms == 3_600_000
    _, exact = message_query.read({"topic": "t", "from": "2026-11-20T21:24:14+02:00"}, 0)
    assert "from=2026-11-20T19%3A24%3A14" in message_query.address(exact, "/messages")


# -- exports -----------------------------------------------------------------------------------


def test_an_export_holds_every_match_and_says_that_it_is_whole(
    browser: httpx.Client, haystack: str
) -> None:
    answer = browser.get(f"/messages/export?topic={haystack}&since=all&filter=even")
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''haystack.ndjson"
    *rows, last = map(json.loads, answer.text.splitlines())
    assert len({(row["queue"], row["offset"]) for row in rows}) == len(rows) == 200
    assert {row["tag"] for row in rows} == {"even"}
    assert {type(row["offset"]) for row in rows} == {str}
    summary = last["export"]
    assert (summary["scanned"], summary["total"], summary["matched"]) == (400, 400, 200)
    assert summary["is_whole"]


def test_an_export_that_breaks_off_says_so_in_its_last_line(
    browser: httpx.Client, haystack: str, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan = site.app.services.search.scan

    async def once(*given: Any, cursor: str = "", **others: Any) -> Any:
        if cursor:
            raise messages.QueueNotFound("the disk failed")
        return await scan(*given, cursor=cursor, **others)

    monkeypatch.setattr(site.app.services.search, "scan", once)
    path = f"/messages/export?topic={haystack}&since=all"
    *rows, last = browser.get(path).text.splitlines()
    assert len(rows) == 200
    summary = json.loads(last)["export"]
    assert not summary["is_whole"]
    assert "the disk failed" in summary["why"]
    assert "NOT WHOLE: it broke off: the disk failed" in browser.get(f"{path}&format=csv").text


def test_a_csv_keeps_what_cells_hold_and_runs_no_formula(
    browser: httpx.Client, scenery: Scenery
) -> None:
    sent = ['=cmd|"/c calc"!A0', "+1", "-1", "@SUM(A1)", "\tx", 'a, "b"\nc', "plain"]
    scenery.send("formulas", [{"body": body, "queue": 0} for body in sent])
    scenery.send("formulas", [{"body": b64encode(b"\xff\x00").decode(), "encoding": "base64"}])
    text = browser.get("/messages/export?topic=formulas&since=all&format=csv").text
    head, *rows, last = csv.reader(io.StringIO(text, newline=""))
    got = [row[head.index("body")] for row in rows]
    assert got[:7] == [f"'{body}" for body in sent[:5]] + sent[5:]
    assert rows[7][head.index("body_encoding")] == "base64"
    assert last == ["# export", "scanned 8 of 8, 8 found, whole"]


@pytest.mark.parametrize("query", ["", "topic=haystack&format=xlsx", "topic=haystack&from=x"])
def test_an_export_that_makes_no_sense_is_refused_before_it_begins(
    browser: httpx.Client, haystack: str, query: str
) -> None:
    assert browser.get(f"/messages/export?{query}").status_code == 422


def test_no_more_exports_than_a_few_run_at_once(
    browser: httpx.Client, haystack: str, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site.app.console.exports, "count", 99)
    answer = browser.get(f"/messages/export?topic={haystack}")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")


# -- permalinks --------------------------------------------------------------------------------


def test_a_place_and_an_id_lead_to_the_same_message_and_a_purged_one_is_gone(
    browser: httpx.Client, scenery: Scenery
) -> None:
    sent = scenery.send("fading", [{"body": f"leaf {n}", "queue": 0} for n in range(6)])
    place = "/messages/fading/0/2"
    by_id = browser.get(f"/m/{sent[2]['message_id']}")
    assert by_id.headers["location"] == place
    assert "leaf 2" in browser.get(place).text
    scenery.post("/topics/fading/purge", {"before_offset": {"0": 4}})
    for path in (place, f"/m/{sent[2]['message_id']}", f"/m/{sent[2]['offset_id']}"):
        answer = browser.get(path, follow_redirects=True)
        assert answer.status_code == 410, path
        assert "Expired or purged" in answer.text
        assert "The queue now begins at offset 4" in answer.text
    gone = browser.get(f"{place}?format=json")
    assert (gone.status_code, gone.json()["min_offset"]) == (410, "4")
    assert isinstance(gone.json()["begins_ms"], int)
    assert browser.get("/messages/fading/0/99").status_code == 404
    assert browser.get("/messages/fading/0/4").status_code == 200


def test_a_message_that_waits_says_for_what(browser: httpx.Client, scenery: Scenery) -> None:
    def outcome(path: str) -> str:
        text = browser.get(path, follow_redirects=True).text
        assert "No known consumer group" not in text
        words = re.search(r'id="became-title".*?</section>', text, re.DOTALL)
        assert words is not None
        return " ".join(re.sub(r"<[^>]*>", " ", words[0]).split())

    assert "Waits to be delivered to topic reminders , due" in outcome("/m/REMINDER1")
    assert "Half message for transfers : consumers get it" in outcome("/m/TRANSFER1")
    scenery.send("again", [{"body": "x"}])
    (message,) = scenery.receive("retrying", "again", 1)
    nacks = [{"receipt": message["receipt"], "delay_level": 18, "error": "busy"}]
    scenery.post("/groups/retrying/nack", {"nacks": nacks})
    waiting = scenery.get("/scheduled?topic=%25RETRY%25retrying")["items"]
    record = waiting[0]["message"]
    place = f"/messages/{record['topic']}/{record['queue']}/{record['offset']}"
    assert "Waits to be redelivered to group retrying , due" in outcome(place)


def test_the_command_for_a_copy_names_the_topic_that_takes_it(browser: httpx.Client) -> None:
    text = browser.get("/m/REMINDER1", follow_redirects=True).text
    assert "kitemq produce reminders --body" in text
    assert "kitemq produce rmq_sys_wheel_timer" not in text


def test_the_id_of_a_message_that_retention_took_is_gone(
    browser: httpx.Client, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    retention = site.app.services.host.broker.retention
    status = msgspec.structs.replace(retention.status(), oldest_position=1000)
    monkeypatch.setattr(retention, "status", lambda: status)
    gone = browser.get("/m/7F0000010000000000000000000003E7")
    assert gone.status_code == 410
    assert "expired part of the log" in gone.text
    assert browser.get("/m/7F0000010000000000000000000003E8").status_code == 404
    assert browser.get("/m/0A00000100000000000000000000000A").status_code == 404


# -- bodies ------------------------------------------------------------------------------------


def sent_body(scenery: Scenery, body: bytes) -> str:
    """The page of a message with this body."""
    message = {"body": b64encode(body).decode(), "encoding": "base64", "queue": 0}
    (sent,) = scenery.send("bodies", [message])
    return f"/messages/bodies/0/{sent['offset']}"


@pytest.mark.parametrize(
    ("body", "view", "words"),
    [
        (avro_file([{"name": "Ada", "age": 36}]), "avro", ["name", "Ada", "36"]),
        (PROTOBUF, "protobuf", ["1 (varint)", "150", "testing"]),
        (msgspec.msgpack.encode({"sku": "K-7", "raw": b"\xff"}), "msgpack", ["sku", "K-7", "ff"]),
        (gzip.compress(b'{"packed": true}', mtime=0), "json", ["packed", "true", "decompressed"]),
    ],
)
def test_bodies_of_many_kinds_are_shown_as_trees(
    browser: httpx.Client, scenery: Scenery, body: bytes, view: str, words: list[str]
) -> None:
    path = sent_body(scenery, body)
    assert browser.get(f"{path}?format=json").json()["body"]["view"] == view
    page = re.sub(r"<[^>]+>", "", browser.get(path).text)
    assert [word for word in words if word not in page] == []
    assert browser.get(f"{path}/raw").content == body


def test_a_broken_avro_body_lists_each_decoder_and_why_it_failed(
    browser: httpx.Client, scenery: Scenery
) -> None:
    path = sent_body(scenery, avro_file([{"name": "Ada", "age": 36}])[:-4])
    body = browser.get(f"{path}?format=json").json()["body"]
    assert body["view"] == "hex"
    tried = {step["name"]: (step["is_ok"], step["detail"]) for step in body["results"]}
    assert list(tried) == ["text", "json", "avro", "msgpack", "protobuf", "hex"]
    assert all(detail for _, detail in tried.values())
    assert [name for name, (is_ok, _) in tried.items() if is_ok] == ["hex"]
    assert "fewer present" in tried["avro"][1]
    page = browser.get(path).text
    assert all(name in page for name in tried)


def test_a_large_body_is_shown_only_on_demand(browser: httpx.Client, scenery: Scenery) -> None:
    path = sent_body(scenery, b"x" * (BODY_BYTES_MAX - 1000))
    first = browser.get(path)
    assert len(first.content) < 150_000
    assert "Show more" in first.text
    more = browser.get(f"{path}?view=text&body=all")
    assert 1_000_000 < len(more.content) < 1_200_000
    assert len(browser.get(f"{path}/raw").content) == BODY_BYTES_MAX - 1000


@pytest.mark.browser
def test_without_script_a_search_is_made_and_continued(open_page: OpenPage, haystack: str) -> None:
    page = open_page("/messages", javascript=False)
    form = page.locator("form.finder")
    form.get_by_label("Topic").fill(haystack)
    form.get_by_label("Filter").fill("even")
    form.get_by_label("Rows").select_option("100")
    form.get_by_role("button", name="Search").click()
    expect(page.locator("tbody tr")).to_have_count(100)
    page.get_by_role("link", name="Continue").first.click()
    expect(page.get_by_text("200 matches")).to_be_visible()
    page.locator("tbody a").first.click()
    expect(page.get_by_role("heading", name="Body")).to_be_visible()
