"""What classic clients do with messages, without any client library in between."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from app.administration import ResetOrder
from app.db.rows import actor_at
from engine.broker import ResetTarget, ResetTo
from protocol.remoting.batches import BatchMessage, encode_batch
from protocol.remoting.codes import Flag, RequestCode, ResponseCode
from tests.remoting.port import Client, Running, beat_of, bodies, pulling, records, sending

pytestmark = pytest.mark.anyio

UNIQ = "UNIQ_KEY\x01{}\x02"


# -- sends -------------------------------------------------------------------------------------


async def test_a_send_keeps_what_its_client_said(running: Running, client: Client) -> None:
    properties = (
        UNIQ.format("AB12") + "TAGS\x01paid\x02KEYS\x01k1 k2\x02WAIT\x01true\x02own\x01v\x02"
    )
    answer = await client.send("orders", b"x", queue=2, properties=properties, h=7)
    assert (answer.fields["queueId"], answer.fields["queueOffset"]) == ("2", "0")
    assert answer.fields["transactionId"] == "AB12"
    message = running.broker.message("orders", 2, 0)
    assert (message.message_id, message.tag, message.keys) == ("AB12", "paid", ("k1", "k2"))
    assert (message.flag, message.born_ms) == (7, 1_700_000_000_000)
    assert message.properties["own"] == "v"
    assert "WAIT" not in message.properties
    assert answer.fields["msgId"].endswith(f"{message.position:016X}")


async def test_the_long_names_of_the_old_send_work(running: Running, client: Client) -> None:
    fields = {"producerGroup": "p", "topic": "orders", "queueId": 1, "sysFlag": 0, "flag": 0}
    await client.ok(RequestCode.SEND_MESSAGE, fields, b"x")
    assert running.broker.message("orders", 1, 0).body == b"x"


async def test_a_batch_is_stored_in_one_queue_in_order(running: Running, client: Client) -> None:
    batch = encode_batch([BatchMessage(0, b"1", ""), BatchMessage(0, b"2", "TAGS\x01t\x02")])
    answer = await client.ok(RequestCode.SEND_BATCH_MESSAGE, sending("orders", queue=3), batch)
    assert len(answer.fields["msgId"].split(",")) == 2
    assert [running.broker.message("orders", 3, at).body for at in (0, 1)] == [b"1", b"2"]


@pytest.mark.parametrize(
    ("changes", "body", "code"),
    [
        ({}, b"", ResponseCode.MESSAGE_ILLEGAL),
        ({"i": "TAGS\x01a|b\x02"}, b"x", ResponseCode.MESSAGE_ILLEGAL),
        ({"i": "DELAY\x01soon\x02"}, b"x", ResponseCode.MESSAGE_ILLEGAL),
        ({"e": 99}, b"x", ResponseCode.INVALID_PARAMETER),
        ({"e": "one"}, b"x", ResponseCode.INVALID_PARAMETER),
        ({"f": "9" * 30}, b"x", ResponseCode.INVALID_PARAMETER),
        ({"b": "no topic"}, b"x", ResponseCode.INVALID_PARAMETER),
        ({"b": "SCHEDULE_TOPIC_XXXX"}, b"x", ResponseCode.NO_PERMISSION),
        ({"m": "true"}, b"xyz", ResponseCode.MESSAGE_ILLEGAL),
        ({"m": "true"}, b"", ResponseCode.MESSAGE_ILLEGAL),
    ],
)
async def test_a_wrong_send_is_refused(
    running: Running, client: Client, changes: dict[str, Any], body: bytes, code: int
) -> None:
    answer = await client.ask(RequestCode.SEND_MESSAGE_V2, sending("orders", **changes), body)
    assert answer.code == code
    assert answer.remark
    assert running.broker.topics() == []


async def test_a_delay_level_is_waited_for(running: Running, client: Client) -> None:
    await client.send("orders", b"x", properties="DELAY\x011\x02")
    assert running.broker.topic_stats("orders").messages == 0
    running.advance(1.1)
    assert running.broker.topic_stats("orders").messages == 1


@pytest.mark.parametrize("name", ["TIMER_DELAY_SEC\x015", "TIMER_DELAY_MS\x015000"])
async def test_an_exact_delay_is_waited_for(running: Running, client: Client, name: str) -> None:
    await client.send("orders", b"x", properties=f"{name}\x02")
    running.advance(4.5)
    assert running.broker.topic_stats("orders").messages == 0
    running.advance(1.5)
    assert running.broker.topic_stats("orders").messages == 1


# -- pulls -------------------------------------------------------------------------------------


async def test_a_pull_brings_records_from_an_offset(running: Running, client: Client) -> None:
    for body in (b"1", b"2", b"3"):
        await client.send("orders", body, queue=0)
    answer = await client.ok(RequestCode.PULL_MESSAGE, pulling("billing", "orders", 1))
    assert bodies(answer.body) == [b"2", b"3"]
    assert (answer.fields["nextBeginOffset"], answer.fields["maxOffset"]) == ("3", "3")
    message = records(answer.body)[0]
    assert (message.topic, message.queue, message.offset) == ("orders", 0, 1)
    assert message.store_host == running.port.address
    # Java consumers report nothing of a message without these.
    assert message.properties["MSG_REGION"] == "DefaultRegion"
    assert message.properties["TRACE_ON"] == "true"


async def test_consumers_read_what_clients_traced(client: Client) -> None:
    topic = "RMQ_SYS_TRACE_TOPIC"
    route = await client.document(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
    assert route["queueDatas"][0]["readQueueNums"] == 1
    await client.send(topic, b"Recall\x011\x01\x02", properties="KEYS\x01id-1\x02")
    answer = await client.ok(RequestCode.PULL_MESSAGE, pulling("reader", topic, 0))
    assert bodies(answer.body) == [b"Recall\x011\x01\x02"]


async def test_a_held_pull_is_answered_by_the_next_message(
    running: Running, client: Client
) -> None:
    await client.send("orders", b"1", queue=0)
    held = client.begin(RequestCode.PULL_MESSAGE, pulling("billing", "orders", 1, sysFlag=6))
    await running.until_parked()
    assert running.app.services.remoting_figures.polls == 1
    await client.send("orders", b"2", queue=0)
    assert bodies((await client.answer(held)).body) == [b"2"]
    assert running.app.services.remoting_figures.polls == 0


async def test_a_pull_that_may_not_wait_says_that_nothing_is_there(client: Client) -> None:
    await client.send("orders", b"1", queue=0)
    answer = await client.ask(RequestCode.PULL_MESSAGE, pulling("billing", "orders", 1))
    assert answer.code == ResponseCode.PULL_NOT_FOUND
    assert answer.fields["nextBeginOffset"] == "1"


async def test_an_offset_outside_the_queue_is_moved(client: Client) -> None:
    await client.send("orders", b"1", queue=0)
    answer = await client.ask(RequestCode.PULL_MESSAGE, pulling("billing", "orders", 9))
    assert (answer.code, answer.fields["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, "1")


@pytest.mark.parametrize(
    ("kind", "text", "found"),
    [
        ("TAG", "paid", [b"1"]),
        ("TAG", "paid || open", [b"1", b"2"]),
        ("SQL92", "n > 1", [b"2"]),
    ],
)
async def test_a_pull_is_filtered(client: Client, kind: str, text: str, found: list[bytes]) -> None:
    await client.send("orders", b"1", queue=0, properties="TAGS\x01paid\x02n\x011\x02")
    await client.send("orders", b"2", queue=0, properties="TAGS\x01open\x02n\x012\x02")
    await client.send("orders", b"3", queue=0)
    fields = pulling("billing", "orders", 0, subscription=text, expressionType=kind)
    assert bodies((await client.ok(RequestCode.PULL_MESSAGE, fields)).body) == found


async def test_a_filter_that_cannot_be_read_is_refused(client: Client) -> None:
    await client.send("orders", b"1", queue=0)
    fields = pulling("billing", "orders", 0, subscription="n >", expressionType="SQL92")
    answer = await client.ask(RequestCode.PULL_MESSAGE, fields)
    assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


async def test_a_pull_without_a_filter_takes_that_of_the_heartbeat(client: Client) -> None:
    await client.send("orders", b"1", queue=0, properties="TAGS\x01paid\x02")
    await client.send("orders", b"2", queue=0)
    fields = pulling("billing", "orders", 0, sysFlag=0)
    answer = await client.ask(RequestCode.PULL_MESSAGE, fields)
    assert answer.code == ResponseCode.SUBSCRIPTION_NOT_EXIST
    await client.beat("c1", "billing", filter="paid")
    assert bodies((await client.ok(RequestCode.PULL_MESSAGE, fields)).body) == [b"1"]


async def test_more_held_pulls_than_allowed_are_busy(open_port: Callable[..., Any]) -> None:
    async with open_port(remoting_client_polls_max=1) as running:
        client = await running.connect()
        await client.send("orders", b"1", queue=0)
        fields = pulling("billing", "orders", 1, sysFlag=6)
        client.begin(RequestCode.PULL_MESSAGE, fields)
        await running.until_parked()
        answer = await client.ask(RequestCode.PULL_MESSAGE, fields)
        assert answer.code == ResponseCode.SYSTEM_BUSY


async def test_a_lost_connection_ends_its_held_pulls(running: Running, client: Client) -> None:
    await client.send("orders", b"1", queue=0)
    client.begin(RequestCode.PULL_MESSAGE, pulling("billing", "orders", 1, sysFlag=6))
    await running.until_parked()
    client.writer.close()
    while running.app.services.remoting_figures.polls or running.app.services.host.waiting_count:
        await asyncio.sleep(0.01)
    assert running.app.services.request_limits.requests == 0


# -- offsets -----------------------------------------------------------------------------------


async def test_a_committed_offset_is_found_again(running: Running, client: Client) -> None:
    for body in (b"1", b"2"):
        await client.send("orders", body, queue=0)
    place = {"consumerGroup": "billing", "topic": "orders", "queueId": 0}
    await client.ok(RequestCode.UPDATE_CONSUMER_OFFSET, place | {"commitOffset": 1})
    found = await client.ok(RequestCode.QUERY_CONSUMER_OFFSET, place)
    assert found.fields == {"offset": "1"}
    assert running.broker.lag("billing").count == 1


async def test_an_offset_past_the_end_is_not_taken(running: Running, client: Client) -> None:
    await client.send("orders", b"1", queue=0)
    place = {"consumerGroup": "billing", "topic": "orders", "queueId": 0}
    answer = await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, place | {"commitOffset": 2})
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert running.broker.committed_offset("billing", "orders", 0) is None


async def test_a_new_group_gets_all_of_a_young_queue(client: Client) -> None:
    await client.send("orders", b"1", queue=0)
    place = {"consumerGroup": "billing", "topic": "orders", "queueId": 0}
    assert (await client.ok(RequestCode.QUERY_CONSUMER_OFFSET, place)).fields["offset"] == "0"
    place["setZeroIfNotFound"] = "false"
    answer = await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, place)
    assert answer.code == ResponseCode.QUERY_NOT_FOUND


async def test_a_commit_takes_nothing_from_clients_that_receive(
    running: Running, client: Client
) -> None:
    for body in (b"1", b"2", b"3"):
        await client.send("orders", body, queue=0)
    first, second, third = running.broker.receive("billing", {"orders": "*"}, count_max=3)
    place = {"consumerGroup": "billing", "topic": "orders", "queueId": 0}
    await client.ok(RequestCode.UPDATE_CONSUMER_OFFSET, place | {"commitOffset": 2})
    lag = running.broker.lag("billing")
    assert (lag.count, lag.inflight) == (1, 1)
    assert running.broker.ack("billing", [third.receipt]) == ["done"]
    assert running.broker.ack("billing", [first.receipt, second.receipt]) == ["already"] * 2


async def test_a_reset_reaches_a_pulling_consumer(running: Running, client: Client) -> None:
    for body in (b"1", b"2"):
        await client.send("orders", body, queue=0)
    place = {"consumerGroup": "billing", "topic": "orders", "queueId": 0}
    await client.ok(RequestCode.UPDATE_CONSUMER_OFFSET, place | {"commitOffset": 2})
    await running.app.services.resets.apply(
        actor_at("test"),
        "billing",
        ResetOrder(["orders"], ResetTarget(ResetTo.EARLIEST)),
        precondition="",
        force=True,
    )
    stale = await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, place | {"commitOffset": 2})
    assert stale.code == ResponseCode.ILLEGAL_OPERATION
    moved = await client.ask(RequestCode.PULL_MESSAGE, pulling("billing", "orders", 2))
    assert (moved.code, moved.fields["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, "0")


async def test_the_ends_of_a_queue_and_the_offset_of_a_time_are_told(
    running: Running, client: Client
) -> None:
    await client.send("orders", b"1", queue=0)
    begin_ms = running.clock.now_ms()
    running.clock.advance(10)
    await client.send("orders", b"2", queue=0)
    place = {"topic": "orders", "queueId": 0}

    async def offset(code: int, **more: Any) -> str:
        return (await client.ok(code, place | more)).fields["offset"]

    assert await offset(RequestCode.GET_MIN_OFFSET) == "0"
    assert await offset(RequestCode.GET_MAX_OFFSET) == "2"
    search = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
    assert await offset(search, timestamp=begin_ms + 1) == "1"
    assert await offset(search, timestamp=begin_ms + 1, boundaryType="UPPER") == "0"
    earliest = await client.ok(RequestCode.GET_EARLIEST_MSG_STORETIME, place)
    assert earliest.fields["timestamp"] == str(begin_ms)


# -- failures and transactions -----------------------------------------------------------------


async def test_a_message_sent_back_is_retried_then_dead(running: Running, client: Client) -> None:
    await client.send("orders", b"x", queue=0, properties=UNIQ.format("AB12"))
    await client.beat("c1", "billing")
    (message,) = records((await client.ok(11, pulling("billing", "orders", 0))).body)
    back = {"offset": message.position, "group": "billing", "delayLevel": 1, "maxReconsumeTimes": 1}
    await client.ok(RequestCode.CONSUMER_SEND_MSG_BACK, back)
    running.advance(1.1)
    retry = "%RETRY%billing"
    (again,) = records((await client.ok(11, pulling("billing", retry, 0))).body)
    assert (again.topic, again.attempt, again.message_id) == (retry, 2, "AB12")
    assert again.properties["RETRY_TOPIC"] == "orders"
    await client.ok(RequestCode.CONSUMER_SEND_MSG_BACK, back | {"offset": again.position})
    assert running.broker.lag("billing").dead == 1


async def test_what_never_was_a_message_cannot_be_sent_back(client: Client) -> None:
    await client.beat("c1", "billing")
    for offset in (-1, 0, 12345, 1 << 62):
        back = {"offset": offset, "group": "billing", "delayLevel": 0}
        answer = await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)
        assert answer.code == ResponseCode.SYSTEM_ERROR


def ending(answer: Any, decision: int, **more: Any) -> dict[str, Any]:
    fields = answer.fields
    return {
        "producerGroup": "sender", "tranStateTableOffset": fields["queueOffset"],
        "commitLogOffset": int(fields["msgId"][16:], 16), "commitOrRollback": decision,
        "msgId": fields["transactionId"], "transactionId": fields["transactionId"],
    } | more  # fmt: skip


HALF = "TRAN_MSG\x01true\x02PGROUP\x01sender\x02"


async def test_a_half_message_is_seen_once_it_is_committed(
    running: Running, client: Client
) -> None:
    half = await client.send("orders", b"x", f=4, properties=HALF + UNIQ.format("AB12"))
    other = await client.send("orders", b"y", f=4, properties=HALF + UNIQ.format("AB13"))
    assert running.broker.topic_stats("orders").messages == 0
    await client.ok(RequestCode.END_TRANSACTION, ending(half, 8))
    await client.ok(RequestCode.END_TRANSACTION, ending(other, 12))
    assert running.broker.topic_stats("orders").messages == 1


async def test_a_transaction_of_another_group_is_not_decided(
    running: Running, client: Client
) -> None:
    half = await client.send("orders", b"x", f=4, properties=HALF)
    answer = await client.ask(RequestCode.END_TRANSACTION, ending(half, 8, producerGroup="other"))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert running.broker.topic_stats("orders").messages == 0


async def test_a_live_producer_is_asked_about_its_transaction(
    running: Running, client: Client
) -> None:
    await client.ok(RequestCode.HEART_BEAT, {}, beat_of("p1", producers=("sender",)))
    await client.send("orders", b"x", f=4, properties=HALF + UNIQ.format("AB12"))
    running.advance(7)
    check = await client.until_told(RequestCode.CHECK_TRANSACTION_STATE)
    assert check.flag & Flag.ONE_WAY
    (message,) = records(check.body)
    assert (message.topic, message.body, message.message_id) == ("orders", b"x", "AB12")
    assert message.properties["PGROUP"] == "sender"
    answer = ending(
        type("Sent", (), {"fields": {"queueOffset": "0", "msgId": check.fields["offsetMsgId"],
                                     "transactionId": check.fields["transactionId"]}}),
        8, fromTransactionCheck="true", commitLogOffset=check.fields["commitLogOffset"],
    )  # fmt: skip
    await client.ok(RequestCode.END_TRANSACTION, answer)
    assert running.broker.topic_stats("orders").messages == 1


async def test_a_transaction_that_was_given_up_is_checked_again(
    running: Running, client: Client
) -> None:
    half = await client.send("orders", b"x", f=4, properties=HALF + UNIQ.format("AB12"))
    fields = {"topic": "orders", "msgId": half.fields["msgId"]}
    answer = await client.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, fields)
    assert answer.code == ResponseCode.ILLEGAL_OPERATION  # it is still checked
    for _ in range(17):
        running.advance(30)
    await client.ok(RequestCode.RESUME_CHECK_HALF_MESSAGE, fields)
    await client.ok(RequestCode.HEART_BEAT, {}, beat_of("p1", producers=("sender",)))
    running.advance(60)
    check = await client.until_told(RequestCode.CHECK_TRANSACTION_STATE)
    assert records(check.body)[0].message_id == "AB12"
    sent = await client.send("orders", b"plain")
    answer = await client.ask(
        RequestCode.RESUME_CHECK_HALF_MESSAGE, fields | {"msgId": sent.fields["msgId"]}
    )
    assert answer.code == ResponseCode.SYSTEM_ERROR


# -- finding -----------------------------------------------------------------------------------


async def test_a_message_is_found_by_offset_id_key_and_message_id(
    running: Running, client: Client
) -> None:
    sent = await client.send("orders", b"x", properties=UNIQ.format("AB12") + "KEYS\x01k1\x02")
    view = {"topic": "orders", "offset": int(sent.fields["msgId"][16:], 16)}
    assert bodies((await client.ok(RequestCode.VIEW_MESSAGE_BY_ID, view)).body) == [b"x"]
    query = {"topic": "orders", "key": "k1", "maxNum": 10, "beginTimestamp": 0}
    query["endTimestamp"] = running.clock.now_ms() + 1
    assert bodies((await client.ok(RequestCode.QUERY_MESSAGE, query)).body) == [b"x"]
    by_id = query | {"key": "AB12", "_UNIQUE_KEY_QUERY": "true"}
    assert bodies((await client.ok(RequestCode.QUERY_MESSAGE, by_id)).body) == [b"x"]
    answer = await client.ask(RequestCode.QUERY_MESSAGE, query | {"key": "k2"})
    assert answer.code == ResponseCode.QUERY_NOT_FOUND


@pytest.mark.parametrize(
    ("index", "key", "order"), [("K", "a@b", [4, 3, 2, 1, 0]), ("T", "hot", [0, 1, 2, 3, 4])]
)
async def test_a_query_goes_on_after_the_last_key(
    running: Running, client: Client, index: str, key: str, order: list[int]
) -> None:
    positions: list[int] = []
    for number in range(5):
        properties = UNIQ.format(f"AB{number}") + "KEYS\x01a@b\x02TAGS\x01hot\x02"
        sent = await client.send("orders", b"%d" % number, properties=properties)
        positions.append(int(sent.fields["msgId"][16:], 16))
        await client.send("orders", b"cold", properties="KEYS\x01c\x02TAGS\x01cold\x02")
    query = {"topic": "orders", "key": key, "maxNum": 2, "beginTimestamp": 0, "indexType": index}
    query["endTimestamp"] = (1 << 63) - 1
    pages, last_key = [], ""
    for _ in range(3):
        answer = await client.ok(RequestCode.QUERY_MESSAGE, query | {"lastKey": last_key})
        pages.append([int(body) for body in bodies(answer.body)])
        last_key = f"0@orders@{index}@{key}@AB@{positions[pages[-1][-1]]}"
    assert pages == [order[:2], order[2:4], order[4:]]
    done = await client.ask(RequestCode.QUERY_MESSAGE, query | {"lastKey": last_key})
    assert done.code == ResponseCode.QUERY_NOT_FOUND


@pytest.mark.parametrize(
    "wrong",
    [{"lastKey": "0@orders@K@other@AB@1"}, {"lastKey": "0@orders@K@k1@AB@x"}, {"indexType": "X"}],
)
async def test_a_query_by_an_odd_index_is_refused(client: Client, wrong: dict[str, str]) -> None:
    await client.send("orders", b"x", properties=UNIQ.format("AB12") + "KEYS\x01k1\x02")
    query = {"topic": "orders", "key": "k1", "maxNum": 2, "beginTimestamp": 0, "endTimestamp": 0}
    answer = await client.ask(RequestCode.QUERY_MESSAGE, query | wrong)
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert next(iter(wrong)) in answer.remark
