"""Request and reply over REST: the answer, the time-out, and what comes too late."""

import asyncio
from typing import Any

import httpx
import pytest

from tests.app.conftest import LIMIT_S, App, Starter
from tests.app.network.test_leaving import scope_of

pytestmark = [pytest.mark.anyio, pytest.mark.makers]


def asking(app: App, body: str = "q", **given: Any) -> "asyncio.Task[httpx.Response]":
    """A request under way."""
    document = {"message": {"body": body}, "timeout_ms": 5000, **given}
    return asyncio.create_task(app.http.post("/api/v1/topics/prices/request", json=document))


async def waiting(app: App, count: int) -> None:
    """Until so many requests wait in the engine."""
    async with asyncio.timeout(LIMIT_S):
        while app.app.services.messaging.requests.counts.waiting != count:
            await asyncio.sleep(0.001)


async def taken(app: App, count: int = 1) -> list[Any]:
    return await app.receive("shop", "prices", max=count)


async def reply(app: App, status: int = 200, **given: Any) -> Any:
    return await app.post("/replies", {"body": "a", **given}, status)


async def test_a_request_is_answered_with_its_reply(running: App) -> None:
    task = asking(running, "tea", client="till-3")
    await waiting(running, 1)
    (received,) = await taken(running)
    properties = received["properties"]
    assert properties["TTL"] == "5000"
    replied = await reply(
        running, receipt=received["receipt"], body="3.50", tag="t", properties={"x": "y"}
    )
    assert replied["result"] == "delivered"
    answer = await task
    assert answer.status_code == 200
    document = answer.json()
    assert document["message_id"] == received["message_id"]
    assert document["correlation_id"] == properties["CORRELATION_ID"]
    got = document["reply"]
    assert (got["body"], got["tag"], got["message_id"]) == ("3.50", "t", replied["message_id"])
    assert got["properties"].items() >= {"x": "y", "MSG_TYPE": "reply"}.items()
    kept = await running.get(f"/replies/{document['correlation_id']}")
    assert (kept["late"], kept["reply"]["body"]) == (False, "3.50")


async def test_a_time_out_names_the_correlation_id_and_a_late_reply_is_kept(running: App) -> None:
    task = asking(running, timeout_ms=500)
    await waiting(running, 1)
    (received,) = await taken(running)
    correlation_id = received["properties"]["CORRELATION_ID"]
    running.advance(0.5)
    answer = await task
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (504, "timeout")
    assert problem["correlation_id"] == correlation_id
    assert correlation_id in problem["detail"]
    assert (await running.get(f"/replies/{correlation_id}", 404))["code"] == "message_not_found"
    assert (await reply(running, correlation_id=correlation_id))["result"] == "late"
    kept = await running.get(f"/replies/{correlation_id}")
    assert (kept["late"], kept["reply"]["body"]) == (True, "a")
    assert (await running.get("/requests"))["expired"] == 1


@pytest.mark.apache
async def test_a_request_that_is_retried_can_still_be_answered_by_its_receipt(
    running: App,
) -> None:
    task = asking(running, timeout_ms=30_000)
    await waiting(running, 1)
    (failed,) = await taken(running)
    await running.post("/groups/shop/nack", {"nacks": [{"receipt": failed["receipt"]}]})
    running.advance(15)
    (again,) = await taken(running)
    assert again["attempt"] == 2
    assert (await reply(running, receipt=again["receipt"]))["result"] == "delivered"
    assert (await task).status_code == 200


async def test_a_second_reply_is_answered_already(running: App) -> None:
    task = asking(running, correlation_id="price-1")
    await waiting(running, 1)
    assert (await reply(running, correlation_id="price-1", body="1"))["result"] == "delivered"
    second = await reply(running, correlation_id="price-1", body="2")
    assert (second["result"], second["message_id"]) == ("already", None)
    assert (await task).json()["reply"]["body"] == "1"


async def test_a_requester_that_goes_leaves_a_late_reply(running: App) -> None:
    task = asking(running, correlation_id="price-1")
    await waiting(running, 1)
    task.cancel()
    await waiting(running, 0)
    assert (await reply(running, correlation_id="price-1"))["result"] == "late"
    assert (await running.get("/replies/price-1"))["late"] is True
    assert (await running.get("/requests"))["cancelled"] == 1


