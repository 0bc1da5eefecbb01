"""The client of clusters against Apache RocketMQ: a name server, two masters and a slave."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict

from analytics.options import parse
from analytics.source import BatchReader
from app.cluster.client import ClusterClient
from app.cluster.errors import ClusterError, ClusterRefused
from app.cluster.groups import ClusterGroup
from app.cluster.link import number
from app.cluster.messages import NewClusterMessage
from app.cluster.reading import ClusterPage
from app.cluster.routes import ClusterQueue
from protocol.remoting.codes import RequestCode, ResponseCode
from tests.rocketmq.cluster import ApacheCluster, missing_cluster, two_masters

pytestmark = [
    pytest.mark.slow,
    pytest.mark.crash,
    pytest.mark.anyio,
    pytest.mark.timeout(600),
]
LIMIT_S = 90.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheCluster]:
    if reason := missing_cluster():
        pytest.skip(reason)
    root: Path = tmp_path_factory.mktemp("cluster")
    with ApacheCluster(root, "a", "b", "a1") as cluster:
        asyncio.run(two_masters(cluster))
        yield cluster


async def _topic(client: ClusterClient, name: str) -> list[ClusterQueue]:
    """Its queues: two on each broker."""
    await client.topics.create(name, 2)
    return (await client.topics.route(name)).writable(name)


async def _page(client: ClusterClient, queue: ClusterQueue, count: int) -> ClusterPage:
    """The first messages of a queue, once there are so many."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            page = await client.reads.pull(queue, 0, count_max=count, wait_s=5)
            if len(page.messages) == count:
                return page


async def test_what_is_sent_is_read_back_and_found(cluster: ApacheCluster) -> None:
    async with ClusterClient(cluster.name_server) as client:
        queues = await _topic(client, "orders")
        assert {each.broker for each in queues} == {"a", "b"}
        assert len(queues) == 4
        queue = queues[1]
        new = NewClusterMessage(
            b"body", "paid", ("k1", "k2"), {"colour": "red"}, "ID1", born_ms=1_700_000_000_000
        )
        assert (await client.sends.send("orders", new, queue=queue)).offset == 0
        batch = [
            NewClusterMessage(str(each).encode(), keys=("all",), message_id=f"B{each}")
            for each in range(30)
        ]
        sent = await client.sends.send_batch("orders", batch, queue=queue)
        assert (sent.offset, len(sent.offset_ids), sent.is_safe) == (1, 30, True)
        first, *others = (await _page(client, queue, 31)).messages
        assert (first.body, first.tag, first.keys) == (b"body", "paid", ("k1", "k2"))
        assert (first.message_id, first.born_ms) == ("ID1", 1_700_000_000_000)
        assert first.properties["colour"] == "red"
        assert [each.body for each in others] == [each.body for each in batch]
        assert await client.reads.by_offset_id(first.offset_id) == first
        assert await client.reads.by_key("orders", "ID1", is_id=True) == [first]
        assert await client.reads.by_key("orders", "all") == others
        assert (await client.topics.offsets("orders"))[queue] == (0, 31)
        assert await client.reads.min_offset(queue) == 0
        assert await client.reads.max_offset(queue) == 31
        assert await client.reads.offset_at(queue, others[-1].stored_ms + 60_000) == 31
        assert await client.reads.offset_at(queue, first.stored_ms) == 0
        tagged = await client.reads.pull(queue, 0, tags="paid")
        assert tagged.messages == [first]


async def test_sends_without_a_queue_take_turns(cluster: ApacheCluster) -> None:
    async with ClusterClient(cluster.name_server) as client:
        queues = await _topic(client, "turns")
        sent = [await client.sends.send("turns", NewClusterMessage(b"x")) for _ in range(40)]
        assert {each.queue for each in sent} <= set(queues)
        assert len({each.queue for each in sent}) > 1


async def test_a_group_has_settings_offsets_and_lag(cluster: ApacheCluster) -> None:
    async with ClusterClient(cluster.name_server) as client:
        queue = (await _topic(client, "lagging"))[2]
        await client.sends.send_batch("lagging", [NewClusterMessage(b"x")] * 5, queue=queue)
        await _page(client, queue, 5)
        await client.groups.create(ClusterGroup("billing", retry_max_times=3))
        groups = {each.group_name: each.retry_max_times for each in await client.groups.all()}
        assert groups["billing"] == 3
        assert "TOOLS_CONSUMER" not in groups
        assert await client.groups.committed("billing", queue) is None
        await client.groups.commit("billing", queue, 4)
        await client.groups.commit("billing", queue, 2)
        assert await client.groups.committed("billing", queue) == 2
        progress = await client.groups.progress("billing", "lagging")
        assert progress[queue].lag == 3
        assert await client.groups.consumers("billing") == []
        await client.groups.delete("billing")
        assert "billing" not in {each.group_name for each in await client.groups.all()}


