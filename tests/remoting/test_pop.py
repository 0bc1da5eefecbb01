"""POP over raw frames: deliveries, receipts, waits, limits, and the modes of groups."""

import asyncio
import json
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.remoting.request_modes import RequestMode, RequestModes
from engine.broker import GroupConfig, Mode, TopicConfig
from engine.topic.catalog import TopicType
from protocol.remoting.codes import RequestCode, ResponseCode
from protocol.remoting.frames import Command
from protocol.remoting.pop import PopError, set_bits
from tests.remoting.port import Client, Running

pytestmark = pytest.mark.anyio

INVISIBLE_MS = 30_000
RECONSUME_AT = 72  # in a record with IPv4 hosts


def popping(group: str, topic: str, **more: Any) -> dict[str, Any]:
    """Fields of a POP that does not wait."""
    return {
        "consumerGroup": group, "topic": topic, "queueId": -1, "maxMsgNums": 32,
        "invisibleTime": INVISIBLE_MS, "pollTime": 0, "bornTime": 0, "initMode": 0,
        "expType": "TAG", "exp": "*", "order": "false",
    } | more  # fmt: skip


def receipts(answer: Command) -> list[dict[str, Any]]:
    """What a client makes of an answer: the fields of an acknowledgement for each message."""
    fields = answer.fields
    starts = {tuple(each.split(" ")[:2]): each.split(" ")[2]
              for each in fields["startOffsetInfo"].split(";")}  # fmt: skip
    found = []
    for each in fields["msgOffsetInfo"].split(";"):
        mark, queue, offsets = each.split(" ")
        for offset in offsets.split(","):
            words = [starts[mark, queue], fields["popTime"], fields["invisibleTime"]]
            words += [fields["reviveQid"], mark, "kitemq", queue, offset]
            found.append({"queueId": queue, "offset": offset, "extraInfo": " ".join(words)})
    return found


async def pop(client: Client, group: str = "g", topic: str = "orders", **more: Any) -> Command:
    return await client.ok(RequestCode.POP_MESSAGE, popping(group, topic, **more))


async def settle(
    client: Client, code: RequestCode, receipt: dict[str, Any], **more: Any
) -> Command:
    fields = {"consumerGroup": "g", "topic": "orders", **receipt, **more}
    return await client.ask(code, fields)


async def ack(client: Client, receipt: dict[str, Any], **more: Any) -> int:
    return (await settle(client, RequestCode.ACK_MESSAGE, receipt, **more)).code


async def test_a_popped_message_is_done_once_it_is_acknowledged(
    client: Client, running: Running
) -> None:
    await client.send("orders", b"one", queue=2)
    answer = await pop(client)
    (receipt,) = receipts(answer)
    assert b"one" in answer.body
    assert (receipt["queueId"], receipt["offset"]) == ("2", "0")
    assert (await client.ask(RequestCode.POP_MESSAGE, popping("g", "orders"))).code == (
        ResponseCode.POLLING_TIMEOUT
    )
    assert await ack(client, receipt) == ResponseCode.SUCCESS
    assert await ack(client, receipt) == ResponseCode.SUCCESS  # once more, after a lost answer
    running.advance(60)
    assert running.broker.lag("g").count == 0


async def test_a_receipt_is_stale_once_its_time_ran_out(client: Client, running: Running) -> None:
    await client.send("orders", b"one")
    (receipt,) = receipts(await pop(client))
    running.advance(INVISIBLE_MS / 1000 + 1)
    again = await pop(client)
    (second,) = receipts(again)
    assert second["extraInfo"].split(" ")[4] == "1"  # from the group's retries
    assert await ack(client, receipt) == ResponseCode.NO_MESSAGE
    change = RequestCode.CHANGE_MESSAGE_INVISIBLETIME
    assert (
        await settle(client, change, receipt, invisibleTime=900)
    ).code == ResponseCode.NO_MESSAGE
    # Clients name the retry topic as Apache has it; the receipt's mark decides.
    assert await ack(client, second, topic="%RETRY%g_orders") == ResponseCode.SUCCESS
    running.advance(60)
    assert running.broker.lag("g").count == 0


