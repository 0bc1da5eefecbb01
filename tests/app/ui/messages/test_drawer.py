"""The drawer beside lists of messages, with clicks and keys counted."""

import re
from urllib.parse import quote

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.app.ui.accessibility import serious_faults
from tests.app.ui.conftest import OpenPage, Site
from tests.app.ui.scenery import HTMX_BODY, SCRIPT_BODY, Scenery

pytestmark = pytest.mark.browser

BODIES = [f'{{"shelf": {number}}}' for number in range(6)]


@pytest.fixture(scope="session")
def shelf(site: Site) -> str:
    """A topic with one queue and a message for each of the bodies."""
    scenery = Scenery(site.base)
    scenery.post("/topics", {"name": "shelf", "read_queues": 1, "write_queues": 1})
    scenery.send("shelf", [{"body": body, "tag": "book", "keys": ["shelved"]} for body in BODIES])
    scenery.close()
    return "/topics/shelf/messages"


def address(site: Site, path: str, topic: str, queue: int, offset: int) -> str:
    """The address of a list with a message in the drawer."""
    return f"{site.base}{path}?message={quote(f'{topic}:{queue}:{offset}', safe='')}"


def expect_message(page: Page, place: str) -> Locator:
    """Wait for a message in the drawer, which is given back."""
    drawer = page.locator("#drawer")
    expect(drawer.locator("#drawer-title")).to_have_text(f"Message {place}")
    return drawer


def test_one_click_on_a_row_shows_body_properties_outcome_and_the_way_to_the_journey(
    open_page: OpenPage, site: Site, shelf: str
) -> None:
    page = open_page(shelf)
    row = page.locator("#message-0-4")
    row.locator("td").first.click()
    drawer = expect_message(page, "0:4")
    expect(drawer.locator("#drawer-body .tree-number")).to_have_text("4")
    expect(drawer.locator("table.properties")).to_contain_text("UNIQ_KEY")
    expect(drawer.get_by_role("heading", name="Outcome")).to_be_visible()
    expect(drawer.get_by_role("link", name="Journey", exact=True)).to_have_attribute(
        "href", re.compile("^/trace/")
    )
    expect(drawer.get_by_text("2 of 6")).to_be_visible()
    expect(row).to_have_attribute("aria-current", "true")
    expect(page).to_have_url(address(site, shelf, "shelf", 0, 4))
    assert serious_faults(page, "#drawer") == []
    # The list is beside it: another click shows another message.
    page.locator("#message-0-2").get_by_role("link").first.click()
    expect_message(page, "0:2")
    expect(page.locator("tr[aria-current]")).to_have_count(1)


def test_back_closes_the_drawer_and_forward_opens_it_again(
    open_page: OpenPage, site: Site, shelf: str
) -> None:
    page = open_page(shelf)
    link = page.locator("#message-0-3").get_by_role("link").first
    link.click()
    expect_message(page, "0:3")
    page.keyboard.press("j")
    drawer = expect_message(page, "0:2")
    page.go_back()
    expect(drawer).to_be_hidden()
    expect(page).to_have_url(site.base + shelf)
    expect(page.locator("#message-0-2").get_by_role("link").first).to_be_focused()
    page.go_forward()
    expect_message(page, "0:2")


def test_messages_with_a_key_that_was_searched_for_open_beside_the_results(
    open_page: OpenPage, site: Site, shelf: str
) -> None:
    page = open_page("/search?q=shelved")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(len(BODIES))
    rows.first.locator("td").first.click()
    drawer = expect_message(page, "0:5")
    expect(page).to_have_url(f"{site.base}/search?q=shelved&message=shelf%3A0%3A5")
    page.keyboard.press("j")
    expect_message(page, "0:4")
    page.keyboard.press("k")
    expect_message(page, "0:5")
    expect(drawer.get_by_text("1 of 6")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page).to_have_url(f"{site.base}/search?q=shelved")


