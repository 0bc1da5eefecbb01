"""Topics and groups are administered, and each change leaves its entry in the trail."""

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from app.db import audit_store
from tests.app.conftest import App, Starter

pytestmark = [pytest.mark.anyio, pytest.mark.databases]


async def trail(app: App, query: str = "") -> list[Any]:
    return list((await app.get(f"/audit?{query}"))["items"])


async def test_a_topic_is_created_changed_and_deleted_and_each_is_in_the_trail(
    running: App,
) -> None:
    new = {"name": "orders", "type": "FIFO", "read_queues": 8, "write_queues": 8}
    created = await running.post("/topics", new, 201)
    assert created["type"] == "FIFO"
    assert created["created_ms"] == running.clock.now_ms()
    answer = await running.http.patch("/api/v1/topics/orders", json={"permission": 4})
    assert (answer.status_code, answer.json()["permission"]) == (200, 4)
    answer = await running.http.delete(
        "/api/v1/topics/orders", headers={"X-Request-Id": "ticket-7"}
    )
    assert answer.status_code == 204
    assert answer.content == b""
    await running.get("/topics/orders", 404)

    deleted, changed, made = await trail(running, "object_kind=topic&object_name=orders")
    assert [entry["action"] for entry in (made, changed, deleted)] == [
        "topic.create",
        "topic.change",
        "topic.delete",
    ]
    assert {entry["result"] for entry in (made, changed, deleted)} == {"done"}
    assert json.loads(changed["before_json"])["permission"] == 6
    assert json.loads(changed["after_json"])["permission"] == 4
    assert made["before_json"] == ""
    assert deleted["after_json"] == ""
    assert deleted["request_id"] == "ticket-7"
    assert made["actor"].startswith("anonymous@127.0.0.1")


async def test_a_change_that_was_refused_is_in_the_trail_with_its_reason(running: App) -> None:
    await running.post("/topics", {"name": "a"}, 201)
    await running.post("/topics", {"name": "a"}, 409)
    await running.post("/topics", {"name": "%DLQ%a"}, 403)
    assert [entry["result"] for entry in await trail(running)] == ["forbidden", "conflict", "done"]


async def test_nothing_is_changed_when_the_trail_cannot_be_written(
    running: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise OperationalError("insert", {}, Exception("disk full"))

    monkeypatch.setattr(audit_store, "insert_audit", fail)
    problem = await running.post("/topics", {"name": "a"}, 503)
    assert problem["code"] == "audit_unavailable"
    assert (await running.get("/topics"))["total"] == 0
    ready = (await running.http.get("/readyz")).json()
    assert "disk full" in ready["problems"]["database"]


async def test_messages_flow_without_a_database_and_changes_do_not(
    start: Starter, tmp_path: Path
) -> None:
    folder = tmp_path / "not-a-database"
    folder.mkdir()
    async with start(database_url=f"sqlite:///{folder}") as app:
        await app.send("orders", "x")
        assert len(await app.receive("billing", "orders")) == 1
        assert (await app.post("/topics", {"name": "a"}, 503))["code"] == "audit_unavailable"
        assert (await app.get("/audit", 503))["code"] == "audit_unavailable"


async def test_a_group_is_created_changed_and_deleted_and_each_is_in_the_trail(
    running: App,
) -> None:
    created = await running.post("/groups", {"name": "billing", "retry_max": 3}, 201)
    assert created == {
        "name": "billing",
        "retry_max": 3,
        "start": "earliest",
        "consume_enabled": True,
        "dead_letters": True,
        "mode": "clustering",
        "start_at_ms": 0,
        "retry_policy": {"kind": "ladder"},
        "strategy": "average",
        "rooms": [],
        "paused": False,
        "paused_topics": [],
        "members": 0,
        "ordered": False,
        "status": "idle",
        "status_reason": "not_begun",
        "unknown": "",
        "dismiss_when_resent": False,
    }
    answer = await running.http.patch("/api/v1/groups/billing", json={"consume_enabled": False})
    assert answer.json()["consume_enabled"] is False
    assert answer.json()["status"] == "paused"
    assert await running.get("/groups/billing") == answer.json()
    assert (await running.http.delete("/api/v1/groups/billing")).status_code == 204
    await running.get("/groups/billing", 404)
    assert [entry["action"] for entry in await trail(running, "object_kind=group")] == [
        "group.delete",
        "group.change",
        "group.create",
    ]


async def test_lists_come_in_pages_that_hold_everything_once(running: App) -> None:
    names = [f"t{number:02}" for number in range(7)]
    for name in names:
        await running.post("/topics", {"name": name}, 201)
        await running.post("/groups", {"name": name}, 201)
    for kind in ("topics", "groups"):
        found: list[str] = []
        cursor: str | None = ""
        while cursor is not None:
            page = await running.get(f"/{kind}?limit=3&cursor={cursor}")
            assert page["total"] == 7
            found += [item["name"] for item in page["items"]]
            cursor = page["next_cursor"]
        assert found == names


async def test_the_trail_comes_in_pages_too(running: App) -> None:
    for number in range(5):
        await running.post("/topics", {"name": f"t{number}"}, 201)
    first = await running.get("/audit?limit=3")
    rest = await running.get(f"/audit?limit=3&cursor={first['next_cursor']}")
    names = [entry["object_name"] for entry in first["items"] + rest["items"]]
    assert names == ["t4", "t3", "t2", "t1", "t0"]
    assert rest["next_cursor"] is None


async def test_topics_are_found_by_part_of_their_name_and_by_type(running: App) -> None:
    await running.post("/topics", {"name": "Orders"}, 201)
    await running.post("/topics", {"name": "steps", "type": "FIFO"}, 201)
    await running.send("Orders", "x")
    assert [item["name"] for item in (await running.get("/topics?q=order"))["items"]] == ["Orders"]
    assert [item["name"] for item in (await running.get("/topics?type=FIFO"))["items"]] == ["steps"]
    assert (await running.get("/topics?system=true"))["total"] >= 2


async def test_a_topic_shows_its_queues(running: App) -> None:
    await running.post("/topics", {"name": "one", "read_queues": 1, "write_queues": 1}, 201)
    await running.send("one", "a", "b")
    topic = await running.get("/topics/one")
    assert topic["messages"] == 2
    [queue] = topic["queues"]
    assert queue == {
        "queue": 0,
        "min_offset": "0",
        "max_offset": "2",
        "last_stored_ms": running.clock.now_ms(),
    }


async def test_a_topic_without_numbers_gets_the_default_ones(start: Starter) -> None:
    async with start(default_queues=3) as app:
        created = await app.post("/topics", {"name": "a"}, 201)
        assert (created["read_queues"], created["write_queues"]) == (3, 3)


async def test_lag_says_what_is_open_and_what_is_in_flight(running: App) -> None:
    await running.send("orders", "a", "b", "c")
    await running.receive("billing", "orders")
    running.clock.advance(5)
    lag = await running.get("/groups/billing/lag")
    assert (lag["count"], lag["inflight"]) == (3, 1)
    assert lag["oldest_age_ms"] >= 5000
    assert sum(queue["count"] for queue in lag["queues"]) == 3