async def test_a_receipt_survives_a_restart(open_port: Callable[..., Any]) -> None:
    async with open_port() as running:
        client = await running.connect()
        await client.send("orders", b"one")
        (receipt,) = receipts(await pop(client))
    async with open_port() as running:
        client = await running.connect()
        assert await ack(client, receipt) == ResponseCode.SUCCESS
        assert running.broker.lag("g").count == 0


async def test_a_longer_time_makes_a_new_receipt(client: Client, running: Running) -> None:
    await client.send("orders", b"one")
    (receipt,) = receipts(await pop(client))
    change = RequestCode.CHANGE_MESSAGE_INVISIBLETIME
    running.advance(20)
    changed = await settle(client, change, receipt, invisibleTime=60_000)
    assert changed.code == ResponseCode.SUCCESS
    assert await ack(client, receipt) == ResponseCode.NO_MESSAGE
    words = receipt["extraInfo"].split(" ")
    words[1:4] = (changed.fields[name] for name in ("popTime", "invisibleTime", "reviveQid"))
    running.advance(30)  # longer than the first time
    assert await ack(client, {**receipt, "extraInfo": " ".join(words)}) == ResponseCode.SUCCESS


async def test_a_member_reports_a_failure_by_changing_the_time(
    client: Client, running: Running
) -> None:
    running.broker.create_group(GroupConfig("g", retry_max=1))
    await client.beat("c1", "g")
    await client.send("orders", b"one")
    change = RequestCode.CHANGE_MESSAGE_INVISIBLETIME
    (receipt,) = receipts(await pop(client))
    await settle(client, change, receipt, invisibleTime=10_000)
    assert (await client.ask(RequestCode.POP_MESSAGE, popping("g", "orders"))).code == (
        ResponseCode.POLLING_TIMEOUT
    )
    running.advance(11)
    (second,) = receipts(await pop(client))
    await settle(client, change, second, invisibleTime=10_000, topic="%RETRY%g_orders")
    assert running.broker.lag("g").dead == 1


def bits(data: bytes) -> str:
    return b64encode(data).decode()


async def test_a_batch_acknowledges_several_and_passes_over_stale_ones(
    client: Client, running: Running
) -> None:
    for number in range(10):
        await client.send("orders", str(number).encode(), queue=0)
    answer = await pop(client, maxMsgNums=10)
    words = receipts(answer)[0]["extraInfo"].split(" ")
    entry = {"c": "g", "t": "orders", "r": "0", "so": 0, "q": 0, "rq": 0,
             "pt": int(words[1]), "it": int(words[2]), "b": bits(b"\xfd\x83")}  # fmt: skip
    stale = {**entry, "pt": 1, "b": bits(b"\x02")}
    body = json.dumps({"brokerName": "kitemq", "acks": [entry, stale]}).encode()
    await client.ok(RequestCode.BATCH_ACK_MESSAGE, {}, body)
    assert running.broker.lag("g").count == 1  # of ten messages all but number 1
    for code, wrong in (
        (ResponseCode.NO_MESSAGE, {"acks": []}),
        (ResponseCode.INVALID_PARAMETER, {"acks": [{**entry, "b": "?"}]}),
        (ResponseCode.INVALID_PARAMETER, {"acks": [{**entry, "r": "9"}]}),
        (ResponseCode.INVALID_PARAMETER, {"acks": [{**entry, "so": -1}]}),
        (ResponseCode.INVALID_PARAMETER, {"acks": [entry] * 1025}),
        (ResponseCode.INVALID_PARAMETER, {"acks": [{**entry, "b": bits(b"\xff" * 513)}]}),
    ):  # fmt: skip
        answer = await client.ask(RequestCode.BATCH_ACK_MESSAGE, {}, json.dumps(wrong).encode())
        assert answer.code == code, wrong


def test_the_messages_of_a_batch_are_counted_while_they_are_read() -> None:
    assert list(set_bits(b"\x81\x00\x01")) == [0, 7, 16]
    with pytest.raises(PopError):
        list(set_bits(b"\xff" * 513))


