"""Groups in a real Chromium: the offsets wizard with and without script, the chart, dialogs."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.app.ui.conftest import OpenPage
from tests.app.ui.scenery import Scenery
from tests.patience import until

pytestmark = pytest.mark.browser

PATIENCE_S = 60.0


def arrange(scenery: Scenery, topic: str, group: str) -> None:
    """A group that is done with ten of twenty messages in one queue."""
    scenery.post("/topics", {"name": topic, "read_queues": 1, "write_queues": 1})
    scenery.send(topic, [{"body": f"{n}"} for n in range(20)])
    scenery.ack(group, scenery.receive(group, topic, 10))


def committed(scenery: Scenery, group: str, topic: str) -> int:
    """What the API says."""
    (queue,) = scenery.get(f"/groups/{group}/offsets?topic={topic}")["queues"]
    return int(queue["offset"])


def wait_for_samples(scenery: Scenery, group: str) -> None:
    """A new server takes its first samples within ten seconds."""

    def sampled() -> bool:
        points = scenery.get(f"/groups/{group}/lag/history")["points"]
        return any(point["samples"] for point in points)

    until(sampled, "no samples were taken", PATIENCE_S)


def walk_to_review(page: Page) -> None:
    """From the strategy, already chosen, to the review."""
    page.get_by_role("button", name="Select queues").click()
    page.get_by_role("button", name="Next: review").click()
    expect(page.get_by_role("listitem").filter(has_text="Review and apply")).to_have_attribute(
        "aria-current", "step"
    )


@pytest.mark.parametrize("javascript", [True, False])
def test_a_group_is_moved_and_moved_back(
    open_page: OpenPage, scenery: Scenery, javascript: bool
) -> None:
    name = f"wizard-{javascript}".lower()
    arrange(scenery, f"topic-{name}", name)
    page = open_page(f"/groups/{name}", javascript=javascript)
    page.get_by_role("link", name="Reset offsets").click()
    page.get_by_label("Shift").check()
    page.get_by_label("Messages", exact=True).fill("-4")
    walk_to_review(page)
    row = page.locator(f"#move-topic-{name}-0")
    expect(row.locator(".now")).to_have_text("10")
    expect(row.locator(".new")).to_have_text("6")
    expect(row.locator(".delta")).to_have_text("\N{MINUS SIGN}4")
    assert committed(scenery, name, f"topic-{name}") == 10
    page.get_by_role("button", name="Apply to 1 queue").click()
    expect(page.get_by_role("heading", name="Reset 1")).to_be_visible()
    assert committed(scenery, name, f"topic-{name}") == 6
    page.get_by_role("navigation", name="Group").get_by_role("link", name="History").click()
    page.get_by_role("link", name="Undo reset 1").click()
    page.get_by_role("button", name="Undo reset 1").click()
    expect(page.get_by_role("heading", name="Undo of reset 1")).to_be_visible()
    assert committed(scenery, name, f"topic-{name}") == 10


def test_a_reset_that_was_overtaken_marks_what_moved_and_can_be_applied_again(
    open_page: OpenPage, scenery: Scenery
) -> None:
    arrange(scenery, "racing-topic", "racing")
    page = open_page("/groups/racing/offsets")
    page.get_by_label("Latest").check()
    walk_to_review(page)
    scenery.ack("racing", scenery.receive("racing", "racing-topic", 3))
    page.get_by_role("button", name="Apply to 1 queue").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was moved")
    row = page.locator("#move-racing-topic-0")
    expect(row).to_have_class(re.compile("moved-since"))
    expect(row).to_contain_text("was at 10")
    assert committed(scenery, "racing", "racing-topic") == 13
    page.get_by_role("button", name="Apply to 1 queue").click()
    expect(page.get_by_role("heading", name="Reset 1")).to_be_visible()
    assert committed(scenery, "racing", "racing-topic") == 20


def test_only_the_chosen_strategy_shows_its_field(open_page: OpenPage) -> None:
    page = open_page("/groups/warehouse/offsets")
    expect(page.get_by_label("Offset", exact=True)).to_be_hidden()
    page.get_by_label("An offset").check()
    expect(page.get_by_label("Offset", exact=True)).to_be_visible()
    page.get_by_label("Copy from a group").check()
    expect(page.get_by_label("Offset", exact=True)).to_be_hidden()
    expect(page.get_by_role("textbox", name="Group", exact=True)).to_be_visible()


def test_the_chart_is_drawn_and_follows_its_links(open_page: OpenPage, scenery: Scenery) -> None:
    wait_for_samples(scenery, "warehouse")
    page = open_page("/groups/warehouse")
    expect(page.locator(".lag-chart canvas")).to_have_count(1)
    page.get_by_role("link", name="15 min").click()
    expect(page).to_have_url(re.compile("range=15m"))
    page.get_by_role("link", name="Oldest unread", exact=True).first.click()
    expect(page).to_have_url(re.compile("show=age"))
    expect(page.locator(".lag-chart canvas")).to_have_count(1)
    page.get_by_text("Show data").click()
    expect(page.locator(".twin tbody tr").first).to_be_visible()
    page.get_by_label("Topic", exact=True).select_option("orders")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page).to_have_url(re.compile("topic=orders"))
    expect(page.locator(".lag-chart canvas")).to_have_count(1)


def test_what_a_chart_tells_stands_at_the_pointer(open_page: OpenPage, scenery: Scenery) -> None:
    wait_for_samples(scenery, "warehouse")
    page = open_page("/groups/warehouse?range=15m")
    over = page.locator(".lag-chart .u-over")
    place = over.bounding_box()
    assert place is not None
    tip = page.locator(".lag-chart .chart-tip")
    for part_x, part_y in ((0.1, 0.8), (0.5, 0.5), (0.97, 0.6)):
        x, y = place["x"] + part_x * place["width"], place["y"] + part_y * place["height"]
        page.mouse.move(x, y)
        expect(tip).to_be_visible()
        box = tip.bounding_box()
        assert box is not None
        beside = max(box["x"] - x, x - box["x"] - box["width"])
        assert 0 < beside < 20, (x, box)
        assert 0 < y - box["y"] - box["height"] < 20, (y, box)
        assert place["x"] <= box["x"]
        assert box["x"] + box["width"] <= place["x"] + place["width"]


def test_without_script_the_chart_is_a_picture_with_its_table(
    open_page: OpenPage, scenery: Scenery
) -> None:
    wait_for_samples(scenery, "warehouse")
    page = open_page("/groups/warehouse", javascript=False)
    expect(page.locator("svg.chart-still polyline").first).to_be_attached()
    page.get_by_text("Show data").click()
    expect(page.locator(".twin tbody tr").first).to_be_visible()


def test_pausing_asks_in_a_dialog_and_resuming_does_too(
    open_page: OpenPage, scenery: Scenery
) -> None:
    arrange(scenery, "dialog-topic", "dialog-group")
    page = open_page("/groups/dialog-group/config")
    page.get_by_role("link", name="Pause the group").click()
    dialog = page.locator("#dialog")
    expect(dialog).to_contain_text("10 unread messages wait")
    dialog.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("status").filter(has_text="Paused.")).to_be_visible()
    page.get_by_role("link", name="Resume the group").click()
    dialog.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("status").filter(has_text="Resumed.")).to_be_visible()


def test_a_wrong_setting_is_told_in_place(open_page: OpenPage, scenery: Scenery) -> None:
    arrange(scenery, "setting-topic", "setting-group")
    page = open_page("/groups/setting-group/config")
    page.get_by_label("Retries after the first delivery").fill("99999")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".field-error")).to_contain_text("0 to 10,000")
    page.get_by_label("Retries after the first delivery").fill("2")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status").filter(has_text="Saved.")).to_be_visible()


def test_a_conflict_is_seen_from_the_list_to_the_cell(
    open_page: OpenPage, scenery: Scenery
) -> None:
    for client, wanted in (("c1", "red"), ("c2", "blue")):
        content = {"client": client, "topics": {"orders": wanted}}
        scenery.post("/groups/conflicted/members/heartbeat", content)
    page = open_page("/groups?q=conflicted")
    page.get_by_role("link", name="differ").filter(visible=True).first.click()
    expect(page.locator("#subscription-c1 td")).to_contain_text("differs")
    expect(page.locator("#subscription-c2 td")).to_contain_text("blue")
    expect(page.get_by_text("The members subscribe to different messages.")).to_be_visible()
