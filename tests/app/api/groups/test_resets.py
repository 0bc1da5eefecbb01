"""Resetting offsets over REST: what is previewed is what happens, and the trail knows."""

import asyncio
import json
from typing import Any

import pytest

from tests.app.conftest import App

pytestmark = [pytest.mark.anyio, pytest.mark.makers]

PATH = "/groups/billing/resets"
EARLIEST = {"topics": ["orders"], "to": "earliest"}


@pytest.fixture
async def consumed(running: App) -> App:
    """Four messages in queue 0 of `orders`; the group `billing` has done three."""
    await running.send("orders", "a", "b", "c", "d", queue=0)
    got = await running.receive("billing", "orders", max=3)
    await running.post("/groups/billing/ack", {"receipts": [each["receipt"] for each in got]})
    return running


async def committed(app: App) -> str:
    offsets = await app.get("/groups/billing/offsets?topic=orders")
    return str(offsets["queues"][0]["offset"])


async def trail(app: App) -> list[Any]:
    entries = (await app.get("/audit?object_kind=group&object_name=billing"))["items"]
    return [entry for entry in entries if "reset" in entry["action"]]


async def test_a_preview_shows_each_queue_and_changes_nothing(consumed: App) -> None:
    can = (await consumed.get("/system"))["capabilities"]
    inflight = 0 if can["inflight_figures"] else None
    preview = await consumed.post(f"{PATH}/preview", EARLIEST)
    assert preview["queues"][0] == {
        "topic": "orders",
        "queue": 0,
        "min_offset": "0",
        "max_offset": "4",
        "current": "3",
        "target": "0",
        "moves": True,
        "note": "",
        "redelivered": 3,
        "skipped": 0,
        "inflight": inflight,
        "target_stored_ms": consumed.clock.now_ms(),
    }
    assert (preview["to"], preview["redelivered"], preview["skipped"]) == ("earliest", 3, 0)
    assert (preview["inflight"], preview["retry_waiting"]) == (inflight, inflight)
    assert len(preview["queues"]) == 4
    assert await committed(consumed) == "3"
    assert await trail(consumed) == []


@pytest.mark.capabilities("reset_history")
async def test_a_previewed_reset_is_applied_listed_and_undone_and_all_is_in_the_trail(
    consumed: App,
) -> None:
    preview = await consumed.post(f"{PATH}/preview", EARLIEST)
    order = {**EARLIEST, "precondition": preview["precondition"]}
    done = await consumed.post(PATH, order, 201)
    assert (done["id"], done["to"], done["undoes"], done["undone_by"]) == (
        "1",
        "earliest",
        None,
        None,
    )
    assert done["queues"][0] == {"topic": "orders", "queue": 0, "before": "3", "after": "0"}
    assert await committed(consumed) == "0"
    look = await consumed.http.post(f"/api/v1{PATH}/1/undo/preview")
    assert look.json()["queues"][0]["target"] == "3"
    undone = await consumed.post(f"{PATH}/1/undo", {}, 201)
    assert undone["undoes"] == "1"
    assert await committed(consumed) == "3"
    listed = (await consumed.get(PATH))["items"]
    assert [(each["id"], each["undone_by"]) for each in listed] == [("2", None), ("1", "2")]
    entries = await trail(consumed)
    assert [(entry["action"], entry["result"]) for entry in entries] == [
        ("group.undo_reset", "done"),
        ("group.reset", "done"),
    ]
    assert json.loads(entries[1]["before_json"])["queues"][0] == ["orders", 0, 3]
    assert json.loads(entries[1]["after_json"])["queues"][0] == ["orders", 0, 0]
    again = await consumed.post(f"{PATH}/1/undo", {}, 409)
    assert again["code"] == "conflict"


async def test_a_reset_is_in_the_trail_with_the_offsets_before_and_after_of_each_queue(
    consumed: App,
) -> None:
    can = (await consumed.get("/system"))["capabilities"]
    done = await consumed.post(PATH, {**EARLIEST, "force": True, "queues": [0]}, 201)
    assert done["id"] == ("1" if can["reset_history"] else "0")
    assert done["queues"] == [{"topic": "orders", "queue": 0, "before": "3", "after": "0"}]
    [entry] = await trail(consumed)
    assert (entry["action"], entry["result"]) == ("group.reset", "done")
    assert json.loads(entry["before_json"])["queues"] == [["orders", 0, 3]]
    assert json.loads(entry["after_json"])["queues"] == [["orders", 0, 0]]