async def test_a_waiting_pop_wakes_at_a_new_message_that_matches(
    client: Client, running: Running
) -> None:
    await client.send("orders", b"first")
    await pop(client)
    waiting = client.begin(
        RequestCode.POP_MESSAGE, popping("g", "orders", pollTime=15_000, exp="a || b")
    )
    await running.until_parked()
    other = await running.connect()
    asked = {"consumerGroup": "g", "topic": "orders", "queueId": -1}
    counted = await other.ok(RequestCode.POLLING_INFO, asked)
    assert counted.fields["pollingNum"] == "1"
    await other.send("orders", b"unwanted", properties="TAGS\x01c")
    await other.send("orders", b"wanted", properties="TAGS\x01b")
    answer = await client.answer(waiting)
    assert answer.code == ResponseCode.SUCCESS
    assert b"wanted" in answer.body
    assert b"unwanted" not in answer.body
    counted = await other.ok(RequestCode.POLLING_INFO, asked)
    assert counted.fields["pollingNum"] == "0"


async def test_pops_beyond_the_limit_are_answered_polling_full(
    open_port: Callable[..., Any],
) -> None:
    async with open_port(remoting_client_polls_max=2) as running:
        client = await running.connect()
        await client.send("orders", b"first")
        await pop(client)
        for _ in range(2):
            client.begin(RequestCode.POP_MESSAGE, popping("g", "orders", pollTime=15_000))
        await running.until_parked(2)
        full = await client.ask(RequestCode.POP_MESSAGE, popping("g", "orders", pollTime=15_000))
        assert full.code == ResponseCode.POLLING_FULL
        assert "popTime" in full.fields  # Java reads them in any case
        told = await client.ok(RequestCode.NOTIFICATION, popping("g", "orders", pollTime=15_000))
        assert told.fields == {"hasMsg": "false", "pollingFull": "true"}


async def test_the_poll_of_a_connection_that_ends_takes_no_message(
    client: Client, running: Running
) -> None:
    await client.send("orders", b"first")
    await pop(client)
    ending = await running.connect()
    ending.begin(RequestCode.POP_MESSAGE, popping("g", "orders", pollTime=15_000))
    await running.until_parked()
    ending.writer.transport.abort()
    while running.app.services.host.waiting_count:
        await asyncio.sleep(0.01)
    assert not running.port.backend.pops
    await client.send("orders", b"second")
    assert b"second" in (await pop(client)).body


async def test_a_notification_tells_of_a_message_and_takes_none(
    client: Client, running: Running
) -> None:
    await client.send("orders", b"first")
    await pop(client)
    waiting = client.begin(RequestCode.NOTIFICATION, popping("g", "orders", pollTime=15_000))
    await running.until_parked()
    await client.send("orders", b"second")
    assert (await client.answer(waiting)).fields["hasMsg"] == "true"
    assert b"second" in (await pop(client)).body
    told = await client.ok(RequestCode.NOTIFICATION, popping("g", "orders"))
    assert told.fields == {"hasMsg": "false", "pollingFull": "false"}


async def test_a_notification_leaves_the_message_to_a_waiting_pop(
    client: Client, running: Running
) -> None:
    await client.send("orders", b"first")
    await pop(client)
    told = client.begin(RequestCode.NOTIFICATION, popping("g", "orders", pollTime=15_000))
    await running.until_parked()
    popped = client.begin(RequestCode.POP_MESSAGE, popping("g", "orders", pollTime=15_000))
    await running.until_parked(2)
    await client.send("orders", b"second")
    assert (await client.answer(told)).fields["hasMsg"] == "true"
    async with asyncio.timeout(5):
        assert b"second" in (await client.answer(popped)).body


async def test_an_ordered_group_gets_the_next_message_after_the_first_is_done(
    client: Client, running: Running
) -> None:
    running.broker.create_topic(TopicConfig("orders", type=TopicType.FIFO))
    running.broker.create_group(GroupConfig("g", ordered=True))
    for number in range(2):
        await client.send("orders", str(number).encode(), properties="__SHARDINGKEY\x01lane")
    first = await pop(client, order="true")
    (receipt,) = receipts(first)
    assert first.fields["reviveQid"] == "999"
    assert "orderCountInfo" not in first.fields
    running.advance(INVISIBLE_MS / 1000 + 1)
    again = await pop(client, order="true")
    (receipt,) = receipts(again)
    assert again.fields["orderCountInfo"] == f"0 qo{receipt['queueId']}%0 1"
    assert int.from_bytes(again.body[RECONSUME_AT : RECONSUME_AT + 4]) == 1
    assert await ack(client, receipt) == ResponseCode.SUCCESS
    assert receipts(await pop(client, order="true"))[0]["offset"] == "1"


