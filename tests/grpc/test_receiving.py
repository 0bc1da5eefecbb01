"""ReceiveMessage and receipts over a raw stub: handed out, acknowledged, failed, returned."""

import asyncio
import hashlib
from typing import Any

import grpc.aio
import pytest

from app.grpc import receiving
from engine.broker import GroupConfig, Steps
from engine.message import Message
from protocol.rocketmq.messages import (
    ChangeInvisibleDurationRequest,
    ForwardMessageToDeadLetterQueueRequest,
    HeartbeatRequest,
    NotifyClientTerminationRequest,
    PullMessageRequest,
    Resource,
)
from protocol.rocketmq.numbers import BodyEncoding, ClientType, Code, DigestType, MessageType
from tests.engine.test_compression import PACKERS
from tests.grpc.endpoint import Running, Stub, receive_of

pytestmark = pytest.mark.anyio


async def change(stub: Stub, group: str, topic: str, handle: str, seconds: float) -> Any:
    request = ChangeInvisibleDurationRequest(
        group=Resource(name=group), topic=Resource(name=topic), receipt_handle=handle
    )
    request.invisible_duration.FromMilliseconds(round(seconds * 1000))
    return await stub.ask("ChangeInvisibleDuration", request)


async def test_a_message_comes_as_it_was_sent_with_what_consumers_need(running: Running) -> None:
    await running.stub.send(
        "orders",
        b"body",
        tag="paid",
        keys=["k1", "k2"],
        message_group="g1",
        trace_context="00-abc-def-01",
        priority=7,
        properties={"amount": "5"},
    )
    (got,) = await running.stub.receive("billing", "orders")
    system = got.system_properties
    assert (got.topic.name, got.body) == ("orders", b"body")
    assert dict(got.user_properties) == {"amount": "5", "__SHARDINGKEY": "g1"}
    assert (system.tag, list(system.keys), system.message_group) == ("paid", ["k1", "k2"], "g1")
    assert system.message_id == f"01{0:032X}"
    assert (system.trace_context, system.priority) == ("00-abc-def-01", 7)
    assert system.message_type == MessageType.FIFO
    assert system.body_digest.type == DigestType.MD5
    assert system.body_digest.checksum == hashlib.md5(b"body").hexdigest().upper()
    assert system.body_encoding == BodyEncoding.IDENTITY
    assert (system.delivery_attempt, system.born_timestamp.seconds) == (1, 1)
    assert system.store_timestamp.seconds == running.clock.now_ms() // 1000
    assert system.invisible_duration.seconds == 30


async def test_an_answer_begins_with_its_status_and_ends_with_its_time(running: Running) -> None:
    await running.stub.send("orders", b"1", b"2")
    answers = await running.stub.received("g", "orders")
    assert [each.WhichOneof("content") for each in answers] == [
        "status",
        "message",
        "message",
        "delivery_timestamp",
    ]
    answers = await running.stub.received("g", "orders")
    assert [each.WhichOneof("content") for each in answers] == ["status", "delivery_timestamp"]
    assert answers[0].status.code == Code.MESSAGE_NOT_FOUND


@pytest.mark.parametrize(
    ("language", "auto_renew", "code"),
    [
        ("GO", True, Code.OK),
        ("GO", False, Code.MESSAGE_NOT_FOUND),
        ("JAVA", True, Code.MESSAGE_NOT_FOUND),
    ],
)
async def test_an_empty_poll_of_a_push_consumer_in_go_ends_with_ok(
    running: Running, language: str, auto_renew: bool, code: Code
) -> None:
    """Else it would wait for that poll when it is shut down."""
    await running.stub.send("orders", b"1")
    stub = running.stub.named("consumer", x_mq_language=language)
    await stub.receive("g", "orders", auto_renew=auto_renew)
    answers = await stub.received("g", "orders", auto_renew=auto_renew)
    assert [each.WhichOneof("content") for each in answers] == ["status", "delivery_timestamp"]
    assert answers[0].status.code == code


async def test_every_queue_is_served_whichever_is_asked(running: Running) -> None:
    for number in range(8):
        await running.stub.send("orders", b"%d" % number, number=number)
    got = await running.stub.receive("g", "orders")
    assert sorted(message.body for message in got) == [b"%d" % number for number in range(8)]
    assert {message.system_properties.queue_id for message in got} == {0, 1, 2, 3}