def test_keys_go_through_the_rows_open_and_close_and_give_the_focus_back(
    open_page: OpenPage, site: Site, shelf: str
) -> None:
    page = open_page(shelf)
    page.keyboard.press("j")
    page.keyboard.press("j")
    link = page.locator("#message-0-4").get_by_role("link").first
    expect(link).to_be_focused()
    page.keyboard.press("k")
    expect(page.locator("#message-0-5").get_by_role("link").first).to_be_focused()
    page.keyboard.press("Enter")
    drawer = expect_message(page, "0:5")
    expect(page.locator("#message-drawer")).to_be_focused()
    expect(drawer.get_by_role("button", name="Previous message")).to_be_disabled()
    page.keyboard.press("k")  # nothing before the first
    page.keyboard.press("j")
    expect_message(page, "0:4")
    expect(page.locator("#message-drawer")).to_be_focused()
    drawer.get_by_role("button", name="Next message").click()
    expect_message(page, "0:3")
    page.keyboard.press("Escape")
    expect(drawer).to_be_hidden()
    expect(page).to_have_url(site.base + shelf)
    expect(page.locator("#message-0-3").get_by_role("link").first).to_be_focused()


def test_the_address_of_the_drawer_opens_it_and_closing_stays_on_the_page(
    open_page: OpenPage, site: Site, shelf: str
) -> None:
    page = open_page("/topics")
    page.goto(address(site, shelf, "shelf", 0, 1))
    drawer = expect_message(page, "0:1")
    expect(page.locator("#message-0-1")).to_have_attribute("aria-current", "true")
    drawer.get_by_role("button", name="Close").click()
    expect(drawer).to_be_hidden()
    expect(page).to_have_url(site.base + shelf)
    page.go_back()
    expect(page).to_have_url(f"{site.base}/topics")


def test_another_format_stays_for_the_next_message_and_changes_no_address(
    open_page: OpenPage, site: Site, shelf: str
) -> None:
    page = open_page(shelf)
    page.locator("#message-0-3").get_by_role("link").first.click()
    drawer = expect_message(page, "0:3")
    for name in ("Hex", "Pretty"):
        drawer.get_by_role("link", name=name).click()
        expect(drawer.get_by_role("link", name=name)).to_have_attribute("aria-current", "true")
    expect(drawer.locator("pre")).to_have_text('{\n  "shelf": 3\n}')
    expect(page).to_have_url(address(site, shelf, "shelf", 0, 3))
    page.keyboard.press("j")
    expect_message(page, "0:2")
    expect(drawer.locator("pre")).to_have_text('{\n  "shelf": 2\n}')


def test_a_refresh_and_new_messages_leave_the_drawer_and_its_row(
    open_page: OpenPage, scenery: Scenery
) -> None:
    scenery.post("/topics", {"name": "shelf-live", "read_queues": 1, "write_queues": 1})
    scenery.send("shelf-live", [{"body": "first"}, {"body": "second"}])
    page = open_page("/topics/shelf-live/messages")
    page.locator("#message-0-0").get_by_role("link").first.click()
    drawer = expect_message(page, "0:0")
    expect(drawer.get_by_text("2 of 2")).to_be_visible()
    scenery.send("shelf-live", [{"body": "third"}])
    page.keyboard.press("r")
    expect(drawer.get_by_text("3 of 3")).to_be_visible()
    expect(page.locator("#message-0-0")).to_have_attribute("aria-current", "true")
    expect(drawer.locator("#drawer-body")).to_contain_text("first")


def test_on_a_telephone_the_drawer_covers_the_page(open_page: OpenPage, shelf: str) -> None:
    page = open_page(shelf, width=390)
    page.locator("#message-0-4 td").first.click()
    drawer = expect_message(page, "0:4")
    box = drawer.bounding_box()
    assert box is not None
    assert (box["x"], box["y"], box["width"], box["height"]) == (0, 0, 390, 900)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('#drawer') !== null")
    page.keyboard.press("Escape")
    expect(drawer).to_be_hidden()
    expect(page.locator("#message-0-4").get_by_role("link").first).to_be_focused()


@pytest.mark.parametrize(
    ("path", "opener", "text"),
    [
        ("/messages?topic=orders&since=all&filter=paid", "table.messages tbody tr td", "Body"),
        ("/messages?by=key&key=1050", "table.messages tbody tr td", "Ada Lovelace"),
        ("/tail?topic=orders", "#tail-rows tr .tail-body", "Body"),
        ("/dlq/billing", "#letter-3 td.why", "ValueError: total is missing in line 3"),
        ("/topics/%25DLQ%25billing/messages", "table.messages tbody tr td", "dead letter"),
        ("/scheduled?topic=reminders", "tr:has-text('REMINDER0') th", "remember invoice 0"),
        ("/topics/orders/messages?by=offset&queue=1&offset=3", "#message-1-3 td", "Body"),
    ],
)
def test_each_list_of_messages_has_the_drawer(
    open_page: OpenPage, path: str, opener: str, text: str
) -> None:
    page = open_page(path)
    page.locator(opener).first.click()
    drawer = page.locator("#drawer")
    expect(drawer.locator("#message-drawer")).to_contain_text(text)
    expect(drawer.get_by_role("link", name="Open page")).to_be_visible()
    drawer.get_by_role("link", name="Open page").click()
    expect(page.locator("#message-body")).to_be_visible()


