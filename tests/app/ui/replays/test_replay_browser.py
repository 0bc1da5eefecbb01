"""Dead letters and replay jobs in a real Chromium: find, resend by way of a dry run, export."""

import json
import re
import zipfile
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.app.ui.accessibility import serious_faults
from tests.app.ui.conftest import OpenPage, Site
from tests.app.ui.dead_letters.dead_scene import await_job, dying_group, kill, one_queue
from tests.app.ui.scenery import Scenery

pytestmark = pytest.mark.browser

WATCH_POLICY = """
window.violations = [];
document.addEventListener("securitypolicyviolation",
  (event) => window.violations.push(event.violatedDirective + " " + event.blockedURI));
"""
NARROW = 390


def rows(page: Page) -> Locator:
    """The dead letters on the page."""
    return page.locator("table.letters tbody tr")


def test_dead_letters_are_found_by_time_id_key_and_reason(
    open_page: OpenPage, scenery: Scenery
) -> None:
    one_queue(scenery, "seeds")
    dying_group(scenery, "garden")
    seeds = [{"body": f"seed {n}", "keys": [f"s-{n}"], "tag": "seed"} for n in range(6)]
    kill(scenery, "garden", "seeds", seeds)
    kill(scenery, "garden", "seeds", [{"body": "weed"}] * 3, is_rejected=True)
    page = open_page("/dlq?q=garden")
    total = int(page.locator("#dlq-garden td.num").first.inner_text())
    assert total == 9
    page.locator("#dlq-garden").get_by_role("link", name="garden", exact=True).click()
    expect(rows(page)).to_have_count(total)
    expect(page.get_by_text("Counted over all 9.")).to_be_visible()
    for name in ("reason", "topic", "tag", "client", "age"):
        counts = page.locator(f"#facet-{name} .facet-count").all_inner_texts()
        assert sum(map(int, counts)) == total, name

    page.locator("#facet-reason").get_by_role("link", name="rejected").click()
    expect(page).to_have_url(re.compile("reason=rejected"))
    expect(rows(page)).to_have_count(3)
    page.get_by_role("link", name="Clear").click()
    expect(rows(page)).to_have_count(total)
    page.get_by_label("Key", exact=True).fill("s-4")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(rows(page)).to_have_count(1)
    expect(page.locator("#letter-4")).to_be_visible()
    page.get_by_role("link", name="Clear").click()
    letter = scenery.get("/groups/garden/dead-letters/2")["message"]
    page.get_by_label("Message id", exact=True).fill(letter["message_id"])
    page.get_by_role("button", name="Show", exact=True).click()
    expect(rows(page)).to_have_count(1)
    expect(page.locator("#letter-2")).to_be_visible()
    page.get_by_role("link", name="Clear").click()
    page.get_by_label("Dead-lettered before").fill("2020-01-01T00:00:00")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.get_by_role("heading", name="No dead letter matches")).to_be_visible()
    page.get_by_label("Dead-lettered before").fill("")
    page.get_by_label("Dead-lettered from").fill("2020-01-01T00:00:00")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(rows(page)).to_have_count(total)


def test_a_dry_run_says_what_cannot_be_sent_and_the_run_names_it(
    open_page: OpenPage, scenery: Scenery
) -> None:
    one_queue(scenery, "stays")
    one_queue(scenery, "goes")
    dying_group(scenery, "twelve")
    kill(scenery, "twelve", "stays", [{"body": f"letter {n}"} for n in range(10)])
    kill(scenery, "twelve", "goes", [{"body": "lost"}] * 2)
    scenery.delete("/topics/goes")
    page = open_page("/dlq/twelve")
    resend = page.get_by_role("button", name=re.compile("Resend .*selected"))
    expect(resend).to_be_disabled()
    page.get_by_label("Select all on this page").check()
    expect(resend).to_have_text("Resend 12 selected")
    resend.click()
    expect(page.get_by_text("12 selected dead letters")).to_be_visible()
    page.get_by_label("the topic each was first sent to").check()
    page.get_by_role("button", name="Start dry run").click()
    expect(page.get_by_role("heading", name="Dry run: 10 of 12 can be sent")).to_be_visible()
    expect(page.locator("#total-topic_gone td").first).to_have_text("2")
    assert scenery.get("/topics/stays")["messages"] == 10  # nothing was sent
    page.get_by_role("button", name="Send 10").click()
    finished = page.get_by_role("heading", name="Finished: 10 sent, 2 failed")
    expect(finished).to_be_visible()
    expect(page.locator(".job-say")).not_to_have_class(re.compile(r"\bok\b"))
    expect(page.locator("#total-sent td").first).to_have_text("10")
    expect(page.locator("#total-all")).to_contain_text("total matches")
    assert scenery.get("/topics/stays")["messages"] == 20

    page.locator("#total-topic_gone").get_by_role("link").click()
    outcomes = page.locator("#job-outcomes tbody tr")
    expect(outcomes).to_have_count(2)
    expect(outcomes.first).to_contain_text("the target topic no longer exists")
    page.locator("#total-sent").get_by_role("link").click()
    expect(outcomes).to_have_count(10)
    outcomes.first.get_by_role("link", name="New message").click()
    expect(page).to_have_url(re.compile("/messages/stays/0/1[0-9]$"))
    expect(page.locator("#message-body pre")).to_have_text(re.compile("letter"))
    page.goto("/dlq/twelve?state=all")
    expect(page.locator("#letter-0").get_by_role("link", name="resent by job")).to_be_visible()
    expect(page.locator("#letter-11").get_by_text("resent")).to_have_count(0)
    page.goto("/dlq/twelve")
    expect(page.locator("#letter-11")).to_be_visible()
    expect(page.locator("#letter-0")).to_have_count(0)


