"""The day's jobs with groups: who lags, reset and undo, an alert that reaches a webhook."""

from collections.abc import Iterator
from uuid import uuid4

import httpx
import pytest

from tests.app.ui.conftest import Site, Take
from tests.app.ui.scenery import Scenery
from tests.patience import until
from tests.receivers import HookServer, hook_server

pytestmark = pytest.mark.browser

RULE_LIMIT_S = 90.0  # rules are evaluated one after the other, every few seconds
LAG = 1000


@pytest.fixture
def hook() -> Iterator[HookServer]:
    with hook_server() as server:
        yield server


@pytest.fixture
def group(scenery: Scenery) -> str:
    """A group that is done with ten of twenty messages of a topic of its name, and is gone."""
    name = f"j{uuid4().hex[:8]}"
    scenery.post("/topics", {"name": name, "read_queues": 1, "write_queues": 1})
    scenery.send(name, [{"body": f"{n}"} for n in range(20)])
    scenery.ack(name, scenery.receive(name, name, 10))
    return name


def committed(scenery: Scenery, group: str) -> int:
    (queue,) = scenery.get(f"/groups/{group}/offsets?topic={group}")["queues"]
    return int(queue["offset"])


def test_who_lags_stands_on_the_overview_and_leads_to_its_next_message(
    take: Take, scenery: Scenery, site: Site
) -> None:
    name = f"j{uuid4().hex[:8]}"
    scenery.post("/topics", {"name": name, "read_queues": 1, "write_queues": 1})
    scenery.send(name, [{"body": f"parcel {n}"} for n in range(LAG)])
    scenery.ack(name, scenery.receive(name, name, 1))
    until(lambda: f'href="/groups/{name}"' in httpx.get(site.base).text)
    hands = take()
    page = hands.page
    hands.click(page.locator(f"main a[href='/groups/{name}']").first)
    hands.see(page.get_by_text(f"{LAG - 1} unread").first)
    hands.click(page.get_by_role("link", name="Next unread"))
    hands.see(page.get_by_text("parcel 1", exact=True).first)
    hands.assert_cost(clicks=2, keys=0)


def test_a_reset_is_previewed_applied_and_undone(take: Take, scenery: Scenery, group: str) -> None:
    hands = take()
    page = hands.page
    hands.type(page.locator("#search"), f"reset {group}")
    hands.click(
        page.locator("#search-hits").get_by_role("option", name=f"Reset offsets of {group}")
    )
    hands.click(page.get_by_role("button", name="Preview all queues"))
    hands.click(page.get_by_role("button", name="Apply to 1 queue"))
    hands.see(page.get_by_role("heading", name="Reset 1"))
    assert committed(scenery, group) == 0
    hands.click(page.get_by_role("link", name="Undo"))
    hands.click(page.get_by_role("button", name="Undo reset 1"))
    hands.see(page.get_by_role("heading", name="Undo of reset 1"))
    assert committed(scenery, group) == 10
    hands.assert_cost(clicks=6, keys=len(f"reset {group}"))


def test_an_alert_on_a_group_reaches_a_new_webhook(
    take: Take, scenery: Scenery, group: str, hook: HookServer
) -> None:
    hands = take()
    page = hands.page
    hands.click(page.get_by_role("link", name="Alerts", exact=True))
    hands.click(page.get_by_role("link", name="New receiver"))
    hands.type(page.get_by_label("Name", exact=True), f"hook {group}")
    hands.type(page.get_by_label("URL"), hook.url)
    hands.click(page.get_by_role("button", name="Create receiver"))
    hands.click(page.get_by_role("button", name="Send test"))
    until(lambda: hook.got)
    hands.type(page.locator("#search"), group)
    hands.click(page.locator("#search-hits").get_by_role("option", name=f"{group} Group"))
    hands.click(page.get_by_role("link", name="Alert on this"))
    hands.type(page.get_by_label("Threshold"), "5")
    hands.type(page.get_by_label("For at least"), "0")
    hands.click(page.get_by_label(f"hook {group}"))
    hands.click(page.get_by_role("button", name="Create rule"))
    hands.see(page.get_by_role("link", name=f"Lag of {group}").first)
    until(lambda: f"Lag of {group}" in str(hook.bodies), "no alert came", RULE_LIMIT_S)
    hands.assert_cost(clicks=13, keys=len(f"hook {group}{hook.url}{group}50"))
