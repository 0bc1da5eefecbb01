"""The day's jobs with messages: find, publish, follow, schedule, decide."""

import re
from uuid import uuid4

import pytest
from playwright.sync_api import expect

from tests.app.ui.conftest import Take
from tests.app.ui.scenery import Scenery

pytestmark = pytest.mark.browser


def test_a_message_is_found_by_its_key_and_its_journey_read(take: Take, scenery: Scenery) -> None:
    name = f"j{uuid4().hex[:8]}"
    scenery.post("/topics", {"name": name, "read_queues": 1, "write_queues": 1})
    scenery.send(name, [{"body": "a parcel", "keys": [f"{name}-7"]}])
    scenery.ack(f"{name}-post", scenery.receive(f"{name}-post", name, 1))
    hands = take()
    page = hands.page
    hands.type(page.locator("#search"), f"{name}-7")
    hands.click(page.locator("#search-hits").get_by_role("option", name=f"key {name}-7"))
    hands.click(page.locator("main tbody").get_by_role("link", name="0:0"))
    drawer = page.locator("#drawer")
    hands.see(drawer.get_by_role("row", name=f"{name}-post done"))
    hands.click(drawer.get_by_role("link", name="Journey", exact=True))
    expect(page).to_have_title(re.compile("^Journey of "))
    hands.assert_cost(clicks=4, keys=len(name) + 2)


def test_a_topic_is_created_filled_and_followed(take: Take, scenery: Scenery) -> None:
    name = f"j{uuid4().hex[:8]}"
    hands = take()
    page = hands.page
    hands.click(page.get_by_role("link", name="Topics", exact=True))
    hands.click(page.get_by_role("link", name="Create topic"))
    dialog = page.locator("#dialog")
    expect(dialog.get_by_label("Name", exact=True)).to_be_focused()
    hands.type(dialog.get_by_label("Name", exact=True), name)
    hands.click(dialog.get_by_role("button", name="Create topic"))
    hands.see(page.get_by_text("Created."))
    hands.click(page.locator(".tabs").get_by_role("link", name="Produce"))
    hands.type(page.get_by_label("Body"), "hello")
    hands.click(page.get_by_role("button", name="Send", exact=True))
    hands.see(page.get_by_text("1 message stored."))
    hands.click(page.get_by_role("link", name="Live tail"))
    expect(page.locator("[data-tail-state]")).to_have_text("Streaming")
    expect(page.locator("#tail-rows .tail-body").first).to_have_text("hello")
    scenery.send(name, [{"body": "and again"}])
    expect(page.locator("#tail-rows .tail-body").first).to_have_text("and again")
    hands.assert_cost(clicks=7, keys=len(name) + 5)


def test_a_message_is_scheduled_and_recalled(take: Take, scenery: Scenery) -> None:
    name = f"j{uuid4().hex[:8]}"
    scenery.post("/topics", {"name": name, "type": "DELAY"})
    hands = take()
    page = hands.page
    hands.click(page.get_by_role("link", name="Scheduled", exact=True))
    hands.type(page.get_by_label("Topic of the new message"), name)
    hands.click(page.get_by_role("button", name="Schedule message"))
    hands.type(page.get_by_label("Body"), "pay the invoice")
    hands.click(page.get_by_label("At an exact time"))
    hands.click(page.get_by_role("button", name="Send", exact=True))
    hands.see(page.get_by_text("1 message stored."))
    hands.click(page.get_by_role("status").get_by_role("link", name="scheduled"))
    hands.type(page.get_by_label("Type recall"), "recall")
    hands.click(page.get_by_role("button", name="Recall message"))
    hands.see(page.get_by_text("will not be delivered"))
    assert scenery.get(f"/topics/{name}")["messages"] == 0
    hands.assert_cost(clicks=9, keys=len(name) + len("pay the invoice") + len("recall"))


def test_a_transaction_is_decided(take: Take, scenery: Scenery) -> None:
    name = f"J{uuid4().hex[:8]}"
    scenery.send("transfers", [{"id": name, "body": "half", "transaction_group": name}])
    hands = take()
    page = hands.page
    hands.click(page.get_by_role("link", name="Transactions", exact=True))
    hands.click(page.get_by_role("link", name=f"Decide {name}"))
    dialog = page.locator("#dialog")
    hands.choose(
        dialog.get_by_label("Decision", exact=True), "roll back: never deliver the message"
    )
    hands.type(dialog.get_by_label("Type operator"), "operator")
    hands.click(dialog.get_by_role("button", name="Apply decision"))
    hands.see(page.get_by_text("Rolled back. The message is not delivered."))
    hands.assert_cost(clicks=6, keys=len("operator"))
