"""The pages as a browser without script gets them, and as programs do."""

import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any

import httpx
import pytest

from app.ui.routes import router
from tests.app.ui.addresses import NO_PAGES, PAGES
from tests.app.ui.conftest import Site
from tests.app.ui.scenery import HTMX_BODY, SCRIPT_BODY, Scenery
from tests.app.ui.screenshots import FOLDER, OF_PEOPLE, PICTURES

FORM = {"content-type": "application/x-www-form-urlencoded"}
HTML = {"accept": "text/html"}
NEW_TOPIC = {
    "name": "",
    "type": "NORMAL",
    "read_queues": "4",
    "write_queues": "4",
    "permission": "6",
    "durability": "",
}
MESSAGE = {
    "body": "hello",
    "tag": "",
    "keys": "",
    "properties": "",
    "message_group": "",
    "delay_level": "0",
    "queue": "",
    "count": "1",
}


@pytest.fixture
def browser(site: Site) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.base, headers=HTML, timeout=30) as client:
        yield client


def fragment(browser: httpx.Client, path: str, element: str, **headers: str) -> httpx.Response:
    """What htmx gets when it fills `element`."""
    asking = {"hx-request": "true", "hx-request-type": "partial", "hx-target": element}
    return browser.get(path, headers={**asking, **headers})


def without_times(html: str) -> str:
    """Ages and tags of freshness differ from one moment to the next."""
    html = re.sub(r"<time[^>]*>[^<]*</time>", "<time>", html)
    return re.sub(r'hx-ptag="[^"]*"', "", html)


@pytest.mark.parametrize("path", PAGES)
def test_every_page_answers_when_typed(browser: httpx.Client, path: str) -> None:
    answer = browser.get(path)
    assert answer.status_code == (404 if "/no-such" in path else 200)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"
    assert answer.text.count("<h1") == 1


def without(seen: Iterable[str]) -> list[str]:
    """The pages of the router of which none of these addresses is one."""
    paths = {address.partition("?")[0] for address in seen}
    patterns = {
        route.path: re.compile(re.sub(r"\{[^}]*\}", "[^/]+", route.path) + r"\Z")
        for route in router.routes
        if "GET" in (getattr(route, "methods", None) or ()) and route.path not in NO_PAGES
    }
    return [
        path for path, pattern in patterns.items() if not any(pattern.match(one) for one in paths)
    ]


def test_every_get_route_is_among_the_pages_that_are_looked_at() -> None:
    assert without(PAGES) == []


def test_every_page_has_a_wide_and_a_narrow_picture() -> None:
    pictures = PICTURES | OF_PEOPLE
    assert set(without(pictures.values())) <= {"/login/callback", "/login/leave-provider"}
    for name in pictures:
        for file in (f"{name}.png", f"{name}-narrow.png"):
            assert (FOLDER / file).is_file(), f"{file}: python -m tests.app.ui.screenshots"


@pytest.mark.parametrize(
    ("path", "element"),
    [
        ("/topics/polled", "div#topic-overview"),
        ("/topics/polled/groups", "section#topic-readers"),
        ("/topics/polled/messages", "section#topic-messages"),
    ],
)
def test_a_poll_of_a_topic_is_answered_in_full_only_after_new_messages(
    browser: httpx.Client, scenery: Scenery, path: str, element: str
) -> None:
    scenery.send("polled", [{"body": "one"}, {"body": "two"}])
    scenery.receive("poller", "polled", 1)

    def poll(tag: str) -> httpx.Response:
        return fragment(browser, path, element, **({"hx-ptag": tag} if tag else {}))

    # A rate over the last minute may just pass into its next step: then once more.
    tag, again = poll("").headers["hx-ptag"], None
    for _ in range(5):
        again = poll(tag)
        if again.status_code == 304:
            break
        tag = again.headers["hx-ptag"]
    assert again is not None
    assert (again.status_code, again.content, again.headers["hx-ptag"]) == (304, b"", tag)
    scenery.send("polled", [{"body": "three"}])
    changed = poll(tag)
    assert changed.status_code == 200
    assert changed.headers["hx-ptag"] != tag


