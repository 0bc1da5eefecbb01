"""Retention and purge over REST, each purge with its entry in the trail."""

import json
from typing import Any

import pytest

from tests.app.conftest import App

pytestmark = [pytest.mark.anyio, pytest.mark.makers]


async def made(running: App) -> None:
    """A topic of one queue with five messages in it."""
    await running.post("/topics", {"name": "orders", "read_queues": 1, "write_queues": 1}, 201)
    await running.send("orders", "1", "2", "3", "4", "5")


async def left(running: App) -> list[str]:
    detail = await running.get("/topics/orders")
    first = detail["queues"][0]["min_offset"]
    found = await running.get(f"/topics/orders/messages?queue=0&offset={first}")
    return [message["body"] for message in found["messages"]]


async def trail(running: App) -> list[Any]:
    return list((await running.get("/audit?object_kind=topic&object_name=orders"))["items"])


@pytest.mark.capabilities("purges")
async def test_a_purge_takes_what_was_asked_for_and_is_in_the_trail(running: App) -> None:
    await made(running)
    done = await running.post("/topics/orders/purge", {"before_offset": {"0": "3"}})
    assert done == {
        "topic": "orders",
        "count": 3,
        "dry_run": False,
        "queues": [{"queue": 0, "from_offset": "0", "to_offset": "3", "count": 3}],
    }
    assert await left(running) == ["4", "5"]
    entry = (await trail(running))[0]
    assert (entry["action"], entry["result"]) == ("topic.purge", "done")
    assert json.loads(entry["before_json"]) == {"before_offset": {"0": 3}}
    assert json.loads(entry["after_json"])["count"] == 3


@pytest.mark.capabilities("purges")
async def test_a_preview_counts_and_leaves_no_entry(running: App) -> None:
    await made(running)
    would = await running.post("/topics/orders/purge", {"all": True, "dry_run": True})
    assert (would["count"], would["dry_run"]) == (5, True)
    assert len(await left(running)) == 5
    assert [entry["action"] for entry in await trail(running)] == ["topic.create"]


@pytest.mark.capabilities("purges")
async def test_a_purge_by_time_takes_what_is_older(running: App) -> None:
    await made(running)
    running.clock.advance(10)
    await running.send("orders", "young")
    now_ms = running.clock.now_ms()
    assert (await running.post("/topics/orders/purge", {"before_ms": now_ms}))["count"] == 5
    assert await left(running) == ["young"]


@pytest.mark.capabilities("purges")
@pytest.mark.parametrize(
    ("order", "status", "field"),
    [
        ({}, 422, "before_offset"),
        ({"all": True, "before_ms": 1}, 422, "before_offset"),
        ({"before_offset": {"0": "9"}}, 422, "before_offset.0"),
        ({"before_offset": {"0": "-1"}}, 422, "before_offset.0"),
        ({"before_offset": {"zero": "1"}}, 422, "before_offset.zero"),
        ({"before_offset": {"7": "1"}}, 404, "before_offset.7"),
        ({"everything": True}, 422, "everything"),
    ],
)
async def test_a_purge_that_is_wrong_names_the_field_and_takes_nothing(
    running: App, order: dict[str, object], status: int, field: str
) -> None:
    await made(running)
    problem = await running.post("/topics/orders/purge", order, status)
    assert [fault["field"] for fault in problem["errors"]] == [field]
    assert len(await left(running)) == 5


@pytest.mark.capabilities("purges")
async def test_the_engines_own_topics_and_unknown_ones_are_not_purged(running: App) -> None:
    await running.post("/topics/SCHEDULE_TOPIC_XXXX/purge", {"all": True}, 403)
    await running.post("/topics/nowhere/purge", {"all": True}, 404)


@pytest.mark.capabilities("purges")
async def test_a_group_that_was_overtaken_shows_what_it_lost(running: App) -> None:
    await made(running)
    await running.receive("g", "orders")
    await running.post("/topics/orders/purge", {"all": True})
    running.broker.tick()
    queues = (await running.get("/groups/g/lag"))["queues"]
    assert [queue["expired"] for queue in queues if queue["topic"] == "orders"] == [4]


@pytest.mark.capabilities("topic_overrides")
async def test_a_topic_can_have_an_age_of_its_own(running: App) -> None:
    new = {"name": "orders", "retention_ms": 60_000}
    assert (await running.post("/topics", new, 201))["retention_ms"] == 60_000
    answer = await running.http.patch("/api/v1/topics/orders", json={"retention_ms": None})
    assert answer.json()["retention_ms"] is None
    answer = await running.http.patch("/api/v1/topics/orders", json={"retention_ms": 5})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "retention_ms")
    assert json.loads((await trail(running))[1]["before_json"])["retention_ms"] == 60_000


@pytest.mark.capabilities("log_figures")
async def test_retention_says_what_is_in_force(running: App) -> None:
    await made(running)
    found = await running.get("/retention")
    assert (found["retention_ms"], found["retention_bytes"]) == (72 * 3_600_000, 0)
    assert found["oldest_ms"] == running.clock.now_ms()
    assert (found["segments"], found["oldest_position"], found["held_by"]) == (1, "0", [])
    assert found["next_due_ms"] is None


async def test_readiness_has_warnings_beside_problems(running: App) -> None:
    answer = await running.http.get("/readyz")
    assert answer.json()["warnings"] == {}
