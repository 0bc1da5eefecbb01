"""The pages of alerts: what fires first, rules made and tried and changed, silences."""

import re
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import expect

from tests.app.ui.conftest import OpenPage, Site
from tests.app.ui.scenery import Scenery

RULE = {
    "name": "",
    "kind": "lag",
    "group_pattern": "warehouse",
    "topic_pattern": "*",
    "threshold": "5",
    "window_s": "300",
    "for_s": "0",
    "severity": "warning",
    "is_enabled": "on",
}


@pytest.fixture
def browser(site: Site) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.base, headers={"accept": "text/html"}, timeout=30) as client:
        yield client


def add(browser: httpx.Client, **changes: str) -> str:
    """Make a rule by its form; its id."""
    answer = browser.post("/alerts/new", data={**RULE, **changes})
    assert answer.headers["location"] == "/alerts?done=created", answer.text
    rules = browser.get("/alerts?format=json").json()["rules"]
    return str(next(rule["id"] for rule in rules if rule["name"] == changes["name"]))


def test_a_rule_is_made_by_its_form_changed_and_deleted_by_its_name(
    browser: httpx.Client,
) -> None:
    number = add(browser, name="by form")
    path = f"/alerts/rules/{number}"
    assert 'value="by form"' in browser.get(path).text
    changed = browser.post(path, data={**RULE, "name": "by form", "threshold": "77"})
    assert changed.headers["location"] == "/alerts?done=changed"
    assert "more than 77 messages" in browser.get("/alerts").text
    assert browser.post(f"{path}/delete", data={"confirm": "by"}).status_code == 422
    done = browser.post(f"{path}/delete", data={"confirm": "by form"})
    assert done.headers["location"] == "/alerts?done=deleted"
    assert browser.get(path).status_code == 404


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "x", "threshold": "many"}, "threshold"),
        ({"name": "x", "kind": "disk", "threshold": "101"}, "threshold"),
        ({"name": "x", "for_s": "100000"}, "for_s"),
    ],
)
def test_a_wrong_rule_is_refused_at_its_field_with_the_values_kept(
    browser: httpx.Client, changes: dict[str, str], field: str
) -> None:
    answer = browser.post("/alerts/new", data={**RULE, **changes})
    assert answer.status_code == 422
    assert re.search(rf'id="field-{field}"[^>]*aria-invalid="true"', answer.text)
    assert 'value="warehouse"' in answer.text


def test_a_name_that_is_taken_is_told_at_its_field(browser: httpx.Client) -> None:
    add(browser, name="taken")
    answer = browser.post("/alerts/new", data={**RULE, "name": "taken"})
    assert answer.status_code == 409
    assert "exists already" in answer.text


def test_trying_a_rule_tells_what_it_would_find_and_saves_nothing(browser: httpx.Client) -> None:
    answer = browser.post("/alerts/new", data={**RULE, "name": "only tried", "do": "try"})
    assert answer.status_code == 200
    assert "Above the threshold now: 1 of 1." in answer.text
    assert "only tried" not in browser.get("/alerts").text


def test_a_link_fills_a_new_rule_in(browser: httpx.Client) -> None:
    page = browser.get("/alerts/new?kind=lag_age&group=billing").text
    assert 'value="Age of lag of billing"' in page
    assert '<option value="lag_age" selected>' in page
    assert 'name="group_pattern" type="text" value="billing"' in page
    assert 'href="/alerts/new?kind=lag&amp;group=billing"' in browser.get("/groups/billing").text


def test_what_no_rule_has_as_id_is_not_found(browser: httpx.Client) -> None:
    for path in ("/alerts/rules/999", "/alerts/rules/x", "/alerts/rules/0/delete"):
        assert browser.get(path).status_code == 404


@pytest.mark.browser
def test_what_fires_stands_first_on_its_page_and_on_the_overview_and_can_be_silenced(
    open_page: OpenPage, scenery: Scenery
) -> None:
    name = "warehouse fires"
    scenery.post(
        "/alerts/rules",
        {"name": name, "kind": "lag", "group_pattern": "warehouse", "threshold": 0, "for_s": 0},
    )
    page = open_page("/alerts", refresh_s=2)
    firing = page.locator(".alert-list li", has_text=name)
    expect(firing).to_contain_text("unread", timeout=40_000)
    page.goto("/")
    expect(page.locator(".attention")).to_contain_text(f"Alert “{name}”")
    page.goto("/alerts")
    firing.get_by_role("button", name="Silence").click()
    expect(page.get_by_text("Silenced. States are still updated")).to_be_visible()
    expect(firing).to_contain_text("silenced")
    silence = page.locator("[id^=silence-]", has_text=name)
    silence.get_by_role("button", name="End").click()
    expect(page.get_by_text("Silence ended.")).to_be_visible()
    expect(silence).to_have_count(0)


@pytest.mark.browser
def test_a_rule_is_tried_and_made_in_place(open_page: OpenPage) -> None:
    page = open_page("/alerts/new?kind=lag&group=warehouse")
    page.get_by_label("Name").fill("made in place")
    page.get_by_label("Threshold").fill("")
    page.get_by_role("button", name="Test rule").click()
    expect(page.locator(".field-error")).to_contain_text("must be a whole number")
    page.get_by_label("Threshold").fill("1")
    page.get_by_role("button", name="Test rule").click()
    expect(page.locator(".trial")).to_contain_text("Not saved.")
    page.get_by_role("button", name="Create rule").click()
    expect(page).to_have_url(re.compile(r"/alerts\?done=created$"))
    expect(page.get_by_role("row", name=re.compile("made in place"))).to_be_visible()