@pytest.mark.parametrize(
    ("path", "element"),
    [
        ("/", "div#overview"),
        ("/topics?q=or&sort=-messages", "section#topic-list"),
        ("/groups", "section#group-list"),
        ("/groups/warehouse", "div#group-detail"),
        ("/topics/shipments", "div#topic-overview"),
        ("/topics/shipments/messages", "section#topic-messages"),
        ("/topics/shipments/groups", "section#topic-readers"),
        ("/messages/shipments/0/0?view=hex", "section#message-body"),
        ("/create/topic", "div#dialog-body"),
        ("/topics/shipments/delete", "div#dialog-body"),
        ("/topics/shipments/config", "form#topic-config"),
        ("/topics/shipments/produce", "form#topic-produce"),
    ],
)
def test_a_fragment_is_the_block_of_its_page(
    browser: httpx.Client, path: str, element: str
) -> None:
    for _ in range(3):  # figures may be read anew between the two
        part = fragment(browser, path, element)
        assert part.status_code == 200
        assert "<!doctype" not in part.text
        whole = without_times(browser.get(path).text)
        if without_times(part.text).strip() in whole:
            break
    assert without_times(part.text).strip() in whole


def test_a_fragment_that_no_block_is_named_for_gets_the_whole_page(browser: httpx.Client) -> None:
    assert "<!doctype" in fragment(browser, "/topics", "div#somewhere").text


def test_going_back_in_history_gets_the_whole_page(browser: httpx.Client) -> None:
    restored = fragment(
        browser, "/topics", "section#topic-list", **{"hx-history-restore-request": "true"}
    )
    assert "<!doctype" in restored.text


def test_an_unchanged_fragment_is_not_sent_again(browser: httpx.Client) -> None:
    again = fragment(browser, "/topics?q=stock", "section#topic-list")
    for _ in range(5):  # rates of what was sent before may just pass into their next step
        tag = again.headers["hx-ptag"]
        again = fragment(browser, "/topics?q=stock", "section#topic-list", **{"hx-ptag": tag})
        if again.status_code == 304:
            break
    assert (again.status_code, again.content) == (304, b"")
    other = fragment(browser, "/topics?q=ship", "section#topic-list", **{"hx-ptag": tag})
    assert other.status_code == 200


def test_a_wrong_topic_is_refused_at_its_field_with_the_values_kept(
    browser: httpx.Client,
) -> None:
    answer = browser.post("/topics", data={**NEW_TOPIC, "name": "a b!", "read_queues": "9999"})
    assert answer.status_code == 422
    assert 'value="a b!"' in answer.text
    assert 'value="9999"' in answer.text
    assert re.search(r'id="field-read_queues"[^>]*aria-invalid="true"', answer.text)
    assert "must be a whole number from 1 to 1,024" in answer.text


def test_a_name_that_the_engine_refuses_is_told_at_its_field(browser: httpx.Client) -> None:
    answer = browser.post("/topics", data={**NEW_TOPIC, "name": "a b!"})
    assert answer.status_code == 422
    assert re.search(r'id="field-name"[^>]*aria-invalid="true"', answer.text)
    taken = browser.post("/topics", data={**NEW_TOPIC, "name": "orders"})
    assert taken.status_code == 409
    assert "exists already" in taken.text


def test_creating_a_topic_leads_to_its_page_and_into_the_audit_trail(
    browser: httpx.Client, site: Site
) -> None:
    answer = browser.post("/topics", data={**NEW_TOPIC, "name": "made-here", "type": "FIFO"})
    assert answer.status_code == 303
    assert answer.headers["location"] == "/topics/made-here?done=created"
    page = browser.get(answer.headers["location"])
    assert "Created." in page.text
    assert "FIFO" in page.text
    query = "select action, result from audit where object_name = 'made-here'"
    with closing(sqlite3.connect(site.data / "kitemq.db")) as database:
        assert database.execute(query).fetchall() == [("topic.create", "done")]


def test_htmx_is_redirected_by_header_because_it_would_swap_the_page_in(
    browser: httpx.Client,
) -> None:
    answer = browser.post(
        "/topics", data={**NEW_TOPIC, "name": "made-by-htmx"}, headers={"hx-request": "true"}
    )
    assert answer.status_code == 204
    assert answer.headers["hx-redirect"] == "/topics/made-by-htmx?done=created"


