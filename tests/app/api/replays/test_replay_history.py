"""Replay jobs in the database: copies that are true, found by who and when, and bounded."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.db import replay_store
from app.db.rows import DatabaseError
from kitemq import Message
from tests.app.conftest import App, Starter
from tests.crash.process import ServerProcess
from tests.patience import until

both = pytest.mark.databases
asked = pytest.mark.anyio
LIMIT_S = 60.0
HTML = {"accept": "text/html"}
JOB = {"source": "orders", "to": "topic", "to_name": "copies", "rate": 0}


async def order(app: App, **changes: object) -> dict[str, Any]:
    """A job over what `orders` holds."""
    made: dict[str, Any] = await app.post("/replays", JOB | changes, 201)
    return made


async def prepare(app: App, *bodies: str) -> None:
    await app.post("/topics", {"name": "copies"}, 201)
    await app.send("orders", *bodies)


async def history(app: App, query: str = "") -> list[dict[str, Any]]:
    """What the database has, after everything was copied."""
    await app.app.services.replay_copies.copy()
    items: list[dict[str, Any]] = (await app.get(f"/replay-history?{query}"))["items"]
    return items


@asked
@both
async def test_a_job_is_in_the_database_with_who_ordered_it_and_how_it_ended(
    running: App,
) -> None:
    await prepare(running, "a", "b", "c")
    job = await order(running, dry_run=True, name="try")
    running.advance(0)
    (copy,) = await history(running)
    exact = await running.get(f"/replays/{job['id']}")
    for name in "id name source to to_name state selected totals dry_run created_by".split():
        assert copy[name] == exact[name], name
    assert copy["created_by"].startswith("anonymous@127.0.0.1")
    assert (copy["state"], copy["totals"]) == ("finished", {"eligible": 3})
    await running.post(f"/replays/{job['id']}/begin", {})
    running.advance(0)
    (copy,) = await history(running)
    assert (copy["dry_run"], copy["totals"]) == (False, {"sent": 3})


@asked
@both
async def test_jobs_are_found_by_source_state_person_and_time_page_by_page(running: App) -> None:
    await prepare(running, "a")
    for number in range(5):
        running.advance(1)
        await order(running, name=str(number), rate=0.001 if number == 4 else 0)
    await history(running)
    found = []
    cursor = ""
    while True:
        page = await running.get(f"/replay-history?limit=2&cursor={cursor}")
        found += [item["name"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert found == ["4", "3", "2", "1", "0"]
    items = await history(running)
    middle = items[2]["created_ms"]
    assert len(await history(running, f"from_ms={middle}")) == 3
    assert len(await history(running, f"to_ms={middle}")) == 2
    assert len(await history(running, "source=orders")) == 5
    assert await history(running, "source=other") == []
    assert await history(running, "created_by=ann") == []
    assert await history(running, "source=a%00b") == []
    for nonsense in ("nonsense", "1-", "1-%00", "1-%C3%A4"):
        problem = await running.get(f"/replay-history?cursor={nonsense}", 422)
        assert problem["errors"][0]["field"] == "cursor"
    assert (await running.get("/replay-history?from_ms=-1", 422))["errors"][0]["field"] == "from_ms"


@asked
@both
async def test_copying_again_changes_nothing_and_a_failure_is_made_up_for(
    start: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with start() as app:
        await prepare(app, "a")
        job = await order(app)
        store = app.app.services.database
        run = store.run

        async def fail(_: object) -> None:
            raise DatabaseError("gone")

        monkeypatch.setattr(store, "run", fail)
        with pytest.raises(DatabaseError):
            await app.app.services.replay_copies.copy()
        monkeypatch.setattr(store, "run", run)
        assert [item["id"] for item in await history(app)] == [job["id"]]
        writes = []

        async def count(work: Any) -> Any:
            writes.append(work)
            return await run(work)

        monkeypatch.setattr(store, "run", count)
        await app.app.services.replay_copies.copy()
        assert writes == []
    async with start() as app:  # which knows nothing of what was written before
        assert [item["id"] for item in await history(app)] == [job["id"]]


@asked
@both
async def test_the_oldest_copies_are_forgotten_and_jobs_outlive_the_engines_memory(
    running: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_store, "JOBS_MAX", 3)
    monkeypatch.setattr("engine.replay.job_store.JOBS_MAX", 2)
    await prepare(running, "a")
    for number in range(5):
        running.advance(1)
        await order(running, name=str(number))
        running.advance(1)
        await history(running)
    assert [item["name"] for item in await history(running)] == ["4", "3", "2"]
    kept = [item["id"] for item in (await running.get("/replays"))["items"]]
    assert len(kept) < 3
    listed = (await running.http.get("/jobs/history?format=json")).json()["jobs"]
    assert [(each["name"], each["is_stored"]) for each in listed] == [
        ("4", True), ("3", listed[1]["id"] in kept), ("2", False),
    ]  # fmt: skip
    forgotten = listed[2]["id"]
    page = await running.http.get(f"/jobs/{forgotten}", headers=HTML)
    assert page.status_code == 200
    assert "The engine no longer has this job" in page.text
    past = (await running.http.get(f"/jobs/{forgotten}?format=json")).json()["past"]
    assert [(total["outcome"], total["count"]) for total in past["totals"]] == [("sent", 1)]
    assert (await running.http.get("/jobs/nobody-has-this")).status_code == 404


@asked
async def test_the_history_page_filters_and_goes_on_page_by_page(
    running: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.ui.replays.jobs.PAGE_SIZE", 2)
    await prepare(running, "a")
    for number in range(3):
        running.advance(1)
        await order(running, name=str(number), dry_run=number == 1)
    await history(running)
    path = "/jobs/history?format=json&source=orders"
    first = (await running.http.get(path)).json()
    rest = (await running.http.get(f"{path}&cursor={first['next_cursor']}")).json()
    assert [[job["name"] for job in page["jobs"]] for page in (first, rest)] == [["2", "1"], ["0"]]
    assert rest["next_cursor"] == ""
    for query, count in (("created_by=nobody", 0), ("source=copies", 0), ("state=paused", 0)):
        found = (await running.http.get(f"/jobs/history?format=json&{query}")).json()["jobs"]
        assert len(found) == count, query
    assert (await running.http.get("/jobs/history?cursor=x")).status_code == 422


@asked
async def test_the_report_of_a_job_has_a_line_for_each_message_and_sums_that_add_up(
    running: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.ui.replays.export.STEP", 2)
    await prepare(running, *"abcde")
    await running.http.post(
        "/api/v1/topics/orders/messages",
        json={"messages": [{"body": "f", "tag": "=cmd", "keys": ["+k", "x"]}]},
    )
    job = await order(running, filter="=cmd")
    running.advance(0)
    path = f"/jobs/{job['id']}/export"
    answer = await running.http.get(f"{path}?format=csv")
    assert answer.headers["x-total"] == "6"
    rows = list(csv.reader(io.StringIO(answer.text)))
    assert [row[3] for row in rows[1:-1]] == ["filtered"] * 5 + ["sent"]
    assert rows[-2][6:8] == ["'=cmd", "'+k x"]
    assert rows[-1][1] == "6 rows; 6 chosen: 1 sent, 5 filtered; finished"
    lines = (await running.http.get(f"{path}?format=ndjson&outcome=sent")).text.splitlines()
    told = [json.loads(line) for line in lines]
    assert [line["tag"] for line in told[:-1]] == ["=cmd"]
    assert told[-1]["report"]["rows"] == 1
    assert sum(told[-1]["report"]["totals"].values()) == told[-1]["report"]["selected"] == 6
    for query, status in (("format=pdf", 422), ("outcome=odd", 422)):
        assert (await running.http.get(f"{path}?{query}")).status_code == status


@pytest.fixture
def process(tmp_path: Path, url: str) -> Iterator[ServerProcess]:
    server = ServerProcess(tmp_path / "data", database_url=url)
    server.start()
    yield server
    server.kill()


@pytest.mark.crash
@both
def test_a_server_killed_before_it_could_copy_does_so_after_its_next_start(
    process: ServerProcess,
) -> None:
    with process.client() as client:
        client.topics.create("copies")
        client.topics.create("orders", read_queues=1, write_queues=1)
        client.messages.send("orders", [Message(body=str(number)) for number in range(300)])
    new = {"source": "orders", "to": "topic", "to_name": "copies", "rate": 100}
    answer = httpx.post(f"{process.url}/api/v1/replays", json=new, timeout=LIMIT_S)
    assert answer.status_code == 201, answer.text
    process.kill()
    process.start()

    def copies() -> list[Any]:
        found = httpx.get(f"{process.url}/api/v1/replay-history", timeout=LIMIT_S)
        return list(found.json()["items"])

    until(lambda: [copy["state"] for copy in copies()] == ["finished"], limit_s=LIMIT_S)
    (copy,) = copies()
    assert (copy["id"], copy["totals"]) == (answer.json()["id"], {"sent": 300})
