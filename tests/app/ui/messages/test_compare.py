"""Comparing two messages, and editing one and sending it again."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect

from tests.app.ui.conftest import OpenPage, Site
from tests.app.ui.scenery import Scenery

HTML = {"accept": "text/html"}
BINARY = b"\x89PNG\r\n"
BODIES = (
    {"body": '{"order": 1, "total": 19.0}', "tag": "paid", "properties": {"source": "shop"}},
    {"body": '{"order": 2, "total": 19.0}', "tag": "paid", "keys": ["k-2", "two"]},
    {"body": "plain\ntext"},
    {"body": "iVBORw0K", "encoding": "base64"},
)


@pytest.fixture
def browser(site: Site) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.base, headers=HTML, timeout=30) as client:
        yield client


@pytest.fixture(scope="session")
def pair(site: Site) -> list[dict[str, Any]]:
    """The messages of the topic `pair`, which has one queue."""
    scenery = Scenery(site.base)
    scenery.post("/topics", {"name": "pair", "read_queues": 1, "write_queues": 1})
    sent = scenery.send("pair", list(BODIES))
    scenery.close()
    return sent


def compared(browser: httpx.Client, path: str, status: int = 200) -> Any:
    answer = browser.get(path, params={**httpx.URL(path).params, "format": "json"})
    assert answer.status_code == status, answer.text
    return answer.json()


def changed(result: Any) -> list[str]:
    lines = [line for group in result["body"]["groups"] for line in group]
    return [
        line["mark"] + line["before"] + line["changed"] + line["after"]
        for line in lines
        if line["mark"] != " "
    ]


def test_a_message_is_compared_with_the_earlier_one_line_by_line(
    browser: httpx.Client, pair: list[dict[str, Any]]
) -> None:
    page = compared(browser, "/messages/pair/0/1/compare")
    result = page["result"]
    assert (result["old"]["offset"], result["new"]["offset"]) == ("0", "1")
    assert changed(result) == ['-  "order": 1,', '+  "order": 2,']
    properties = {one["name"]: (one["old"], one["new"]) for one in result["properties"]}
    assert properties["source"] == ("shop", None)
    assert properties["KEYS"] == (None, "k-2 two")
    assert "TAGS" not in properties
    assert page["form"]["values"]["with"] == "pair:0:0"


def test_the_older_message_comes_first_whichever_is_looked_at(
    browser: httpx.Client, pair: list[dict[str, Any]]
) -> None:
    by_id = {"with": pair[1]["message_id"]}
    path = str(httpx.URL("/messages/pair/0/0/compare", params=by_id))
    result = compared(browser, path)["result"]
    assert (result["old"]["offset"], result["new"]["offset"]) == ("0", "1")
    # The first message of a queue has no earlier one.
    assert compared(browser, "/messages/pair/0/0/compare")["result"] == result


@pytest.mark.parametrize(("other", "view"), [(0, "text"), (3, "hex")])
def test_bodies_of_two_kinds_are_read_as_what_both_are(
    browser: httpx.Client, pair: list[dict[str, Any]], other: int, view: str
) -> None:
    result = compared(browser, f"/messages/pair/0/2/compare?with=pair:0:{other}")["result"]
    assert result["view"] == view
    assert result["body"]["groups"]


@pytest.mark.parametrize("other", ["pair:0:99", "nowhere:0:0", "no-such-id", "pair:0:1"])
def test_a_message_that_is_not_there_or_the_same_is_told_at_the_field(
    browser: httpx.Client, pair: list[dict[str, Any]], other: str
) -> None:
    answer = browser.get("/messages/pair/0/1/compare", params={"with": other})
    assert answer.status_code == 422
    assert "No other message with this id or at this place." in answer.text
    assert f'value="{other}"' in answer.text


def test_large_bodies_are_compared_to_a_limit_that_is_said(
    browser: httpx.Client, scenery: Scenery
) -> None:
    bodies = [f"{name}\n" * 200_000 for name in ("a", "b")]
    sent = scenery.send("pair-large", [{"body": body, "queue": 0} for body in bodies])
    path = f"/messages/pair-large/0/{sent[1]['offset']}/compare"
    result = compared(browser, path)["result"]
    assert result["is_cut"]
    assert result["body"]["is_cut"]
    assert "There may be more differences." in browser.get(path).text


def test_pretty_keeps_what_was_written_and_ends_at_a_limit(
    browser: httpx.Client, scenery: Scenery
) -> None:
    body = '{"big":12345678901234567890.10,"e":[],"o":{},"s":"a\\u00e9, {b}"}'
    deep = "[" * 900 + "1," * 30_000 + "1" + "]" * 900
    sent = scenery.send("pair-pretty", [{"body": body, "queue": 0}, {"body": deep, "queue": 0}])
    view = f"/messages/pair-pretty/0/{sent[0]['offset']}?view=pretty"
    shown = compared(browser, view)["body"]
    assert shown["text"] == (
        '{\n  "big": 12345678901234567890.10,\n  "e": [],\n  "o": {},\n  "s": "a\\u00e9, {b}"\n}'
    )
    assert json.loads(shown["text"]) == json.loads(body)
    deep_view = compared(browser, f"/messages/pair-pretty/0/{sent[1]['offset']}?view=pretty")[
        "body"
    ]
    assert len(deep_view["text"]) == 64 * 1024
    assert deep_view["tree_cut"]


def test_a_body_that_is_no_text_says_why_it_cannot_be_edited(
    browser: httpx.Client, pair: list[dict[str, Any]]
) -> None:
    page = browser.get("/messages/pair/0/3").text
    assert "The body is not text: byte 0 (0x89) is not UTF-8. Download it" in page
    assert "/produce?from=pair" not in page
    assert 'href="/messages/pair/0/3/raw" download' in page
    assert browser.get("/messages/pair/0/3/raw").content == BINARY


@pytest.mark.browser
def test_a_message_is_edited_and_sent_again_in_three_clicks(
    open_page: OpenPage, pair: list[dict[str, Any]]
) -> None:
    page = open_page("/topics/pair/messages?by=offset&queue=0&offset=1")
    page.locator("#message-0-1 td").first.click()
    page.locator("#drawer").get_by_role("link", name="Edit and send again").click()
    expect(page.get_by_label("Tag")).to_have_value("paid")
    expect(page.get_by_label("Keys")).to_have_value("k-2 two")
    body = page.locator("[name=body]")
    expect(body).to_have_value('{"order": 2, "total": 19.0}')
    body.fill('{"order": 2, "total": 0}')
    page.get_by_role("button", name="Send", exact=True).click()
    page.get_by_role("status").get_by_role("link").click()
    expect(page.locator("#message-body .tree-number").last).to_have_text("0")


@pytest.mark.browser
def test_a_body_is_copied_as_it_is(open_page: OpenPage, pair: list[dict[str, Any]]) -> None:
    page = open_page("/messages/pair/0/2")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy the body").click()
    expect(page.locator("#spoken")).to_have_text("Copied.")
    assert page.evaluate("navigator.clipboard.readText()") == "plain\ntext"


@pytest.mark.browser
def test_two_messages_are_compared_in_two_clicks(
    open_page: OpenPage, site: Site, pair: list[dict[str, Any]]
) -> None:
    page = open_page("/messages/pair/0/1")
    page.get_by_role("link", name="Compare", exact=True).click()
    expect(page).to_have_url(f"{site.base}/messages/pair/0/1/compare")
    expect(page.locator("tr.diff-removed")).to_contain_text('"order": 1,')
    expect(page.locator("tr.diff-added")).to_contain_text('"order": 2,')
    page.get_by_role("link", name="With the later one").click()
    expect(page).to_have_url(f"{site.base}/messages/pair/0/1/compare?with=pair%3A0%3A2")
    expect(page.locator("tr.diff-added").last).to_contain_text("text")


@pytest.mark.browser
@pytest.mark.parametrize(
    ("path", "width"), [("/messages/orders/0/0", 1280), ("/messages/orders/0/0", 390)]
)
def test_what_became_of_a_message_is_above_the_fold(
    open_page: OpenPage, path: str, width: int
) -> None:
    page = open_page(path, width=width)
    box = page.locator(".outcome tbody").bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < 900