def test_what_comes_back_says_how_often_it_was_sent_again(
    open_page: OpenPage, scenery: Scenery
) -> None:
    one_queue(scenery, "boomerangs")
    dying_group(scenery, "thrower")
    kill(scenery, "thrower", "boomerangs", [{"body": "back again"}])
    page = open_page("/dlq/thrower/0")
    page.get_by_role("button", name="Resend to thrower").click()
    expect(page.get_by_role("heading", name="Finished: 1 sent")).to_be_visible()
    (again,) = scenery.receive("thrower", "boomerangs", 1)
    nack = {"receipt": again["receipt"], "error": "still no use"}
    scenery.post("/groups/thrower/nack", {"nacks": [nack]})
    page.goto("/dlq/thrower?state=all")
    expect(page.locator("#letter-1 .marks")).to_have_text(re.compile("came back 1"))
    expect(page.locator("#letter-0 .marks")).to_have_text(re.compile("resent by job"))
    page.locator("#letter-1 th a").click()
    page.locator("#drawer").get_by_role("link", name="Review dead letter").first.click()
    expect(page.get_by_text("another resend is unlikely to succeed")).to_be_visible()


def test_a_dead_letter_is_edited_and_sent_as_a_new_message(
    open_page: OpenPage, scenery: Scenery
) -> None:
    one_queue(scenery, "drafts")
    dying_group(scenery, "editor")
    kill(scenery, "editor", "drafts", [{"body": "a tpyo", "tag": "text", "keys": ["d-1"]}])
    page = open_page("/dlq/editor/0")
    page.get_by_role("link", name="Edit and resend").click()
    expect(page.get_by_text("This sends a new message")).to_be_visible()
    expect(page.get_by_label("Tag")).to_have_value("text")
    expect(page.get_by_label("Keys")).to_have_value("d-1")
    expect(page.get_by_label("Body")).to_have_value("a tpyo")
    page.get_by_label("Body").fill("a typo")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.get_by_text("1 message stored.")).to_be_visible()
    assert scenery.get("/topics/drafts")["messages"] == 2


def test_shift_ticks_a_range_and_a_refresh_keeps_the_ticks(
    open_page: OpenPage, scenery: Scenery
) -> None:
    one_queue(scenery, "leaves")
    dying_group(scenery, "autumn")
    kill(scenery, "autumn", "leaves", [{"body": f"leaf {n}"} for n in range(8)])
    page = open_page("/dlq/autumn")
    page.get_by_label("Select dead letter 6").click()
    page.get_by_label("Select dead letter 3").click(modifiers=["Shift"])
    resend = page.get_by_role("button", name=re.compile("Resend .*selected"))
    expect(resend).to_have_text("Resend 4 selected")
    kill(scenery, "autumn", "leaves", [{"body": "late leaf"}])
    page.get_by_role("button", name="Refresh now").click()
    expect(page.locator("#letter-8")).to_be_visible()
    for offset in range(9):
        box = page.get_by_label(f"Select dead letter {offset}", exact=True)
        expect(box).to_be_checked(checked=3 <= offset <= 6)
    expect(resend).to_have_text("Resend 4 selected")
    resend.click()
    expect(page.get_by_text("4 selected dead letters")).to_be_visible()


def test_without_script_a_choice_is_resent_step_by_step(
    open_page: OpenPage, scenery: Scenery
) -> None:
    one_queue(scenery, "quiet")
    dying_group(scenery, "silence")
    kill(scenery, "silence", "quiet", [{"body": f"hush {n}"} for n in range(3)])
    page = open_page("/dlq/silence", javascript=False)
    page.get_by_label("Select dead letter 1").check()
    page.get_by_role("button", name=re.compile("Resend .*selected")).click()
    page.get_by_label("Messages per second").fill("quick")
    page.get_by_role("button", name="Start dry run").click()
    expect(page.locator(".field-error")).to_have_text(re.compile("must be a number"))
    page.get_by_label("Messages per second").fill("50")
    page.get_by_role("button", name="Start dry run").click()
    page.get_by_role("button", name="Send 1").click()
    expect(page.get_by_role("heading", name="Finished: 1 sent")).to_be_visible()


