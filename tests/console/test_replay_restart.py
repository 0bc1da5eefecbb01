"""A job whose server is killed in the middle goes on, and its page with it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.console.dead_scene import await_job, dying_group, one_queue
from tests.console.scenery import Scenery
from tests.crash.process import ServerProcess, wait_until

pytestmark = [pytest.mark.browser, pytest.mark.crash]

COUNT = 20_000
ENOUGH = 4000
LONG_MS = 60_000


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


def test_the_page_of_a_job_outlives_a_killed_server(
    chromium: Browser, server: ServerProcess
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

    new = {"to": "topic", "to_name": "copies", "rate": 3000}
    job = scenery.post("/groups/couriers/dead-letters/redrive", new)
    page.goto(f"/jobs/{job['id']}")
    expect(page.locator(".job-say")).to_contain_text("Running: ")

    def sent() -> int:
        return int(scenery.get(f"/replays/{job['id']}")["totals"].get("sent", 0))

    wait_until(lambda: sent() >= ENOUGH, 60)
    server.kill()
    expect(page.get_by_text("The server does not answer.")).to_be_visible(timeout=LONG_MS)
    server.start()
    # The same page, never reloaded, takes the job up again and sees its end.
    finished = page.get_by_role("heading", name=f"Finished: {COUNT:,} sent")
    expect(finished).to_be_visible(timeout=LONG_MS)
    expect(page.get_by_text("The server does not answer.")).to_be_hidden()
    expect(page.locator("#total-sent td").first).to_have_text(f"{COUNT:,}")
    expect(page.locator("#total-all")).to_contain_text("adds up")
    assert await_job(scenery, job["id"])["totals"] == {"sent": COUNT}
    assert scenery.get("/topics/copies")["messages"] == COUNT

    page.goto("/dlq/couriers")
    expect(page.locator(f"#letter-{COUNT - 1} .marks")).to_have_text(re.compile("redriven by job"))
    context.close()
    scenery.close()
