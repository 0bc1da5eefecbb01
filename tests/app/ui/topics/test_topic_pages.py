"""Stars, notes and imports on the pages about topics, as a person uses them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect

from tests.app.ui.conftest import OpenPage, Site
from tests.app.ui.groups.group_steps import HTML
from tests.app.ui.scenery import Scenery
from tests.patience import until


@pytest.fixture
def browser(site: Site) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.base, headers={**HTML, "Origin": site.base}) as client:
        yield client


@pytest.fixture
def made(scenery: Scenery, site: Site) -> Iterator[Scenery]:
    for name in ("starry-one", "starry-two"):
        scenery.post("/topics", {"name": name, "read_queues": 1, "write_queues": 1})
    yield scenery
    for name in ("starry-one", "starry-two", "starry-new"):
        httpx.delete(f"{site.base}/api/v1/topics/{name}/star")
        httpx.delete(f"{site.base}/api/v1/topics/{name}")


def look(browser: httpx.Client, content: str, status: int = 200, step: str = "look") -> Any:
    fields = {"step": step, "content": content}
    answer = browser.post("/import/topics?format=json", data=fields)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_a_star_is_set_without_losing_what_is_ticked(open_page: OpenPage, made: Scenery) -> None:
    page = open_page("/topics?q=starry-")
    names = page.locator("#topic-list tbody th a[href^='/topics/starry-']")
    expect(names).to_have_text(["starry-one", "starry-two"])
    page.get_by_role("checkbox", name="Select starry-one").check()
    page.get_by_role("button", name="Star starry-two").click()
    expect(names).to_have_text(["starry-two", "starry-one"])
    expect(page.get_by_role("checkbox", name="Select starry-one")).to_be_checked()
    page.get_by_role("link", name=re.compile("^Starred")).click()
    expect(names).to_have_text(["starry-two"])
    page.get_by_role("link", name="starry-two", exact=True).click()
    page.get_by_role("button", name="Remove star from starry-two").click()
    expect(page.get_by_role("button", name="Star starry-two")).to_be_visible()
    expect(page).to_have_url(re.compile("/topics/starry-two$"))


def test_a_star_needs_no_script(open_page: OpenPage, made: Scenery) -> None:
    page = open_page("/topics?q=starry-", javascript=False)
    page.get_by_role("button", name="Star starry-two").click()
    expect(page).to_have_url(re.compile(r"/topics\?q=starry-$"))
    expect(page.get_by_role("button", name="Remove star from starry-two")).to_be_visible()


def test_notes_are_written_read_and_shown_on_the_overview(
    open_page: OpenPage, made: Scenery
) -> None:
    page = open_page("/topics/starry-one/docs")
    page.get_by_role("link", name="Write notes").click()
    page.get_by_label("Purpose of this topic").fill("# Trucks\n\nOne <b>each</b>, *daily*.")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".prose h1")).to_have_text("Trucks")
    expect(page.locator(".prose p")).to_have_text("One <b>each</b>, daily.")
    page.get_by_role("link", name="Overview", exact=True).last.click()
    page.get_by_role("link", name="Has notes about its purpose.").click()
    page.get_by_role("link", name="Edit").click()
    expect(page.get_by_label("Purpose of this topic")).to_have_value(re.compile("^# Trucks"))
    note = made.get("/topics/starry-one/note")
    made.put("/topics/starry-one/note", {"text": "Theirs.", "version": note["version"]})
    page.get_by_label("Purpose of this topic").fill("Mine.")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".prose")).to_have_text("Theirs.")
    expect(page.get_by_label("Purpose of this topic")).to_have_value("Mine.")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".prose")).to_have_text("Mine.")
    made.put("/topics/starry-one/note", {"text": "", "version": made_version(made)})


def made_version(made: Scenery) -> str:
    version: str = made.get("/topics/starry-one/note")["version"]
    return version


def test_a_file_is_looked_at_and_applied_as_it_was_shown(
    open_page: OpenPage, made: Scenery, tmp_path: Path
) -> None:
    file = tmp_path / "topics.csv"
    file.write_text("name,permission,read_queues\nstarry-new,6,2\nstarry-one,4,1\nstarry-two,5,1\n")
    page = open_page("/import/topics")
    page.get_by_label("Choose file").set_input_files(file)
    expect(page.get_by_label("File content", exact=False).first).to_have_value(
        re.compile("starry-new")
    )
    page.get_by_role("button", name="Preview").click()
    rows = page.locator("#import-result tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.nth(0)).to_contain_text("permission")
    expect(rows.nth(2)).to_contain_text("6 → 4")
    assert made.get("/topics/starry-one")["permission"] == 6
    page.get_by_role("button", name="Apply 2 rows").click()
    expect(page.locator("#row-1")).to_contain_text("created")
    expect(page.locator("#row-2")).to_contain_text("changed")
    assert made.get("/topics/starry-one")["permission"] == 4
    assert made.get("/topics/starry-new")["read_queues"] == 2


def test_a_topic_that_changed_since_the_look_is_left_alone(
    browser: httpx.Client, made: Scenery
) -> None:
    looked = look(browser, "name,permission\nstarry-one,4\nstarry-two,4\n")
    browser.patch("/api/v1/topics/starry-one", json={"write_queues": 2})
    done = look(browser, looked["plan"], step="apply")
    assert {row["topic"]: row["outcome"] for row in done["rows"]} == {
        "starry-one": "refused", "starry-two": "changed",
    }  # fmt: skip
    assert made.get("/topics/starry-one")["permission"] == 6


def test_what_is_no_file_keeps_what_was_pasted(browser: httpx.Client) -> None:
    wrong = browser.post("/import/topics", data={"step": "look", "content": "a,b\n1,2"})
    assert (wrong.status_code, "names no column" in wrong.text) == (422, True)
    assert "a,b\n1,2" in wrong.text
    assert look(browser, "name\nx", 422, step="explode")["form"]["errors"]


def test_the_lists_own_file_is_the_same_already(browser: httpx.Client, made: Scenery) -> None:
    file = browser.get("/topics?format=csv&q=starry-").text
    twin = look(browser, file)
    assert (twin["counts"], twin["plan"]) == ({"same": 2}, "")


def test_a_queue_says_its_first_message_and_its_size(browser: httpx.Client, made: Scenery) -> None:
    made.send("starry-one", [{"body": "x" * 500} for _ in range(3)])
    twin = browser.get("/topics/starry-one?format=json").json()
    (queue,) = twin["queues"]
    assert 0 < queue["first_ms"] <= queue["last_stored_ms"]
    assert queue["size"] == twin["size"]
    assert (queue["size"]["is_exact"], queue["size"]["measured"]) == (True, 3)
    assert 1500 < queue["size"]["bytes"] < 3000
    made.send("starry-one", [{"body": "y"} for _ in range(100)])
    estimated = browser.get("/topics/starry-one?format=json").json()["size"]
    assert (estimated["is_exact"], estimated["messages"], estimated["measured"]) == (
        False, 103, 100,
    )  # fmt: skip
    assert "≈" in browser.get("/topics?q=starry-one").text
    (empty,) = browser.get("/topics/starry-two?format=json").json()["queues"]
    assert (empty["first_ms"], empty["size"]["bytes"]) == (None, 0)


def test_the_configuration_says_what_is_the_topics_own(
    browser: httpx.Client, made: Scenery
) -> None:
    browser.patch("/api/v1/topics/starry-one", json={"retention_ms": 0, "durability": "flushed"})
    rows = browser.get("/topics/starry-one/config?format=json").json()["in_force"]
    settings = {row["label"]: (row["value"], row["is_own"], row["setting"]) for row in rows}
    assert settings["Retention"] == ("unlimited", True, "retention_h")
    assert settings["Durability"] == ("flushed", True, "durability")
    assert settings["Trace sample, percent"] == ("100", False, "trace_sample")
    page = browser.get("/topics/starry-one/config").text
    assert "set on the topic" in page
    assert "broker default" in page


def test_a_groups_place_in_a_topic_is_skipped_or_reset_from_there(
    browser: httpx.Client, made: Scenery
) -> None:
    made.send("starry-one", [{"body": "a"}, {"body": "b"}])
    made.ack("starry-readers", made.receive("starry-readers", "starry-one", 1))

    def links() -> list[str]:
        page = browser.get("/topics/starry-one/groups").text
        return re.findall(r'href="(/groups/starry-readers/offsets[^"]*)"', page)

    hrefs = until(links, "the walk did not find the group")
    assert len(hrefs) == 2
    skip, reset = (link.replace("&amp;", "&") for link in hrefs)
    assert "review" in skip
    looked = browser.get(f"{skip}&format=json").json()
    assert [row["topic"] for row in looked["review"]["cut"]["rows"]] == ["starry-one"]
    assert browser.get(reset).status_code == 200
    made.delete("/groups/starry-readers")


def test_the_readers_of_a_fifo_topic_show_which_of_them_are_ordered(
    browser: httpx.Client, scenery: Scenery
) -> None:
    scenery.post("/topics", {"name": "starry-steps", "type": "FIFO"})
    scenery.send("starry-steps", [{"body": "a", "message_group": "m"}])
    for group, ordered in (("starry-queue", True), ("starry-crowd", False)):
        scenery.post("/groups", {"name": group, "ordered": ordered})
        scenery.receive(group, "starry-steps", 1)

    def readers() -> dict[str, bool]:
        twin = browser.get("/topics/starry-steps/groups?format=json").json()
        return {each["group"]: each["is_ordered"] for each in twin["readers"]}

    expected = {"starry-queue": True, "starry-crowd": False}
    until(lambda: readers() == expected, "the walk did not find the groups")
    page = browser.get("/topics/starry-steps/groups").text
    for group, word in (("starry-queue", "ordered"), ("starry-crowd", "unordered")):
        [row] = re.findall(rf'<tr id="group-{group}">.*?</tr>', page, re.DOTALL)
        assert f">{word}</span>" in row
        scenery.delete(f"/groups/{group}")
    scenery.delete("/topics/starry-steps")