def test_a_topic_is_changed_by_its_form(browser: httpx.Client) -> None:
    browser.post("/topics", data={**NEW_TOPIC, "name": "to-change"})
    values = {"read_queues": "8", "write_queues": "8", "permission": "4", "durability": "flushed"}
    assert browser.post("/topics/to-change/config", data=values).status_code == 303
    page = browser.get("/topics/to-change/config")
    assert 'value="8"' in page.text
    assert "read only" in page.text
    wrong = browser.post("/topics/to-change/config", data={**values, "read_queues": "0"})
    assert wrong.status_code == 422


def test_deleting_a_topic_needs_its_name_typed(browser: httpx.Client) -> None:
    browser.post("/topics", data={**NEW_TOPIC, "name": "to-delete"})
    impact = browser.get("/topics/to-delete/delete")
    assert "cannot be undone" in impact.text
    refused = browser.post("/topics/to-delete/delete", data={"confirm": "to-delet"})
    assert refused.status_code == 422
    assert browser.get("/topics/to-delete").status_code == 200
    done = browser.post("/topics/to-delete/delete", data={"confirm": "to-delete"})
    assert done.headers["location"] == "/topics?done=deleted"
    assert browser.get("/topics/to-delete").status_code == 404


def test_what_deleting_would_lose_is_told_in_numbers(browser: httpx.Client) -> None:
    count = browser.get("/api/v1/topics/shipments").json()["messages"]
    text = browser.get("/topics/shipments/delete").text
    assert f"<strong>{count}</strong> messages" in text
    assert "warehouse" in text


def test_a_get_changes_nothing(browser: httpx.Client) -> None:
    assert browser.get("/topics/shipments/delete?confirm=shipments").status_code == 200
    assert browser.get("/topics/shipments").status_code == 200


def test_another_sites_form_is_refused(browser: httpx.Client) -> None:
    for headers in (
        {"origin": "https://evil.example"},
        {"sec-fetch-site": "cross-site", "origin": "null"},
    ):
        answer = browser.post("/topics", data={**NEW_TOPIC, "name": "forged"}, headers=headers)
        assert answer.status_code == 403
    assert browser.get("/topics/forged").status_code == 404


def test_a_body_that_is_no_form_is_refused_with_a_page(browser: httpx.Client) -> None:
    answer = browser.post("/topics", json={"name": "x"})
    assert answer.status_code == 422
    assert "HTML forms only" in answer.text
    broken = browser.post("/topics", content=b"name=%ff\xff", headers=FORM)
    assert broken.status_code == 422


def test_a_message_is_sent_and_shown_after_the_redirect(browser: httpx.Client) -> None:
    browser.post("/topics", data={**NEW_TOPIC, "name": "sending"})
    values = {
        **MESSAGE,
        "body": "line 1\r\nline 2",
        "tag": "blue",
        "keys": "k1 k2",
        "properties": "source: console\r\n\r\nnote: a: b",
        "count": "2",
        "queue": "3",
    }
    answer = browser.post("/topics/sending/produce", data=values)
    assert answer.status_code == 303
    page = browser.get(answer.headers["location"])
    assert "2 messages stored" in page.text
    context = browser.get("/messages/sending/3/0?format=json").json()
    properties = {item["name"]: item["value"] for item in context["properties"]}
    assert (properties["TAGS"], properties["KEYS"]) == ("blue", "k1 k2")
    assert (properties["source"], properties["note"]) == ("console", "a: b")
    raw = browser.get("/messages/sending/3/0/raw")
    assert raw.content == b"line 1\nline 2"
    assert raw.headers["content-disposition"].startswith("attachment")


@pytest.mark.parametrize(
    ("changes", "field", "text"),
    [
        ({"properties": "no colon"}, "properties", "Line 1 is not"),
        ({"properties": "a: b\nUNIQ_KEY: x"}, "properties", "Line 2: UNIQ_KEY"),
        ({"delay_level": "19"}, "delay_level", "Delay must be"),
        ({"queue": "77"}, "queue", "Queue must be"),
        ({"count": "101"}, "count", "Copies must be"),
    ],
)
def test_a_wrong_message_is_refused_at_its_field_and_nothing_is_sent(
    browser: httpx.Client, changes: dict[str, str], field: str, text: str
) -> None:
    before = browser.get("/topics/stock-levels?format=json").json()["head"]["messages"]
    answer = browser.post("/topics/stock-levels/produce", data={**MESSAGE, **changes})
    assert answer.status_code == 422
    assert text in answer.text
    assert re.search(rf'id="field-{field}"[^>]*aria-invalid="true"', answer.text)
    assert ">\nhello</textarea>" in answer.text
    after = browser.get("/topics/stock-levels?format=json").json()["head"]["messages"]
    assert before == after


