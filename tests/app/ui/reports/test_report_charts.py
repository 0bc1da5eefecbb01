"""Charts of reports in a real Chromium: the cursor, series that are switched, zoom, links."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import FloatRect, Locator, expect

from tests.app.ui.conftest import OpenPage

pytestmark = pytest.mark.browser


def place_of(over: Locator) -> FloatRect:
    over.scroll_into_view_if_needed()
    place = over.bounding_box()
    assert place is not None
    return place


def test_the_cursor_has_the_figures_of_all_series(open_page: OpenPage) -> None:
    page = open_page("/reports/throughput?topic=orders")
    over = page.locator("#over-flow")
    over.hover(position={"x": 200, "y": 60})
    figures = over.locator(".plot-figure")
    expect(figures).to_have_count(3)
    numbers = [int(each.replace(",", "")) for each in figures.locator("b").all_inner_texts()]
    assert numbers == sorted(numbers, reverse=True)
    expect(over.locator(".plot-point:visible")).to_have_count(3)
    page.mouse.move(0, 0)
    expect(over.locator(".plot-tip")).to_be_hidden()


def test_the_cursor_tells_the_states_of_all_queues_at_a_moment(open_page: OpenPage) -> None:
    page = open_page("/reports/lag?group=billing&topic=orders")
    over = page.locator("#over-bands")
    place = place_of(over)
    page.mouse.move(place["x"] + place["width"] * 0.3, place["y"] + 36)
    states = over.locator(".plot-tip p").filter(has_text="orders queue")
    expect(states).to_have_count(4)
    expect(over.locator(".plot-under")).to_have_text(re.compile("^orders queue .: on time$"))


def test_a_series_is_switched_off_in_its_place_and_stays_off(open_page: OpenPage) -> None:
    page = open_page("/reports/failures")
    switch = page.get_by_role("switch", name="rejected")
    bars = page.locator("#plot-reasons .bar-0")
    expect(bars.first).to_be_attached()
    switch.click()
    expect(switch).not_to_be_checked()
    expect(bars).to_have_count(0)
    expect(page).to_have_url(re.compile(r"/reports/failures\?hide=reasons\.rejected$"))
    page.reload()
    expect(bars).to_have_count(0)
    switch.click()
    expect(bars.first).to_be_attached()


def test_a_series_is_switched_without_script(open_page: OpenPage) -> None:
    page = open_page("/reports/failures", javascript=False)
    page.get_by_role("switch", name="rejected").click()
    expect(page.get_by_role("switch", name="rejected")).not_to_be_checked()
    expect(page.locator("#plot-reasons .bar-0")).to_have_count(0)


def test_a_drag_takes_whole_hours_and_back_undoes_it(open_page: OpenPage) -> None:
    page = open_page("/reports/throughput?topic=orders&range=day")
    address = page.url
    place = place_of(page.locator("#over-flow"))
    y = place["y"] + 40
    page.mouse.move(place["x"] + place["width"] * 0.3, y)
    page.mouse.down()
    page.mouse.move(place["x"] + place["width"] * 0.5, y, steps=4)
    page.mouse.up()
    range_now = page.get_by_role("navigation", name="Range").locator("[aria-current]")
    expect(range_now).to_have_text("custom range")
    query = parse_qs(urlsplit(page.url).query)
    assert query["topic"] == ["orders"]
    assert all(query[name][0].endswith(":00:00") for name in ("from", "to"))
    expect(page.locator("#freshness")).to_contain_text(re.compile("of [567] hours have figures"))
    page.go_back()
    expect(page).to_have_url(address)
    expect(range_now).to_have_text("24 h")


def test_a_moment_of_a_report_leads_to_the_group_and_its_dead_letters(open_page: OpenPage) -> None:
    page = open_page("/reports/failures?group=billing&choice=dead")
    over = page.locator("#over-reasons")
    over.click(position={"x": 200, "y": 60})
    links = over.get_by_role("link")
    expect(links).to_have_text(
        [
            "Dead letters of that time",
            "The group's lag then",
            "Members then",
            "Slowest messages then",
            "Only this time",
        ]
    )
    href = links.first.get_attribute("href") or ""
    query = parse_qs(urlsplit(href).query)
    assert href.startswith("/dlq/billing?")
    assert query["until"][0] > query["from"][0]
    links.first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("billing")