@pytest.mark.parametrize(("recent_bytes", "count"), [(1 << 20, 3), (0, 1)])
async def test_a_new_group_begins_where_its_client_wants(
    open_port: Callable[..., Any], recent_bytes: int, count: int
) -> None:
    async with open_port(recent_bytes=recent_bytes) as running:
        client = await running.connect()
        running.broker.create_topic(TopicConfig("orders", read_queues=1, write_queues=1))
        for number in range(3):
            await client.send("orders", f"body-{number}".encode())
        # As Apache: all of a young queue, else the last message.
        assert (await pop(client, "last", initMode=1)).body.count(b"body-") == count
        assert (await pop(client, "first", initMode=0)).body.count(b"body-") == 3


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (ResponseCode.INVALID_PARAMETER, {"maxMsgNums": 33}),
        (ResponseCode.INVALID_PARAMETER, {"maxMsgNums": 0}),
        (ResponseCode.INVALID_PARAMETER, {"queueId": 99}),
        (ResponseCode.INVALID_PARAMETER, {"invisibleTime": 0}),
        (ResponseCode.INVALID_PARAMETER, {"invisibleTime": 43_200_001}),
        (ResponseCode.INVALID_PARAMETER, {"invisibleTime": "soon"}),
        (ResponseCode.INVALID_PARAMETER, {"consumerGroup": "broadcast"}),
        (ResponseCode.TOPIC_NOT_EXIST, {"topic": "nowhere"}),
        (ResponseCode.SUBSCRIPTION_PARSE_FAILED, {"expType": "SQL92", "exp": "a >"}),
    ],
)
async def test_nonsense_is_refused(
    client: Client, running: Running, code: ResponseCode, fields: dict[str, Any]
) -> None:
    running.broker.create_group(GroupConfig("broadcast", mode=Mode.BROADCAST))
    await client.send("orders", b"one")
    answer = await client.ask(RequestCode.POP_MESSAGE, popping("g", "orders") | fields)
    assert answer.code == code, answer


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (ResponseCode.MESSAGE_ILLEGAL, {"extraInfo": "1 2 3"}),
        (ResponseCode.MESSAGE_ILLEGAL, {"extraInfo": "0 x 1 0 0 kitemq 0 0"}),
        (ResponseCode.MESSAGE_ILLEGAL, {"extraInfo": f"0 {'9' * 99} 1 0 0 kitemq 0 0"}),
        (ResponseCode.MESSAGE_ILLEGAL, {"extraInfo": "0 1 1 0 7 kitemq 0 0"}),
        (ResponseCode.MESSAGE_ILLEGAL, {"queueId": 99}),
        (ResponseCode.NO_MESSAGE, {"offset": 99}),
        (ResponseCode.NO_MESSAGE, {"extraInfo": "0 1 1 0 0 kitemq 0 0"}),
        (ResponseCode.NO_MESSAGE, {"consumerGroup": "other"}),
        (ResponseCode.TOPIC_NOT_EXIST, {"topic": "nowhere"}),
    ],
)
async def test_a_nonsense_receipt_is_refused(
    client: Client, code: ResponseCode, fields: dict[str, Any]
) -> None:
    await client.send("orders", b"one", queue=0)
    (receipt,) = receipts(await pop(client))
    assert await ack(client, receipt | fields) == code
    assert await ack(client, receipt) == ResponseCode.SUCCESS


# -- assignments ---------------------------------------------------------------------------------


async def assigned(client: Client, name: str, topic: str = "orders", **more: Any) -> Any:
    query = {"topic": topic, "consumerGroup": "g", "clientId": name, "strategyName": "AVG",
             "messageModel": "CLUSTERING"} | more  # fmt: skip
    body = json.dumps(query).encode()
    found = await client.document(RequestCode.QUERY_ASSIGNMENT, {}, body)
    queues = found["messageQueueAssignments"]
    return queues and [(each["mode"], each["messageQueue"]["queueId"]) for each in queues]


def mode(name: str, topic: str = "orders", group: str = "g", share: int = 0) -> bytes:
    fields = {"topic": topic, "consumerGroup": group, "mode": name, "popShareQueueNum": share}
    return json.dumps(fields).encode()


