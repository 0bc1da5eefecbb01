"""Requests of administration tools, without any tool in between."""

import json

import pytest

from protocol.remoting.codes import Flag, RequestCode, ResponseCode
from protocol.remoting.frames import Command, encode
from protocol.remoting.loose_json import raw_member
from tests.remoting.port import Client, Running, records

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


GROUPS = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP


async def committed(client: Client, group: str, offset: int, queue: int = 0) -> None:
    place = {"consumerGroup": group, "topic": "orders", "queueId": queue, "commitOffset": offset}
    await client.ok(RequestCode.UPDATE_CONSUMER_OFFSET, place)


async def answered(client: Client, asked: int, code: int, body: bytes) -> Command:
    """The answer to a request that the server has the same client answer first."""
    question = await client.until_told(code)
    client.writer.write(encode(Command(0, question.opaque, Flag.RESPONSE, body=body)))
    return await client.answer(asked)


async def test_a_topic_that_is_not_there_is_deleted_without_an_error(client: Client) -> None:
    await client.ok(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "%RETRY%books"})


@pytest.mark.parametrize(
    ("body", "member"),
    [
        (b'{"t":{{"q":0,"n":"a}\\"{"}:{"x":1}},"u":{}}', b'{{"q":0,"n":"a}\\"{"}:{"x":1}}'),
        (b'{"u":1}', b"{}"),
        (b'{"t":null,"u":{"x":1}}', b"{}"),
        (b'{"t":{', b"{}"),
        (b'{"t":{"a":"\\\\"},"u":"}"}', b'{"a":"\\\\"}'),
    ],
)
def test_a_member_is_cut_out_of_a_body_that_is_no_json(body: bytes, member: bytes) -> None:
    assert raw_member(body, "t") == member


async def test_consumers_are_asked_for_their_offsets(running: Running, client: Client) -> None:
    await client.send("orders", b"x", queue=0)
    await client.beat("c1", "billing")
    fields = {"topic": "orders", "group": "billing"}
    asked = client.begin(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, fields)
    told = b'{"consumerTable":{},"messageQueueTable":{{"queueId":0}:7}}'
    code = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
    answer = await answered(client, asked, code, told)
    assert answer.body == b'{"consumerTable":{"c1":{{"queueId":0}:7}},"messageQueueTable":{}}'
    answer = await client.ask(
        RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, fields | {"clientAddr": "c2"}
    )
    assert answer.code == ResponseCode.CONSUMER_NOT_ONLINE


async def test_a_consumer_processes_a_message_on_request(running: Running, client: Client) -> None:
    sent = await client.send("orders", b"x", queue=0)
    await client.beat("c1", "billing")
    fields = {"consumerGroup": "billing", "clientId": "c1", "msgId": sent.fields["msgId"]}
    asked = client.begin(RequestCode.CONSUME_MESSAGE_DIRECTLY, fields)
    question = await client.until_told(RequestCode.CONSUME_MESSAGE_DIRECTLY)
    (message,) = records(question.body)
    assert (message.body, question.fields["consumerGroup"]) == (b"x", "billing")
    result = b'{"consumeResult":"CR_LATER","remark":"no stock","spentTimeMills":3}'
    client.writer.write(encode(Command(0, question.opaque, Flag.RESPONSE, body=result)))
    answer = json.loads((await client.answer(asked)).body)
    assert (answer["consumeResult"], answer["remark"]) == ("CR_LATER", "no stock")
    (entry,) = (await running.http.get("/api/v1/audit?action=client.verify")).json()["items"]
    assert (entry["action"], entry["object_name"]) == ("client.verify", "c1")
    assert running.broker.committed_offset("billing", "orders", 0) is None


@pytest.mark.parametrize("offset_id", ["", "x" * 32, "7F00000100002694", "7F" * 16])
async def test_a_message_that_is_not_there_is_processed_by_nobody(
    client: Client, offset_id: str
) -> None:
    await client.send("orders", b"x", queue=0)
    await client.beat("c1", "billing")
    fields = {"consumerGroup": "billing", "clientId": "c1", "msgId": offset_id}
    answer = await client.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, fields)
    assert answer.code != ResponseCode.SUCCESS
    assert not client.told[1:]


@pytest.mark.parametrize("timestamp", [0, -1])
async def test_a_reset_directly_after_the_same_one_tells_consumers_again(
    client: Client, timestamp: int
) -> None:
    for _ in range(2):
        await client.send("orders", b"x", queue=1)
    await client.beat("c1", "billing")
    await committed(client, "billing", 1, queue=1)
    fields = {"topic": "orders", "group": "billing", "timestamp": timestamp, "isForce": "true"}
    place = f'"queueId":1,"topic":"orders"}}:{0 if timestamp == 0 else 2}'.encode()
    for _ in range(2):
        answer = await client.ok(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)
        assert place in answer.body
        told = await client.until_told(RequestCode.RESET_CONSUMER_CLIENT_OFFSET)
        assert told.body == answer.body


