"""The contract of the verbs, answered by Apache RocketMQ: a name server and two masters.

And what no other maker can show: a broker that is killed while it is used.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from app.cluster.client import ClusterClient
from app.cluster.errors import ClusterError
from app.cluster.groups import ClusterGroup
from app.cluster.messaging import ClusterMessaging
from engine.broker import AckResult, TransactionDecision, TransactionState
from engine.errors import Busy, MessageNotFound
from engine.message import Message
from tests.app.messaging import test_contract as contract
from tests.app.messaging.maker import LIMIT_S, Maker, bodies
from tests.rocketmq.cluster import ApacheCluster, missing_cluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.crash,
    pytest.mark.anyio,
    pytest.mark.xdist_group("rocketmq"),
    pytest.mark.timeout(600),
]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheCluster]:
    if reason := missing_cluster():
        pytest.skip(reason)
    root: Path = tmp_path_factory.mktemp("cluster")
    with ApacheCluster(root, "a", "b") as cluster:
        asyncio.run(_registered(cluster))
        yield cluster


async def _registered(cluster: ApacheCluster) -> None:
    async with ClusterClient(cluster.name_server) as client, asyncio.timeout(LIMIT_S):
        while True:
            try:
                if len(await client.masters()) == 2:
                    return
            except ClusterError:
                pass
            await asyncio.sleep(0.2)


@pytest.fixture
async def messaging(cluster: ApacheCluster) -> AsyncIterator[ClusterMessaging]:
    client = ClusterClient(cluster.name_server)
    async with ClusterMessaging(client) as messaging:
        yield messaging


@pytest.fixture
def maker(messaging: ClusterMessaging) -> Maker:
    client = messaging._client

    async def create_topic(name: str, queues: int, kind: str) -> None:
        await client.topics.create(name, -(-queues // 2), kind=kind)

    async def create_group(name: str, retry_max: int, ordered: bool) -> None:
        await client.groups.create(
            ClusterGroup(name, retry_max_times=retry_max, consume_message_orderly=ordered)
        )

    askers = messaging.transactions.askers
    return Maker(messaging, asyncio.sleep, create_topic, create_group, askers, check_s=2.0)


globals().update({name: test for name, test in vars(contract).items() if name.startswith("test_")})


class Traffic:
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
    traffic = Traffic(maker, topic, group)
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


async def test_a_second_process_settles_what_the_first_was_delivered(
    cluster: ApacheCluster, maker: Maker
) -> None:
    topic, group = await maker.topic(), await maker.group()
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
    again = await maker.messaging.transactions.decide(sent.message_id, TransactionDecision.COMMIT)
    assert again.state is TransactionState.COMMITTED
    await asyncio.sleep(6)
    assert await maker.is_quiet(group, topic)