async def test_filters_are_tags_or_sql(running: Running) -> None:
    for number, tag in enumerate(("a", "b", "c")):
        await running.stub.send(
            "orders", tag.encode(), number=number, tag=tag, properties={"n": str(number)}
        )
    tags = await running.stub.receive("tags", "orders", tags="a || b")
    assert sorted(message.body for message in tags) == [b"a", b"b"]
    sql = await running.stub.receive("sql", "orders", sql="n >= 1")
    assert sorted(message.body for message in sql) == [b"b", b"c"]
    answers = await running.stub.received("bad", "orders", sql="n >=")
    assert answers[0].status.code == Code.ILLEGAL_FILTER_EXPRESSION


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"invisible_s": 9}, Code.ILLEGAL_INVISIBLE_TIME),
        ({"invisible_s": 43_201}, Code.ILLEGAL_INVISIBLE_TIME),
        ({"wait_s": -1}, Code.ILLEGAL_POLLING_TIME),
        ({"topic": "nowhere"}, Code.TOPIC_NOT_FOUND),
        ({"topic": ""}, Code.ILLEGAL_TOPIC),
        ({"group": ""}, Code.ILLEGAL_CONSUMER_GROUP),
        ({"group": "no group"}, Code.ILLEGAL_CONSUMER_GROUP),
    ],
)
async def test_a_wrong_receive_says_what_is_wrong_and_nothing_else(
    running: Running, fields: dict[str, Any], code: Code
) -> None:
    await running.stub.send("orders", b"x")
    answers = await running.stub.received(**({"group": "g", "topic": "orders"} | fields))
    assert [each.status.code for each in answers] == [code]


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (9_999, "the invisibleTime is too small: 9999 ms, 10000 ms is the least"),
        (43_200_001, "the invisibleTime is too large: 43200001 ms, 43200000 ms is the most"),
        (-1, "the invisibleTime is too small: -1 ms, 10000 ms is the least"),
    ],
)
async def test_a_wrong_invisible_time_is_told_exactly_and_in_rocketmqs_words(
    running: Running, ms: int, words: str
) -> None:
    await running.stub.send("orders", b"x")
    request = receive_of("g", "orders")
    request.invisible_duration.FromMilliseconds(ms)
    (answer,) = [each async for each in running.stub.begin("ReceiveMessage", request)]
    assert answer.status.code == Code.ILLEGAL_INVISIBLE_TIME
    assert answer.status.message == words


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (-1, "the invisibleTime is too small: -1 ms, 0 ms is the least"),
        (43_200_001, "the invisibleTime is too large: 43200001 ms, 43200000 ms is the most"),
    ],
)
async def test_a_wrong_change_of_the_invisible_time_is_told_exactly(
    running: Running, ms: int, words: str
) -> None:
    await running.stub.send("orders", b"x")
    (message,) = await running.stub.receive("g", "orders")
    request = ChangeInvisibleDurationRequest(
        group=Resource(name="g"), receipt_handle=message.system_properties.receipt_handle
    )
    request.invisible_duration.FromMilliseconds(ms)
    answer = await running.stub.ask("ChangeInvisibleDuration", request)
    assert answer.status.code == Code.ILLEGAL_INVISIBLE_TIME
    assert answer.status.message == words


async def test_what_is_said_of_a_worthless_handle_names_its_code(running: Running) -> None:
    """Apache's own tests of its clients look for the name in the text."""
    await running.stub.send("orders", b"x")
    (message,) = await running.stub.receive("g", "orders", invisible_s=10)
    running.advance(11)
    stale = message.system_properties.receipt_handle
    for handle in (stale, "garbage"):
        answer = await running.stub.ack("g", "orders", handle)
        assert answer.status.code == Code.INVALID_RECEIPT_HANDLE
        assert "INVALID_RECEIPT_HANDLE" in answer.status.message
        change = ChangeInvisibleDurationRequest(group=Resource(name="g"), receipt_handle=handle)
        change.invisible_duration.seconds = 20
        changed = await running.stub.ask("ChangeInvisibleDuration", change)
        assert "INVALID_RECEIPT_HANDLE" in changed.status.message


