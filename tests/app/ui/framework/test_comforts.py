"""What makes the console handy: the palette, time zones, lists as files, commands to copy."""

import csv
import io
import re
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Page, expect

from app.ui.framework import formats, zones
from app.ui.navigation.palette import EACH_MAX, find, ranked
from tests.app.ui.conftest import OpenPage, Site
from tests.app.ui.scenery import Scenery

AT_MS = 1_700_000_000_123  # 2023-11-14 22:13:20.123 UTC
KATHMANDU = "UTC+05:45"


@pytest.fixture
def browser(site: Site) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.base, headers={"accept": "text/html"}, timeout=30) as client:
        yield client


# -- the palette ----------------------------------------------------------------------------------


def test_the_best_names_come_first() -> None:
    names = ["reorders", "orders-eu", "orders", "o-r-d-e-r-s", "payments"]
    assert ranked("orders", names) == ["orders", "orders-eu", "reorders", "o-r-d-e-r-s"]


def test_without_letters_there_are_pages_and_actions_only() -> None:
    results = find("", ["orders"], ["billing"])
    assert {hit.kind for hit in results.hits} == {"Page", "Action"}


def test_the_palette_says_of_how_many_it_shows_the_first() -> None:
    results = find("t-", [f"t-{number}" for number in range(20)], [])
    assert sum(hit.kind == "Topic" for hit in results.hits) == EACH_MAX
    assert results.more == [f"first {EACH_MAX} of 20 topics"]


def test_an_exact_name_comes_before_a_page_that_begins_so() -> None:
    assert find("topics", ["topics"], []).hits[0].href == "/topics/topics"
    assert find("topi", ["my-topic"], []).hits[0].href == "/topics"


def test_names_become_addresses() -> None:
    assert find("a/b", [], ["a/b c"]).hits[0].href == "/groups/a%2Fb%20c"


def open_palette(page: Page, text: str) -> None:
    """Press the keys, type, and wait until the answer is the one to what was typed."""
    page.keyboard.press("Control+k")
    expect(page.locator("#palette")).to_be_visible()
    expect(page.locator("#palette-box")).to_be_focused()
    page.locator("#palette-box").fill(text)
    expect(page.locator("#palette-hits")).to_have_attribute("data-text", text)


@pytest.mark.browser
def test_ctrl_k_type_enter_opens_a_topic(open_page: OpenPage) -> None:
    page = open_page("/groups")
    open_palette(page, "shipm")
    expect(page.locator("#palette").get_by_role("option", selected=True)).to_contain_text(
        "shipments"
    )
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/topics/shipments$"))


@pytest.mark.browser
def test_enter_before_the_answer_goes_where_the_answer_says(open_page: OpenPage) -> None:
    page = open_page("/groups")
    page.keyboard.press("Control+k")
    expect(page.locator("#palette-box")).to_be_focused()
    page.locator("#palette-box").press_sequentially("stock-levels")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/topics/stock-levels$"))


@pytest.mark.browser
def test_the_palette_is_walked_with_arrows_and_gives_the_focus_back(open_page: OpenPage) -> None:
    page = open_page("/topics")
    button = page.get_by_role("button", name="Go to a page, a topic or a group")
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


# -- zones ----------------------------------------------------------------------------------------


def test_times_name_how_far_their_zone_is_from_utc() -> None:
    zone = zones.parse("Asia/Kathmandu")
    assert zone is not None
    assert formats.absolute(AT_MS, zone.rules) == f"2023-11-15 03:58:20.123 {KATHMANDU}"
    assert formats.absolute(AT_MS) == "2023-11-14 22:13:20.123 UTC"
    assert formats.clock(AT_MS, AT_MS, zone.rules) == "03:58:20.123"


def test_summer_time_is_that_of_the_moment_not_of_now() -> None:
    zone = zones.parse("Europe/Berlin")
    assert zone is not None
    assert formats.absolute(1_720_000_000_000, zone.rules).endswith("UTC+02:00")
    assert formats.absolute(AT_MS, zone.rules).endswith("UTC+01:00")


@pytest.mark.parametrize(
    "text", ["", "local:", "Nowhere/Land", "../../etc/passwd", "/etc/passwd", "x" * 300, "a\0b"]
)
def test_what_is_no_zone_is_refused(text: str) -> None:
    assert zones.parse(text) is None


def test_without_script_a_zone_is_chosen_by_its_name(browser: httpx.Client) -> None:
    values = {"theme": "auto", "refresh": "5", "zone": "Asia/Kathmandu", "local_zone": ""}
    assert browser.post("/settings", data=values).status_code == 303
    assert KATHMANDU in browser.get("/messages/orders/0/0").text
    refused = browser.post("/settings", data={**values, "zone": "Nowhere/Land"})
    assert refused.status_code == 422
    assert 'value="Nowhere/Land"' in refused.text