def test_an_ordered_topic_asks_for_a_message_group_at_its_field(browser: httpx.Client) -> None:
    answer = browser.post("/topics/payments/produce", data=MESSAGE)
    assert answer.status_code == 422
    assert re.search(r'id="field-message_group"[^>]*aria-invalid="true"', answer.text)


def test_newest_messages_walk_over_all_queues_without_gap_or_repeat(
    browser: httpx.Client,
) -> None:
    seen: list[tuple[int, int]] = []
    times: list[int] = []
    path = "/topics/user-events/messages?size=100&format=json"
    cursor = ""
    for _ in range(10):
        page = browser.get(f"{path}&cursor={cursor}" if cursor else path).json()
        seen += [(row["queue"], int(row["offset"])) for row in page["rows"]]
        times += [row["stored_ms"] for row in page["rows"]]
        cursor = page["page"]["next_cursor"]
        if not cursor:
            break
    assert len(seen) == len(set(seen)) == 250
    assert times == sorted(times, reverse=True)


def test_one_queue_is_read_along_in_both_directions(browser: httpx.Client) -> None:
    path = "/topics/user-events/messages?by=offset&queue=1&size=25&format=json"
    first = browser.get(f"{path}&offset=0").json()
    assert [row["offset"] for row in first["rows"]] == [str(n) for n in range(25)]
    assert first["page"]["previous_cursor"] == ""
    second = browser.get(f"{path}&offset={first['page']['next_cursor']}").json()
    assert second["rows"][0]["offset"] == "25"
    assert second["page"]["previous_cursor"] == "0"
    past = browser.get(f"{path}&offset=999999").json()
    assert past["rows"] == []
    assert "does not exist yet" in past["page"]["note"]


@pytest.mark.parametrize("cursor", ["x", "1-", "-", "1-2.x-3"])
def test_a_broken_cursor_is_an_error_page_with_a_remedy(browser: httpx.Client, cursor: str) -> None:
    answer = browser.get(f"/topics/orders/messages?cursor={cursor}")
    assert answer.status_code == 422
    assert "Start again at the newest messages" in answer.text


def test_a_message_is_found_by_key_and_by_both_ids(browser: httpx.Client, scenery: Scenery) -> None:
    (sent,) = scenery.send("shipments", [{"body": "find me", "keys": ["needle"]}])
    place = f"/messages/shipments/{sent['queue']}/{sent['offset']}"
    assert place in browser.get("/topics/shipments/messages?by=key&key=needle").text
    for name in ("message_id", "offset_id"):
        assert browser.get(f"/m/{sent[name]}").headers["location"] == place
        assert browser.get(f"/search?q={sent[name]}").headers["location"] == f"/m/{sent[name]}"
    missing = browser.get("/m/7F000001000000000000000000000000")
    assert missing.status_code == 404
    assert "no message has the id" in missing.text.lower()


def test_a_dead_letter_says_why_and_leads_to_the_message_as_it_was_sent(
    browser: httpx.Client,
) -> None:
    page = browser.get("/messages/%25DLQ%25billing/0/0")
    assert "Group billing moved this message to dead letters" in page.text
    assert "ValueError: total is missing in line 3" in page.text
    context = browser.get("/messages/%25DLQ%25billing/0/0?format=json").json()
    origin = browser.get(f"/m/{context['failure']['origin_id']}")
    assert origin.headers["location"].startswith("/messages/orders/")
    sent = browser.get(origin.headers["location"])
    assert "/messages/%25DLQ%25billing/0/0" in sent.text