async def test_a_receive_brings_at_most_32_messages_whatever_it_asks_for(running: Running) -> None:
    for begin in range(0, 120, 40):
        bodies = [b"%d" % number for number in range(begin, begin + 40)]
        await running.stub.send("orders", *bodies, number=begin)
    counts = [len(await running.stub.receive("g", "orders", count=100_000)) for _ in range(4)]
    assert counts == [32, 32, 32, 24]


async def test_a_filter_may_be_as_long_as_a_tag(running: Running) -> None:
    longest = "t" * (16 * 1024)
    await running.stub.send("orders", b"1", tag=longest)
    await running.stub.send("orders", b"2", tag="*", number=1)
    (got,) = await running.stub.receive("g", "orders", tags=longest)
    assert got.body == b"1"
    assert len(await running.stub.receive("all", "orders", tags="*")) == 2


async def test_a_time_that_has_passed_is_delivered_at_once_and_handed_to_the_consumer(
    running: Running,
) -> None:
    due_s = running.clock.now_ms() // 1000 - 20
    sent = await running.stub.send("orders", b"1", deliver_at_s=due_s)
    assert sent.status.code == Code.OK
    (got,) = await running.stub.receive("g", "orders")
    assert got.system_properties.delivery_timestamp.seconds == due_s
    assert got.system_properties.message_type == MessageType.DELAY
    assert "TIMER_OUT_MS" not in got.user_properties


async def test_a_poll_is_woken_by_a_message(running: Running) -> None:
    await running.stub.send("orders", b"1")
    await running.stub.receive("g", "orders")
    waiting = asyncio.ensure_future(running.stub.receive("g", "orders", wait_s=20))
    await running.until_parked()
    await running.stub.send("orders", b"2", number=1)
    assert [message.body for message in await waiting] == [b"2"]


async def test_a_poll_ends_when_its_client_says_that_it_leaves(running: Running) -> None:
    await running.stub.send("orders", b"1")
    await running.stub.receive("g", "orders")
    waiting = asyncio.ensure_future(running.stub.received("g", "orders", wait_s=20))
    other = running.stub.named("other")
    staying = asyncio.ensure_future(other.receive("g", "orders", wait_s=20))
    while running.app.services.host.waiting_count < 2:
        await asyncio.sleep(0.01)
    await running.stub.ok("NotifyClientTermination", NotifyClientTerminationRequest())
    async with asyncio.timeout(10):
        (status, _) = await waiting
    assert status.status.code == Code.MESSAGE_NOT_FOUND
    await running.stub.send(
        "orders", b"2", number=1
    )  # its place is nobody's: the other one gets it
    assert [message.body for message in await staying] == [b"2"]


async def test_a_pull_ends_when_its_client_says_that_it_leaves(running: Running) -> None:
    await running.stub.send("orders", b"1")
    request = PullMessageRequest(group=Resource(name="g"), batch_size=8)
    request.message_queue.topic.name, request.message_queue.id = "orders", 3
    request.filter_expression.expression = "nothing"
    request.long_polling_timeout.seconds = 20

    async def pull() -> list[Any]:
        return [each async for each in running.stub.begin("PullMessage", request)]

    waiting = asyncio.ensure_future(pull())
    await running.until_parked()
    await running.stub.ok("NotifyClientTermination", NotifyClientTerminationRequest())
    async with asyncio.timeout(10):
        answers = await waiting
    assert answers[0].status.code == Code.MESSAGE_NOT_FOUND
    assert answers[-1].next_offset == 0


async def test_a_poll_that_its_client_gives_up_leaves_the_message_to_others(
    running: Running,
) -> None:
    await running.stub.send("orders", b"1")
    await running.stub.receive("g", "orders")
    call = running.stub.begin("ReceiveMessage", receive_of("g", "orders", wait_s=20))
    await running.until_parked()
    call.cancel()
    while running.app.services.host.waiting_count:
        await asyncio.sleep(0.01)
    await running.stub.send("orders", b"2", number=1)
    other = running.stub.named("other")
    assert [message.body for message in await other.receive("g", "orders")] == [b"2"]


