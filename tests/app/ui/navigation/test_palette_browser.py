"""The palette and the header's search in the browser: the same hits, by keys and by mouse."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.app.ui.accessibility import serious_faults
from tests.app.ui.conftest import OpenPage, Site
from tests.app.ui.scenery import Scenery

pytestmark = pytest.mark.browser


def open_palette(page: Page, text: str) -> None:
    """Press the keys, type, and wait until the answer is the one to what was typed."""
    page.keyboard.press("Control+k")
    expect(page.locator("#palette")).to_be_visible()
    expect(page.locator("#palette-box")).to_be_focused()
    page.locator("#palette-box").fill(text)
    expect(page.locator("#palette-hits")).to_have_attribute("data-text", text)


def test_ctrl_k_type_enter_opens_a_topic(open_page: OpenPage) -> None:
    page = open_page("/groups")
    open_palette(page, "shipm")
    expect(page.locator("#palette").get_by_role("option", selected=True)).to_contain_text(
        "shipments"
    )
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/topics/shipments$"))


def test_enter_before_the_answer_goes_where_the_answer_says(open_page: OpenPage) -> None:
    page = open_page("/groups")
    page.keyboard.press("Control+k")
    expect(page.locator("#palette-box")).to_be_focused()
    page.locator("#palette-box").press_sequentially("stock-levels")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/topics/stock-levels$"))


def test_the_palette_is_walked_with_arrows_and_gives_the_focus_back(open_page: OpenPage) -> None:
    page = open_page("/topics")
    button = page.get_by_role("button", name="Go to a page, a topic or a group")
    expect(button).to_be_hidden()  # where the header has its search
    page.set_viewport_size({"width": 390, "height": 844})
    button.click()
    expect(page.locator("#palette")).to_be_visible()
    page.locator("#palette-box").fill("er")
    expect(page.locator("#palette-hits")).to_have_attribute("data-text", "er")
    options = page.locator("#palette").get_by_role("option")
    first = options.first
    expect(first).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowUp")
    expect(options.last).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowDown")
    expect(first).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Escape")
    expect(page.locator("#palette")).to_be_hidden()
    expect(button).to_be_focused()


def type_in_header(page: Page, text: str) -> None:
    """Type, and wait until the hits are those of what was typed."""
    page.keyboard.press("/")
    page.locator("#search").fill(text)
    expect(page.locator("#search-hits")).to_have_attribute("data-text", text)


@pytest.mark.parametrize("text", ["orders", "reset billing", "alert rule", "1004", "shpments"])
def test_the_header_and_the_palette_have_the_same_hits(open_page: OpenPage, text: str) -> None:
    page = open_page("/groups")
    type_in_header(page, text)
    in_header = page.locator("#search-hits").get_by_role("option").all_inner_texts()
    page.keyboard.press("Escape")
    expect(page.locator("#search-hits")).to_be_hidden()
    open_palette(page, text)
    in_palette = page.locator("#palette").get_by_role("option").all_inner_texts()
    assert in_header == in_palette
    assert in_header


def test_the_header_leads_on_by_arrow_keys_and_without_one_to_all_results(
    open_page: OpenPage,
) -> None:
    page = open_page("/groups")
    type_in_header(page, "reset billing")
    assert serious_faults(page, ".bar-search") == []
    page.keyboard.press("ArrowDown")
    chosen = page.locator("#search-hits").get_by_role("option", selected=True)
    expect(chosen).to_contain_text("Reset offsets of billing")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/groups/billing/offsets$"))
    type_in_header(page, "order")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/search\?q=order$"))
    expect(page.get_by_role("heading", name="Find")).to_be_visible()


def test_a_theme_is_switched_in_place(open_page: OpenPage) -> None:
    page = open_page("/groups")
    open_palette(page, "dark theme")
    page.keyboard.press("Enter")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page).to_have_url(re.compile(r"/groups$"))


def test_a_message_is_offered_by_its_id_and_by_its_key(
    open_page: OpenPage, scenery: Scenery
) -> None:
    (sent,) = scenery.send("shipments", [{"body": "by palette", "keys": ["PLT-4711"]}])
    page = open_page("/")
    open_palette(page, sent["message_id"])
    chosen = page.locator("#palette").get_by_role("option", selected=True)
    expect(chosen).to_contain_text(f"Message with id {sent['message_id']}")
    page.locator("#palette-box").fill("PLT-4711")
    expect(chosen).to_contain_text("Messages with key PLT-4711")
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_contain_text("by palette")


def test_what_was_visited_lately_stands_first(open_page: OpenPage, site: Site) -> None:
    page = open_page("/topics/user-events")
    page.goto("/topics/no-such-topic")
    page.goto("/groups/billing")
    page.goto("/")
    page.keyboard.press("Control+k")
    options = page.locator("#palette").get_by_role("option")
    expect(options.nth(0)).to_contain_text("billing")
    expect(options.nth(0)).to_contain_text("recent")
    expect(options.nth(1)).to_contain_text("user-events")
    expect(options.nth(2)).to_contain_text("Overview")
    page.locator("#palette-box").fill("er")
    expect(page.locator("#palette-hits")).to_have_attribute("data-text", "er")
    expect(options.first).to_contain_text("user-events")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{site.base}/topics/user-events")


def test_without_script_the_header_leads_to_a_page_with_the_hits(open_page: OpenPage) -> None:
    page = open_page("/", javascript=False)
    page.locator("#search").fill("offsets billing reset")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Reset offsets of billing").click()
    expect(page.get_by_role("heading", name="billing")).to_be_visible()