async def test_deliveries_by_pop_are_settled(cluster: ApacheCluster) -> None:
    async with ClusterClient(cluster.name_server) as client:
        queues = await _topic(client, "popped")
        await client.groups.create(ClusterGroup("popper"))
        for queue in queues:
            body = f"{queue.broker}{queue.queue}".encode()
            await client.sends.send("popped", NewClusterMessage(body), queue=queue)
        deliveries = {}
        async with asyncio.timeout(LIMIT_S):
            while len(deliveries) < 4:
                for each in await client.deliveries.receive(
                    "popper", "popped", count_max=32, invisible_s=60, wait_s=5
                ):
                    deliveries[each.message.body] = each
                    assert each.attempt == 1
        for body in (b"a0", b"b0"):
            await client.deliveries.ack("popper", "popped", deliveries[body].receipt)
        for body in (b"a1", b"b1"):
            await client.deliveries.change_invisible(
                "popper", "popped", deliveries[body].receipt, 1
            )
        again = {}
        async with asyncio.timeout(LIMIT_S):
            while len(again) < 2:
                for each in await client.deliveries.receive(
                    "popper", "popped", count_max=32, invisible_s=60, wait_s=5
                ):
                    again[each.message.body] = each.attempt
                    await client.deliveries.ack("popper", "popped", each.receipt)
        assert again == {b"a1": 2, b"b1": 2}


async def test_a_message_ends_the_wait_for_it(cluster: ApacheCluster) -> None:
    async with ClusterClient(cluster.name_server) as client:
        queues = await _topic(client, "waiting")
        await client.groups.create(ClusterGroup("waiter"))
        for queue in queues[1:3]:  # the last of one broker, the first of the other
            receiving = asyncio.create_task(
                client.deliveries.receive("waiter", "waiting", wait_s=30)
            )
            delayed = NewClusterMessage(b"late", delay_level=1)
            await client.sends.send("waiting", delayed, queue=queue)
            (delivery,) = await receiving
            assert delivery.message.place == queue
            await client.deliveries.ack("waiter", "waiting", delivery.receipt)


async def test_a_topic_that_is_not_there_is_refused(cluster: ApacheCluster) -> None:
    async with ClusterClient(cluster.name_server) as client:
        await _topic(client, "gone")
        await client.topics.delete("gone")
        with pytest.raises(ClusterRefused) as error:
            await client.sends.send("gone", NewClusterMessage(b"x"))
        assert error.value.answer == ResponseCode.TOPIC_NOT_EXIST
        assert "gone" not in await client.topics.names()


async def test_while_a_master_is_away_sends_go_elsewhere_and_its_slave_is_read(
    cluster: ApacheCluster,
) -> None:
    async with ClusterClient(cluster.name_server) as client:
        queues = await _topic(client, "lives")
        of_a, of_b = queues[0], queues[2]
        await client.groups.create(ClusterGroup("livers"))
        await client.sends.send("lives", NewClusterMessage(b"before"), queue=of_a)
        await _page(client, of_a, 1)
        await _copied_to_slave(client, of_a)
        cluster.kill("a")
        page = await client.reads.pull(of_a, 0)
        assert [each.body for each in page.messages] == [b"before"]
        assert await asyncio.to_thread(_bodies_by_spark, cluster, "lives") == [b"before"]
        sent = [await client.sends.send("lives", NewClusterMessage(b"x")) for _ in range(20)]
        assert {each.queue.broker for each in sent} == {of_b.broker}
        deliveries = await client.deliveries.receive("livers", "lives", wait_s=10)
        assert [each.message.body for each in deliveries] == [b"x"]
        cluster.restart("a")
        async with asyncio.timeout(LIMIT_S):
            brokers = set[str]()
            while "a" not in brokers:
                sent_later = await client.sends.send("lives", NewClusterMessage(b"back"))
                brokers.add(sent_later.queue.broker)
                await asyncio.sleep(0.2)
        assert (await _page(client, of_a, 1)).messages[0].body == b"before"


def _bodies_by_spark(cluster: ApacheCluster, topic: str) -> list[bytes]:
    """What tasks of Spark would read of a topic."""
    given = {"topic": topic, "rocketmq": cluster.name_server, "columns": "body"}
    reader = BatchReader(parse(CaseInsensitiveDict(given)))
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return [body for batch in batches for body in batch.column("body").to_pylist()]


async def _copied_to_slave(client: ClusterClient, queue: ClusterQueue) -> None:
    """Wait until the slave has the topic, which it asks for every 3 s, and its message."""
    fields = {"topic": queue.topic, "queueId": queue.queue}
    async with asyncio.timeout(LIMIT_S):
        while True:
            try:
                answer = await client._link.ask(
                    queue.broker, RequestCode.GET_MAX_OFFSET, fields, member=1
                )
                await client._link.ask(queue.broker, RequestCode.GET_TOPIC_CONFIG, fields, member=1)
                if number(answer, "offset") > 0:
                    return
            except ClusterError:
                pass
            await asyncio.sleep(0.2)
