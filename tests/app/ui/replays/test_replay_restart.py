"""A job whose server is killed at random moments goes on, and its page with it."""

import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.app.ui.dead_letters.dead_scene import await_job, dying_group, one_queue
from tests.app.ui.scenery import Scenery
from tests.crash.process import ServerProcess
from tests.patience import until

pytestmark = [pytest.mark.browser, pytest.mark.crash, pytest.mark.timeout(400)]

COUNT = 20_000
RATE = 3000
KILLS = 2
LATEST = 14_000  # of which so many are sent when it is killed at the latest
LONG_MS = 60_000
PATIENCE_S = 120
PULLED = 160


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    server = ServerProcess(tmp_path / "data")
    server.start()
    yield server
    server.kill()


def dead_letters(scenery: Scenery) -> None:
    """As many dead letters as the check asks for, quickly."""
    one_queue(scenery, "copies")
    one_queue(scenery, "parcels")
    dying_group(scenery, "couriers")
    for start in range(0, COUNT, 1000):
        scenery.send("parcels", [{"body": str(start + each)} for each in range(1000)])
    while deliveries := scenery.receive("couriers", "parcels", 256):
        nacks = [{"receipt": each["receipt"], "error": "no one in"} for each in deliveries]
        scenery.post("/groups/couriers/nack", {"nacks": nacks})


@pytest.fixture
def chance() -> random.Random:
    """Moments that differ from run to run; a failure shows the seed in what the test wrote."""
    seed = time.time_ns() % 1_000_000
    sys.stdout.write(f"seed {seed}\n")
    return random.Random(seed)


def test_a_job_killed_at_random_moments_sends_each_entry_once(
    chromium: Browser, server: ServerProcess, chance: random.Random
) -> None:
    scenery = Scenery(server.url)
    dead_letters(scenery)
    context = chromium.new_context(base_url=server.url)
    context.add_cookies([{"name": "kitemq_refresh", "value": "2", "url": server.url}])
    page = context.new_page()

    page.goto("/dlq/couriers")
    counted = page.get_by_text(f"Counted over all {COUNT:,}.")
    expect(counted).to_be_visible(timeout=LONG_MS)  # counting goes on with each refresh
    expect(page.locator("#facet-reason .facet-count")).to_have_text(f"{COUNT:,}")

    new = {"to": "topic", "to_name": "copies", "rate": 1}
    job = scenery.post("/groups/couriers/dead-letters/redrive", new)
    page.goto(f"/jobs/{job['id']}")
    expect(page.locator(".job-say")).to_contain_text("Running: ")
    scenery.patch(f"/replays/{job['id']}", {"rate": RATE})  # not over before the page was there
    for enough in sorted(chance.sample(range(1, LATEST), KILLS)):
        kill_when_sent(scenery, server, job["id"], enough)
        expect(page.get_by_text("Connection lost.")).to_be_visible(timeout=LONG_MS)
        server.start()
    # The same page, never reloaded, takes the job up again and sees its end.
    finished = page.get_by_role("heading", name=f"Finished: {COUNT:,} sent")
    expect(finished).to_be_visible(timeout=LONG_MS)
    expect(page.get_by_text("Connection lost.")).to_be_hidden()
    expect(page.locator("#total-sent td").first).to_have_text(f"{COUNT:,}")
    expect(page.locator("#total-all")).to_contain_text("total matches")

    check_outcomes(scenery, job["id"])
    check_copies(scenery, job["id"])
    states = scenery.get("/groups/couriers/dead-letters/counts")["states"]
    assert states == {"open": 0, "resent": COUNT, "dismissed": 0}  # after every kill
    page.goto("/dlq/couriers?state=resent")
    expect(page.locator(f"#letter-{COUNT - 1} .marks")).to_have_text(re.compile("resent by job"))
    context.close()
    scenery.close()


def kill_when_sent(scenery: Scenery, server: ServerProcess, job_id: str, enough: int) -> None:
    """SIGKILL in the midst of a job, some time after so many copies."""

    def is_far() -> bool:
        sent: int = scenery.get(f"/replays/{job_id}")["totals"].get("sent", 0)
        assert sent < COUNT, "it was over before it could be killed"
        return sent >= enough

    until(is_far, limit_s=PATIENCE_S)
    server.kill()


def check_outcomes(scenery: Scenery, job_id: str) -> None:
    """Every frozen entry has one outcome, and the sums are theirs."""
    outcomes: list[tuple[str, str]] = []
    cursor: str | None = ""
    while cursor is not None:
        page = scenery.get(f"/replays/{job_id}/outcomes?limit=200&cursor={cursor}")
        outcomes += [(row["offset"], row["outcome"]) for row in page["items"]]
        cursor = page["next_cursor"]
    assert outcomes == [(str(offset), "sent") for offset in range(COUNT)]
    assert await_job(scenery, job_id)["totals"] == {"sent": COUNT}


def check_copies(scenery: Scenery, job_id: str) -> None:
    """The target has one copy of every entry, and no second of any."""
    copies: Counter[tuple[str, str, str]] = Counter()
    for offset in range(0, COUNT, PULLED):
        query = f"/topics/copies/messages?queue=0&offset={offset}&limit={PULLED}"
        for each in scenery.get(query)["messages"]:
            names = each["properties"]
            copies[names["KITE_REDRIVEN_FROM"], names["KITE_REDRIVEN_JOB"], each["body"]] += 1
    places = ((f"%DLQ%couriers@0@{offset}", job_id, str(offset)) for offset in range(COUNT))
    assert copies == Counter(places)
    assert scenery.get("/topics/copies")["messages"] == COUNT