ALL = [-1]


@pytest.mark.parametrize(
    ("clients", "share", "queues"),
    [
        (1, 1, [ALL]),
        (4, 0, [ALL] * 4),
        (4, 3, [ALL] * 4),  # as many share as there are
        (4, 1, [[0, 1], [1, 2], [2, 3], [0, 3]]),  # their own, and the next client's
        (4, 2, [[0, 1, 2], [1, 2, 3], [0, 2, 3], [0, 1, 3]]),
        (3, 1, [[0, 1, 2], [2, 3], [0, 1, 3]]),
        (6, 1, [[0], [1], [2], [3], [0], [1]]),  # more clients than queues
    ],
)
async def test_as_many_clients_pop_a_queue_as_the_mode_says(
    client: Client, clients: int, share: int, queues: list[list[int]]
) -> None:
    await client.send("orders", b"one")
    names = [f"c{number}" for number in range(clients)]
    for name in names:
        await client.beat(name, "g")
    await client.ok(RequestCode.SET_MESSAGE_REQUEST_MODE, {}, mode("POP", share=share))
    shares = [[queue for _, queue in await assigned(client, name)] for name in names]
    assert shares == queues


async def test_a_pop_of_a_queue_gets_its_messages_and_the_retries(
    client: Client, running: Running
) -> None:
    for queue in (0, 1, 1):
        await client.send("orders", f"of {queue}".encode(), queue=queue)
    answer = await pop(client, queueId=1, maxMsgNums=1)
    assert b"of 1" in answer.body
    assert answer.fields["restNum"] == "1"
    fields = receipts(answer)[0] | {"consumerGroup": "g", "topic": "orders"}
    await client.beat("c1", "g")
    await client.ok(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, fields | {"invisibleTime": 10})
    assert b"of 0" not in (await pop(client, queueId=1)).body
    running.advance(60)
    assert b"of 1" in (await pop(client, queueId=2)).body  # the failed one, which is a retry now
    assert b"of 0" in (await pop(client, queueId=0)).body


async def test_a_waiting_pop_of_a_queue_wakes_for_that_queue_alone(
    client: Client, running: Running
) -> None:
    await client.send("orders", b"first", queue=0)
    await pop(client)
    waiting = [
        client.begin(RequestCode.POP_MESSAGE, popping("g", "orders", pollTime=15_000, queueId=each))
        for each in (0, 1)
    ]
    await running.until_parked(2)
    other = await running.connect()
    await other.send("orders", b"to one", queue=1)
    assert b"to one" in (await client.answer(waiting[1])).body
    await other.send("orders", b"to zero", queue=0)
    assert b"to zero" in (await client.answer(waiting[0])).body


async def test_the_server_shares_queues_and_a_pop_mode_gives_all_of_them(
    open_port: Callable[..., Any],
) -> None:
    async with open_port() as running:
        client, other = await running.connect(), await running.connect()
        await client.send("orders", b"one")
        await client.beat("c1", "g")
        await other.beat("c2", "g")
        assert await assigned(client, "c1") == [("PULL", 0), ("PULL", 1)]
        assert await assigned(client, "c2") == [("PULL", 2), ("PULL", 3)]
        assert await assigned(client, "c2", strategyName="AVG_BY_CIRCLE") == [
            ("PULL", 1), ("PULL", 3)
        ]  # fmt: skip
        assert await assigned(client, "c1", "%RETRY%g") == [("PULL", 0)]
        assert await assigned(client, "c2", "%RETRY%g") == []
        assert await assigned(client, "c1", "%RETRY%g_orders") == []
        assert await assigned(client, "c1", strategyName="CONFIG") is None
        assert await assigned(client, "c1", "nowhere") is None
        broadcast = await assigned(client, "c9", messageModel="BROADCASTING")
        assert [queue for _, queue in broadcast] == [0, 1, 2, 3]
        client.told.clear()
        await other.ok(RequestCode.SET_MESSAGE_REQUEST_MODE, {}, mode("POP"))
        await client.until_told(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
        assert await assigned(client, "c1") == await assigned(client, "c2") == [("POP", -1)]
        assert await assigned(client, "c1", "%RETRY%g") == []  # a POP brings its messages, too
        trail = (await running.http.get("/api/v1/audit?action=group.request_mode")).text
        assert "POP" in trail
    async with open_port() as running:  # the mode survives a restart
        client = await running.connect()
        assert await assigned(client, "c1") == [("POP", -1)]
        await client.ok(RequestCode.SET_MESSAGE_REQUEST_MODE, {}, mode("PULL"))
        await client.beat("c1", "g")
        assert len(await assigned(client, "c1")) == 4


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (ResponseCode.INVALID_PARAMETER, mode("PUSH")),
        (ResponseCode.NO_PERMISSION, mode("POP", "%RETRY%g")),
        (ResponseCode.TOPIC_NOT_EXIST, mode("POP", "nowhere")),
        (ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, mode("POP", group="nobody")),
        (ResponseCode.INVALID_PARAMETER, b"{}"),
    ],
)
async def test_a_mode_that_cannot_be_is_refused(
    client: Client, code: ResponseCode, body: bytes
) -> None:
    await client.send("orders", b"one")
    await client.ok(RequestCode.POP_MESSAGE, popping("g", "orders"))
    answer = await client.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, {}, body)
    assert answer.code == code, answer


