"""Controls of forms as they are drawn, in Chromium and in Firefox."""

import pytest
from playwright.sync_api import expect

from tests.app.ui.conftest import OpenPage, Take

pytestmark = pytest.mark.browser

LOOK = """(element) => {
  const style = getComputedStyle(element);
  return [style.appearance, style.width, style.height, style.borderRadius, style.backgroundColor];
}"""


def test_a_box_and_a_choice_look_the_same_in_every_browser(take: Take) -> None:
    page = take().page
    page.goto("/create/job?source=orders")
    blue, white = "rgb(24, 88, 196)", "rgb(255, 255, 255)"
    box = page.get_by_label("Exclude messages already sent by another job")
    assert box.evaluate(LOOK) == ["none", "16px", "16px", "4px", white]
    box.check()
    assert box.evaluate(LOOK) == ["none", "16px", "16px", "4px", blue]
    chosen = page.get_by_label("another topic: all its groups get it")
    assert chosen.evaluate(LOOK) == ["none", "16px", "16px", "50%", blue]


def test_a_field_shows_while_the_choice_that_uses_it_is_chosen(open_page: OpenPage) -> None:
    page = open_page("/create/job?source=orders", javascript=False)
    topic = page.locator("#field-to_topic")
    group = page.locator("#field-to_group")
    expect(topic).to_be_visible()
    expect(group).to_be_hidden()
    expect(page.locator("#field-ranges")).to_be_hidden()
    page.get_by_label("one group alone, by way of its retry topic").check()
    expect(topic).to_be_hidden()
    expect(group).to_be_visible()


def test_a_field_with_an_error_shows_whatever_is_chosen(open_page: OpenPage) -> None:
    page = open_page("/topics/orders/purge?how=before&before=soon", javascript=False)
    expect(page.locator("#help-before .field-error")).to_be_visible()
    page.get_by_label("Extent").select_option("all")
    expect(page.locator("#help-before .field-error")).to_be_visible()