@pytest.mark.browser
def test_changing_the_zone_labels_all_times_and_the_chart_anew(
    open_page: OpenPage, scenery: Scenery
) -> None:
    scenery.send("stock-levels", [{"body": "when", "queue": 3}])
    page = open_page("/settings")
    page.get_by_label("Time zone").last.fill("Asia/Kathmandu")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved.")).to_be_visible()
    page.goto("/")
    expect(page.locator("html")).to_have_attribute("data-zone", "Asia/Kathmandu")
    page.get_by_text("Show data").click()
    expect(page.get_by_role("columnheader", name="Time (Asia/Kathmandu)")).to_be_visible()
    expect(page.locator("details.twin td").first).to_contain_text(KATHMANDU)
    chart = page.locator("#traffic-chart .u-over")
    expect(chart).to_be_visible()
    box = chart.bounding_box()
    assert box is not None
    chart.hover(position={"x": box["width"] - 4, "y": box["height"] / 2})
    expect(page.locator(".chart-tip")).to_contain_text("Asia/Kathmandu")
    # Kathmandu is 5 h 45 min ahead: whole quarters of an hour in UTC are others there.
    expect(page.locator("#traffic-chart")).to_have_attribute("data-ticks", re.compile(r"\d\d:\d\d"))
    ticks = page.locator("#traffic-chart").get_attribute("data-ticks") or ""
    here = page.locator("details.twin td").first.inner_text()
    hours = {re.findall(r"(\d\d):\d\d", here)[0], re.findall(r"(\d\d):\d\d", here)[-1]}
    assert hours & {tick[:2] for tick in ticks.split()}, (ticks, here)
    titles = page.locator("#overview time[data-ms]").evaluate_all("all => all.map(t => t.title)")
    assert titles
    assert all(title.endswith(KATHMANDU) for title in titles)
    page.locator(".menu-button").click()
    page.locator("#preference-zone").select_option("UTC")
    expect(page.locator("html")).to_have_attribute("data-zone", "UTC")


@pytest.mark.browser
def test_the_browsers_own_zone_is_told_to_the_server(open_page: OpenPage) -> None:
    page = open_page("/topics")
    own = page.evaluate("Intl.DateTimeFormat().resolvedOptions().timeZone")
    page.locator(".menu-button").click()
    page.locator("#preference-zone").select_option("local")
    expect(page.locator("#preference-zone")).to_have_value("local")
    page.reload()
    expect(page.locator("#preference-zone")).to_have_value("local")
    expect(page.locator("html")).to_have_attribute("data-zone", own)


# -- lists as files, commands ---------------------------------------------------------------------


def rows_of(browser: httpx.Client, path: str) -> list[dict[str, str]]:
    answer = browser.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"].startswith("attachment")
    return list(csv.DictReader(io.StringIO(answer.text)))


def test_a_list_as_csv_holds_every_match_whatever_the_page(
    browser: httpx.Client, scenery: Scenery
) -> None:
    for number in range(30):
        scenery.post("/topics", {"name": f"csv-{number:02}"})
    rows = rows_of(browser, "/topics?format=csv&q=csv-&size=25&page=2")
    assert [row["topic"] for row in rows] == [f"csv-{number:02}" for number in range(30)]
    assert all(row["unknown"] for row in rows)
    groups = rows_of(browser, "/groups?format=csv&sort=name")
    assert {"billing", "warehouse"} <= {row["group"] for row in groups}


def test_a_cell_that_a_spreadsheet_would_run_is_guarded(
    browser: httpx.Client, scenery: Scenery
) -> None:
    scenery.post("/topics", {"name": "-danger"})
    (row,) = rows_of(browser, "/topics?format=csv&q=-danger")
    assert row["topic"] == "'-danger"


def test_what_a_page_shows_can_be_had_by_the_command_on_it(
    browser: httpx.Client, site: Site
) -> None:
    page = browser.get("/topics/orders").text
    assert f"curl -s {site.base}/api/v1/topics/orders" in page
    assert f"kitemq --server {site.base} topics show orders" in page
    assert browser.get(f"{site.base}/api/v1/topics/orders").json()["name"] == "orders"
    group = browser.get("/groups/billing").text
    assert f"curl -s {site.base}/api/v1/groups/billing/lag" in group
    assert browser.get(f"{site.base}/api/v1/groups/billing/lag").json()["group"] == "billing"
