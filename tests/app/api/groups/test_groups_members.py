"""Members over REST: heartbeats, receives that count as such, shares of queues, queue locks."""

from typing import Any

import pytest

from tests.app.conftest import App, Starter

pytestmark = [pytest.mark.anyio, pytest.mark.makers, pytest.mark.capabilities("member_shares")]


async def beat(app: App, client: str, status: int = 200, **said: object) -> Any:
    said = {"topics": {"orders": "*"}, **said}
    return await app.post("/groups/g/members/heartbeat", {"client": client, **said}, status)


async def names(app: App) -> list[str]:
    return [item["client"] for item in (await app.get("/groups/g/members"))["items"]]


async def share(app: App, client: str, query: str = "") -> Any:
    return await app.get(f"/groups/g/assignment?topic=orders&client={client}{query}")


async def topic(app: App, queues: int = 4) -> None:
    new = {"name": "orders", "read_queues": queues, "write_queues": queues}
    await app.post("/topics", new, 201)


async def test_a_heartbeat_makes_a_member_until_its_time_is_over(running: App) -> None:
    answer = await beat(running, "w1", version="5.3.0", language="JAVA")
    assert answer == {
        "group": "g",
        "client": "w1",
        "timeout_ms": 120_000,
        "members": 1,
        "warnings": [],
    }
    page = await running.get("/groups/g/members")
    now_ms = running.clock.now_ms()
    assert page["items"] == [
        {
            "client": "w1",
            "version": "5.3.0",
            "language": "JAVA",
            "address": "127.0.0.1:50000",
            "topics": {"orders": "*"},
            "is_pulling": True,
            "is_connected": False,
            "joined_ms": now_ms,
            "seen_ms": now_ms,
        }
    ]
    assert (page["total"], page["subscription"]) == (1, {"orders": "*"})
    assert (await running.get("/groups/g"))["members"] == 1
    running.advance(120)
    assert await names(running) == []


async def test_members_leave_with_their_locks(running: App) -> None:
    await topic(running)
    await beat(running, "w1")
    queues = [{"topic": "orders", "queue": 0}]
    await running.post("/groups/g/locks", {"client": "w1", "queues": queues})
    answer = await running.http.delete("/api/v1/groups/g/members?client=w1")
    assert answer.status_code == 204
    assert await names(running) == []
    assert (await running.get("/groups/g/locks"))["total"] == 0
    assert (await running.http.delete("/api/v1/groups/x/members?client=w1")).status_code == 404


async def test_receiving_and_settling_under_a_name_is_a_sign_of_life(running: App) -> None:
    await running.send("orders", "a", "b")
    await running.receive("g", "orders")
    assert await names(running) == [], "nobody was named"
    [given] = await running.receive("g", "orders", client="w1", filter="")
    [member] = (await running.get("/groups/g/members"))["items"]
    assert (member["client"], member["topics"]) == ("w1", {"orders": "*"})
    assert not member["is_pulling"]
    receipts = {"receipts": [given["receipt"]], "client": "w1"}
    for verb in ("extend", "release", "ack", "nack"):
        running.advance(100)
        more: dict[str, object] = {"invisible_ms": 100_000} if verb == "extend" else {}
        body: dict[str, object] = {**receipts, **more}
        if verb == "nack":
            body = {"nacks": [{"receipt": given["receipt"]}], "client": "w1"}
        await running.post(f"/groups/g/{verb}", body)
        assert await names(running) == ["w1"], verb
    running.advance(120)
    assert await names(running) == []


async def test_members_come_in_pages(running: App) -> None:
    for number in range(5):
        await beat(running, f"w{number}")
    first = await running.get("/groups/g/members?limit=3")
    rest = await running.get(f"/groups/g/members?limit=3&cursor={first['next_cursor']}")
    found = [item["client"] for item in first["items"] + rest["items"]]
    assert found == ["w0", "w1", "w2", "w3", "w4"]
    assert (first["total"], rest["next_cursor"]) == (5, None)


async def test_members_that_differ_are_warned_of_by_name(running: App) -> None:
    await beat(running, "w1", topics={"orders": "a"})
    answer = await beat(running, "w2", topics={"orders": "b"})
    [warning] = answer["warnings"]
    assert warning["code"] == "subscriptions_differ"
    assert warning["variants"] == [
        {"topics": {"orders": "a"}, "clients": ["w1"], "count": 1},
        {"topics": {"orders": "b"}, "clients": ["w2"], "count": 1},
    ]
    assert "w1 to orders (a); w2 to orders (b)" in warning["detail"]
    page = await running.get("/groups/g/members")
    assert page["warnings"] == [warning]
    assert page["subscription"] == {"orders": "b"}
    await beat(running, "w1", topics={"orders": "b"})
    assert (await running.get("/groups/g/members"))["warnings"] == []