async def test_an_acknowledged_message_is_done_and_a_stale_handle_is_known_as_such(
    running: Running,
) -> None:
    await running.stub.send("orders", b"1", b"2")
    first, second = [
        message.system_properties.receipt_handle
        for message in await running.stub.receive("g", "orders")
    ]
    assert (await running.stub.ack("g", "orders", first)).status.code == Code.OK
    assert (await running.stub.ack("g", "orders", first)).status.code == Code.OK
    running.advance(31)
    answer = await running.stub.ack("g", "orders", first, second, "junk")
    assert answer.status.code == Code.MULTIPLE_RESULTS
    codes = [entry.status.code for entry in answer.entries]
    assert codes == [Code.OK, Code.INVALID_RECEIPT_HANDLE, Code.INVALID_RECEIPT_HANDLE]
    (again,) = await running.stub.receive("g", "orders")
    assert (again.body, again.system_properties.delivery_attempt) == (b"2", 2)


async def test_handles_of_a_group_that_is_gone_are_worth_nothing(running: Running) -> None:
    await running.stub.send("orders", b"1")
    (got,) = await running.stub.receive("g", "orders")
    handle = got.system_properties.receipt_handle
    running.broker.delete_group("g")
    answer = await running.stub.ack("g", "orders", handle)
    assert answer.status.code == Code.INVALID_RECEIPT_HANDLE
    changed = await change(running.stub, "g", "orders", handle, 10)
    assert changed.status.code == Code.INVALID_RECEIPT_HANDLE


async def test_another_time_comes_with_another_handle(running: Running) -> None:
    await running.stub.send("orders", b"1")
    (got,) = await running.stub.receive("g", "orders")
    old = got.system_properties.receipt_handle
    changed = await change(running.stub, "g", "orders", old, 60)
    assert changed.status.code == Code.OK
    assert changed.receipt_handle not in ("", old)
    assert (await running.stub.ack("g", "orders", old)).status.code == Code.INVALID_RECEIPT_HANDLE
    running.advance(45)  # past the first time, before the second
    assert await running.stub.receive("g", "orders") == []
    assert (await running.stub.ack("g", "orders", changed.receipt_handle)).status.code == Code.OK


async def test_no_time_at_all_brings_a_message_back_with_its_attempt_counted(
    running: Running,
) -> None:
    await running.stub.send("orders", b"1")
    (got,) = await running.stub.receive("g", "orders")
    handle = got.system_properties.receipt_handle
    assert (await change(running.stub, "g", "orders", handle, 0)).status.code == Code.OK
    running.advance(1)
    (again,) = await running.stub.receive("g", "orders")
    assert again.system_properties.delivery_attempt == 2


async def test_a_time_out_of_bounds_is_refused(running: Running) -> None:
    await running.stub.send("orders", b"1")
    (got,) = await running.stub.receive("g", "orders")
    handle = got.system_properties.receipt_handle
    for seconds in (-1, 43_201):
        answer = await change(running.stub, "g", "orders", handle, seconds)
        assert answer.status.code == Code.ILLEGAL_INVISIBLE_TIME
    answer = await change(running.stub, "g", "orders", "junk", 10)
    assert answer.status.code == Code.INVALID_RECEIPT_HANDLE


async def test_a_push_consumers_failure_waits_as_the_group_says_whatever_it_asks_for(
    running: Running,
) -> None:
    config = GroupConfig("g", retry_max=1, retry_policy=Steps((5_000,)))
    running.broker.create_group(config)
    await running.stub.send("orders", b"1")
    (got,) = await running.stub.receive("g", "orders", auto_renew=True)
    failed = await change(running.stub, "g", "orders", got.system_properties.receipt_handle, 0.013)
    assert failed.status.code == Code.OK
    running.advance(4)
    assert await running.stub.receive("g", "orders", auto_renew=True) == []
    running.advance(2)
    (again,) = await running.stub.receive("g", "orders", auto_renew=True)
    assert again.system_properties.delivery_attempt == 2
    await change(running.stub, "g", "orders", again.system_properties.receipt_handle, 10)
    (dead,) = await running.stub.receive("undertaker", "%DLQ%g")
    assert dead.system_properties.dead_letter_queue.topic == "orders"


