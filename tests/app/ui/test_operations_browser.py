"""Confirming in dialogs what cannot be undone, and doing the same without script."""

import re
from uuid import uuid4

import pytest
from playwright.sync_api import expect

from tests.app.ui.accessibility import serious_faults
from tests.app.ui.conftest import OpenPage
from tests.app.ui.scenery import HOUR_MS, Scenery

pytestmark = pytest.mark.browser


def waiting(scenery: Scenery) -> str:
    """A message that is the first to fall due, so that it is on the first page; its id."""
    name = f"W{uuid4().hex}"
    scenery.send("reminders", [{"id": name, "body": "wait", "delay_ms": HOUR_MS // 2}])
    return name


def half(scenery: Scenery, group: str) -> str:
    name = f"T{uuid4().hex}"
    scenery.send("transfers", [{"id": name, "body": "half", "transaction_group": group}])
    return name


def test_a_message_is_recalled_in_a_dialog_once_the_word_is_typed(
    open_page: OpenPage, scenery: Scenery
) -> None:
    name = waiting(scenery)
    page = open_page("/scheduled?topic=reminders")
    opener = page.get_by_role("link", name=f"Change {name}")
    opener.click()
    dialog = page.locator("#dialog")
    button = dialog.get_by_role("button", name="Recall message")
    expect(dialog.get_by_text(name)).to_be_visible()
    expect(button).to_be_disabled()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(opener).to_be_focused()
    opener.click()
    dialog.get_by_label("Type recall").fill("recall")
    expect(button).to_be_enabled()
    button.click()
    expect(page).to_have_url(re.compile(r"/scheduled\?done=recalled$"))
    expect(page.get_by_text("not be delivered")).to_be_visible()
    expect(page.get_by_role("link", name=f"Change {name}")).to_have_count(0)


def test_a_wrong_time_is_told_in_the_dialog(open_page: OpenPage, scenery: Scenery) -> None:
    name = waiting(scenery)
    page = open_page("/scheduled?topic=reminders")
    page.get_by_role("link", name=f"Change {name}").click()
    dialog = page.locator("#dialog")
    dialog.get_by_label("When").select_option(label="at a set time")
    dialog.get_by_label("Time (UTC)").fill("2001-01-01T00:00")
    dialog.get_by_role("button", name="Reschedule").click()
    expect(dialog.locator(".field-error")).to_have_text(re.compile("has passed"))
    expect(dialog.get_by_label("Time (UTC)")).to_have_value("2001-01-01T00:00:00")
    dialog.get_by_label("When").select_option(label="in 7 days")
    dialog.get_by_role("button", name="Reschedule").click()
    expect(page).to_have_url(re.compile(r"/scheduled\?done=rescheduled$"))


def test_a_transaction_is_decided_in_a_dialog_by_an_operator(
    open_page: OpenPage, scenery: Scenery
) -> None:
    group = f"g{uuid4().hex[:8]}"
    half(scenery, group)
    page = open_page(f"/transactions?group={group}")
    page.get_by_role("link", name=re.compile("^Decide")).click()
    dialog = page.locator("#dialog")
    button = dialog.get_by_role("button", name="Apply decision")
    expect(button).to_be_disabled()
    dialog.get_by_label("Type operator").fill("operator")
    button.click()
    expect(dialog.locator(".field-error")).to_be_visible()
    dialog.get_by_label("Decision", exact=True).select_option("rollback")
    dialog.get_by_label("Type operator").fill("operator")
    button.click()
    expect(page.get_by_text("Rolled back. The message is not delivered.")).to_be_visible()
    expect(page.get_by_role("heading", name="Transaction")).to_be_visible()


def test_a_topic_is_purged_after_a_preview(open_page: OpenPage, scenery: Scenery) -> None:
    name = f"purge-{uuid4().hex[:8]}"
    scenery.post("/topics", {"name": name})
    scenery.send(name, [{"body": str(n)} for n in range(5)])
    page = open_page(f"/topics/{name}")
    page.get_by_role("link", name="Purge").click()
    dialog = page.locator("#dialog")
    expect(dialog.get_by_role("button", name="Preview")).to_be_visible()
    dialog.get_by_label("Extent").select_option("all")
    dialog.get_by_role("button", name="Preview").click()
    expect(dialog.get_by_text("messages of 5 would be purged")).to_be_visible()
    button = dialog.get_by_role("button", name="Purge messages")
    expect(button).to_be_disabled()
    dialog.get_by_label("Type the name").fill(name)
    button.click()
    expect(page).to_have_url(re.compile(rf"/topics/{name}\?done=purged$"))
    expect(page.locator("#topic-overview .metric").first).to_contain_text("0")


def test_without_script_all_of_it_works_too(open_page: OpenPage, scenery: Scenery) -> None:
    name, group = waiting(scenery), f"g{uuid4().hex[:8]}"
    half(scenery, group)
    page = open_page("/scheduled?topic=reminders", javascript=False)
    page.get_by_role("link", name=f"Change {name}").click()
    page.get_by_label("Type recall").fill("no")
    page.get_by_role("button", name="Recall message").click()
    expect(page.locator(".field-error")).to_be_visible()
    page.get_by_role("button", name="Deliver now").click()
    expect(page.get_by_text("Delivered.")).to_be_visible()
    page.goto(f"/transactions?group={group}")
    page.get_by_role("link", name=re.compile("^Decide")).click()
    page.get_by_label("Decision", exact=True).select_option("commit")
    page.get_by_label("Type operator").fill("operator")
    page.get_by_role("button", name="Apply decision").click()
    expect(page.get_by_text("Committed. The message is delivered.")).to_be_visible()
    page.goto("/audit")
    page.get_by_label("Action", exact=True).select_option("transaction.commit")
    page.get_by_role("button", name="Filter", exact=True).click()
    expect(page.locator("#audit-list tbody tr").first).to_contain_text("transaction.commit")


@pytest.mark.parametrize(
    ("path", "opener"),
    [
        ("/scheduled?topic=reminders", "Change"),
        ("/transactions?group=bank", "Decide"),
        ("/topics/shipments", "Purge"),
    ],
)
def test_the_dialogs_have_no_serious_accessibility_fault(
    open_page: OpenPage, path: str, opener: str
) -> None:
    page = open_page(path)
    page.get_by_role("link", name=re.compile(f"^{opener}")).first.click()
    expect(page.locator("#dialog #dialog-title")).to_be_visible()
    assert serious_faults(page, "#dialog") == []