async def test_a_clone_moves_a_group_and_tells_its_consumers(
    running: Running, client: Client
) -> None:
    for body in (b"1", b"2", b"3"):
        await client.send("orders", body, queue=0)
    await committed(client, "billing", 2)
    await client.ok(GROUPS, {}, b'{"groupName":"shipping"}')
    await client.beat("c1", "shipping")
    fields = {"srcGroup": "billing", "destGroup": "shipping", "topic": "orders"}
    await client.ok(RequestCode.CLONE_GROUP_OFFSET, fields)
    assert running.broker.committed_offset("shipping", "orders", 0) == 2
    told = await client.until_told(RequestCode.RESET_CONSUMER_CLIENT_OFFSET)
    assert (told.fields["group"], told.fields["topic"]) == ("shipping", "orders")
    assert b'"queueId":0,"topic":"orders"}:2' in told.body
    await client.ok(RequestCode.CLONE_GROUP_OFFSET, fields)  # it is there already
    assert (await client.until_told(RequestCode.RESET_CONSUMER_CLIENT_OFFSET)).body == told.body
    entries = (await running.http.get("/api/v1/audit")).json()["items"]
    assert entries[0]["action"] == "group.reset"


async def test_a_group_is_forbidden_a_topic_by_pausing_it_there(
    running: Running, client: Client
) -> None:
    await client.send("orders", b"x", queue=0)
    await client.ok(GROUPS, {}, b'{"groupName":"billing"}')
    place = {"group": "billing", "topic": "orders"}
    for change, is_readable in ({"readable": "false"}, False), ({}, False), ({"readable": 1}, True):
        code = RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN
        answer = await client.document(code, place | change)
        assert answer["readable"] is is_readable
        assert (running.broker.group("billing").paused_topics == ("orders",)) is not is_readable


async def test_offsets_of_all_groups_and_their_lowest_are_told(client: Client) -> None:
    for body in (b"1", b"2", b"3"):
        await client.send("orders", body, queue=0)
    await committed(client, "billing", 3)
    await committed(client, "shipping", 1)
    table = (await client.document(RequestCode.GET_ALL_CONSUMER_OFFSET))["offsetTable"]
    assert table["orders@billing"]["0"] == 3
    for compared, left_out, lowest in (
        ("", "", 1),
        ("", "shipping", 3),
        ("billing", "", 1),
        ("shipping", "", 1),
        ("shipping", "shipping", (1 << 63) - 1),
    ):
        fields = {"topic": "orders", "compareGroup": compared, "filterGroups": left_out}
        answer = await client.document(RequestCode.QUERY_CORRECTION_OFFSET, fields)
        assert answer["correctionOffsets"]["0"] == lowest, (compared, left_out)


async def test_the_times_of_a_queue_and_of_a_groups_place_are_told(
    running: Running, client: Client
) -> None:
    times = []
    for body in (b"1", b"2", b"3"):
        times.append(running.clock.now_ms())
        await client.send("orders", body, queue=0)
        running.clock.advance(10)
    await committed(client, "billing", 2)
    fields = {"topic": "orders", "group": "billing"}
    answer = await client.document(RequestCode.QUERY_CONSUME_TIME_SPAN, fields)
    span = answer["consumeTimeSpanSet"][0]
    told = [span[f"{name}TimeStamp"] for name in ("min", "consume", "max")]
    assert told == times
    assert span["delayTime"] == running.clock.now_ms() - times[2]


async def test_queues_of_ordered_topics_are_the_only_values_of_the_name_server(
    client: Client,
) -> None:
    await client.send("orders", b"x")
    key = {"namespace": "ORDER_TOPIC_CONFIG", "key": "orders"}
    assert (await client.ok(RequestCode.GET_KV_CONFIG, key)).fields == {"value": "kitemq:4"}
    listed = await client.document(RequestCode.GET_KVLIST_BY_NAMESPACE, key)
    assert listed == {"table": {"orders": "kitemq:4"}}
    await client.ok(RequestCode.PUT_KV_CONFIG, key | {"value": "other:2;kitemq:4"})
    for code, fields in (
        (RequestCode.PUT_KV_CONFIG, key | {"value": "kitemq:5"}),
        (RequestCode.PUT_KV_CONFIG, {"namespace": "own", "key": "name", "value": "x"}),
        (RequestCode.DELETE_KV_CONFIG, key),
    ):
        assert (await client.ask(code, fields)).code == ResponseCode.ILLEGAL_OPERATION
    answer = await client.ask(RequestCode.GET_KV_CONFIG, {"namespace": "own", "key": "name"})
    assert answer.code == ResponseCode.QUERY_NOT_FOUND


async def test_a_reset_without_force_moves_queues_back_only(client: Client) -> None:
    await client.send("orders", b"x", queue=0)
    await client.send("orders", b"y", queue=0)
    place = {"consumerGroup": "billing", "topic": "orders", "queueId": 0}
    await client.beat("c1", "billing")
    await client.ok(RequestCode.UPDATE_CONSUMER_OFFSET, place | {"commitOffset": 1})
    latest = {"topic": "orders", "group": "billing", "timestamp": -1}
    await client.ok(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, latest)
    answer = await client.ok(RequestCode.QUERY_CONSUMER_OFFSET, place)
    assert answer.fields["offset"] == "1"
    await client.ok(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, latest | {"timestamp": 0})
    answer = await client.ok(RequestCode.QUERY_CONSUMER_OFFSET, place)
    assert answer.fields["offset"] == "0"
    one = {"topic": "orders", "group": "billing", "queueId": 0, "offset": 2, "timestamp": 0}
    await client.ok(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, one)
    answer = await client.ok(RequestCode.QUERY_CONSUMER_OFFSET, place)
    assert answer.fields["offset"] == "2"
    client.told.clear()
    await client.ok(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, one)  # where it is already
    told = await client.until_told(RequestCode.RESET_CONSUMER_CLIENT_OFFSET)
    assert b'"queueId":0,"topic":"orders"}:2' in told.body
