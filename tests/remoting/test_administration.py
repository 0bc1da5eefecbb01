"""Requests of administration tools, without any tool in between."""

import pytest

from protocol.remoting.codes import RequestCode
from tests.remoting.port import Client, Running

pytestmark = pytest.mark.anyio


async def test_statistics_by_queue_have_objects_as_keys(client: Client) -> None:
    await client.send("orders", b"x", queue=0)
    answer = await client.ok(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "orders"})
    assert answer.body.startswith(
        b'{"offsetTable":{{"brokerName":"kitemq","queueId":0,"topic":"orders"}:{"minOffset":0,'
    )


async def test_a_reset_is_told_to_connected_consumers(running: Running, client: Client) -> None:
    await client.send("orders", b"x", queue=0)
    await client.beat("c1", "billing")
    place = {"consumerGroup": "billing", "topic": "orders", "queueId": 0}
    await client.ok(RequestCode.UPDATE_CONSUMER_OFFSET, place | {"commitOffset": 1})
    fields = {"topic": "orders", "group": "billing", "timestamp": 0, "isForce": "true"}
    await client.ok(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)
    told = await client.until_told(RequestCode.RESET_CONSUMER_CLIENT_OFFSET)
    assert b'"queueId":0,"topic":"orders"}:0' in told.body
    assert running.broker.committed_offset("billing", "orders", 0) == 0


async def test_an_ordered_group_is_one_that_consumes_orderly(
    running: Running, client: Client
) -> None:
    async def told() -> bool:
        shape = await client.document(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "books"})
        tables = await client.document(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, {})
        listed = tables["subscriptionGroupTable"]["books"]["consumeMessageOrderly"]
        ordered = running.broker.group("books").ordered
        assert shape["consumeMessageOrderly"] == listed == ordered
        return ordered

    update = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    for body, is_ordered in (
        (b'{"groupName":"books","consumeMessageOrderly":true}', True),
        (b'{"groupName":"books","retryMaxTimes":3}', True),
        (b'{"groupName":"books","consumeMessageOrderly":false}', False),
        (b'{"groupName":"books","consumeMessageOrderly":true}', True),
    ):
        await client.ok(update, {}, body)
        assert await told() == is_ordered, body