def test_bodies_and_keys_are_text_and_never_markup(browser: httpx.Client) -> None:
    for path in ("/topics/orders/messages", "/topics/orders/messages?by=key&key=<b>key</b>"):
        text = browser.get(path).text
        assert SCRIPT_BODY not in text
        assert HTMX_BODY not in text
        assert "<b>key</b>" not in text
    assert "&lt;script&gt;" in browser.get("/topics/orders/messages").text


def test_names_in_error_pages_are_text(browser: httpx.Client) -> None:
    answer = browser.get("/topics/%3Cscript%3Ealert(1)%3C%2Fscript%3E")
    assert "<script>alert" not in answer.text


def test_programs_that_ask_for_no_page_get_no_page(site: Site) -> None:
    answer = httpx.get(f"{site.base}/no-such-page", headers={"accept": "application/json"})
    assert answer.headers["content-type"] == "application/problem+json"
    wrong = httpx.get(f"{site.base}/api/v1/no-such-page", headers=HTML)
    assert wrong.headers["content-type"] == "application/problem+json"


def test_an_unexpected_error_is_a_page_with_an_id_that_the_log_knows(
    browser: httpx.Client, site: Site, caplog: pytest.LogCaptureFixture, monkeypatch: Any
) -> None:
    def broken(_: str) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(site.app.services.host.broker, "topic", broken)
    answer = browser.get("/topics/orders")
    assert answer.status_code == 500
    match = re.search(r"Error id <code>(\w{8})</code>", answer.text)
    assert match
    assert match[1] in caplog.text
    part = fragment(browser, "/topics/orders", "div#topic-overview")
    assert part.status_code == 500
    assert "<!doctype" not in part.text


def test_system_topics_are_hidden_until_asked_for(browser: httpx.Client) -> None:
    own = browser.get("/topics?format=json&size=200").json()
    assert not [row for row in own["cut"]["rows"] if row["name"].startswith("%")]
    dead = browser.get("/topics?type=DLQ&format=json").json()
    names = [row["name"] for row in dead["cut"]["rows"]]
    assert "%DLQ%billing" in names
    assert all(name.startswith("%DLQ%") for name in names)


def test_figures_are_the_ones_that_the_api_gives(browser: httpx.Client) -> None:
    group = browser.get("/groups/billing?format=json").json()
    lag = browser.get("/api/v1/groups/billing/lag").json()
    assert group["figures"]["lag"] == lag["count"]
    assert group["figures"]["dead"] == lag["dead"] == 9
    topic = browser.get("/topics/orders?format=json").json()
    assert {type(row["max_offset"]) for row in topic["queues"]} == {str}


def test_preferences_are_kept_and_lead_back_only_to_this_server(browser: httpx.Client) -> None:
    answer = browser.post(
        "/preferences", data={"theme": "dark", "refresh": "2", "next": "/topics?q=a"}
    )
    assert answer.headers["location"] == "/topics?q=a"
    assert 'data-theme="dark"' in browser.get("/topics").text
    assert 'hx-trigger="every 2s' in browser.get("/topics").text
    for elsewhere in ("https://evil.example", "//evil.example", "/\\evil.example", "x", "/\n"):
        answer = browser.post("/preferences", data={"next": elsewhere, "refresh": "0"})
        assert answer.headers["location"] == "/"
    assert 'hx-trigger="every ' not in browser.get("/topics").text


def test_static_files_are_kept_by_content(browser: httpx.Client) -> None:
    page = browser.get("/topics").text
    for path in re.findall(r'(?:href|src)="(/static/[^"#]+)', page):
        answer = browser.get(path)
        assert answer.status_code == 200, path
        assert "immutable" in answer.headers["cache-control"]
        tag = answer.headers["etag"]
        assert browser.get(path, headers={"if-none-match": tag}).status_code == 304
    assert browser.get("/static/app.css").headers["cache-control"] == "no-cache"
    for missing in ("nope.css", "..%2fpages.py", "vendor/VENDOR.toml"):
        assert browser.get(f"/static/{missing}").status_code == 404


def test_the_overview_leads_to_the_traffic_of_longer_ranges(browser: httpx.Client) -> None:
    for name in ("day", "week", "month"):
        address = f"/reports/throughput?range={name}"
        assert f'href="{address}"' in browser.get("/").text
        html = browser.get(address).text
        assert re.search(rf'href="[^"]*range={name}[^"]*" aria-current="true"', html)
