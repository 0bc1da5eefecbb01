"""Saved views in a browser: saved from a list as it is filtered, found again, forgotten."""

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import expect

from tests.app.ui.conftest import OpenPage, Site

pytestmark = pytest.mark.browser

NAME = "Orders of the browser test"


@pytest.fixture(autouse=True)
def _forgotten(site: Site) -> Iterator[None]:
    """The server is shared: nothing of this stays."""
    yield
    with httpx.Client(base_url=f"{site.base}/api/v1", timeout=30) as client:
        for view in client.get("/views").json()["items"]:
            client.delete(f"/views/{view['id']}")


def test_a_filter_that_was_just_typed_is_saved_named_and_found_again(open_page: OpenPage) -> None:
    page = open_page("/topics")
    page.locator("#topic-q").fill("ord")
    page.wait_for_url("**/topics?q=ord")
    page.locator(".saved-add").click()
    form = page.locator("#dialog[open] #view-form")
    expect(form).to_contain_text("/topics?q=ord")
    form.get_by_label("Name").fill(" ")
    form.get_by_role("button", name="Save view").click()
    expect(form.locator(".field-error")).to_contain_text("1 to 80 characters")
    form.get_by_label("Name").fill(NAME)
    form.get_by_role("button", name="Save view").click()
    link = page.locator(".saved-view", has_text=NAME)
    expect(link).to_have_attribute("aria-current", "true")
    page.goto("/groups")
    expect(page.locator(".saved-add")).to_be_visible()
    expect(page.locator(".saved-view")).to_have_count(0)
    page.keyboard.press("Control+k")
    page.locator("#palette-box").fill(NAME.lower())
    expect(page.locator("#palette [role=option]").first).to_contain_text(NAME)
    page.keyboard.press("Enter")
    page.wait_for_url("**/topics?q=ord")
    expect(page.locator("#topic-q")).to_have_value("ord")


def test_views_are_saved_and_deleted_without_scripts(open_page: OpenPage) -> None:
    page = open_page("/groups?sort=-lag", javascript=False)
    page.locator(".saved-add").click()
    page.get_by_label("Name").fill(NAME)
    page.get_by_role("button", name="Save view").click()
    expect(page.locator(".saved-view", has_text=NAME)).to_be_visible()
    page.goto("/views")
    page.get_by_role("button", name=f"Delete {NAME}").click()
    expect(page.get_by_text("No saved views")).to_be_visible()
