"""The contract of the verbs: what every maker of `app.messaging` does, whatever keeps the messages.

The maker here is the embedded engine. With these same tests `tests/rocketmq/test_verbs.py` has
Apache's name server and two brokers, and `tests/app/cluster/test_verbs.py` KiteMQ's own port for
classic clients in the place of a cluster. What a maker lacks is left out by its capabilities.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from app import eager
from app.cluster.client import ClusterClient
from app.cluster.messaging import ClusterMessaging
from app.messaging import LockVerbs, MemberVerbs, Messaging, TransactionVerbs
from engine.broker import (
    AckResult,
    GroupConfig,
    LockedQueue,
    Nack,
    PullStatus,
    Receipt,
    TopicConfig,
    TopicType,
    TransactionCheck,
    TransactionDecision,
    TransactionState,
)
from engine.errors import (
    Conflict,
    EngineError,
    GroupNotFound,
    Invalid,
    MessageNotFound,
    QueueNotFound,
    Refused,
    TopicNotFound,
)
from engine.message import Durability, Message
from tests.app.conftest import App, started
from tests.app.maker import LIMIT_S, Maker, bodies
from tests.remoting.port import Running

pytestmark = pytest.mark.anyio
COMMIT, ROLLBACK = TransactionDecision.COMMIT, TransactionDecision.ROLLBACK


@pytest.fixture
async def maker(tmp_path: Path) -> AsyncIterator[Maker]:
    """The embedded engine."""
    async with started(tmp_path / "data") as app:
        yield maker_of(app, app.app.services.messaging)


def maker_of(app: App | Running, messaging: Messaging) -> Maker:
    broker = app.app.services.host.broker

    async def advance(seconds: float) -> None:
        app.advance(seconds)
        await asyncio.sleep(0.01)

    async def create_topic(name: str, queues: int, kind: str) -> None:
        broker.create_topic(TopicConfig(name, TopicType(kind), queues, queues))

    async def create_group(name: str, retry_max: int, ordered: bool) -> None:
        broker.create_group(GroupConfig(name, retry_max=retry_max, ordered=ordered))

    askers = broker.transactions.askers
    return Maker(messaging, advance, create_topic, create_group, askers, check_s=6.0)


def lacks(maker: Maker, capability: str) -> bool:
    return not getattr(maker.messaging.capabilities, capability)


# -- sending ------------------------------------------------------------------------------------


async def test_a_message_arrives_as_it_was_sent(maker: Maker) -> None:
    topic, group = await maker.topic(), await maker.group()
    new = Message(
        topic,
        b"body",
        tag="paid",
        keys=("k1", "k2"),
        properties={"colour": "gr\u00fcn"},
        message_id="ID1",
        flag=7,
        born_ms=1_700_000_000_000,
    )
    sent = await maker.messaging.send([new])
    [delivery] = await maker.receive(group, topic, 1)
    message = delivery.message
    assert (message.body, message.tag, message.keys) == (b"body", "paid", ("k1", "k2"))
    assert (message.message_id, message.flag, message.born_ms) == ("ID1", 7, 1_700_000_000_000)
    assert message.properties["colour"] == "gr\u00fcn"
    assert (message.topic, message.queue) == (topic, sent.messages[0].queue)
    assert (message.offset, message.position) == (sent.offsets[0], sent.positions[0])
    assert (delivery.attempt, sent.durability) == (1, Durability.STORED)
    assert new.queue in (-1, message.queue)


async def test_a_batch_lies_together_in_its_order(maker: Maker) -> None:
    topic = await maker.topic()
    texts = [str(each) for each in range(1500)]
    sent = await maker.messaging.send([Message(topic, each.encode()) for each in texts])
    assert len({each.queue for each in sent.messages}) == 1
    assert sent.offsets == list(range(sent.offsets[0], sent.offsets[0] + 1500))
    queue, offset, read = sent.messages[0].queue, sent.offsets[0], list[str]()
    async with asyncio.timeout(LIMIT_S):
        while len(read) < 1500:
            page = await maker.messaging.pull(topic, queue, offset, count_max=160)
            read += [each.body.decode() for each in page.messages]
            offset = page.next_offset
    assert read == texts
    assert len({each.message_id for each in sent.messages}) == 1500


async def test_a_message_group_keeps_its_order_and_its_queue(maker: Maker) -> None:
    topic, group = await maker.topic(4, "FIFO"), await maker.group(ordered=True)
    sent = [
        (await maker.send(topic, f"{name}{step}", message_group=name))[0]
        for step in range(3)
        for name in "abc"
    ]
    queues = {each.message_group: each.queue for each in sent}
    assert all(queues[each.message_group] == each.queue for each in sent)
    arrived: dict[str, list[str]] = {}
    for _ in range(9):
        [delivery] = await maker.receive(group, topic, 1)
        [body] = bodies([delivery])
        arrived.setdefault(body[0], []).append(body)
        await maker.messaging.ack(group, [delivery.receipt])
    assert arrived == {name: [f"{name}{step}" for step in range(3)] for name in "abc"}


async def test_what_cannot_be_sent_is_refused_by_its_field(maker: Maker) -> None:
    topic = await maker.topic()
    refused = {
        "messages[0].body": Message(topic, b"x" * (4 * 1024 * 1024 + 1)),
        "messages[0].tag": Message(topic, b"x", tag="a|b"),
        "messages[0].keys": Message(topic, b"x", keys=("a b",)),
        "messages[0].properties.DELAY": Message(topic, b"x", properties={"DELAY": "1"}),
        "messages[0].queue": Message(topic, b"x", queue=99),
        "messages[0].delay_level": Message(topic, b"x", delay_level=1, transaction_group="g"),
    }
    for field, message in refused.items():
        with pytest.raises(Invalid) as error:
            await maker.messaging.send([message])
        # Of a large one the size of all is looked at first.
        assert error.value.field == ("messages" if len(message.body) > 1 else field)
        assert error.value.remedy
        if message.body == b"x" and not message.transaction_group:
            with pytest.raises(Invalid) as error:
                await maker.messaging.check_message(message)
            assert error.value.field == field.removeprefix("messages[0].")
    with pytest.raises(Invalid):
        await maker.messaging.send([])
    await maker.messaging.check_message(Message(topic, b"x"))
    assert (await maker.messaging.queue_bounds(topic, 0)) == (0, 0)


async def test_sends_without_a_task_are_answered_in_order(maker: Maker) -> None:
    topic = await maker.topic(1)
    done: asyncio.Queue[object] = asyncio.Queue()
    for body in "abcde":
        maker.messaging.submit(
            [Message(topic, body.encode(), queue=0)], None, lambda *got: done.put_nowait(got)
        )
    async with asyncio.timeout(LIMIT_S):
        answers = [await done.get() for _ in range(5)]
    assert [each[0].offsets for each in answers] == [[0], [1], [2], [3], [4]]  # type: ignore[index]
    await maker.send(topic, "f", queue=0)
    page = await maker.messaging.pull(topic, 0, 0)
    assert [each.body for each in page.messages] == [b"a", b"b", b"c", b"d", b"e", b"f"]
    maker.messaging.submit([Message(topic, b"")], None, lambda *got: done.put_nowait(got))
    result, error = cast("tuple[object, object]", await asyncio.wait_for(done.get(), LIMIT_S))
    assert result is None
    assert isinstance(error, Invalid)


async def test_a_delayed_message_arrives_when_it_is_due(maker: Maker) -> None:
    topic, group = await maker.topic(4, "DELAY"), await maker.group()
    await maker.send(topic, "late", delay_level=2)
    assert await maker.is_quiet(group, topic)
    await maker.advance(3)
    assert await maker.is_quiet(group, topic)
    [delivery] = await maker.receive(group, topic, 1)
    assert bodies([delivery]) == ["late"]


async def test_a_message_with_a_time_arrives_then(maker: Maker) -> None:
    topic, group = await maker.topic(4, "DELAY"), await maker.group()
    [first] = await maker.send(topic, "now")
    due_ms = (await maker.messaging.message(topic, first.queue, 0)).stored_ms + 4000
    if lacks(maker, "exact_timers"):
        with pytest.raises(Refused) as error:
            await maker.send(topic, "timed", deliver_at_ms=due_ms)
        assert error.value.code == "not_supported"
        return
    await maker.send(topic, "timed", deliver_at_ms=due_ms)
    [delivery] = await maker.receive(group, topic, 1)
    await maker.messaging.ack(group, [delivery.receipt])
    assert await maker.is_quiet(group, topic)
    [delivery] = await maker.receive(group, topic, 1)
    assert bodies([delivery]) == ["timed"]
    assert delivery.message.stored_ms >= due_ms - 1000


# -- receiving ----------------------------------------------------------------------------------


async def test_every_group_gets_every_message_of_every_queue(maker: Maker) -> None:
    topic = await maker.topic()
    for queue in range(4):
        await maker.send(topic, str(queue), queue=queue)
    for _ in range(2):
        deliveries = await maker.receive(await maker.group(), topic, 4)
        assert {each.message.queue: bodies([each])[0] for each in deliveries} == {
            queue: str(queue) for queue in range(4)
        }


async def test_one_queue_alone_can_be_received_from(maker: Maker) -> None:
    topic, group = await maker.topic(), await maker.group()
    for queue in range(4):
        await maker.send(topic, str(queue), queue=queue)
    for queue in (2, 1):
        async with asyncio.timeout(LIMIT_S):
            while not (
                got := await maker.messaging.receive(group, {topic: "*"}, count_max=9, queue=queue)
            ):
                await maker.advance(0.1)
        assert bodies(got) == [str(queue)]


async def test_what_is_acknowledged_is_done_and_the_rest_comes_again(maker: Maker) -> None:
    topic, group = await maker.topic(), await maker.group()
    await maker.send(topic, "a", "b")
    first, second = await maker.receive(group, topic, 2, invisible_s=5)
    assert await maker.messaging.ack(group, [first.receipt]) == [AckResult.DONE]
    assert (await maker.messaging.ack(group, [first.receipt]))[0] is not AckResult.STALE
    await maker.advance(6)
    [again] = await maker.receive(group, topic, 1)
    assert (bodies([again]), again.attempt) == (bodies([second]), 2)
    assert again.message.origin_topic == topic
    assert again.message.message_id == second.message.message_id
    assert again.receipt != second.receipt
    assert (await maker.messaging.ack(group, [second.receipt]))[0] is not AckResult.DONE
    assert await maker.messaging.ack(group, [again.receipt]) == [AckResult.DONE]
    await maker.advance(6)
    assert await maker.is_quiet(group, topic)


async def test_acks_of_many_queues_settle_what_they_name_and_no_more(maker: Maker) -> None:
    topic, group = await maker.topic(), await maker.group()
    for queue in range(4):
        await maker.send(topic, *(f"{queue}-{number}" for number in range(20)), queue=queue)
    got = await maker.receive(group, topic, 80, invisible_s=8)
    kept = [each for each in got if each.message.offset % 7 == 3]
    done = [each.receipt for each in got if each not in kept]
    assert await maker.messaging.ack(group, done) == [AckResult.DONE] * len(done)
    await maker.advance(9)
    again = await maker.receive(group, topic, len(kept), invisible_s=60)
    assert sorted(bodies(again)) == sorted(bodies(kept))
    assert await maker.is_quiet(group, topic)


async def test_a_nacked_message_comes_back_then_lies_in_the_dead_letters(maker: Maker) -> None:
    topic, group = await maker.topic(), await maker.group(retry_max=1)
    await maker.send(topic, "x", tag="t", keys=("k",), properties={"colour": "red"})
    for attempt in (1, 2):
        [delivery] = await maker.receive(group, topic, 1)
        assert delivery.attempt == attempt
        nack = Nack(delivery.receipt, delay_s=1.0, error="no stock")
        assert await maker.messaging.nack(group, [nack], "worker") == [AckResult.DONE]
    await maker.advance(3)
    assert await maker.is_quiet(group, topic)
    letter = await dead_letter(maker, group)
    assert (letter.body, letter.tag, letter.keys) == (b"x", "t", ("k",))
    assert letter.origin_topic == topic
    properties = letter.properties
    assert (properties["colour"], properties["KITE_ERROR"]) == ("red", "no stock")
    assert (properties["KITE_REASON"], properties["KITE_CLIENT"]) == (
        "attempts_exhausted",
        "worker",
    )


async def dead_letter(maker: Maker, group: str):  # type: ignore[no-untyped-def]
    """The one dead letter of a group, once it is there."""
    topic = f"%DLQ%{group}"
    async with asyncio.timeout(LIMIT_S):
        while True:
            try:
                count = (await maker.messaging.topic(topic)).read_queues
                for queue in range(count):
                    if (await maker.messaging.queue_bounds(topic, queue))[1]:
                        return await maker.messaging.message(topic, queue, 0)
            except TopicNotFound:
                pass
            await maker.advance(0.1)


async def test_a_rejected_message_is_dead_at_once(maker: Maker) -> None:
    topic, group = await maker.topic(), await maker.group()
    await maker.send(topic, "x")
    [delivery] = await maker.receive(group, topic, 1)
    nack = Nack(delivery.receipt, delay_level=-1, error="nonsense")
    assert await maker.messaging.nack(group, [nack]) == [AckResult.DONE]
    letter = await dead_letter(maker, group)
    assert letter.properties["KITE_REASON"] == "rejected"
    assert letter.message_id == delivery.message.message_id


async def test_an_extended_delivery_stays_its_receivers_under_its_receipt(maker: Maker) -> None:
    topic, group = await maker.topic(), await maker.group()
    await maker.send(topic, "x")
    [delivery] = await maker.receive(group, topic, 1, invisible_s=4)
    [extended] = await maker.messaging.extend(group, [delivery.receipt], 60)
    assert extended.result is AckResult.DONE
    assert extended.until_ms > delivery.invisible_until_ms
    await maker.advance(6)
    assert await maker.is_quiet(group, topic)
    [again] = await maker.messaging.extend(group, [delivery.receipt], 30)
    assert again.result is AckResult.DONE
    assert await maker.messaging.ack(group, [delivery.receipt]) == [AckResult.DONE]


async def test_a_renewed_delivery_has_a_new_receipt(maker: Maker) -> None:
    topic, group = await maker.topic(), await maker.group()
    await maker.send(topic, "x")
    [delivery] = await maker.receive(group, topic, 1, invisible_s=4)
    renewed = await maker.messaging.renew(group, delivery.receipt, 60)
    assert renewed is not None
    assert renewed != delivery.receipt
    await maker.advance(6)
    assert await maker.is_quiet(group, topic)
    assert await maker.messaging.renew(group, delivery.receipt, 60) is None
    assert await maker.messaging.ack(group, [renewed]) == [AckResult.DONE]


async def test_a_released_message_comes_back_soon(maker: Maker) -> None:
    topic, group = await maker.topic(), await maker.group()
    await maker.send(topic, "x")
    [delivery] = await maker.receive(group, topic, 1, invisible_s=600)
    assert await maker.messaging.release(group, [delivery.receipt]) == [AckResult.DONE]
    [again] = await maker.receive(group, topic, 1)
    assert bodies([again]) == ["x"]
    assert again.attempt == (2 if lacks(maker, "uncounted_releases") else 1)


async def test_a_receipt_of_nobodys_settles_nothing(maker: Maker) -> None:
    topic, group = await maker.topic(), await maker.group()
    await maker.send(topic, "x", queue=0)
    [delivery] = await maker.receive(group, topic, 1, invisible_s=4)
    for receipt in (
        Receipt(topic, 0, 0, 2),
        Receipt(topic, 0, 0, (1 << 62) - 1),
        delivery.receipt._replace(topic=f"%RETRY%{group}-other_{topic}"),
    ):
        assert await ack_of(maker, group, receipt) in (AckResult.STALE, "receipts[0]")
    await maker.advance(5)
    assert (await maker.receive(group, topic, 1))[0].attempt == 2


async def ack_of(maker: Maker, group: str, receipt: Receipt) -> str:
    """Its result, or the field by which it is refused."""
    try:
        return (await maker.messaging.ack(group, [receipt]))[0]
    except Invalid as error:
        return error.field


async def test_a_failed_message_of_an_ordered_group_comes_before_those_behind_it(
    maker: Maker,
) -> None:
    topic, group = await maker.topic(4, "FIFO"), await maker.group(ordered=True)
    await maker.send(topic, "1", message_group="order-7")
    await maker.send(topic, "2", message_group="order-7")
    [first] = await maker.receive(group, topic, 1)
    assert bodies([first]) == ["1"]
    nack = Nack(first.receipt, delay_s=1.0)
    assert await maker.messaging.nack(group, [nack]) == [AckResult.DONE]
    assert await maker.is_quiet(group, topic)
    [again] = await maker.receive(group, topic, 1)
    assert (bodies([again]), again.attempt) == (["1"], 2)
    assert await maker.messaging.ack(group, [again.receipt]) == [AckResult.DONE]
    [second] = await maker.receive(group, topic, 1)
    assert (bodies([second]), second.attempt) == (["2"], 1)


async def test_a_filter_lets_only_its_tags_through(maker: Maker) -> None:
    topic, group = await maker.topic(), await maker.group()
    for tag in ("new", "old", "odd", "AaAa", "BBBB"):  # the last two have the same hash
        await maker.send(topic, tag, tag=tag)
    got = await maker.receive(group, topic, 3, filter="new || odd || AaAa")
    assert sorted(bodies(got)) == ["AaAa", "new", "odd"]
    await maker.advance(1)
    assert await maker.messaging.receive(group, {topic: "new || odd || AaAa"}, count_max=9) == []
    for text in ("x" * 20_000, "SQL92: a >"):
        with pytest.raises(EngineError):
            await maker.messaging.check_filter(text)
        with pytest.raises(EngineError):
            await maker.messaging.receive(group, {topic: text})


async def test_an_expression_chooses_by_properties(maker: Maker) -> None:
    topic, group = await maker.topic(), await maker.group()
    for amount in (1, 7, 9):
        await maker.send(topic, str(amount), properties={"amount": str(amount)})
    if lacks(maker, "sql_filters"):
        with pytest.raises(Refused) as error:
            await maker.messaging.receive(group, {topic: "SQL92: amount > 5"})
        assert (error.value.code, error.value.field) == ("not_supported", "filter")
        return
    got = await maker.receive(group, topic, 2, filter="SQL92: amount > 5")
    assert sorted(bodies(got)) == ["7", "9"]


async def test_one_receive_reads_several_topics(maker: Maker) -> None:
    first, second, group = await maker.topic(), await maker.topic(), await maker.group()
    await maker.send(first, "1")
    await maker.send(second, "2")
    got = list[str]()
    async with asyncio.timeout(LIMIT_S):
        while len(got) < 2:
            topics = {first: "*", second: "*"}
            got += bodies(await maker.messaging.receive(group, topics, count_max=10))
    assert sorted(got) == ["1", "2"]


async def test_a_message_ends_the_wait_for_it(maker: Maker) -> None:
    topic, group = await maker.topic(), await maker.group()
    waiting = asyncio.create_task(maker.messaging.receive(group, {topic: "*"}, wait_s=60))
    await asyncio.sleep(0.5)
    assert not waiting.done()
    await maker.send(topic, "x")
    assert bodies(await asyncio.wait_for(waiting, LIMIT_S)) == ["x"]
    assert await maker.messaging.receive(group, {topic: "*"}, wait_s=0.2) == []


async def test_a_wait_that_is_cancelled_leaves_the_message_to_the_next(maker: Maker) -> None:
    topic, group = await maker.topic(), await maker.group()
    woken = asyncio.Event()
    first = maker.messaging.wait_to_receive(group, {topic: "*"}, woken.set)
    second = asyncio.create_task(maker.messaging.receive(group, {topic: "*"}, wait_s=60))
    await asyncio.sleep(0.3)
    first.cancel()
    first.cancel()
    await maker.send(topic, "x")
    assert bodies(await asyncio.wait_for(second, LIMIT_S)) == ["x"]
    assert not woken.is_set()
    third = maker.messaging.wait_to_receive(group, {topic: "*"}, woken.set)
    await maker.send(topic, "y")
    await asyncio.wait_for(woken.wait(), LIMIT_S)
    assert third.is_woken
    third.cancel()


async def test_a_group_or_topic_that_is_not_there_is_named(maker: Maker) -> None:
    with pytest.raises(TopicNotFound):
        await maker.messaging.topic("nothing")
    with pytest.raises(GroupNotFound):
        await maker.messaging.group("nobody")
    with pytest.raises(GroupNotFound):
        await maker.messaging.ack("nobody", [])
    topic = await maker.topic()
    with pytest.raises(QueueNotFound):
        await maker.messaging.pull(topic, 99, 0)
    config = await maker.messaging.topic(topic)
    assert (config.read_queues, config.write_queues, config.type) == (4, 4, TopicType.NORMAL)
    assert (await maker.messaging.topic(await maker.topic(4, "FIFO"))).type is TopicType.FIFO
    group = await maker.messaging.group(await maker.group(retry_max=3, ordered=True))
    assert (group.retry_max, group.ordered, group.consume_enabled) == (3, True, True)
    assert not await maker.messaging.is_broadcast(group.name)


async def test_a_topic_and_a_group_are_made_at_their_first_use(maker: Maker) -> None:
    topic, group = await maker.topic() + "x", await maker.group() + "x"
    assert (await maker.messaging.plan_topic(topic)).write_queues == 4
    with pytest.raises(TopicNotFound):
        await maker.messaging.topic(topic)
    await maker.send(topic, "x")
    assert bodies(await maker.receive(group, topic, 1)) == ["x"]
    assert (await maker.messaging.topic(topic)).write_queues == 4
    assert (await maker.messaging.group(group)).name == group


# -- pulling and reading ------------------------------------------------------------------------


async def test_a_pull_reads_from_an_offset_and_says_where_to_go_on(maker: Maker) -> None:
    topic = await maker.topic()
    await maker.send(topic, *"abc", queue=3)
    page = await maker.messaging.pull(topic, 3, 1, count_max=1)
    assert (page.status, [each.body for each in page.messages]) == (PullStatus.FOUND, [b"b"])
    assert (page.next_offset, page.min_offset, page.max_offset) == (2, 0, 3)
    assert page.messages[0].queue == 3
    at_end = await maker.messaging.pull(topic, 3, 3)
    assert (at_end.status, at_end.next_offset) == (PullStatus.OFFSET_OVERFLOW_ONE, 3)
    behind = await maker.messaging.pull(topic, 3, 9)
    assert behind.status is PullStatus.OFFSET_OVERFLOW_BADLY
    empty = await maker.messaging.pull(topic, 2, 0)
    assert (empty.status, empty.messages) == (PullStatus.NO_MESSAGE_IN_QUEUE, [])
    with pytest.raises(Invalid):
        await maker.messaging.pull(topic, 3, 0, count_max=161)


async def test_a_pull_waits_for_a_message_that_matches(maker: Maker) -> None:
    topic = await maker.topic()
    pulling = asyncio.create_task(maker.messaging.pull(topic, 1, 0, filter="fit", wait_s=60))
    await asyncio.sleep(0.3)
    await maker.send(topic, "no", tag="other", queue=1)
    await asyncio.sleep(0.3)
    assert not pulling.done()
    await maker.send(topic, "yes", tag="fit", queue=1)
    page = await asyncio.wait_for(pulling, LIMIT_S)
    assert ([each.body for each in page.messages], page.next_offset) == ([b"yes"], 2)
    woken = asyncio.Event()
    wait = maker.messaging.wait_to_pull(topic, 1, 2, "*", woken.set)
    await maker.send(topic, "more", queue=1)
    await asyncio.wait_for(woken.wait(), LIMIT_S)
    assert wait.is_woken


async def test_offsets_are_kept_by_group_and_queue(maker: Maker) -> None:
    topic, group = await maker.topic(), await maker.group()
    await maker.send(topic, *"abcde", queue=2)
    assert await maker.messaging.committed_offset(group, topic, 2) is None
    assert await maker.messaging.start_offset(group, topic, 2) == 0
    assert await maker.messaging.is_young_queue(topic, 2)
    assert await maker.messaging.commit_offset(group, topic, 2, 4)
    assert await maker.messaging.committed_offset(group, topic, 2) == 4
    assert await maker.messaging.commit_offset(group, topic, 2, 1)
    assert await maker.messaging.advance_offset(group, topic, 2, 3)
    assert await maker.messaging.committed_offset(group, topic, 2) == 3
    got = await maker.receive(group, topic, 2)
    assert bodies(got) == ["d", "e"]


async def test_a_message_is_found_by_its_place_and_by_its_offset_id(maker: Maker) -> None:
    topic = await maker.topic()
    [sent] = await maker.send(topic, "x", queue=1)
    message = await maker.messaging.message(topic, 1, 0)
    assert (message.body, message.message_id) == (b"x", sent.message_id)
    same = await maker.messaging.message_by_offset_id(message.offset_id)
    assert (same.topic, same.queue, same.offset) == (topic, 1, 0)
    for offset in (-1, 1, 1 << 40):
        with pytest.raises(MessageNotFound):
            await maker.messaging.message(topic, 1, offset)
    for name in ("nonsense", "0" * 32):
        with pytest.raises(MessageNotFound):
            await maker.messaging.message_by_offset_id(name)


async def test_a_queue_says_what_it_holds(maker: Maker) -> None:
    topic = await maker.topic()
    assert await maker.messaging.queue_bounds(topic, 3) == (0, 0)
    await maker.send(topic, *"abc", queue=3)
    assert await maker.messaging.queue_bounds(topic, 3) == (0, 3)
    first, last = [await maker.messaging.message(topic, 3, each) for each in (0, 2)]
    content = await maker.messaging.queue_content(topic, 3, count_max=2)
    assert (content.first_stored_ms, content.measured) == (first.stored_ms, 2)
    assert content.bytes == last.size_bytes * 2
    assert await maker.messaging.offset_at_time(topic, 3, first.stored_ms) == 0
    assert await maker.messaging.offset_at_time(topic, 3, last.stored_ms + 60_000) == 3


async def test_a_pulling_client_sends_back_what_it_failed_with(maker: Maker) -> None:
    topic, group = await maker.topic(), await maker.group()
    await maker.send(topic, "x", queue=0)
    await maker.messaging.send_back(group, topic, 0, 0, delay_level=-1)
    assert (await dead_letter(maker, group)).body == b"x"


# -- transactions -------------------------------------------------------------------------------


async def test_a_message_is_seen_only_after_its_commit(maker: Maker) -> None:
    topic, group = await maker.topic(4, "TRANSACTION"), await maker.group()
    producers = f"producers-{topic}"
    [first] = await maker.send(topic, "a", transaction_group=producers, tag="t")
    [second] = await maker.send(topic, "b", transaction_group=producers)
    assert await maker.is_quiet(group, topic)
    decide = maker.messaging.transactions.decide
    done = await decide(first.message_id, COMMIT, group=producers)
    assert (done.state, done.topic) == (TransactionState.COMMITTED, topic)
    assert (await decide(second.message_id, ROLLBACK)).state is TransactionState.ROLLED_BACK
    [delivery] = await maker.receive(group, topic, 1)
    message = delivery.message
    assert (message.message_id, message.body, message.tag) == (first.message_id, b"a", "t")
    await maker.messaging.ack(group, [delivery.receipt])
    assert (await decide(first.message_id, COMMIT)).state is TransactionState.COMMITTED
    assert (await decide(second.message_id, ROLLBACK)).state is TransactionState.ROLLED_BACK
    with pytest.raises(Conflict) as error:
        await decide(first.message_id, ROLLBACK)
    assert error.value.code == "transaction_committed"
    with pytest.raises(Conflict) as error:
        await decide(second.message_id, COMMIT)
    assert error.value.code == "transaction_rolled_back"
    with pytest.raises(MessageNotFound) as missing:
        await decide("NOBODYS", COMMIT)
    assert missing.value.code == "transaction_not_found"
    await maker.advance(2)
    assert await maker.is_quiet(group, topic)


async def test_an_undecided_transaction_is_asked_about(maker: Maker) -> None:
    topic, group = await maker.topic(4, "TRANSACTION"), await maker.group()
    producers = f"producers-{topic}"
    questions: asyncio.Queue[TransactionCheck] = asyncio.Queue()

    def ask(check: TransactionCheck) -> bool:
        questions.put_nowait(check)
        return True

    maker.askers.append(ask)
    try:
        [sent] = await maker.send(topic, "a", transaction_group=producers)
        async with asyncio.timeout(LIMIT_S):
            while questions.empty():
                await maker.advance(maker.check_s / 2)
            check = await questions.get()
    finally:
        maker.askers.remove(ask)
    assert (check.transaction_id, check.producer_group) == (sent.message_id, producers)
    assert (check.message.topic, check.message.body) == (topic, b"a")
    await maker.messaging.transactions.decide(check.transaction_id, COMMIT, group=producers)
    assert bodies(await maker.receive(group, topic, 1)) == ["a"]


async def test_a_check_that_nobody_was_asked_can_be_taken(maker: Maker) -> None:
    topic = await maker.topic(4, "TRANSACTION")
    producers = f"producers-{topic}"
    [sent] = await maker.send(topic, "a", transaction_group=producers)
    transactions = maker.messaging.transactions
    async with asyncio.timeout(LIMIT_S):
        while not (checks := await transactions.checks(producers)):
            await maker.advance(maker.check_s / 2)
    assert [each.transaction_id for each in checks] == [sent.message_id]
    assert checks[0].number >= 1
    assert await transactions.checks(producers) == []
    await transactions.decide(sent.message_id, ROLLBACK)


# -- locks and members --------------------------------------------------------------------------


async def test_a_queue_is_locked_for_one_client(maker: Maker) -> None:
    topic, group = await maker.topic(), await maker.group()
    locks, queues = maker.messaging.locks, [LockedQueue(topic, each) for each in range(4)]
    got = await locks.lock(group, "first", queues[:2])
    assert (got.locked, got.lease_s) == (queues[:2], 60.0)
    assert (await locks.lock(group, "second", queues)).locked == queues[2:]
    assert (await locks.lock(group, "first", queues[:1])).locked == queues[:1]
    assert await locks.unlock(group, "first", queues) == queues[:2]
    assert (await locks.lock(group, "second", queues)).locked == queues
    with pytest.raises(QueueNotFound) as error:
        await locks.lock(group, "first", [queues[0], LockedQueue(topic, 99)])
    assert error.value.field == "queues[1].queue"


async def test_signs_of_life_never_fail(maker: Maker) -> None:
    topic, group = await maker.topic(), await maker.group()
    members = maker.messaging.members
    await members.seen(group, "worker", topics={topic: "*"})
    connection = await members.connect(group, "worker", topics={topic: "*"})
    connection.close()
    connection.close()
    if lacks(maker, "member_shares"):
        with pytest.raises(Refused) as error:
            await members.heartbeat(group, "worker", topics={topic: "*"})
        assert error.value.code == "not_supported"
        return
    await members.heartbeat(group, "worker", topics={topic: "*"})
    assignment = await members.assignment(group, topic, "worker")
    assert assignment.queues == [0, 1, 2, 3]
    assert await members.leave(group, "worker")


# -- how verbs are called -----------------------------------------------------------------------


async def test_verbs_may_begin_outside_a_task(maker: Maker) -> None:
    topic, group = await maker.topic(), await maker.group()
    await maker.send(topic, "x", queue=0)
    [delivery] = await maker.receive(group, topic, 1)
    verbs = maker.messaging
    calls = {
        "commit": lambda: verbs.commit_offset(group, topic, 1, 0),
        "wait": lambda: verbs.receive(group, {topic: "*"}, wait_s=0.05),
        "pull": lambda: verbs.pull(topic, 2, 0, wait_s=0.05),
        "lock": lambda: verbs.locks.lock(group, "c", [LockedQueue(topic, 0)]),
        "seen": lambda: verbs.members.seen(group, "c", creates=True),
        "ack": lambda: verbs.ack(group, [delivery.receipt]),
        "send": lambda: verbs.send([Message(topic, b"y")]),
    }
    ended: asyncio.Queue[tuple[str, object]] = asyncio.Queue()

    def begin(name: str) -> None:
        eager.run(calls[name](), lambda _result, error: ended.put_nowait((name, error)))

    for name in calls:
        asyncio.get_running_loop().call_soon(begin, name)
    async with asyncio.timeout(LIMIT_S):
        assert dict([await ended.get() for _ in calls]) == dict.fromkeys(calls)


# -- the list of verbs --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verbs", "attribute"),
    [
        (Messaging, ""),
        (TransactionVerbs, "transactions"),
        (LockVerbs, "locks"),
        (MemberVerbs, "members"),
    ],
)
def test_a_cluster_answers_each_verb_by_a_method_of_its_own(verbs: type, attribute: str) -> None:
    messaging = ClusterMessaging(ClusterClient("127.0.0.1:1"))
    answers = type(getattr(messaging, attribute)) if attribute else ClusterMessaging
    names = {name for name, _ in inspect.getmembers(verbs, inspect.isfunction)}
    names = {name for name in names if not name.startswith("_")}
    assert names
    assert [name for name in names if getattr(answers, name) is getattr(verbs, name)] == []
    for name in sorted(names):
        expected = list(inspect.signature(getattr(verbs, name)).parameters)[1:]
        given = list(inspect.signature(getattr(answers, name)).parameters)[1:]
        assert given == expected, name
