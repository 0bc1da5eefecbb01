"""Dismissing dead letters, jobs over what failed and over any topic, in a real Chromium."""

import re

import httpx
import pytest
from playwright.sync_api import expect

from tests.app.ui.conftest import OpenPage, Site
from tests.app.ui.dead_letters.dead_scene import await_job, dying_group, kill, one_queue
from tests.app.ui.scenery import Scenery

pytestmark = pytest.mark.browser

HTML = {"accept": "text/html"}


def test_ticked_dead_letters_rest_with_a_note_and_are_restored(
    open_page: OpenPage, scenery: Scenery
) -> None:
    one_queue(scenery, "lanterns")
    dying_group(scenery, "night")
    kill(scenery, "night", "lanterns", [{"body": f"lantern {n}"} for n in range(6)])
    page = open_page("/dlq/night")
    for offset in (1, 2):
        page.get_by_label(f"Select dead letter {offset}", exact=True).check()
    page.get_by_role("button", name="Dismiss 2 selected").click()
    expect(page.get_by_text("2 dead letters of 6")).to_be_visible()
    page.get_by_role("button", name="Dismiss 2").click()
    expect(page.locator(".field-error")).to_contain_text("note")
    assert scenery.get("/groups/night/dead-letters/counts")["dismissed"] == 0
    page.get_by_label("Comment").fill("test orders of May")
    page.get_by_role("button", name="Dismiss 2").click()
    expect(page).to_have_url(re.compile("state=dismissed"))
    rows = page.locator("table.letters tbody tr")
    expect(rows).to_have_count(2)
    expect(page.locator("#letter-1 .marks")).to_contain_text("dismissed")
    counts = page.locator("#facet-state .facet-count")
    expect(counts).to_have_text(["4", "0", "2", "6"])

    page.locator("#facet-state").get_by_role("link", name="open").click()
    expect(rows).to_have_count(4)
    expect(page.get_by_role("link", name="Resend all 4", exact=True)).to_be_visible()
    page.goto("/dlq?q=night")
    expect(page.locator("#dlq-night td.num").first).to_have_text(re.compile(r"4\s*\+2 dismissed"))
    page.goto("/dlq/night/1")
    expect(page.get_by_text("test orders of May")).to_be_visible()

    page.goto("/dlq/night")
    page.locator("#dlq-list").get_by_role("link", name="Undo").click()
    expect(page.get_by_text("test orders of May")).to_be_visible()
    page.get_by_role("button", name="Restore 2").click()
    expect(rows).to_have_count(6)
    audit = scenery.get("/audit?object_kind=dead_letters&object_name=night")["items"]
    assert [(each["action"], each["result"]) for each in audit] == [
        ("dead_letters.restore", "done"),
        ("dead_letters.dismiss", "done"),
        ("dead_letters.dismiss", "invalid"),
    ]


def test_all_that_match_rest_and_the_group_needs_nobody(
    open_page: OpenPage, scenery: Scenery
) -> None:
    one_queue(scenery, "stones")
    dying_group(scenery, "quarry")
    kill(scenery, "quarry", "stones", [{"body": f"stone {n}"} for n in range(3)])
    kill(scenery, "quarry", "stones", [{"body": "gravel"}] * 2, is_rejected=True)
    page = open_page("/dlq/quarry?reason=rejected", javascript=False)
    page.get_by_role("link", name="Dismiss all 2 that match").click()
    page.get_by_label("Comment").fill("no use")
    page.get_by_role("button", name="Dismiss 2").click()
    page.goto("/dlq/quarry")
    page.get_by_role("link", name="Dismiss all 3").click()
    expect(page.get_by_text("3 dead letters of 5")).to_be_visible()
    page.get_by_label("Comment").fill("the rest")
    page.get_by_role("button", name="Dismiss 3").click()
    page.goto("/dlq/quarry")
    expect(page.get_by_role("heading", name="No open dead letters")).to_be_visible()
    lag = scenery.get("/groups/quarry/lag")
    assert (lag["dead"], lag["dismissed"]) == (5, 5)
    page.goto("/groups?q=quarry")
    expect(page.get_by_role("link", name="dead letters of quarry")).to_have_count(0)


