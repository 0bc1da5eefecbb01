"""One change for many groups: the preview freezes what is chosen, and each group has an outcome."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from playwright.sync_api import expect

from tests.app.ui.conftest import OpenPage, Site
from tests.app.ui.groups.group_steps import HTML, audited
from tests.app.ui.scenery import Scenery

NAMES = ("fleet-a", "fleet-b", "fleet-c")


@pytest.fixture
def browser(site: Site) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.base, headers={**HTML, "Origin": site.base}) as client:
        yield client


@pytest.fixture
def fleet(scenery: Scenery) -> Iterator[Scenery]:
    """Three groups that have read two messages of a topic, and one that has read none."""
    scenery.post("/topics", {"name": "convoy", "read_queues": 1, "write_queues": 1})
    scenery.send("convoy", [{"body": f"truck {n}"} for n in range(5)])
    for name in NAMES:
        scenery.ack(name, scenery.receive(name, "convoy", 2))
    scenery.post("/groups", {"name": "fleet-new"})
    yield scenery
    for name in (*NAMES, "fleet-new"):
        scenery.delete(f"/groups/{name}")
    scenery.delete("/topics/convoy")


def preview(browser: httpx.Client, **query: Any) -> Any:
    answer = browser.get(f"/bulk/groups?{urlencode(query, doseq=True)}&format=json")
    assert answer.status_code == 200, answer.text
    return answer.json()


def apply(browser: httpx.Client, twin: Any, **others: str) -> Any:
    """Send the preview's own form; the result."""
    fields = {**dict(twin["carried"]), "selection": twin["selection"], **others}
    answer = browser.post("/bulk/groups?format=json", data=fields)
    assert answer.status_code == 200, answer.text
    return answer.json()


def outcomes(twin: Any) -> dict[str, str]:
    return {row["name"]: row["outcome"] for row in twin["rows"]}


def test_groups_are_paused_and_resumed_together_and_one_by_one_in_the_trail(
    browser: httpx.Client, fleet: Scenery
) -> None:
    fleet.post("/groups/fleet-b/pause", {})
    twin = preview(browser, action="pause", group=[*NAMES, "no-such-group"])
    assert outcomes(twin) == {
        "fleet-a": "would", "fleet-b": "left", "fleet-c": "would", "no-such-group": "left",
    }  # fmt: skip
    assert (twin["sums"]["unread"], twin["counts"]) == (6, {"left": 2, "would": 2})
    assert not fleet.get("/groups/fleet-a")["paused"], "a preview changes nothing"

    done = apply(browser, twin)
    assert outcomes(done) == {"fleet-a": "done", "fleet-c": "done"}
    assert all(fleet.get(f"/groups/{name}")["paused"] for name in NAMES)
    assert "pause" in audited(browser, "fleet-c")

    resumed = apply(browser, preview(browser, action="resume", scope="all", q="fleet-"))
    assert outcomes(resumed) == dict.fromkeys(NAMES, "done")


def test_a_group_that_changed_since_the_preview_is_told_apart(
    browser: httpx.Client, fleet: Scenery
) -> None:
    twin = preview(browser, action="pause", scope="all", q="fleet-")
    fleet.post("/groups/fleet-a/pause", {})
    assert outcomes(apply(browser, twin))["fleet-a"] == "left"


def test_many_groups_go_on_from_a_time_and_those_that_went_on_are_left_alone(
    browser: httpx.Client, fleet: Scenery
) -> None:
    query = {"action": "reset", "scope": "all", "q": "fleet-", "at": "2020-01-01T00:00"}
    twin = preview(browser, **query)
    assert outcomes(twin) == {**dict.fromkeys(NAMES, "would"), "fleet-new": "left"}
    assert (twin["sums"]["redelivered"], twin["sums"]["skipped"]) == (6, 0)

    fleet.ack("fleet-b", fleet.receive("fleet-b", "convoy", 1))
    done = apply(browser, twin)
    assert outcomes(done) == {"fleet-a": "done", "fleet-b": "failed", "fleet-c": "done"}
    moved = {name: fleet.get(f"/groups/{name}/lag")["count"] for name in NAMES}
    assert moved == {"fleet-a": 5, "fleet-b": 2, "fleet-c": 5}


def test_a_reset_asks_for_its_time_first_and_keeps_the_selection(
    browser: httpx.Client, fleet: Scenery
) -> None:
    asked = browser.get("/bulk/groups?action=reset&group=fleet-a&group=fleet-c")
    assert (asked.status_code, asked.text.count('name="group"')) == (200, 2)
    wrong = browser.get("/bulk/groups?action=reset&group=fleet-a&at=soon")
    assert (wrong.status_code, "Invalid time" in wrong.text) == (422, True)
    twin = preview(browser, action="reset", group=["fleet-a", "fleet-c"], at="2020-01-01T00:00")
    fields = {"action": "reset", "selection": twin["selection"]}
    missing = browser.post("/bulk/groups", data=fields)
    assert missing.status_code == 422
    assert '<span class="field-error">' in missing.text
    assert "Enter the time to reset to" in missing.text
    assert missing.text.count('name="group"') == 2
    assert all(row["moving"] for row in twin["rows"])
    lag = fleet.get("/groups/fleet-a/lag")
    assert sum(int(queue["committed"]) for queue in lag["queues"]) == 2


def test_what_is_no_action_changes_nothing(browser: httpx.Client, fleet: Scenery) -> None:
    fields = {"action": "delete", "selection": " fleet-a"}
    answer = browser.post("/bulk/groups", data=fields)
    assert (answer.status_code, "must be one of" in answer.text) == (422, True)
    assert not fleet.get("/groups/fleet-a")["paused"]


def test_nothing_ticked_is_said_and_nothing_done(browser: httpx.Client) -> None:
    assert browser.get("/bulk/groups?action=pause&scope=ticked").status_code == 422
    assert browser.get("/bulk/groups?action=explode&group=warehouse").status_code == 422
    nothing = browser.post("/bulk/groups", data={"action": "pause", "selection": ""})
    assert (nothing.status_code, "Select at least one group" in nothing.text) == (422, True)


def test_ticked_groups_are_paused_by_hand(open_page: OpenPage, fleet: Scenery) -> None:
    page = open_page("/groups?q=fleet-")
    page.get_by_role("checkbox", name="Select fleet-a").check()
    page.get_by_role("checkbox", name="Select fleet-c").check()
    page.get_by_role("button", name=re.compile("^Pause")).click()
    expect(page.get_by_role("heading", name="Pause many groups")).to_be_visible()
    page.get_by_role("button", name="Pause 2 groups").click()
    expect(page.locator("[id='bulk-fleet-a']")).to_contain_text("done")
    assert [fleet.get(f"/groups/{name}")["paused"] for name in NAMES] == [True, False, True]


def test_the_list_says_of_how_many_groups_the_lag_is_unknown(
    browser: httpx.Client, fleet: Scenery
) -> None:
    fleet.post("/groups", {"name": "fleet-newer"})
    try:
        text = browser.get("/groups?q=fleet-").text
        totals = re.search(r'id="group-totals">(.*?)</p>', text, re.DOTALL)
        assert totals is not None
        assert re.search(r"\+[1-5] unknown", totals[1])
    finally:
        fleet.delete("/groups/fleet-newer")
