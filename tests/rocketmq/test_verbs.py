"""The contract of the verbs, answered by Apache RocketMQ: a name server and two masters.

And what no other maker can show: a broker that is killed while it is used.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count
from typing import Any

import pytest

from app.cluster.client import ClusterClient
from app.cluster.groups import ClusterGroup
from app.cluster.messaging import ClusterMessaging
from engine.broker import (
    AckResult,
    CheckSettings,
    Delivery,
    ScheduledPage,
    TimerAnswer,
    TransactionCheck,
    TransactionDecision,
    TransactionState,
)
from engine.errors import Busy, Conflict, MessageNotFound, Refused
from engine.message import Message, StoredMessage
from protocol.remoting.codes import RequestCode
from tests.app import test_messaging as contract
from tests.app.maker import LIMIT_S, Maker, bodies
from tests.rocketmq.cluster import ApacheCluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.crash,
    pytest.mark.anyio,
    pytest.mark.xdist_group("rocketmq"),
    pytest.mark.timeout(600),
]


@pytest.fixture
async def messaging(cluster: ApacheCluster) -> AsyncIterator[ClusterMessaging]:
    client = ClusterClient(cluster.name_server)
    async with ClusterMessaging(client) as messaging:
        yield messaging


@pytest.fixture
def maker(messaging: ClusterMessaging) -> Maker:
    return maker_of(messaging)


def maker_of(messaging: ClusterMessaging) -> Maker:
    client = messaging.catalog.client

    async def create_topic(name: str, queues: int, kind: str) -> None:
        await client.topics.create(name, -(-queues // 2), kind=kind)

    async def create_group(name: str, retry_max: int, ordered: bool) -> None:
        await client.groups.create(
            ClusterGroup(name, retry_max_times=retry_max, consume_message_orderly=ordered)
        )

    askers = messaging.transactions.askers
    return Maker(messaging, asyncio.sleep, create_topic, create_group, askers, check_s=2.0)


globals().update({name: test for name, test in vars(contract).items() if name.startswith("test_")})


async def test_message_groups_stay_on_the_brokers_that_have_the_topic(
    messaging: ClusterMessaging, maker: Maker
) -> None:
    topic = f"{await maker.topic()}-of-a"
    fields = {
        "topic": topic, "defaultTopic": "TBW102", "readQueueNums": 2, "writeQueueNums": 2,
        "perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": False,
    }  # fmt: skip
    await messaging._client._link.ask("a", RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
    async with asyncio.timeout(LIMIT_S):
        while not await messaging._client.topics.exists(topic):
            await asyncio.sleep(0.1)
    sent = [(await maker.send(topic, "x", message_group=str(each)))[0] for each in range(20)]
    assert {each.queue for each in sent} == {0, 2}
    assert await messaging.queue_bounds(topic, 1) == (0, 0)


async def test_a_copy_that_a_broker_asked_about_is_not_delivered_besides(
    cluster: ApacheCluster, maker: Maker
) -> None:
    topic, group = await maker.topic(kind="TRANSACTION"), await maker.group()
    questions: asyncio.Queue[TransactionCheck] = asyncio.Queue()

    def ask(check: TransactionCheck) -> bool:
        questions.put_nowait(check)
        return True

    maker.askers.append(ask)
    [sent] = await maker.send(topic, "x", transaction_group=f"producers-{topic}")
    await asyncio.wait_for(questions.get(), LIMIT_S)
    async with ClusterMessaging(ClusterClient(cluster.name_server)) as other:
        commit = TransactionDecision.COMMIT
        assert (await other.transactions.decide(sent.message_id, commit)).topic == topic
    [delivery] = await maker.receive(group, topic, 1)
    await maker.messaging.ack(group, [delivery.receipt])
    await until_indexed(maker, delivery.message)
    again = await maker.messaging.transactions.decide(sent.message_id, commit)
    assert again.state is TransactionState.COMMITTED
    await asyncio.sleep(8)  # the broker looks every 2 s for what is undecided
    assert await maker.is_quiet(group, topic)
    maker.askers.remove(ask)


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(LIMIT_S):
        while not await is_so():
            await asyncio.sleep(0.2)


async def test_what_waits_at_both_brokers_is_listed_by_time(
    messaging: ClusterMessaging, maker: Maker
) -> None:
    topic = await maker.topic(4, "DELAY")
    now_ms = messaging.catalog.now_ms()
    [late] = await maker.send(topic, "late", queue=0, deliver_at_ms=now_ms + 120_000)
    [next_] = await maker.send(topic, "next", queue=1, deliver_at_ms=now_ms + 90_000)
    await maker.send(topic, "level", queue=0, delay_level=5, tag="t")
    await maker.send(topic, "level-b", queue=1, delay_level=5)
    expected = ["level", "level-b", "next", "late"]

    async def listed(**query: Any) -> ScheduledPage:
        return await messaging.scheduled(topic=topic, **query)

    async def is_whole() -> bool:
        return len((await listed()).items) == 4

    await until(is_whole)
    page = await listed()
    assert [each.message.body.decode() for each in page.items] == expected
    assert (page.next, page.unknown, page.count >= 4) == (None, "", True)
    dues = [each.due_ms - now_ms for each in page.items]
    assert all(60_000 <= due < 80_000 for due in dues[:2])
    assert dues[2:] == [90_000, 120_000]
    assert [(each.topic, each.queue, each.delay_level) for each in page.items] == [
        (topic, 0, 5), (topic, 1, 5), (topic, 1, 0), (topic, 0, 0),
    ]  # fmt: skip
    first = await listed(count_max=3)
    rest = await listed(count_max=3, after=first.next)
    paged = [*first.items, *rest.items]
    assert [each.message.body.decode() for each in paged] == expected
    later = await listed(from_ms=now_ms + 100_000)
    assert [each.message.body for each in later.items] == [b"late"]
    levels = await messaging.delay_levels()
    assert [each.delay_ms for each in levels][:5] == [1_000, 5_000, 10_000, 30_000, 60_000]
    assert levels[4].count >= 2
    before = await messaging.scheduled_counts([now_ms, now_ms + 85_000, now_ms + 200_000])
    assert before[2] - before[1] >= 2 <= before[1] - before[0]
    for name in (next_.message_id, page.items[2].message.offset_id):
        item = await messaging.find_scheduled(name)
        assert item is not None
        assert (item.due_ms, item.message.body) == (now_ms + 90_000, b"next")
    record = page.items[0].message
    again = await messaging.message(record.topic, record.queue, record.offset)
    assert again.body == b"level"
    assert await messaging.find_scheduled(late.message_id) is not None
    assert await messaging.find_scheduled("none") is None


async def test_a_recalled_message_is_never_delivered(
    cluster: ApacheCluster, messaging: ClusterMessaging, maker: Maker
) -> None:
    topic, group = await maker.topic(4, "DELAY"), await maker.group()
    due_ms = messaging.catalog.now_ms() + 15_000
    [gone] = await maker.send(topic, "gone", queue=0, deliver_at_ms=due_ms)
    [kept] = await maker.send(topic, "kept", queue=1, deliver_at_ms=due_ms)
    [level] = await maker.send(topic, "level", queue=0, delay_level=4)

    async def is_recalled() -> bool:
        return await messaging.recall(gone.message_id) is TimerAnswer.RECALLED

    await until(is_recalled)
    assert await messaging.recall(gone.message_id) is TimerAnswer.RECALLED
    assert await messaging.find_scheduled(gone.message_id) is None
    async with ClusterMessaging(ClusterClient(cluster.name_server)) as other:

        async def is_known() -> bool:
            listed = (await other.scheduled(topic=topic)).items
            return {each.message.body for each in listed} == {b"kept", b"level"}

        await until(is_known)
        assert await other.recall(gone.message_id) is TimerAnswer.RECALLED
    for change in (messaging.recall(level.message_id), messaging.deliver_now(kept.message_id)):
        with pytest.raises(Refused) as refusal:
            await change
        assert (refusal.value.code, refusal.value.field) == ("not_supported", "message_id")
    assert await messaging.recall("none") is TimerAnswer.NOT_FOUND
    assert bodies(await maker.receive(group, topic, 1)) == ["kept"]
    assert bodies(await maker.receive(group, topic, 1)) == ["level"]
    assert await maker.is_quiet(group, topic)
    assert await messaging.recall(kept.message_id) is TimerAnswer.ALREADY_DELIVERED
    assert await messaging.recall(level.message_id) is TimerAnswer.ALREADY_DELIVERED
    [soon] = await maker.send(topic, "soon", deliver_at_ms=messaging.catalog.now_ms() + 3_000)
    await until(lambda: is_late(messaging, soon.message_id))


async def is_late(messaging: ClusterMessaging, message_id: str) -> bool:
    """Whether a recall is refused because the message is about to be delivered."""
    try:
        await messaging.recall(message_id)
    except Conflict as error:
        return error.field == "message_id"
    return False


async def test_undecided_transactions_are_listed_until_somebody_decides(
    cluster: ApacheCluster, messaging: ClusterMessaging, maker: Maker
) -> None:
    topic = await maker.topic(4, "TRANSACTION")
    producers = f"producers-{topic}"
    sent = [
        (await maker.send(topic, name, queue=number, transaction_group=producers))[0]
        for number, name in enumerate(("a", "b", "c", "d"))
    ]
    ids = dict(zip("abcd", (each.message_id for each in sent), strict=True))
    transactions = messaging.transactions

    async def names(kind: str = "pending") -> list[str]:
        page = await getattr(transactions, kind)(group=producers)
        assert page.unknown == ""
        return [each.message.body.decode() for each in page.items]

    async def state(name: str) -> TransactionState:
        return (await transactions.get(ids[name], group=producers)).state

    async def are_listed() -> bool:
        return await names() == ["a", "b", "c", "d"]

    await until(are_listed)
    assert await transactions.check_settings() == CheckSettings(2_000, 15)
    page = await transactions.pending(group=producers, count_max=3)
    assert page.count >= 4
    rest = await transactions.pending(group=producers, after=page.next or "")
    assert [each.transaction_id for each in rest.items] == [ids["d"]]
    first = page.items[0]
    assert (first.topic, first.queue, first.producer_group) == (topic, 0, producers)
    assert (await transactions.get(first.message.offset_id)).transaction_id == ids["a"]
    async with ClusterMessaging(ClusterClient(cluster.name_server)) as other:
        await other.transactions.decide(ids["a"], TransactionDecision.ROLLBACK)
        await other.transactions.decide(ids["b"], TransactionDecision.COMMIT)

        async def are_decided() -> bool:
            states = [await state(name) for name in "ab"]
            return states == [TransactionState.ROLLED_BACK, TransactionState.COMMITTED]

        await until(are_decided)

        async def are_given_up() -> bool:
            assert set(await names()) <= {"a", "b", "c", "d"}
            return sorted(await names("given_up")) == ["c", "d"]

        await until(are_given_up)
        assert await names() == []
        assert [await state(name) for name in "cd"] == [TransactionState.GIVEN_UP] * 2
        [given_up] = (await other.transactions.given_up(group=producers, count_max=1)).items
        assert given_up.checks == 15
        resumed = await other.transactions.resume(ids["c"], group=producers)
        assert resumed.state is TransactionState.PENDING
        await other.transactions.decide(ids["d"], TransactionDecision.ROLLBACK)

        async def is_resumed() -> bool:
            return (await names(), await names("given_up")) == (["c"], [])

        await until(is_resumed)
        assert [await state(name) for name in "cd"] == [
            TransactionState.PENDING,
            TransactionState.ROLLED_BACK,
        ]
        await other.transactions.decide(ids["c"], TransactionDecision.ROLLBACK)

        async def is_over() -> bool:
            return (await names(), await state("c")) == ([], TransactionState.ROLLED_BACK)

        await until(is_over)


async def until_indexed(maker: Maker, message: StoredMessage) -> None:
    """Wait until the broker finds a message by its id, by which other processes know of it."""
    assert isinstance(maker.messaging, ClusterMessaging)
    reads, topic = maker.messaging._client.reads, message.topic
    async with asyncio.timeout(LIMIT_S):
        while not await reads.by_key(topic, message.message_id, is_id=True):
            await asyncio.sleep(0.1)


class SteadyTraffic:
    """A producer and a consumer that go on until they are told, and what they have seen."""

    def __init__(self, maker: Maker, topic: str, group: str) -> None:
        self._maker, self._topic, self._group = maker, topic, group
        self.queues: dict[str, int] = {}  # of what was accepted, by body
        self.arrived: set[str] = set()
        self._is_over = False
        self._tasks = [asyncio.create_task(each) for each in (self._produce(), self._consume())]

    async def until_accepted(self, is_enough: Callable[[dict[str, int]], bool]) -> None:
        """Wait until what was accepted from now on is enough."""
        before = set(self.queues)
        while not is_enough({b: q for b, q in self.queues.items() if b not in before}):
            assert not any(task.done() for task in self._tasks)
            await asyncio.sleep(0.05)

    async def end(self) -> None:
        """Wait until all that was accepted has arrived."""
        self._is_over = True
        await asyncio.gather(*self._tasks)

    async def _produce(self) -> None:
        for number in count():
            if self._is_over:
                return
            try:
                sent = await self._maker.messaging.send([Message(self._topic, b"%d" % number)])
            except Busy:
                await asyncio.sleep(0.05)
            else:
                self.queues[str(number)] = sent.messages[0].queue

    async def _consume(self) -> None:
        messaging, group = self._maker.messaging, self._group
        while not (self._is_over and self.queues.keys() <= self.arrived):
            try:
                deliveries = await messaging.receive(
                    group, {self._topic: "*"}, count_max=32, invisible_s=10, wait_s=1
                )
                self.arrived.update(bodies(deliveries))
                await messaging.ack(group, [each.receipt for each in deliveries])
            except Busy:
                await asyncio.sleep(0.05)


async def test_nothing_accepted_is_lost_while_a_broker_is_killed(
    cluster: ApacheCluster, maker: Maker
) -> None:
    topic, group = await maker.topic(4), await maker.group()
    traffic = SteadyTraffic(maker, topic, group)
    async with asyncio.timeout(LIMIT_S * 2):
        await traffic.until_accepted(lambda queues: len(queues) >= 200)
        cluster.kill("b")
        await asyncio.sleep(0.5)  # what is under way ends
        before = set(traffic.queues)
        await traffic.until_accepted(lambda queues: len(queues) >= 200)
        assert {traffic.queues[each] % 2 for each in traffic.queues.keys() - before} == {0}
        config = await maker.messaging.topic(topic)
        assert (config.read_queues, config.write_queues) == (4, 4)
        with pytest.raises(Busy):
            await maker.messaging.queue_bounds(topic, 1)
        with pytest.raises(Busy):
            await maker.messaging.send([Message(topic, b"to b", queue=3)])
        cluster.restart("b")
        await traffic.until_accepted(lambda queues: any(each % 2 for each in queues.values()))
        await traffic.end()
    assert traffic.queues.keys() <= traffic.arrived


async def test_a_broker_learns_of_a_group_that_was_made_while_it_was_away(
    cluster: ApacheCluster, maker: Maker
) -> None:
    topic, group = await maker.topic(), f"{await maker.group()}-late"
    [sent] = await maker.send(topic, "x", queue=1)
    assert sent.queue == 1
    cluster.kill("b")
    async with asyncio.timeout(LIMIT_S * 2):
        while True:
            try:
                assert await maker.is_quiet(group, topic)
                break
            except Busy:
                await asyncio.sleep(0.2)
        cluster.restart("b")
        deliveries = list[Delivery]()
        while not deliveries:
            try:
                deliveries = await maker.messaging.receive(group, {topic: "*"}, wait_s=1)
            except Busy:
                await asyncio.sleep(0.2)
    assert bodies(deliveries) == ["x"]


async def test_a_second_process_settles_what_the_first_was_delivered(
    cluster: ApacheCluster, maker: Maker
) -> None:
    topic, group = await maker.topic(kind="TRANSACTION"), await maker.group()
    await maker.send(topic, "x")
    [sent] = await maker.send(topic, "half", transaction_group="second")
    [delivery] = await maker.receive(group, topic, 1, invisible_s=5)
    async with ClusterMessaging(ClusterClient(cluster.name_server)) as other:
        assert await other.ack(group, [delivery.receipt]) == [AckResult.DONE]
        decide = other.transactions.decide
        async with asyncio.timeout(LIMIT_S):
            while True:
                try:
                    done = await decide(sent.message_id, TransactionDecision.COMMIT)
                    break
                except MessageNotFound:  # the broker's index comes a little later
                    await asyncio.sleep(0.1)
        assert done.state is TransactionState.COMMITTED
        assert (done.topic, done.message.body) == (topic, b"half")
    [delivery] = await maker.receive(group, topic, 1)
    assert bodies([delivery]) == ["half"]
    await maker.messaging.ack(group, [delivery.receipt])
    await until_indexed(maker, delivery.message)
    again = await maker.messaging.transactions.decide(sent.message_id, TransactionDecision.COMMIT)
    assert again.state is TransactionState.COMMITTED
    await asyncio.sleep(6)
    assert await maker.is_quiet(group, topic)