def test_a_cut_by_error_is_resent_and_its_rows_say_what_became_of_the_copies(
    open_page: OpenPage, scenery: Scenery
) -> None:
    one_queue(scenery, "ferries")
    dying_group(scenery, "ferry-dock")
    for error, count in (("KeyError: 'pier'", 2), ("TimeoutError: no answer within 3 s", 3)):
        kill(scenery, "ferry-dock", "ferries", [{"body": error}] * count, error=error)
    page = open_page("/dlq/ferry-dock")
    page.locator("#facet-error_class").get_by_role("link", name="TimeoutError").click()
    expect(page).to_have_url(re.compile("error_class=TimeoutError"))
    rows = page.locator("table.letters tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.first.locator(".why")).to_contain_text("TimeoutError: no answer within 3 s")
    page.get_by_role("link", name="Resend all 3 that match").click()
    page.get_by_role("button", name="Start dry run").click()
    expect(page.get_by_role("heading", name="Dry run: 3 of 5 can be sent")).to_be_visible()
    page.get_by_role("button", name="Send 3").click()
    expect(page.get_by_role("heading", name="Finished: 3 sent")).to_be_visible()
    first, second, _ = scenery.receive("ferry-dock", "ferries", 3)
    scenery.post("/groups/ferry-dock/ack", {"receipts": [first["receipt"]]})
    nack = {"receipt": second["receipt"], "error": "TimeoutError: once more"}
    scenery.post("/groups/ferry-dock/nack", {"nacks": [nack]})
    page.goto("/dlq/ferry-dock")  # two KeyErrors are open, and what failed again
    expect(rows).to_have_count(3)
    expect(page.locator("#facet-state .facet-count")).to_have_text(["3", "3", "0", "6"])
    page.locator("#facet-state").get_by_role("link", name="resent").click()
    for fate in ("acknowledged", "failed again", "waiting"):
        expect(rows.filter(has_text=fate)).to_have_count(1)
    page.locator("#letter-2 .error-line").click()
    page.locator("#drawer").get_by_role("link", name="Review dead letter").first.click()
    expect(page.get_by_text("the copy:")).to_be_visible()
    lag = scenery.get("/groups/ferry-dock/lag")
    assert (lag["dead"], lag["resent"], lag["dismissed"]) == (6, 3, 0)
    page.goto("/groups/ferry-dock/config")
    page.get_by_label("Dead letters that are resent").select_option("yes")
    page.get_by_role("button", name="Save").click()
    expect(page).to_have_url(re.compile("done=changed"))
    page.goto("/dlq/ferry-dock")
    expect(page.locator("#facet-state .facet-count")).to_have_text(["3", "0", "3", "6"])


def test_one_is_resent_with_a_comment_that_its_page_and_the_trail_have(
    open_page: OpenPage, scenery: Scenery
) -> None:
    one_queue(scenery, "buoys")
    dying_group(scenery, "lights")
    kill(scenery, "lights", "buoys", [{"body": "buoy"}])
    page = open_page("/dlq/lights/0")
    page.get_by_label("Comment").first.fill("lamp was changed")
    page.get_by_role("button", name="Resend to lights").click()
    expect(page.get_by_role("heading", name="Finished: 1 sent")).to_be_visible()
    page.goto("/dlq/lights/0")
    expect(page.get_by_role("link", name="lamp was changed")).to_be_visible()
    (entry,) = scenery.get("/audit?object_kind=replay&object_name=%25DLQ%25lights")["items"]
    assert "lamp was changed" in entry["after_json"]


def test_what_changed_since_the_preview_is_not_dismissed(
    open_page: OpenPage, scenery: Scenery
) -> None:
    one_queue(scenery, "tides")
    dying_group(scenery, "shore")
    kill(scenery, "shore", "tides", [{"body": f"tide {n}"} for n in range(4)])
    page = open_page("/dlq/shore/dismiss")
    page.get_by_label("Comment").fill("all seen")
    note = {"note": "another was faster", "offsets": ["0"]}
    scenery.post("/groups/shore/dead-letters/dismiss", note)
    kill(scenery, "shore", "tides", [{"body": "later"}])
    page.get_by_role("button", name="Dismiss 4").click()
    expect(page.get_by_role("alert")).to_contain_text("3 dead letters would be dismissed, 4 were")
    expect(page.get_by_label("Comment")).to_have_value("all seen")
    assert scenery.get("/groups/shore/lag")["dismissed"] == 1
    page.get_by_role("button", name="Dismiss 4").click()  # the fresh preview counts the new one
    expect(page).to_have_url(re.compile("state=dismissed"))
    assert scenery.get("/groups/shore/lag")["dismissed"] == 5


def test_what_failed_is_tried_again_and_both_jobs_say_so(
    open_page: OpenPage, scenery: Scenery
) -> None:
    one_queue(scenery, "kept")
    one_queue(scenery, "dropped")
    one_queue(scenery, "refuge")
    dying_group(scenery, "rescue")
    kill(scenery, "rescue", "kept", [{"body": f"kept {n}"} for n in range(3)])
    kill(scenery, "rescue", "dropped", [{"body": f"dropped {n}"} for n in range(2)])
    scenery.delete("/topics/dropped")
    job = scenery.post("/groups/rescue/dead-letters/redrive", {"to": "origin", "rate": 0})
    assert await_job(scenery, job["id"])["totals"] == {"sent": 3, "topic_gone": 2}
    page = open_page(f"/jobs/{job['id']}")
    page.get_by_text("Retry 2 failed").click()
    page.get_by_label("To another topic").fill("no-such-topic")
    page.get_by_role("button", name="Start dry run").click()
    expect(page.locator(".field-error")).to_contain_text("no-such-topic")
    page.get_by_label("To another topic").fill("refuge")
    page.get_by_role("button", name="Start dry run").click()
    expect(page.get_by_role("heading", name="Dry run: 2 of 2 can be sent")).to_be_visible()
    assert scenery.get("/topics/refuge")["messages"] == 0
    page.get_by_role("button", name="Send 2").click()
    expect(page.get_by_role("heading", name="Finished: 2 sent")).to_be_visible()
    assert scenery.get("/topics/refuge")["messages"] == 2
    assert scenery.get("/topics/kept")["messages"] == 6  # what was sent is not sent again
    page.get_by_text("only the failed messages of").get_by_role("link").click()
    expect(page).to_have_url(re.compile(f"/jobs/{job['id']}$"))
    expect(page.get_by_text("Retried by")).to_be_visible()


def test_messages_of_any_topic_are_replayed_by_a_form(
    open_page: OpenPage, scenery: Scenery
) -> None:
    one_queue(scenery, "sensors")
    one_queue(scenery, "sandbox")
    scenery.send("sensors", [{"body": str(n), "tag": "hot" if n > 6 else "cold"} for n in range(9)])
    page = open_page("/jobs")
    page.get_by_role("link", name="Replay messages").click()
    page.get_by_role("button", name="Start dry run").click()
    expect(page.locator(".field-error")).to_have_text(["Enter the topic.", "Enter a name."])
    page.get_by_label("Messages of topic").fill("sensors")
    page.get_by_label("offset ranges").check()
    page.get_by_label("Ranges", exact=False).last.fill("0:4:x")
    page.get_by_role("textbox", name="Topic", exact=False).last.fill("sandbox")
    page.get_by_role("button", name="Start dry run").click()
    expect(page.locator(".field-error")).to_contain_text(["is not a range"])
    page.locator("#field-ranges").fill("0:4:9")
    page.locator("#field-filter").fill("hot")
    page.get_by_role("button", name="Start dry run").click()
    expect(page.get_by_role("heading", name="Dry run: 2 of 5 can be sent")).to_be_visible()
    page.get_by_role("button", name="Send 2").click()
    expect(page.get_by_role("heading", name="Finished: 2 sent, 3 not selected")).to_be_visible()
    assert scenery.get("/topics/sandbox")["messages"] == 2


@pytest.fixture
def browser(site: Site) -> httpx.Client:
    return httpx.Client(base_url=site.base, headers=HTML, timeout=30)


FORM = {
    "source": "orders", "by": "all", "from": "", "until": "", "ranges": "", "filter": "",
    "to": "origin", "to_group": "", "to_topic": "", "rate": "100", "name": "", "zone": "UTC",
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"source": "no-such-topic"}, "source"),
        ({"source": "%RETRY%nobody"}, "source"),
        ({"by": "time"}, "from"),
        ({"by": "time", "from": "soon"}, "from"),
        ({"by": "time", "from": "2026-01-02T00:00:00", "until": "2026-01-01T00:00:00"}, "until"),
        ({"by": "offsets", "ranges": "99:0:1"}, "ranges"),
        ({"filter": "SQL92: >"}, "filter"),
        ({"to": "topic"}, "to_topic"),
        ({"to": "topic", "to_topic": "no-such-topic"}, "to_topic"),
        ({"to": "group", "to_group": "no-such-group"}, "to_group"),
        ({"rate": "fast"}, "rate"),
        ({"name": "x" * 201}, "name"),
    ],
)
def test_what_is_wrong_stands_at_its_field_and_values_are_kept(
    browser: httpx.Client, changes: dict[str, str], field: str
) -> None:
    with browser:
        answer = browser.post("/jobs", data=FORM | changes)
    assert answer.status_code == 422, answer.text[:2000]
    wrong = re.findall(r'aria-invalid="true" aria-describedby="help-(\w+)"', answer.text)
    assert wrong == [field]
    for name, value in changes.items():
        if name not in ("by", "to", "ranges"):
            assert f'name="{name}"' in answer.text
            assert f'value="{value.replace(">", "&gt;")}"' in answer.text


