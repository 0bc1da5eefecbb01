"""What a group can be told over REST: mode, start, retries, sharing; pause and resume."""

import asyncio
from typing import Any

import pytest

from tests.app.conftest import App

pytestmark = [pytest.mark.anyio, pytest.mark.makers]


async def create(app: App, name: str = "g", status: int = 201, **settings: object) -> Any:
    return await app.post("/groups", {"name": name, **settings}, status)


async def change(app: App, status: int = 200, **settings: object) -> Any:
    answer = await app.http.patch("/api/v1/groups/g", json=settings)
    assert answer.status_code == status, answer.text
    return answer.json()


async def one_queue(app: App) -> None:
    await app.post("/topics", {"name": "orders", "read_queues": 1, "write_queues": 1}, 201)


def bodies(deliveries: list[Any]) -> list[str]:
    return [each["body"] for each in deliveries]


@pytest.mark.capabilities("group_policies")
async def test_every_setting_is_kept_shown_and_changed(running: App) -> None:
    settings = {
        "mode": "broadcast",
        "start": "time",
        "start_at_ms": 1_600_000_000_000,
        "retry_policy": {"kind": "exponential", "initial_ms": 100, "max_ms": 900, "multiplier": 3},
        "strategy": "machine_room",
        "rooms": ["hz"],
        "ordered": True,
    }
    created = await create(running, **settings)
    assert {name: created[name] for name in settings} == settings
    assert await running.get("/groups/g") == created
    changed = await change(
        running,
        mode="clustering",
        start="rocketmq",
        retry_policy={"kind": "steps", "delays_ms": [1, 2]},
        strategy="circle",
        ordered=False,
    )
    assert changed["ordered"] is False
    assert (changed["mode"], changed["start"], changed["start_at_ms"]) == (
        "clustering",
        "rocketmq",
        0,
    )
    assert changed["retry_policy"] == {"kind": "steps", "delays_ms": [1, 2]}
    assert changed["strategy"] == "circle"
    assert changed["rooms"] == ["hz"]


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"mode": "both"}, "mode"),
        ({"ordered": "yes"}, "ordered"),
        ({"start": "time"}, "start_at_ms"),
        ({"start": "middle"}, "start"),
        ({"retry_policy": {"kind": "random"}}, "retry_policy.kind"),
        ({"retry_policy": {"kind": "steps"}}, "retry_policy.delays_ms"),
        ({"retry_policy": {"kind": "steps", "delays_ms": []}}, "retry_policy.delays_ms"),
        ({"retry_policy": {"kind": "exponential", "initial_ms": 0}}, "retry_policy.initial_ms"),
        ({"retry_policy": {"kind": "exponential", "multiplier": 0}}, "retry_policy.multiplier"),
        ({"retry_policy": {"kind": "exponential", "first_ms": 1}}, "retry_policy.first_ms"),
        ({"strategy": "machine_room"}, "rooms"),
        ({"strategy": "machine_room", "rooms": ["a@b"]}, "rooms"),
        ({"rooms": ["\n"]}, "rooms"),
        ({"start": "time", "start_at_ms": 1 << 70}, "start_at_ms"),
    ],
)
async def test_a_setting_that_cannot_be_is_named(
    running: App, settings: dict[str, object], field: str
) -> None:
    problem = await create(running, status=422, **settings)
    assert problem["errors"][0]["field"] == field
    assert (await running.get("/groups"))["total"] == 0


async def test_a_group_is_paused_and_resumed_and_both_are_in_the_trail(running: App) -> None:
    await one_queue(running)
    await running.send("orders", "a")
    await create(running)
    paused = await running.post("/groups/g/pause", None)
    assert (paused["paused"], paused["consume_enabled"]) == (True, False)
    problem = await running.post("/groups/g/receive", {"topic": "orders"}, 403)
    assert problem["code"] == "forbidden"
    resumed = await running.post("/groups/g/resume", None)
    assert (resumed["paused"], resumed["consume_enabled"]) == (False, True)
    assert bodies(await running.receive("g", "orders")) == ["a"]
    entries = (await running.get("/audit?object_kind=group"))["items"]
    assert [entry["action"] for entry in entries] == ["group.resume", "group.pause", "group.create"]
    await running.post("/groups/nobody/pause", None, 404)


