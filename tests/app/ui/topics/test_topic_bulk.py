"""One change for many topics: the preview freezes what is chosen, and each topic has an outcome."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from playwright.sync_api import expect

from app.ui.framework import bulk
from tests.app.ui.conftest import OpenPage, Site
from tests.app.ui.groups.group_steps import HTML
from tests.app.ui.scenery import Scenery

NAMES = ("convoy-a", "convoy-b", "convoy-c")
READ_ONLY = {"action": "permission", "permission": "4"}


@pytest.fixture
def browser(site: Site) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.base, headers={**HTML, "Origin": site.base}) as client:
        yield client


@pytest.fixture
def convoy(scenery: Scenery, site: Site) -> Iterator[Scenery]:
    """Three topics with two messages each; a group has read one of the first."""
    for name in NAMES:
        scenery.post("/topics", {"name": name, "read_queues": 1, "write_queues": 1})
        scenery.send(name, [{"body": "a"}, {"body": "b"}])
    scenery.ack("convoy-readers", scenery.receive("convoy-readers", NAMES[0], 1))
    yield scenery
    scenery.delete("/groups/convoy-readers")
    for name in NAMES:
        httpx.delete(f"{site.base}/api/v1/topics/{name}")


def preview(browser: httpx.Client, **query: Any) -> Any:
    answer = browser.get(f"/bulk/topics?{urlencode(query, doseq=True)}&format=json")
    assert answer.status_code == 200, answer.text
    return answer.json()


def apply(browser: httpx.Client, twin: Any, status: int = 200, **others: str) -> Any:
    """Send the preview's own form; the result."""
    fields = {**dict(twin["carried"]), "selection": twin["selection"], **others}
    answer = browser.post("/bulk/topics?format=json", data=fields)
    assert answer.status_code == status, answer.text
    return answer.json()


def outcomes(twin: Any) -> dict[str, str]:
    return {row["name"]: row["outcome"] for row in twin["rows"]}


def trail(scenery: Scenery, name: str) -> list[tuple[str, str]]:
    items = scenery.get(f"/audit?object_kind=topic&object_name={name}")["items"]
    return [(item["action"], item["result"]) for item in items]


def test_the_permission_of_many_topics_is_set_and_each_stands_in_the_trail(
    browser: httpx.Client, convoy: Scenery
) -> None:
    assert preview(browser, action="permission", topic=NAMES)["is_asking"]
    browser.patch("/api/v1/topics/convoy-b", json={"permission": 4})
    twin = preview(browser, **READ_ONLY, topic=[*NAMES, "no-such-topic"])
    assert outcomes(twin) == {
        "convoy-a": "would", "convoy-c": "would", "convoy-b": "left", "no-such-topic": "left",
    }  # fmt: skip
    assert twin["rows"][0]["note"] == "read and write → read only"
    assert convoy.get("/topics/convoy-a")["permission"] == 6, "a preview changes nothing"

    done = apply(browser, twin)
    assert outcomes(done) == {"convoy-a": "done", "convoy-c": "done"}
    assert {convoy.get(f"/topics/{name}")["permission"] for name in NAMES} == {4}
    assert trail(convoy, "convoy-c")[0] == ("topic.change", "done")


def test_many_topics_are_deleted_once_their_number_was_typed(
    browser: httpx.Client, convoy: Scenery
) -> None:
    twin = preview(browser, action="delete", scope="all", q="convoy-")
    assert (twin["matching"], twin["sums"]) == (3, {"messages": 6, "groups_total": 1})
    assert twin["rows"][0]["groups"] == ["convoy-readers"]
    wrong = apply(browser, twin, 422, confirm="delete 2")
    assert "delete 3" in wrong["form"]["errors"]["confirm"]
    assert wrong["selection"] == twin["selection"], "what was seen is not seen anew"
    assert convoy.get("/topics/convoy-a")["messages"] == 2

    done = apply(browser, twin, confirm=twin["confirm"])
    assert outcomes(done) == dict.fromkeys(NAMES, "done")
    assert browser.get("/api/v1/topics/convoy-a").status_code == 404
    assert trail(convoy, "convoy-b")[0] == ("topic.delete", "done")