def test_a_job_is_paused_and_stopped_on_its_page_which_keeps_up(
    open_page: OpenPage, scenery: Scenery
) -> None:
    one_queue(scenery, "drops")
    one_queue(scenery, "bucket")
    dying_group(scenery, "tap")
    # More than are sent, at 2 a second, while a slow machine does what follows.
    kill(scenery, "tap", "drops", [{"body": f"drop {n}"} for n in range(240)])
    new = {"to": "topic", "to_name": "bucket", "rate": 2}
    job = scenery.post("/groups/tap/dead-letters/redrive", new)
    page = open_page(f"/jobs/{job['id']}", refresh_s=2)
    say = page.locator(".job-say")
    expect(say).to_contain_text("Running: ")
    expect(say).to_contain_text("remaining at 2")
    expect(page.locator("#total-sent td").first).to_have_text(re.compile("^[1-9]"))
    page.get_by_role("button", name="Pause").click()
    expect(say).to_contain_text("Paused: ")
    page.get_by_role("button", name="Resume").click()
    expect(say).to_contain_text("Running: ")
    page.get_by_text("Stop…").click()
    page.get_by_role("button", name="Stop job").click()
    expect(say).to_contain_text("not processed")
    expect(page.locator("#total-all")).to_contain_text("total matches")


def test_exports_are_downloaded_whole(
    open_page: OpenPage, scenery: Scenery, tmp_path: Path
) -> None:
    one_queue(scenery, "crates")
    dying_group(scenery, "harbour")
    kill(scenery, "harbour", "crates", [{"body": f"crate {n}"} for n in range(7)], error="=cmd")
    page = open_page("/dlq/harbour")
    files: dict[str, Path] = {}
    for kind in ("CSV", "NDJSON", "XLSX"):
        with page.expect_download() as waiting:
            page.locator(".exports").get_by_role("link", name=kind, exact=True).click()
        name = waiting.value.suggested_filename
        assert name == f"dead-letters-harbour.{kind.lower()}"
        files[kind] = tmp_path / name
        waiting.value.save_as(files[kind])
    lines = files["NDJSON"].read_text().splitlines()
    assert [json.loads(line)["body"] for line in lines] == [f"crate {n}" for n in range(6, -1, -1)]
    assert files["CSV"].read_text().count("'=cmd") == 7
    with zipfile.ZipFile(files["XLSX"]) as book:
        assert "xl/workbook.xml" in book.namelist()
        assert book.read("xl/worksheets/sheet1.xml").count(b"<row>") == 8


@pytest.fixture(scope="module")
def job_pages(site: Site) -> tuple[str, ...]:
    """Jobs in every state: their addresses are not known beforehand as those of other pages are."""
    scenery = Scenery(site.base)
    one_queue(scenery, "states")
    dying_group(scenery, "stately")
    kill(scenery, "stately", "states", [{"body": f"state {n}", "keys": ["s"]} for n in range(60)])
    new = {"to": "topic", "to_name": "states", "rate": 0.1}
    redrive = "/groups/stately/dead-letters/redrive"
    dry, running, paused, stopped, quick = (
        scenery.post(redrive, new | changes)["id"]
        for changes in ({"dry_run": True}, {}, {"name": "to be paused"}, {}, {"rate": 0})
    )
    scenery.post(f"/replays/{paused}/pause", {})
    scenery.post(f"/replays/{stopped}/stop", {})
    await_job(scenery, dry)
    await_job(scenery, quick)
    scenery.close()
    jobs = tuple(f"/jobs/{job}" for job in (dry, running, paused, stopped, quick))
    return (*jobs, f"/jobs/{quick}?outcome=sent&cursor=3", "/dlq/stately", "/dlq/stately/0")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_jobs_in_every_state_can_be_read_by_everybody(
    open_page: OpenPage, job_pages: tuple[str, ...], theme: str
) -> None:
    page = open_page("/jobs", theme=theme)
    page.add_init_script(WATCH_POLICY)
    for path in job_pages:
        page.goto(path)
        assert page.evaluate("window.violations") == [], path
        assert serious_faults(page) == [], path


def test_jobs_fit_the_width_of_a_telephone(open_page: OpenPage, job_pages: tuple[str, ...]) -> None:
    page = open_page("/jobs", width=NARROW)
    for path in job_pages:
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW, path