async def test_a_requester_whose_http_connection_closes_leaves_a_late_reply(running: App) -> None:
    body = b'{"message": {"body": "q"}, "timeout_ms": 30000, "correlation_id": "price-2"}'
    gone = asyncio.Event()
    heard = [{"type": "http.request", "body": body}]

    async def receive() -> Any:
        if heard:
            return heard.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        raise AssertionError(f"nobody is there for {message}")

    request = asyncio.create_task(
        running.app(scope_of("/api/v1/topics/prices/request", body), receive, send)
    )
    await waiting(running, 1)
    gone.set()
    await request
    assert (await running.get("/requests"))["waiting"] == 0
    assert (await reply(running, correlation_id="price-2"))["result"] == "late"


async def test_a_restart_between_request_and_reply_makes_it_late(start: Starter) -> None:
    async with start() as app:
        task = asking(app, correlation_id="price-1")
        await waiting(app, 1)
        (received,) = await taken(app)
        app.app.services.host.drain()
        answer = await task
        assert (answer.status_code, answer.json()["code"]) == (503, "stopping")
    async with start() as app:
        assert (await reply(app, receipt=received["receipt"]))["result"] == "late"
        assert (await reply(app, receipt=received["receipt"]))["result"] == "already"
        kept = await app.get("/replies/price-1")
        assert kept["late"] is True


async def test_a_thousand_requests_at_once_get_each_their_own(start: Starter) -> None:
    async with start(client_requests_max=2000) as app:
        tasks = [asking(app, str(number), timeout_ms=30_000) for number in range(1000)]
        await waiting(app, 1000)
        count = 0
        while count < 1000:
            received = await taken(app, 200)
            for each in reversed(received):
                await reply(app, receipt=each["receipt"], body=f"re {each['body']}")
            count += len(received)
        for number, task in enumerate(tasks):
            assert (await task).json()["reply"]["body"] == f"re {number}"


async def test_waiting_requests_are_bounded(start: Starter) -> None:
    async with start(requests_waiting_max=1) as app:
        first = asking(app, correlation_id="a")
        await waiting(app, 1)
        refused = await asking(app)
        assert (refused.status_code, refused.json()["code"]) == (503, "busy")
        await reply(app, correlation_id="a")
        assert (await first).status_code == 200


async def test_a_request_blocks_nobody_else(running: App) -> None:
    task = asking(running)
    await waiting(running, 1)
    await running.send("prices", "plain")
    assert len(await taken(running, 2)) == 2
    task.cancel()


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"message": {"body": ""}}, "message.body"),
        ({"message": {"body": "?", "encoding": "base64"}}, "message.body"),
        ({"message": {"body": "x", "id": "a-b"}}, "message.id"),
        ({"message": {"body": "x", "properties": {"TTL": "1"}}}, "message.properties.TTL"),
        ({"message": {"body": "x"}, "timeout_ms": 30_001}, "timeout_ms"),
        ({"message": {"body": "x"}, "correlation_id": "a b"}, "correlation_id"),
        ({"message": {"body": "x"}, "client": "a\n"}, "client"),
        ({}, "message"),
    ],
)
async def test_a_wrong_request_names_its_field(running: App, document: Any, field: str) -> None:
    problem = await running.post("/topics/prices/request", document, 422)
    assert problem["errors"][0]["field"] == field


@pytest.mark.parametrize(
    ("given", "status", "field"),
    [
        ({}, 422, "correlation_id"),
        ({"correlation_id": "a", "receipt": "prices:0:0:1"}, 422, "correlation_id"),
        ({"receipt": "nonsense"}, 422, "receipt"),
        ({"receipt": "prices:0:0:1"}, 422, "receipt"),
        ({"receipt": "prices:0:99:1"}, 404, "offset"),
        ({"correlation_id": "a", "body": ""}, 422, "body"),
        ({"correlation_id": "a", "properties": {"MSG_TYPE": "x"}}, 422, "properties.MSG_TYPE"),
        ({"correlation_id": "a", "properties": {"x": "y" * 32_700}}, 422, "properties"),
    ],
)
async def test_a_wrong_reply_names_its_field(
    running: App, given: Any, status: int, field: str
) -> None:
    await running.send("prices", "plain", queue=0)
    problem = await reply(running, status, **given)
    assert problem["errors"][0]["field"] == field