async def test_offsets_that_moved_answer_409_with_a_fresh_preview(consumed: App) -> None:
    preview = await consumed.post(f"{PATH}/preview", EARLIEST)
    (got,) = await consumed.receive("billing", "orders")
    await consumed.post("/groups/billing/ack", {"receipts": [got["receipt"]]})
    order = {**EARLIEST, "precondition": preview["precondition"]}
    problem = await consumed.post(PATH, order, 409)
    assert problem["code"] == "offsets_moved"
    assert problem["preview"]["queues"][0]["current"] == "4"
    assert await committed(consumed) == "4"
    assert [entry["result"] for entry in await trail(consumed)] == ["offsets_moved"]
    order["precondition"] = problem["preview"]["precondition"]
    await consumed.post(PATH, order, 201)
    assert await committed(consumed) == "0"


@pytest.mark.capabilities("reset_history")
async def test_an_undo_where_the_group_went_on_answers_409_until_it_was_looked_at(
    consumed: App,
) -> None:
    await consumed.post(PATH, {**EARLIEST, "force": True}, 201)
    consumed.clock.advance(1)  # a receipt of the same message tells when it was delivered
    (got,) = await consumed.receive("billing", "orders")
    await consumed.post("/groups/billing/ack", {"receipts": [got["receipt"]]})
    problem = await consumed.post(f"{PATH}/1/undo", {}, 409)
    wanted = {"precondition": problem["preview"]["precondition"]}
    await consumed.post(f"{PATH}/1/undo", wanted, 201)
    assert await committed(consumed) == "3"


@pytest.mark.parametrize(
    ("place", "offset"),
    [
        ({"to": "latest"}, "4"),
        ({"to": "offset", "offset": "2"}, "2"),
        ({"to": "offset", "offset": 2}, "2"),
        ({"to": "shift", "by": -2}, "1"),
        ({"to": "time", "time_ms": 0}, "0"),
        ({"to": "group", "from_group": "other"}, "1"),
    ],
)
async def test_every_kind_of_place_can_be_reached(
    consumed: App, place: dict[str, object], offset: str
) -> None:
    (got,) = await consumed.receive("other", "orders")
    await consumed.post("/groups/other/ack", {"receipts": [got["receipt"]]})
    await consumed.post(PATH, {"topics": ["orders"], **place, "force": True, "queues": [0]}, 201)
    assert await committed(consumed) == offset


@pytest.mark.parametrize(
    ("order", "field", "status"),
    [
        ({"to": "time"}, "time_ms", 422),
        ({"to": "offset", "offset": "x"}, "offset", 422),
        ({"to": "offset", "offset": -1}, "offset", 422),
        ({"to": "earliest", "by": 3}, "by", 422),
        ({"to": "group"}, "from_group", 422),
        ({"to": "latest", "from_group": "x"}, "from_group", 422),
        ({"to": "noon"}, "to", 422),
        ({"to": "latest", "queues": [9]}, "queues", 404),
        ({"to": "latest"}, "precondition", 422),
    ],
)
async def test_what_is_wrong_is_named(
    consumed: App, order: dict[str, object], field: str, status: int
) -> None:
    problem = await consumed.post(PATH, {"topics": ["orders"], **order}, status)
    assert problem["errors"][0]["field"] == field
    assert await committed(consumed) == "3"


async def test_a_commit_that_a_reset_forbids_answers_409_until_the_group_has_pulled(
    consumed: App,
) -> None:
    await consumed.post(PATH, {**EARLIEST, "force": True}, 201)
    body = {"topic": "orders", "queue": 0, "offset": "4"}
    refused = await consumed.http.put("/api/v1/groups/billing/offsets", json=body)
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (409, "offset")
    pulled = await consumed.get("/topics/orders/messages?queue=0&offset=4&group=billing")
    assert (pulled["status"], pulled["next_offset"]) == ("offset_reset", "0")
    allowed = await consumed.http.put("/api/v1/groups/billing/offsets", json=body)
    assert allowed.status_code == 204


async def test_a_receive_that_waits_gets_what_a_reset_brings_back(consumed: App) -> None:
    got = await consumed.receive("billing", "orders")
    await consumed.post("/groups/billing/ack", {"receipts": [each["receipt"] for each in got]})
    waiting = asyncio.ensure_future(consumed.receive("billing", "orders", max=10, wait_ms=10_000))
    await consumed.until_parked()
    await consumed.post(PATH, {**EARLIEST, "force": True}, 201)
    assert [each["body"] for each in await waiting] == ["a", "b", "c", "d"]


@pytest.mark.capabilities("reset_history")
async def test_the_history_comes_in_pages(consumed: App) -> None:
    for _ in range(5):
        await consumed.post(PATH, {**EARLIEST, "force": True}, 201)
    first = await consumed.get(f"{PATH}?limit=3")
    rest = await consumed.get(f"{PATH}?limit=3&cursor={first['next_cursor']}")
    assert [each["id"] for each in first["items"] + rest["items"]] == ["5", "4", "3", "2", "1"]
    assert rest["next_cursor"] is None
    await consumed.get(f"{PATH}?cursor=x", 422)
    await consumed.get("/groups/nobody/resets", 404)