def test_a_dead_letter_is_resent_in_two_clicks(open_page: OpenPage, scenery: Scenery) -> None:
    scenery.post("/groups", {"name": "shelf-dead", "retry_max": 0})
    scenery.send("shelf-failed", [{"body": "torn page"}])
    (delivery,) = scenery.receive("shelf-dead", "shelf-failed", 1)
    nack = {"receipt": delivery["receipt"], "error": "TornPage: 7"}
    scenery.post("/groups/shelf-dead/nack", {"nacks": [nack]})
    page = open_page("/dlq/shelf-dead")
    page.locator("#letter-0 td.why").click()
    page.locator("#drawer").get_by_role("button", name="Resend to shelf-dead").click()
    expect(page.get_by_role("heading", name="shelf-dead dead letter 0")).to_be_visible()
    assert scenery.get("/groups/shelf-dead/lag")["resent"] == 1


def test_ticks_and_other_links_of_a_row_keep_their_work(open_page: OpenPage) -> None:
    page = open_page("/dlq/billing")
    tick = page.locator("#letter-2 [data-tick]")
    tick.click()
    expect(tick).to_be_checked()
    expect(page.locator("#drawer")).to_be_hidden()
    with page.context.expect_page() as other:
        page.locator("#letter-2 .error-line").click(modifiers=["Control"])
    expect(other.value.get_by_role("heading", name="Decide")).to_be_visible()
    expect(page.locator("#drawer")).to_be_hidden()


def test_without_script_a_row_leads_to_its_page(open_page: OpenPage, shelf: str) -> None:
    page = open_page(shelf, javascript=False)
    page.locator("#message-0-4").get_by_role("link").first.click()
    expect(page.locator("#message-body .tree-number")).to_have_text("4")


def test_a_message_that_is_gone_or_unknown_or_no_address_is_said(
    open_page: OpenPage, shelf: str
) -> None:
    page = open_page(f"{shelf}?message=shelf:0:999")
    expect(page.locator("#message-drawer")).to_contain_text("404")
    page.goto(f"{shelf}?message=nonsense")
    expect(page.locator("#message-0-0")).to_be_visible()
    expect(page.locator("#drawer")).to_be_hidden()


def test_a_server_that_does_not_answer_is_said_in_the_drawer(
    open_page: OpenPage, shelf: str
) -> None:
    page = open_page(shelf)
    page.route("**/messages/shelf/**", lambda route: route.abort())
    page.locator("#message-0-4").get_by_role("link").first.click()
    drawer = page.locator("#drawer")
    expect(drawer.get_by_role("alert")).to_contain_text("No response from the server")
    page.unroute("**/messages/shelf/**")
    page.keyboard.press("j")
    expect_message(page, "0:3")
    expect(drawer.get_by_role("alert")).to_have_count(0)


def test_bodies_in_the_drawer_are_text(open_page: OpenPage, scenery: Scenery) -> None:
    scenery.post("/topics", {"name": "shelf-odd", "read_queues": 1, "write_queues": 1})
    scenery.send("shelf-odd", [{"body": SCRIPT_BODY}, {"body": HTMX_BODY}])
    page = open_page("/topics/shelf-odd/messages")
    addresses: list[str] = []
    page.on("request", lambda request: addresses.append(request.url))
    page.on("dialog", lambda dialog: pytest.fail(f"a body ran: {dialog.message}"))
    page.locator("#message-0-1").get_by_role("link").first.click()
    expect(page.locator("#drawer-body pre")).to_have_text(HTMX_BODY)
    page.keyboard.press("j")
    expect(page.locator("#drawer-body pre")).to_have_text(SCRIPT_BODY)
    assert not [url for url in addresses if url.endswith("/evil")]