@pytest.mark.parametrize("auto_renew", [False, True])
async def test_the_handle_of_a_failed_fifo_message_is_worth_nothing(
    running: Running, auto_renew: bool
) -> None:
    """It named the message, which waits at its place, with a serial that passed for current."""
    body = {"name": "fifo", "type": "FIFO"}
    assert (await running.http.post("/api/v1/topics", json=body)).status_code == 201
    running.broker.create_group(GroupConfig("c", ordered=True))
    await running.stub.send("fifo", b"1", message_group="g")
    (got,) = await running.stub.receive("c", "fifo", auto_renew=True)
    failed = await change(running.stub, "c", "fifo", got.system_properties.receipt_handle, 10)
    assert failed.status.code == Code.OK
    handle = failed.receipt_handle
    assert handle
    for worthless in (handle, "fifo:0:0:0", "fifo:0:0:1"):
        answer = await change(running.stub, "c", "fifo", worthless, 10)
        assert answer.status.code == Code.INVALID_RECEIPT_HANDLE
        answer = await running.stub.ack("c", "fifo", worthless)
        assert answer.status.code == Code.INVALID_RECEIPT_HANDLE
    running.advance(11)
    (again,) = await running.stub.receive("c", "fifo", auto_renew=auto_renew)
    assert again.system_properties.delivery_attempt == 2
    answer = await running.stub.ack("c", "fifo", again.system_properties.receipt_handle)
    assert answer.status.code == Code.OK


async def test_a_consumer_can_give_a_message_up(running: Running) -> None:
    await running.stub.send("orders", b"1")
    (got,) = await running.stub.receive("g", "orders", auto_renew=True)
    request = ForwardMessageToDeadLetterQueueRequest(
        group=Resource(name="g"),
        topic=Resource(name="orders"),
        receipt_handle=got.system_properties.receipt_handle,
        delivery_attempt=4,
    )
    await running.stub.ok("ForwardMessageToDeadLetterQueue", request)
    again = await running.stub.code("ForwardMessageToDeadLetterQueue", request)
    assert again == Code.INVALID_RECEIPT_HANDLE
    assert running.broker.lag("g").dead == 1


async def test_what_a_push_consumer_holds_does_not_run_out_while_it_lives(
    running: Running,
) -> None:
    await running.stub.send("orders", b"1")
    (got,) = await running.stub.receive("g", "orders", auto_renew=True)
    for _ in range(20):
        running.advance(10)
        await running.stub.ok("Heartbeat", heartbeat_of("g"))
    assert await running.stub.receive("g", "orders") == []
    handle = got.system_properties.receipt_handle
    assert (await running.stub.ack("g", "orders", handle)).status.code == Code.OK


