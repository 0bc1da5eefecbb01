"""Requests and replies, and recalls, over raw frames."""

import asyncio
import zlib
from base64 import urlsafe_b64encode
from typing import Any

import pytest

from engine.broker import TopicConfig
from protocol.remoting.codes import RequestCode, ResponseCode
from tests.remoting.port import Client, Running, sending

pytestmark = pytest.mark.anyio

REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"
ASKED = "CORRELATION_ID\x01id-1\x02REPLY_TO_CLIENT\x01asker\x02TTL\x0120000\x02color\x01red"


async def reply(client: Client, correlation_id: str, body: bytes, **more: Any) -> Any:
    properties = f"CORRELATION_ID\x01{correlation_id}\x02REPLY_TO_CLIENT\x01asker\x02a\x01b"
    fields = sending(REPLY_TOPIC, properties=properties, **more)
    return await client.ask(RequestCode.SEND_REPLY_MESSAGE_V2, fields, body)


async def test_a_reply_is_pushed_to_its_requester(client: Client, running: Running) -> None:
    answer = await client.send("prices", b"tea?", properties=ASKED)
    assert {"msgId", "queueId", "queueOffset"} <= answer.fields.keys()
    stored = running.broker.message("prices", int(answer.fields["queueId"]), 0)
    assert stored.properties["CLUSTER"] == "DefaultCluster"
    assert stored.properties["color"] == "red"
    other = await running.connect()
    assert (await reply(other, "id-1", b"3.50")).code == ResponseCode.SUCCESS
    pushed = await client.until_told(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT)
    assert pushed.body == b"3.50"
    assert "CORRELATION_ID\x01id-1" in pushed.fields["properties"]
    assert "a\x01b" in pushed.fields["properties"]


async def test_a_reply_that_a_client_compressed_is_pushed_and_kept_as_it_was(
    client: Client, running: Running
) -> None:
    await client.send("prices", b"tea?", properties=ASKED)
    assert (await reply(client, "id-1", zlib.compress(b"x" * 9000), f=1)).code == 0
    pushed = await client.until_told(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT)
    assert pushed.body == b"x" * 9000
    assert pushed.fields["sysFlag"] == "0"
    broken = await reply(client, "id-2", b"no zlib", f=1)
    assert broken.code == ResponseCode.MESSAGE_ILLEGAL


async def test_a_reply_over_rest_reaches_a_classic_requester(
    client: Client, running: Running
) -> None:
    await client.send("prices", b"tea?", properties=ASKED)
    new = {"correlation_id": "id-1", "body": "3.50"}
    assert (await running.http.post("/api/v1/replies", json=new)).status_code == 200
    pushed = await client.until_told(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT)
    assert pushed.body == b"3.50"


async def test_a_classic_reply_reaches_a_requester_over_rest(
    client: Client, running: Running
) -> None:
    running.broker.create_topic(TopicConfig("prices"))
    asking = asyncio.create_task(
        running.http.post(
            "/api/v1/topics/prices/request",
            json={"message": {"body": "tea?"}, "timeout_ms": 20_000, "correlation_id": "id-9"},
        )
    )
    await running.until_parked()
    assert (await reply(client, "id-9", b"3.50")).code == ResponseCode.SUCCESS
    assert "3.50" in (await asking).text


async def test_a_requester_that_came_back_gets_its_reply(client: Client, running: Running) -> None:
    await client.beat("asker", producers=("p",))
    await client.send("prices", b"tea?", properties=ASKED)
    client.writer.transport.abort()
    back = await running.connect()
    await back.beat("asker", producers=("p",))
    while len(running.port.backend.connections) > 1:
        await asyncio.sleep(0.01)
    await reply(back, "id-1", b"3.50")
    assert (await back.until_told(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT)).body == b"3.50"


async def test_a_reply_that_nobody_waits_for_is_refused_and_kept(
    client: Client, running: Running
) -> None:
    assert (await reply(client, "id-7", b"late")).code == ResponseCode.SYSTEM_ERROR
    assert (await running.http.get("/api/v1/replies/id-7")).status_code == 200
    no_id = await client.ask(RequestCode.SEND_REPLY_MESSAGE_V2, sending(REPLY_TOPIC), b"x")
    assert no_id.code == ResponseCode.MESSAGE_ILLEGAL


async def test_the_reply_topic_has_a_route_before_the_first_reply(client: Client) -> None:
    route = await client.document(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": REPLY_TOPIC})
    assert route["queueDatas"][0]["writeQueueNums"] >= 1


async def recall(client: Client, handle: str, topic: str = "orders") -> int:
    fields = {"producerGroup": "p", "topic": topic, "recallHandle": handle}
    return (await client.ask(RequestCode.RECALL_MESSAGE, fields)).code


async def test_a_recalled_message_is_never_delivered(client: Client, running: Running) -> None:
    due = "UNIQ_KEY\x01ID1\x02TIMER_DELAY_SEC\x0160"
    handle = (await client.send("orders", b"one", properties=due)).fields["recallHandle"]
    assert await recall(client, handle, "other") == ResponseCode.TOPIC_NOT_EXIST
    assert await recall(client, handle) == ResponseCode.SUCCESS
    assert await recall(client, handle) == ResponseCode.SUCCESS
    running.advance(120)
    assert all(running.broker.queue_bounds("orders", queue) == (0, 0) for queue in range(4))


async def test_only_messages_that_wait_for_a_time_can_be_recalled(
    client: Client, running: Running
) -> None:
    for properties in ("", "DELAY\x013", "DELAY\x013\x02TIMER_DELAY_SEC\x0160"):
        assert (
            "recallHandle" not in (await client.send("orders", b"x", properties=properties)).fields
        )
    due = "UNIQ_KEY\x01ID1\x02TIMER_DELAY_SEC\x011"
    handle = (await client.send("orders", b"one", properties=due)).fields["recallHandle"]
    running.advance(5)
    unknown = urlsafe_b64encode(b"v1 orders kitemq 1 nothing").decode()
    other = urlsafe_b64encode(b"v1 prices kitemq 1 ID1").decode()
    for each in (handle, unknown, other, "?", ""):
        assert await recall(client, each) == ResponseCode.ILLEGAL_OPERATION, each