async def test_modes_of_a_damaged_file_are_set_aside_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "request_modes.json"
    path.write_text('[{"topic": "orders", "consumerGroup": "g", "mode": "PO')
    modes = RequestModes(tmp_path)
    modes.load()
    assert not modes.pops("g", "orders")
    await modes.set(RequestMode("orders", "other", "POP"))
    assert "PO" in (tmp_path / "request_modes.json.damaged").read_text()
    again = RequestModes(tmp_path)
    again.load()
    assert again.pops("other", "orders")


async def test_a_repeated_attempt_gets_its_batch_again(client: Client, running: Running) -> None:
    running.broker.create_topic(TopicConfig("orders", type=TopicType.FIFO))
    running.broker.create_group(GroupConfig("g", ordered=True))
    await client.send("orders", b"1", properties="__SHARDINGKEY\x01lane")
    first = await pop(client, order="true", attemptId="a1")
    other = await client.ask(
        RequestCode.POP_MESSAGE, popping("g", "orders", order="true", attemptId="a2")
    )
    assert other.code == ResponseCode.POLLING_TIMEOUT
    running.advance(1)
    again = await pop(client, order="true", attemptId="a1")
    assert [each["offset"] for each in receipts(again)] == ["0"]
    assert "orderCountInfo" not in again.fields  # it is no further attempt
    assert await ack(client, receipts(first)[0]) == ResponseCode.NO_MESSAGE
    assert await ack(client, receipts(again)[0]) == ResponseCode.SUCCESS


async def test_an_answer_says_how_many_messages_are_left(client: Client) -> None:
    for number in range(5):
        await client.send("orders", str(number).encode())
    answer = await pop(client, maxMsgNums=2)
    assert answer.fields["restNum"] == "3"


async def test_a_peek_shows_what_is_not_done_and_delivers_nothing(client: Client) -> None:
    for number in range(3):
        await client.send("orders", str(number).encode(), queue=number)
    fields = {"consumerGroup": "g", "topic": "orders", "queueId": -1, "maxMsgNums": 2}
    peeked = await client.ok(RequestCode.PEEK_MESSAGE, fields)
    assert peeked.fields["restNum"] == "1"
    assert peeked.body
    answer = await pop(client)
    assert len(receipts(answer)) == 3
    for receipt in receipts(answer):
        assert await ack(client, receipt) == ResponseCode.SUCCESS
    answer = await client.ask(RequestCode.PEEK_MESSAGE, fields)
    assert (answer.code, answer.body) == (ResponseCode.PULL_NOT_FOUND, b"")


async def test_the_modes_of_groups_are_listed(client: Client) -> None:
    await client.send("orders", b"1")
    await client.beat("c1", "g")
    mode = {"topic": "orders", "consumerGroup": "g", "mode": "POP", "popShareQueueNum": 0}
    await client.ok(RequestCode.SET_MESSAGE_REQUEST_MODE, {}, json.dumps(mode).encode())
    modes = await client.document(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
    assert modes == {"messageRequestModeMap": {"orders": {"g": mode}}}
