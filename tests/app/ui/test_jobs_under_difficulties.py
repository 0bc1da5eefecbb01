"""The day's jobs where something is missing: room, JavaScript, the server."""

import re
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from playwright.sync_api import expect

from tests.app.ui.conftest import Take
from tests.app.ui.dead_letters.dead_scene import dying_group, kill, one_queue
from tests.app.ui.scenery import Scenery
from tests.crash.process import ServerProcess

pytestmark = pytest.mark.browser

PHONE = 390


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    server = ServerProcess(tmp_path / "data")
    server.start()
    with server.client() as client:
        client.topics.create("orders")
    yield server
    server.kill()


def test_on_a_phone_a_dead_letter_is_resent(take: Take, scenery: Scenery) -> None:
    name = f"j{uuid4().hex[:8]}"
    one_queue(scenery, name)
    dying_group(scenery, name)
    kill(scenery, name, name, [{"body": "a letter"}], error="ValueError: no such street")
    hands = take(width=PHONE)
    page = hands.page
    hands.click(page.get_by_role("button", name="Menu", exact=True))
    hands.click(
        page.get_by_role("navigation", name="Sections").get_by_role("link", name="Dead letters")
    )
    hands.click(page.locator(f"#dlq-{name}").get_by_role("link", name=name, exact=True))
    hands.click(page.get_by_role("link", name="ValueError: no such street", exact=True))
    hands.click(page.locator("#drawer").get_by_role("button", name=f"Resend to {name}"))
    hands.see(page.get_by_role("heading", name="Finished: 1 sent"))
    hands.assert_cost(clicks=5, keys=0)


def test_without_javascript_a_topic_is_created_and_filled(take: Take) -> None:
    name = f"j{uuid4().hex[:8]}"
    hands = take(javascript=False)
    page = hands.page
    hands.see(page.locator("main .plot text").first)  # charts have axes without scripts, too
    hands.click(page.get_by_role("link", name="Topics", exact=True))
    hands.click(page.get_by_role("link", name="Create topic"))
    hands.type(page.get_by_label("Name", exact=True), name)
    hands.click(page.get_by_role("button", name="Create topic"))
    hands.see(page.get_by_text("Created."))
    hands.click(page.locator(".tabs").get_by_role("link", name="Produce"))
    hands.type(page.get_by_label("Body"), "no script")
    hands.click(page.get_by_role("button", name="Send", exact=True))
    hands.see(page.get_by_text("1 message stored."))
    hands.click(page.get_by_role("status").get_by_role("link").first)
    hands.see(page.locator("#message-body pre", has_text="no script"))
    hands.assert_cost(clicks=8, keys=len(name + "no script"))


@pytest.mark.crash
def test_a_form_outlives_the_server_that_is_killed_under_it(
    take: Take, server: ServerProcess
) -> None:
    hands = take(server.url)
    page = hands.page
    hands.click(page.get_by_role("link", name="Topics", exact=True))
    hands.click(page.get_by_role("link", name="Create topic"))
    form = page.locator("#dialog #topic-form")
    field = form.get_by_label("Name", exact=True)
    expect(field).to_be_focused()
    hands.type(field, "parcels")
    server.kill()
    hands.click(form.get_by_role("button", name="Create topic"))
    expect(form.get_by_role("alert")).to_contain_text("No response from the server")
    expect(field).to_have_value("parcels")
    server.start()
    hands.click(form.get_by_role("button", name="Create topic"))
    expect(page).to_have_url(re.compile(f"^{re.escape(server.url)}/topics/parcels\\?done=created$"))
    hands.assert_cost(clicks=4, keys=len("parcels"))
