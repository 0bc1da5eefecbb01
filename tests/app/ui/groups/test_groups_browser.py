"""Groups in a real Chromium: the offsets wizard with and without script, the chart, dialogs."""

import re
from datetime import datetime
from urllib.parse import parse_qs, urlsplit

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
    lines = page.locator("#plot-lag polyline")
    expect(lines.first).to_be_attached()
    page.get_by_role("link", name="15 min").click()
    expect(page).to_have_url(f"{base_of(page)}/groups/warehouse?range=15m")
    page.get_by_role("link", name="Oldest unread", exact=True).first.click()
    expect(page).to_have_url(f"{base_of(page)}/groups/warehouse?range=15m&show=age")
    expect(lines.first).to_be_attached()
    page.get_by_text("Show data").click()
    expect(page.locator(".twin tbody tr").first).to_be_visible()
    page.get_by_label("Topic", exact=True).select_option("orders")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page).to_have_url(re.compile("topic=orders"))
    expect(lines.first).to_be_attached()


def base_of(page: Page) -> str:
    return page.url.split("/groups")[0]


def test_what_a_chart_tells_stands_at_the_pointer(open_page: OpenPage, scenery: Scenery) -> None:
    wait_for_samples(scenery, "warehouse")
    page = open_page("/groups/warehouse?range=15m")
    over = page.locator("#over-lag")
    place = over.bounding_box()
    assert place is not None
    tip = over.locator(".plot-tip")
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


def test_a_drag_zooms_and_back_undoes_it(open_page: OpenPage, scenery: Scenery) -> None:
    wait_for_samples(scenery, "warehouse")
    page = open_page("/groups/warehouse?range=15m&show=age")
    address = page.url
    place = page.locator("#over-lag").bounding_box()
    assert place is not None
    y = place["y"] + place["height"] / 2
    page.mouse.move(place["x"] + place["width"] * 0.74, y)
    page.mouse.down()
    page.mouse.move(place["x"] + place["width"] - 1, y, steps=4)
    expect(page.locator("#over-lag .plot-brush")).to_be_visible()
    page.mouse.up()
    expect(page.get_by_role("link", name="15 min")).not_to_have_attribute("aria-current", "true")
    query = parse_qs(urlsplit(page.url).query)
    assert query["show"] == ["age"]
    assert query["zone"] == ["UTC"]
    first, last = (datetime.fromisoformat(query[name][0]) for name in ("from", "to"))
    assert 180 <= (last - first).total_seconds() <= 270
    expect(page.locator("#plot-lag")).to_be_in_viewport()
    page.go_back()
    expect(page).to_have_url(address)
    expect(page.get_by_role("link", name="15 min")).to_have_attribute("aria-current", "true")


def test_a_moment_leads_to_its_messages_and_its_members(
    open_page: OpenPage, scenery: Scenery
) -> None:
    wait_for_samples(scenery, "warehouse")
    page = open_page("/groups/warehouse?range=15m&topic=orders")
    over = page.locator("#over-lag")
    place = over.bounding_box()
    assert place is not None
    over.click(position={"x": place["width"] - 3, "y": 40})
    when = over.locator(".plot-when").inner_text()
    members = over.get_by_role("link", name="Members then").get_attribute("href")
    over.get_by_role("link", name="Messages in orders then").click()
    expect(page.get_by_role("textbox", name="From")).to_have_value(
        re.compile(re.escape(when[:16].replace(" ", "T")))
    )
    assert parse_qs(urlsplit(page.url).query)["topic"] == ["orders"]
    page.goto(members or "")
    heading = page.get_by_role("heading", name=f"Members at {when[:19]}")
    expect(heading).to_be_visible()


def test_the_queues_are_lines_that_are_switched_by_keys(
    open_page: OpenPage, scenery: Scenery
) -> None:
    wait_for_samples(scenery, "warehouse")
    page = open_page("/groups/warehouse?range=15m&topic=orders")
    page.get_by_role("link", name="by queue").click()
    expect(page).to_have_url(re.compile(r"topic=orders&split=queue$"))
    switch = page.get_by_role("switch", name="queue 1")
    expect(switch).to_be_checked()
    lines = page.locator("#plot-lag .line-1")
    expect(lines.first).to_be_attached()
    switch.focus()
    page.keyboard.press("Space")
    expect(switch).not_to_be_checked()
    expect(switch).to_be_focused()
    expect(lines).to_have_count(0)
    page.get_by_text("Show data").click()
    expect(page.get_by_role("columnheader", name="queue 2")).to_be_visible()
    expect(page.get_by_role("columnheader", name="queue 1")).to_have_count(0)
    expect(page).to_have_url(re.compile(r"hide=lag\.queue\+1$"))
    page.reload()
    expect(switch).not_to_be_checked()
    page.keyboard.press("Escape")
    switch.focus()
    page.keyboard.press("Enter")
    expect(switch).to_be_checked()
    expect(lines.first).to_be_attached()


def test_the_cursor_goes_by_arrows_and_enter_leads_on(
    open_page: OpenPage, scenery: Scenery
) -> None:
    wait_for_samples(scenery, "warehouse")
    page = open_page("/groups/warehouse?range=15m&topic=orders")
    cursor = page.get_by_role("slider", name="Unread over time")
    cursor.focus()
    last = int(cursor.get_attribute("aria-valuemax") or "")
    page.keyboard.press("ArrowLeft")
    expect(cursor).to_have_attribute("aria-valuenow", str(last - 1))
    expect(cursor).to_have_attribute("aria-valuetext", re.compile(r"UTC"))
    page.keyboard.press("Enter")
    link = page.locator("#over-lag").get_by_role("link", name="Messages in orders then")
    expect(link).to_be_focused()
    page.keyboard.press("Escape")
    expect(cursor).to_be_focused()
    page.keyboard.press("ArrowRight")
    for _ in range(8):
        page.keyboard.press("Shift+ArrowLeft")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"from=.*&to=.*#lag-history$"))


def test_without_script_the_chart_has_axes_and_its_table_leads_on(
    open_page: OpenPage, scenery: Scenery
) -> None:
    wait_for_samples(scenery, "warehouse")
    page = open_page("/groups/warehouse?topic=orders", javascript=False)
    plot = page.locator("#plot-lag")
    expect(plot.locator("polyline").first).to_be_attached()
    expect(plot.locator(".plot-y text").first).to_be_visible()
    expect(plot.locator(".plot-x text").first).to_have_text(re.compile(r"\d\d:\d\d"))
    expect(plot.locator(".plot-over")).to_be_hidden()
    page.get_by_text("Show data").click()
    page.locator(".twin tbody a").first.click()
    expect(page).to_have_url(re.compile(r"/messages\?topic=orders&from=.*&to=.*&zone=UTC$"))


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