@pytest.mark.capabilities("group_policies")
async def test_one_topic_of_a_group_is_paused(running: App) -> None:
    await running.send("orders", "a")
    await running.send("other", "b")
    await create(running)
    paused = await running.post("/groups/g/pause?topic=orders", None)
    assert (paused["paused"], paused["paused_topics"]) == (False, ["orders"])
    both = {"topics": {"orders": "*", "other": "*"}, "max": 10}
    got = await running.post("/groups/g/receive", both)
    assert bodies(got["deliveries"]) == ["b"]
    await running.post("/groups/g/receive", {"topic": "orders"}, 403)
    assert (await running.post("/groups/g/resume?topic=orders", None))["paused_topics"] == []
    assert bodies(await running.receive("g", "orders")) == ["a"]


async def test_a_long_poll_that_waits_is_told_of_the_pause(running: App) -> None:
    await one_queue(running)
    await create(running)
    polling = asyncio.ensure_future(
        running.post("/groups/g/receive", {"topic": "orders", "wait_ms": 30_000}, 403)
    )
    await running.until_parked()
    await running.post("/groups/g/pause", None)
    assert (await polling)["errors"][0]["remedy"] == "resume it"


@pytest.mark.capabilities("group_policies")
async def test_a_broadcast_gives_every_client_everything_and_wants_their_names(
    running: App,
) -> None:
    await one_queue(running)
    await running.send("orders", "a", "b")
    await create(running, mode="broadcast")
    problem = await running.post("/groups/g/receive", {"topic": "orders"}, 422)
    assert problem["errors"][0]["field"] == "client"
    first = await running.receive("g", "orders", client="one", max=10)
    second = await running.receive("g", "orders", client="two", max=10)
    assert bodies(first) == bodies(second) == ["a", "b"]
    receipts = [each["receipt"] for each in (*first, second[0])]
    settled = await running.post("/groups/g/ack", {"receipts": receipts})
    assert [each["result"] for each in settled["results"]] == ["done"] * 3
    assert await running.receive("g", "orders", client="one") == []
    assert (await running.get("/groups/g/lag"))["count"] == 1
    offsets = await running.get("/groups/g/offsets?topic=orders&client=two")
    assert offsets["queues"][0]["offset"] == "1"


@pytest.mark.capabilities("group_policies")
async def test_a_broadcast_wakes_every_long_poll(running: App) -> None:
    await one_queue(running)
    await create(running, mode="broadcast")
    polls = [
        asyncio.ensure_future(running.receive("g", "orders", client=client, wait_ms=30_000))
        for client in ("one", "two")
    ]
    while running.app.services.host.waiting_count < 2:
        await asyncio.sleep(0)
    await running.send("orders", "a")
    assert [bodies(got) for got in await asyncio.gather(*polls)] == [["a"], ["a"]]


@pytest.mark.capabilities("group_policies")
async def test_a_broadcast_client_that_pulls_commits_for_itself(running: App) -> None:
    await one_queue(running)
    await running.send("orders", "a", "b")
    await create(running, mode="broadcast", start="latest")
    new = {"topic": "orders", "queue": 0, "offset": "1"}
    answer = await running.http.put("/api/v1/groups/g/offsets", json=new)
    assert answer.json()["errors"][0]["field"] == "client"
    answer = await running.http.put("/api/v1/groups/g/offsets", json={**new, "client": "one"})
    assert answer.status_code == 204
    queue = (await running.get("/groups/g/offsets?topic=orders&client=one"))["queues"][0]
    assert queue["offset"] == "1"


@pytest.mark.capabilities("group_policies")
async def test_offsets_say_where_a_pulling_consumer_begins(running: App) -> None:
    await one_queue(running)
    await running.send("orders", "a", "b")
    await create(running, start="latest")
    [queue] = (await running.get("/groups/g/offsets?topic=orders"))["queues"]
    assert queue == {"queue": 0, "offset": None, "start": "2"}
    await change(running, start="rocketmq")
    [queue] = (await running.get("/groups/g/offsets?topic=orders"))["queues"]
    assert queue["start"] == "0", "the topic is young"


@pytest.mark.capabilities("group_policies")
async def test_exact_retries_come_back_to_the_millisecond(running: App) -> None:
    await one_queue(running)
    await create(running, retry_policy={"kind": "steps", "delays_ms": [1234]})
    await running.send("orders", "a")
    [given] = await running.receive("g", "orders")
    await running.post("/groups/g/nack", {"nacks": [{"receipt": given["receipt"]}]})
    running.advance(1.233)
    assert await running.receive("g", "orders") == []
    running.advance(0.001)
    [again] = await running.receive("g", "orders")
    assert again["attempt"] == 2