def test_a_topic_that_got_a_message_or_a_reader_since_the_preview_is_left_alone(
    browser: httpx.Client, convoy: Scenery
) -> None:
    twin = preview(browser, action="delete", topic=NAMES)
    convoy.send("convoy-a", [{"body": "late"}])
    convoy.ack("convoy-readers", convoy.receive("convoy-readers", "convoy-b", 1))
    done = apply(browser, twin, confirm="delete 3")
    assert outcomes(done) == {"convoy-a": "failed", "convoy-b": "failed", "convoy-c": "done"}
    assert "changed since" in done["rows"][0]["note"]
    assert convoy.get("/topics/convoy-a")["messages"] == 3
    assert trail(convoy, "convoy-a")[0] == ("topic.delete", "conflict")


def test_a_topic_with_other_settings_since_the_preview_is_left_alone(
    browser: httpx.Client, convoy: Scenery
) -> None:
    twin = preview(browser, **READ_ONLY, topic=NAMES)
    browser.patch("/api/v1/topics/convoy-a", json={"write_queues": 2})
    assert outcomes(apply(browser, twin))["convoy-a"] == "failed"
    assert convoy.get("/topics/convoy-a")["permission"] == 6


def test_the_engine_s_own_topics_and_what_no_preview_named_stay(
    browser: httpx.Client, convoy: Scenery
) -> None:
    twin = preview(browser, action="delete", scope="all", type="all", q="%dlq%")
    assert set(outcomes(twin).values()) == {"left"}
    assert "system topics" in twin["rows"][0]["note"]
    fields = {"action": "delete", "confirm": "delete 2", "selection": " convoy-a\n- %DLQ%billing"}
    answer = browser.post("/bulk/topics?format=json", data=fields)
    assert outcomes(answer.json()) == {"convoy-a": "failed", "%DLQ%billing": "left"}
    assert convoy.get("/topics/convoy-a")["messages"] == 2


def test_more_topics_than_are_looked_at_are_said(
    browser: httpx.Client, convoy: Scenery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "ITEMS_MAX", 2)
    query = urlencode({"action": "delete", "scope": "all", "q": "convoy-"})
    assert "Showing the first 2 of 3 topics" in browser.get(f"/bulk/topics?{query}").text
    twin = preview(browser, action="delete", scope="all", q="convoy-")
    assert (twin["total"], twin["confirm"]) == (2, "delete 2")


def test_what_is_no_order_changes_nothing(browser: httpx.Client, convoy: Scenery) -> None:
    for query in ("action=delete&scope=ticked", "action=explode&topic=convoy-a"):
        assert browser.get(f"/bulk/topics?{query}").status_code == 422
    bad = browser.get("/bulk/topics?action=permission&permission=9&topic=convoy-a")
    assert (bad.status_code, "must be one of" in bad.text) == (422, True)
    for fields in ({"action": "delete"}, {"action": "explode", "selection": "x convoy-a"}):
        assert browser.post("/bulk/topics", data=fields).status_code == 422
    assert convoy.get("/topics/convoy-a")["permission"] == 6


def test_selected_topics_are_deleted_after_a_preview(open_page: OpenPage, convoy: Scenery) -> None:
    page = open_page("/topics?q=convoy-")
    page.get_by_role("checkbox", name="Select convoy-a", exact=True).check()
    page.get_by_role("checkbox", name="Select convoy-b", exact=True).check()
    page.get_by_role("button", name="Delete selected topics").click()
    button = page.get_by_role("button", name="Delete 2 topics")
    expect(button).to_be_disabled()
    page.get_by_label("Type this to confirm").fill("delete 2")
    button.click()
    expect(page.locator("#bulk-result .metrics")).to_have_text(re.compile(r"Deleted\s*2\s*topics"))
    page.get_by_role("link", name="Back to topics").click()
    expect(page.get_by_role("link", name="convoy-c", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="convoy-a", exact=True)).to_have_count(0)