def test_a_topic_of_retries_is_no_source(browser: httpx.Client, scenery: Scenery) -> None:
    one_queue(scenery, "hail")
    scenery.post("/groups", {"name": "spring"})
    kill(scenery, "spring", "hail", [{"body": "stone"}])  # it is only tried again
    with browser:
        answer = browser.post("/jobs", data=FORM | {"source": "%RETRY%spring"})
    assert answer.status_code == 403
    assert 'aria-invalid="true" aria-describedby="help-source"' in answer.text


def test_without_the_number_that_was_seen_nothing_is_dismissed(
    browser: httpx.Client, scenery: Scenery
) -> None:
    one_queue(scenery, "snow")
    dying_group(scenery, "winter")
    kill(scenery, "winter", "snow", [{"body": "flake"}])
    with browser:
        for fields in ({"count": "x", "before": "1"}, {"count": "1", "before": "x"}):
            answer = browser.post("/dlq/winter/dismiss", data={"note": "melted"} | fields)
            assert (answer.status_code, "must be a whole number" in answer.text) == (422, True)
    assert scenery.get("/groups/winter/lag")["dismissed"] == 0


def test_a_time_chooses_what_was_stored_in_it(browser: httpx.Client, scenery: Scenery) -> None:
    one_queue(scenery, "times")
    scenery.send("times", [{"body": "now"}])
    chosen = FORM | {"source": "times", "by": "time"}
    with browser:
        for changes, selected in (
            ({"until": "2020-01-01T00:00"}, 0),
            ({"from": "2020-01-01T00:00"}, 1),
        ):
            answer = browser.post("/jobs", data=chosen | changes)
            job = scenery.get(answer.headers["location"].replace("/jobs", "/replays"))
            assert (job["selected"], job["dry_run"]) == (selected, True)
