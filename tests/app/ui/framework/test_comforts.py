"""What makes the console handy: time zones, lists as files, commands to copy."""

import csv
import io
import re
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import expect

from app.ui.framework import formats, zones
from tests.app.ui.conftest import OpenPage, Site
from tests.app.ui.scenery import Scenery

AT_MS = 1_700_000_000_123  # 2023-11-14 22:13:20.123 UTC
KATHMANDU = "UTC+05:45"


@pytest.fixture
def browser(site: Site) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.base, headers={"accept": "text/html"}, timeout=30) as client:
        yield client


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
    chart = page.locator("#over-traffic")
    expect(chart).to_be_visible()
    box = chart.bounding_box()
    assert box is not None
    chart.hover(position={"x": box["width"] - 4, "y": box["height"] / 2})
    expect(page.locator("#over-traffic .plot-tip")).to_contain_text("Asia/Kathmandu")
    # Kathmandu is 5 h 45 min ahead: whole quarters of an hour in UTC are others there.
    ticks = page.locator("#plot-traffic .plot-x text").all_text_contents()
    here = page.locator("details.twin td").first.inner_text()
    hours = {re.findall(r"(\d\d):\d\d", here)[0], re.findall(r"(\d\d):\d\d", here)[-1]}
    assert hours & {tick[:2] for tick in ticks}, (ticks, here)
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
