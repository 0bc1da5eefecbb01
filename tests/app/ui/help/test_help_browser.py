"""Keys and help in a browser: "?" tells them, "g h" leads on, and they can be switched off."""

import re

import pytest
from playwright.sync_api import expect

from tests.app.ui.conftest import OpenPage

pytestmark = pytest.mark.browser


def test_the_keys_lead_to_help_and_a_word_is_found_there(open_page: OpenPage) -> None:
    page = open_page("/groups")
    page.keyboard.press("?")
    dialog = page.locator("#help")
    expect(dialog).to_be_visible()
    expect(dialog.get_by_role("link")).to_have_attribute("href", "/help")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    page.keyboard.press("g")
    page.keyboard.press("h")
    expect(page).to_have_url(re.compile(r"/help$"))
    page.wait_for_load_state()
    page.locator("#help-q").fill("receipt")
    page.locator(".help-filter button").click()
    expect(page.locator(".glossary dt")).to_have_text(["POP and receipt handle"])


def test_a_sign_beside_a_word_leads_to_the_word(open_page: OpenPage) -> None:
    page = open_page("/transactions")
    page.locator("h1 + .word").click()
    expect(page).to_have_url(re.compile(r"/help#half-message$"))
    expect(page.locator("#half-message")).to_be_in_viewport()


def test_keys_of_one_letter_can_be_switched_off_but_not_the_palette(open_page: OpenPage) -> None:
    page = open_page("/settings")
    page.locator("#field-keys").select_option("off")
    page.locator("form.card button").click()
    expect(page).to_have_url(re.compile(r"done=changed"))
    page.wait_for_load_state()  # a key that is pressed before the scripts run is lost
    page.keyboard.press("?")
    page.keyboard.press("Control+k")
    expect(page.locator("#palette")).to_be_visible()
    expect(page.locator("#help")).to_be_hidden()