async def test_three_hours_are_the_most_that_a_message_is_held(running: Running) -> None:
    await running.stub.send("orders", b"1")
    await running.stub.receive("g", "orders", auto_renew=True)
    for _ in range(3 * 3600 // 20 + 10):
        running.clock.advance(20)
        await running.stub.ok("Heartbeat", heartbeat_of("g"))
        running.grpc_server.tick()
    running.advance(60)
    (again,) = await running.stub.named("other").receive("g", "orders")
    assert again.system_properties.delivery_attempt == 2


async def test_a_client_that_falls_silent_loses_what_it_held_with_the_attempt_counted(
    running: Running,
) -> None:
    await running.stub.send("orders", b"1")
    await running.stub.receive("g", "orders", auto_renew=True)
    running.advance(31)
    running.advance(2)
    (again,) = await running.stub.named("other").receive("g", "orders")
    assert again.system_properties.delivery_attempt == 2


async def test_a_client_that_says_goodbye_gives_back_what_it_held_unharmed(
    running: Running,
) -> None:
    await running.stub.send("orders", b"1")
    await running.stub.receive("g", "orders", auto_renew=True)
    request = NotifyClientTerminationRequest(group=Resource(name="g"))
    await running.stub.ok("NotifyClientTermination", request)
    (again,) = await running.stub.named("other").receive("g", "orders")
    assert again.system_properties.delivery_attempt == 1
    unknown = await running.stub.code("NotifyClientTermination", request)
    assert unknown == Code.UNRECOGNIZED_CLIENT_TYPE


async def test_an_attempt_that_is_repeated_gets_the_same_messages(running: Running) -> None:
    await running.stub.send("orders", b"1")
    first = await running.stub.receive("g", "orders", auto_renew=True, attempt="a-1")
    again = await running.stub.receive("g", "orders", auto_renew=True, attempt="a-1")
    assert [message.body for message in again] == [message.body for message in first] == [b"1"]
    assert again[0].system_properties.delivery_attempt == 1
    other = await running.stub.receive("g", "orders", auto_renew=True, attempt="a-2")
    assert other == []


async def test_messages_of_a_group_wait_for_the_one_before(running: Running) -> None:
    body = {"name": "fifo", "type": "FIFO"}
    assert (await running.http.post("/api/v1/topics", json=body)).status_code == 201
    running.broker.create_group(GroupConfig("c", ordered=True))
    for number in range(3):
        await running.stub.send("fifo", b"%d" % number, number=number, message_group="g")
    for number in range(3):
        (got,) = await running.stub.receive("c", "fifo")
        assert got.body == b"%d" % number
        assert await running.stub.receive("c", "fifo") == []
        await running.stub.ack("c", "fifo", got.system_properties.receipt_handle)


async def test_messages_of_a_message_group_come_together_to_an_unordered_group(
    running: Running,
) -> None:
    body = {"name": "fifo", "type": "FIFO"}
    assert (await running.http.post("/api/v1/topics", json=body)).status_code == 201
    for number in range(3):
        await running.stub.send("fifo", b"%d" % number, number=number, message_group="g")
    found = await running.stub.receive("c", "fifo")
    assert [got.body for got in found] == [b"0", b"1", b"2"]


async def test_one_client_holds_so_many_polls_and_all_together_so_many(open_endpoint: Any) -> None:
    async with open_endpoint(grpc_client_polls_max=1, grpc_polls_max=2) as running:
        await running.stub.send("orders", b"1")
        await running.stub.receive("g", "orders")
        held = [running.stub, running.stub.named("second")]
        calls = [
            each.begin("ReceiveMessage", receive_of("g", "orders", wait_s=20)) for each in held
        ]
        await until(lambda: running.app.services.host.waiting_count == 2)
        for stub in (running.stub, running.stub.named("third")):
            (refused,) = await stub.received("g", "orders", wait_s=20)
            assert refused.status.code == Code.TOO_MANY_REQUESTS
        for call in calls:
            call.cancel()
        await until(lambda: not running.grpc_server.backend.figures.polls)


async def test_a_paused_group_waits_as_if_there_were_nothing(running: Running) -> None:
    await running.stub.send("orders", b"1")
    await running.stub.receive("g", "orders")
    running.broker.pause_group("g")
    waiting = asyncio.ensure_future(running.stub.receive("g", "orders", wait_s=20))
    await running.until_parked()
    await running.stub.send("orders", b"2", number=1)
    running.broker.resume_group("g")
    assert [message.body for message in await waiting] == [b"2"]


async def test_a_call_beyond_its_deadline_is_answered_before(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "ANSWER_S", 14.0)  # so early that no machine is too slow for it
    await running.stub.send("orders", b"1")
    await running.stub.receive("g", "orders")
    call = running.stub.begin("ReceiveMessage", receive_of("g", "orders", wait_s=20), timeout=15)
    answers = [each async for each in call]
    assert answers[0].status.code == Code.MESSAGE_NOT_FOUND
    assert await call.code() is grpc.StatusCode.OK


async def until(is_so: Any) -> None:
    async with asyncio.timeout(30):
        while not is_so():
            await asyncio.sleep(0.01)


def heartbeat_of(group: str) -> Any:
    return HeartbeatRequest(group=Resource(name=group), client_type=ClientType.PUSH_CONSUMER)


@pytest.mark.parametrize("flag", PACKERS)
async def test_a_body_of_a_classic_producer_comes_decompressed_as_identity(
    running: Running, flag: int
) -> None:
    text = b"hello " * 4000
    running.broker.send([Message("orders", PACKERS[flag](text), sys_flag=flag)])
    (got,) = await running.stub.receive("billing", "orders")
    assert got.body == text
    assert got.system_properties.body_encoding == BodyEncoding.IDENTITY
    assert got.system_properties.body_digest.checksum == hashlib.md5(text).hexdigest().upper()


async def test_a_body_that_cannot_be_decompressed_comes_raw_with_a_property_that_says_why(
    running: Running,
) -> None:
    running.broker.send([Message("orders", b"broken", sys_flag=0x301)])
    (got,) = await running.stub.receive("billing", "orders")
    assert got.body == b"broken"
    assert "incorrect header check" in got.user_properties["KITE_COMPRESSED"]
