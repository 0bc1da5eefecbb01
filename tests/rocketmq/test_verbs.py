"""The contract of the verbs, answered by Apache RocketMQ: a name server and two masters.

And what no other maker can show: a broker that is killed while it is used.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from itertools import count

import pytest

from app.cluster.client import ClusterClient
from app.cluster.groups import ClusterGroup
from app.cluster.messaging import ClusterMessaging
from engine.broker import (
    AckResult,
    Delivery,
    TransactionCheck,
    TransactionDecision,
    TransactionState,
)
from engine.errors import Busy, MessageNotFound
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
