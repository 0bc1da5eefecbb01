"""A search through a topic in the browser: it goes on by itself, and stops where one says so."""

import pytest
from playwright.sync_api import Page, Route, expect

from tests.app.ui.conftest import OpenPage, Site
from tests.app.ui.scenery import Scenery

pytestmark = pytest.mark.browser

TOPIC = "hay"
NEEDLES = 40
STEPS = "**/messages?*cursor=*"


@pytest.fixture(scope="module", autouse=True)
def hay(site: Site) -> None:
    """400 messages, every tenth with a needle."""
    scenery = Scenery(site.base)
    for first in range(0, 400, 50):
        bodies = (f"straw {n}" if n % 10 else f"needle {n}" for n in range(first, first + 50))
        scenery.send(TOPIC, [{"body": body} for body in bodies])
    scenery.close()


def search(open_page: OpenPage, query: str = "contains=needle&size=25") -> Page:
    return open_page(f"/messages?topic={TOPIC}&since=all&{query}")


def expect_every_needle_once(page: Page) -> None:
    expect(page.locator(".looked")).to_contain_text(f"{NEEDLES} matches")
    expect(page.locator(".looked")).to_contain_text("End of results.")
    marks = page.locator("td.preview mark")
    expect(marks).to_have_count(NEEDLES)
    assert set(marks.all_text_contents()) == {"needle"}
    bodies = page.locator("td.preview").all_inner_texts()
    assert len(set(bodies)) == NEEDLES


def test_a_search_goes_on_to_its_end_by_itself_with_the_newest_on_top(open_page: OpenPage) -> None:
    page = search(open_page)
    expect_every_needle_once(page)
    first = page.locator("tbody tr").first
    expect(first.locator("td.preview")).to_have_text("needle 390")
    expect(page.get_by_role("link", name="Continue")).to_have_count(0)
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    expect(page.get_by_role("link", name="Start over")).to_have_count(0)


def test_a_search_stops_and_continues_where_it_stopped(open_page: OpenPage) -> None:
    page = open_page("/messages")
    steps: list[Route] = []

    def hold(step: Route) -> None:
        steps.append(step)

    page.route(STEPS, hold)
    page.goto(f"/messages?topic={TOPIC}&since=all&contains=needle&size=25")
    expect(page.locator(".looked")).to_contain_text("Searching …")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".looked")).to_contain_text("Stopped.")
    expect(page.locator("tbody tr")).to_have_count(25)
    for step in steps:
        step.abort()
    page.unroute(STEPS)
    page.get_by_role("link", name="Continue").first.click()
    expect_every_needle_once(page)
    assert "cursor" not in page.url


def test_a_step_without_an_answer_keeps_the_rows_and_is_tried_again(open_page: OpenPage) -> None:
    page = open_page("/messages")
    page.route(STEPS, lambda step: step.abort())
    page.goto(f"/messages?topic={TOPIC}&since=all&contains=needle&size=25")
    expect(page.locator(".looked")).to_contain_text("The search was interrupted")
    expect(page.locator("tbody tr")).to_have_count(25)
    page.unroute(STEPS)
    page.get_by_role("link", name="Continue").first.click()
    expect_every_needle_once(page)


def test_the_first_matches_come_after_steps_that_had_none(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.ui.messages.messages.BUDGET_S", 0.0)
    page = search(open_page, "contains=needle+10&order=newest")
    expect(page.locator(".looked")).to_contain_text("End of results.")
    expect(page.locator("td.preview mark")).to_have_count(2)  # needle 10 and needle 100
    expect(page.locator(".looked")).to_contain_text("scanned 400 of 400")


def test_a_search_for_all_messages_waits_for_a_click_at_its_rows(open_page: OpenPage) -> None:
    page = search(open_page, "size=25")
    expect(page.locator(".looked")).to_contain_text("There may be more.")
    expect(page.locator("tbody tr")).to_have_count(25)
    page.get_by_role("link", name="Continue").first.click()
    expect(page.locator(".looked")).to_contain_text("50 matches")
    expect(page.locator("tbody tr")).to_have_count(25)