async def test_queues_are_shared_out_to_who_sends_heartbeats(running: App) -> None:
    await topic(running, 5)
    for client in ("w2", "w1"):
        await beat(running, client)
    assert await share(running, "w1") == {
        "group": "g",
        "topic": "orders",
        "client": "w1",
        "strategy": "average",
        "mode": "clustering",
        "is_member": True,
        "queues": [0, 1, 2],
        "clients": ["w1", "w2"],
    }
    assert (await share(running, "w2"))["queues"] == [3, 4]
    assert (await share(running, "w2", "&strategy=circle"))["queues"] == [1, 3]
    stranger = await share(running, "w3")
    assert (stranger["is_member"], stranger["queues"]) == (False, [])
    problem = await running.get("/groups/g/assignment?topic=orders&client=a&strategy=x", 422)
    assert problem["errors"][0]["field"] == "strategy"
    await running.get("/groups/g/assignment?topic=nothing&client=w1", 404)


async def test_in_a_broadcast_everybody_has_every_queue(running: App) -> None:
    await topic(running)
    await running.post("/groups", {"name": "g", "mode": "broadcast"}, 201)
    for client in ("w1", "w2"):
        await beat(running, client)
        assert (await share(running, client))["queues"] == [0, 1, 2, 3]


async def test_a_machine_room_goes_by_the_brokers_name(start: Starter) -> None:
    async with start(broker_name="hz@kitemq") as app:
        await topic(app)
        await app.post("/groups", {"name": "g", "strategy": "machine_room", "rooms": ["hz"]}, 201)
        await beat(app, "w1")
        assert (await share(app, "w1"))["queues"] == [0, 1, 2, 3]
        await app.http.patch("/api/v1/groups/g", json={"rooms": ["sh"]})
        assert (await share(app, "w1"))["queues"] == []


async def test_locks_are_given_kept_listed_and_freed(running: App) -> None:
    await topic(running)
    queues = [{"topic": "orders", "queue": number} for number in range(3)]
    first = await running.post("/groups/g/locks", {"client": "w1", "queues": queues[:2]})
    now_ms = running.clock.now_ms()
    assert first == {"locked": queues[:2], "lease_ms": 60_000, "read_until_ms": now_ms + 30_000}
    second = await running.post("/groups/g/locks", {"client": "w2", "queues": queues})
    assert second["locked"] == queues[2:]
    listed = await running.get("/groups/g/locks?topic=orders&limit=1")
    assert listed["total"] == 3
    assert listed["items"] == [
        {"topic": "orders", "queue": 0, "client": "w1", "until_ms": now_ms + 60_000}
    ]
    freed = await running.post("/groups/g/unlocks", {"client": "w1", "queues": queues})
    assert freed["unlocked"] == queues[:2]
    running.advance(60)
    assert (await running.get("/groups/g/locks"))["items"] == []
    wrong = {"client": "w1", "queues": [*queues, {"topic": "orders", "queue": 9}]}
    problem = await running.post("/groups/g/locks", wrong, 404)
    assert (problem["code"], problem["errors"][0]["field"]) == (
        "queue_not_found",
        "queues[3].queue",
    )


async def test_locking_is_a_sign_of_life(running: App) -> None:
    await topic(running)
    queues = [{"topic": "orders", "queue": 0}]
    for _ in range(3):
        await running.post("/groups/g/locks", {"client": "w1", "queues": queues})
        running.advance(100)
    assert await names(running) == ["w1"]


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"client": ""}, "client"),
        ({"topics": {"orders": "||"}}, "topics.orders"),
        ({"topics": {"a b": "*"}}, "topics"),
        ({"version": "x" * 256}, "version"),
        ({"pid": 7}, "pid"),
    ],
)
async def test_a_heartbeat_that_cannot_be_is_named(
    running: App, said: dict[str, object], field: str
) -> None:
    problem = await running.post("/groups/g/members/heartbeat", {"client": "w1", **said}, 422)
    assert problem["errors"][0]["field"] == field
