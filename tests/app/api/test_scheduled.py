"""Messages with a time of delivery: sent by every endpoint, listed, recalled, moved, delivered."""

import json
from typing import Any

import pytest

from tests.app.conftest import App

pytestmark = pytest.mark.anyio


async def change(app: App, message_id: str, verb: str, body: object = None) -> Any:
    path = f"/api/v1/scheduled/{message_id}/{verb}"
    answer = await app.http.post(path, json=body) if body else await app.http.post(path)
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]


async def bodies(app: App, topic: str = "orders") -> list[str]:
    return [each["body"] for each in await app.receive("g", topic, max=10)]


async def test_what_waits_is_listed_by_time_page_by_page(running: App) -> None:
    now_ms = running.clock.now_ms()
    await running.send("orders", "late", deliver_at_ms=now_ms + 60_000)
    (soon,) = await running.send("orders", "soon", delay_ms=30_000, queue=2)
    await running.send("others", "other", delay_ms=40_000)
    page = await running.get("/scheduled")
    assert [item["message"]["body"] for item in page["items"]] == ["soon", "other", "late"]
    first = page["items"][0]
    assert (first["message_id"], first["due_ms"]) == (soon["message_id"], now_ms + 30_000)
    assert (first["topic"], first["queue"], page["total"], page["next"]) == ("orders", 2, 3, None)
    page = await running.get("/scheduled?topic=orders&limit=1")
    assert [item["message"]["body"] for item in page["items"]] == ["soon"]
    page = await running.get(f"/scheduled?topic=orders&limit=1&after={page['next']}")
    assert [item["message"]["body"] for item in page["items"]] == ["late"]
    page = await running.get(f"/scheduled?from_ms={now_ms + 50_000}")
    assert [item["message"]["body"] for item in page["items"]] == ["late"]
    assert (await running.get("/scheduled?after=x", 422))["errors"][0]["field"] == "after"


async def test_a_recalled_message_never_comes(running: App) -> None:
    (sent,) = await running.send("orders", "never", delay_ms=30_000)
    assert await change(running, sent["message_id"], "recall") == "recalled"
    assert await change(running, sent["message_id"], "recall") == "recalled"
    running.advance(60)
    assert await bodies(running) == []


async def test_a_message_is_delivered_at_once_when_asked(running: App) -> None:
    (sent,) = await running.send("orders", "now", delay_ms=30_000)
    assert await bodies(running) == []
    assert await change(running, sent["offset_id"], "deliver") == "delivered"
    assert await bodies(running) == ["now"]
    assert await change(running, sent["message_id"], "recall") == "already_delivered"


async def test_a_message_waits_for_its_new_time(running: App) -> None:
    first, second = await running.send("orders", "a", "b", delay_ms=30_000)
    assert await change(running, first["message_id"], "reschedule", {"delay_ms": 90_000}) == (
        "rescheduled"
    )
    at = {"deliver_at_ms": running.clock.now_ms() + 60_000}
    assert await change(running, second["message_id"], "reschedule", at) == "rescheduled"
    running.advance(59)
    assert await bodies(running) == []
    running.advance(1)
    assert await bodies(running) == ["b"]
    running.advance(30)
    assert await bodies(running) == ["a"]


async def test_a_new_time_is_one_of_two_and_within_a_year(running: App) -> None:
    (sent,) = await running.send("orders", "a", delay_ms=30_000)
    path = f"/scheduled/{sent['message_id']}/reschedule"
    for wrong in ({}, {"delay_ms": 1, "deliver_at_ms": 1}, {"deliver_at_ms": 2**53 - 1}):
        problem = await running.post(path, wrong, 422)
        assert problem["errors"][0]["field"] == "deliver_at_ms"


@pytest.mark.parametrize("verb", ["recall", "deliver"])
async def test_a_message_that_never_waited_is_not_found(running: App, verb: str) -> None:
    (sent,) = await running.send("orders", "plain")
    for message_id in (sent["message_id"], "nonsense"):
        answer = await running.http.post(f"/api/v1/scheduled/{message_id}/{verb}")
        assert (answer.status_code, answer.json()["code"]) == (404, "message_not_found")


async def test_every_change_is_in_the_trail(running: App) -> None:
    first, second = await running.send("orders", "a", "b", delay_ms=30_000)
    at_ms = running.clock.now_ms() + 60_000
    await change(running, first["message_id"], "reschedule", {"deliver_at_ms": at_ms})
    await change(running, first["message_id"], "deliver")
    await change(running, second["message_id"], "recall")
    await running.http.post("/api/v1/scheduled/none/recall")
    trail = (await running.get("/audit?object_kind=message"))["items"]
    assert [(entry["action"], entry["result"]) for entry in trail] == [
        ("message.recall", "message_not_found"),
        ("message.recall", "done"),
        ("message.deliver", "done"),
        ("message.reschedule", "done"),
    ]
    assert json.loads(trail[-1]["after_json"]) == {"result": "rescheduled", "deliver_at_ms": at_ms}


async def test_what_waits_in_a_delay_level_is_listed_and_changed_as_well(running: App) -> None:
    first, second, third = await running.send("orders", "a", "b", "c", delay_level=5)
    page = await running.get("/scheduled")
    assert [item["delay_level"] for item in page["items"]] == [5, 5, 5]
    assert await change(running, first["message_id"], "recall") == "recalled"
    assert await change(running, second["message_id"], "deliver") == "delivered"
    assert await change(running, third["message_id"], "reschedule", {"delay_ms": 90_000}) == (
        "rescheduled"
    )
    running.advance(60)
    assert await bodies(running) == ["b"]
    (item,) = (await running.get("/scheduled"))["items"]
    assert (item["delay_level"], item["message"]["body"]) == (0, "c")
