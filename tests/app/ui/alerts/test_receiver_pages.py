"""The pages of receivers: made, tested and chosen by a rule, without a secret shown again."""

import re
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import expect

from tests.app.ui.conftest import OpenPage, Site
from tests.app.ui.scenery import Scenery
from tests.receivers import HookServer, hook_server

MAIL = {
    "kind": "email",
    "name": "",
    "smtp_host": "smtp.example.org",
    "smtp_port": "587",
    "smtp_security": "starttls",
    "smtp_username": "kite",
    "smtp_password": "correct horse",
    "mail_from": "kitemq@example.org",
    "mail_to": "ann@example.org, bob@example.org\ncarl@example.org",
    "quiet_days": ["sat", "sun"],
    "quiet_from": "00:00",
    "quiet_to": "00:00",
    "quiet_zone": "Europe/Berlin",
    "critical_passes": "on",
    "group_s": "60",
    "is_enabled": "on",
}


@pytest.fixture
def browser(site: Site) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.base, headers={"accept": "text/html"}, timeout=30) as client:
        yield client


@pytest.fixture
def hook() -> Iterator[HookServer]:
    with hook_server() as server:
        yield server


def create(browser: httpx.Client, **changes: object) -> str:
    """The address of a mail receiver made by its form."""
    answer = browser.post("/alerts/receivers/new", data={**MAIL, **changes})
    assert answer.status_code == 303, answer.text
    return answer.headers["location"].partition("?")[0]


def stored(browser: httpx.Client, path: str) -> dict[str, object]:
    answer = browser.get(f"/api/v1{path}")
    assert answer.status_code == 200
    return dict(answer.json())


def test_a_mail_receiver_is_made_and_changed_by_its_form_and_its_password_stays(
    browser: httpx.Client,
) -> None:
    path = create(browser, name="by form")
    row = stored(browser, path)
    assert row["mail_to"] == ["ann@example.org", "bob@example.org", "carl@example.org"]
    assert (row["quiet_days"], row["group_s"], row["has_smtp_password"]) == (
        ["sat", "sun"],
        60,
        True,
    )
    page = browser.get(path).text
    assert "correct horse" not in page
    assert 'value="Europe/Berlin"' in page
    changed = {
        **MAIL,
        "name": "another form",
        "smtp_password": "",
        "quiet_days": [],
        "is_enabled": "",
    }
    answer = browser.post(path, data=changed)
    assert answer.headers["location"] == f"{path}?done=changed"
    row = stored(browser, path)
    assert (row["name"], row["has_smtp_password"], row["enabled"], row["quiet_days"]) == (
        "another form",
        True,
        False,
        [],
    )


def test_another_mail_server_needs_the_password_again_and_a_typed_one_is_not_sent_back(
    browser: httpx.Client,
) -> None:
    path = create(browser, name="moved")
    moved = {**MAIL, "name": "moved", "smtp_host": "other.example.org", "smtp_password": ""}
    answer = browser.post(path, data=moved)
    assert answer.status_code == 422
    assert re.search(r'id="field-smtp_password"[^>]*aria-invalid="true"', answer.text)
    answer = browser.post(path, data=moved | {"smtp_password": "battery", "mail_from": "nobody"})
    assert answer.status_code == 422
    assert "battery" not in answer.text
    assert 'value="other.example.org"' in answer.text


def test_a_secret_is_removed_only_on_demand(browser: httpx.Client, hook: HookServer) -> None:
    hooked = {**MAIL, "kind": "webhook", "name": "signed", "url": hook.url, "quiet_days": []}
    answer = browser.post("/alerts/receivers/new", data=hooked | {"signing_secret": "a key"})
    path = answer.headers["location"].partition("?")[0]
    kept = hooked | {"url": "", "signing_secret": ""}
    browser.post(path, data=kept)
    assert stored(browser, path)["has_signing_secret"] is True
    browser.post(path, data=kept | {"drop_signing_secret": "on"})
    assert stored(browser, path)["has_signing_secret"] is False
    assert stored(browser, path)["address"] == hook.url.partition("/hook")[0]


def test_a_receiver_that_a_rule_names_is_not_deleted_and_the_dialog_says_which_rule(
    browser: httpx.Client, scenery: Scenery
) -> None:
    path = create(browser, name="chosen")
    rule = {"name": "names it", "kind": "disk", "receivers": [path.rpartition("/")[2]]}
    rule_id = scenery.post("/alerts/rules", rule)["id"]
    assert "names it" in browser.get(f"{path}/delete").text
    answer = browser.post(f"{path}/delete", data={"confirm": "chosen"})
    assert answer.status_code == 409
    assert "let these rules name other receivers first" in answer.text
    assert browser.delete(f"/api/v1/alerts/rules/{rule_id}").status_code == 204
    assert browser.post(f"{path}/delete", data={"confirm": "chose"}).status_code == 422
    done = browser.post(f"{path}/delete", data={"confirm": "chosen"})
    assert done.headers["location"] == "/alerts?done=deleted"
    assert browser.get(path).status_code == 404


@pytest.mark.browser
def test_a_receiver_is_made_tested_and_chosen_by_a_rule_whose_history_names_it(
    open_page: OpenPage, site: Site, hook: HookServer
) -> None:
    page = open_page("/alerts/receivers/new", refresh_s=2)
    page.get_by_label("Name").fill("browser hook")
    page.get_by_label("URL").fill(hook.url)
    page.get_by_role("button", name="Create receiver").click()
    expect(page.get_by_text("Created.")).to_be_visible()
    expect(page.get_by_label("URL")).to_have_value("")
    page.get_by_role("button", name="Send test").click()
    expect(page.get_by_text("Test sent. See the deliveries for the result.")).to_be_visible()
    expect(page.locator("#deliveries tbody tr")).to_contain_text("delivered")
    page.goto("/alerts/new?kind=lag&group=warehouse")
    page.get_by_label("Name").fill("watched by a browser")
    page.get_by_label("Threshold").fill("0")
    page.get_by_label("For at least").fill("0")
    page.get_by_label("browser hook").check()
    page.get_by_role("button", name="Create rule").click()
    expect(page).to_have_url(f"{site.base}/alerts?done=created")
    row = page.locator("#rules-title + .table-box tr", has_text="watched by a browser")
    expect(row).to_contain_text("browser hook")
    row.get_by_role("link", name="watched by a browser", exact=True).click()
    history = page.locator("#alert-history tbody tr")
    expect(history).to_contain_text("browser hook delivered", timeout=40_000)
    assert [body["event"] for body in hook.bodies] == ["test", "firing"]
    expect(page.get_by_label("browser hook")).to_be_checked()
