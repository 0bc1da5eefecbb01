"""A running KiteMQ moves into an Apache RocketMQ cluster of two masters, killed on the way.

The command is a process of its own. What the cluster has afterwards is read from every queue.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.cluster.client import ClusterClient
from app.cluster.errors import ClusterError
from app.cluster.messages import ClusterMessage, NewClusterMessage
from app.cluster.queue_copy import SOURCE
from app.cluster.routes import ClusterQueue
from kitemq import Client
from kitemq.model.produce import NewMessage
from tests.live import LiveServer
from tests.patience import until
from tests.rocketmq.cluster import ApacheCluster, missing_cluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.crash,
    pytest.mark.timeout(900),
]
QUEUES = 3
KEYS = 30
LIMIT_S = 240.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheCluster]:
    if reason := missing_cluster():
        pytest.skip(reason)
    root: Path = tmp_path_factory.mktemp("cluster")
    with ApacheCluster(root, "a", "b") as cluster:
        until(lambda: len(masters(cluster)) == 2, "two masters", LIMIT_S)
        yield cluster


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    data = tmp_path_factory.mktemp("kite") / "data"
    server = LiveServer(data, grpc_listen="off", remoting_listen="off")
    server.start()
    yield server
    server.stop()


def masters(cluster: ApacheCluster) -> list[str]:
    async def ask() -> list[str]:
        async with ClusterClient(cluster.name_server) as client:
            try:
                return await client.masters()
            except ClusterError:
                return []

    return asyncio.run(ask())


def begin(server: LiveServer, cluster: ApacheCluster, *more: str) -> subprocess.Popen[str]:
    words = ["--server", server.url, "move", "--to", cluster.name_server, *more]
    return subprocess.Popen(
        [sys.executable, "-m", "kitemq", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={name: value for name, value in os.environ.items() if "KITEMQ" not in name},
    )


def move(server: LiveServer, cluster: ApacheCluster, *more: str) -> list[dict[str, Any]]:
    """The rounds of a move that went well."""
    process = begin(server, cluster, *more)
    output, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, errors
    return [json.loads(line) for line in output.splitlines()]


def client_of(server: LiveServer) -> Client:
    return Client(server.url, timeout_s=60)


def fill(client: Client, topic: str, first: int, count: int) -> None:
    """Messages by number: key `k` of it modulo KEYS, and the queue by the key."""
    for begin_at in range(first, first + count, 500):
        client.messages.send(
            topic,
            [
                NewMessage(str(number), keys=(f"k{number % KEYS}",), queue=number % KEYS % QUEUES)
                for number in range(begin_at, min(begin_at + 500, first + count))
            ],
        )


def content(cluster: ApacheCluster, topic: str) -> dict[ClusterQueue, list[ClusterMessage]]:
    async def read() -> dict[ClusterQueue, list[ClusterMessage]]:
        queues: dict[ClusterQueue, list[ClusterMessage]] = {}
        async with ClusterClient(cluster.name_server) as client:
            for queue, (offset, end) in (await client.topics.offsets(topic)).items():
                messages = queues[queue] = []
                while offset + len(messages) < end:
                    page = await client.reads.pull(queue, offset + len(messages))
                    messages += page.messages
        return queues

    return asyncio.run(read())


def copied(cluster: ApacheCluster, topic: str) -> int:
    async def count() -> int:
        async with ClusterClient(cluster.name_server) as client:
            if not await client.topics.exists(topic):
                return 0
            return sum(end for _, end in (await client.topics.offsets(topic)).values())

    return asyncio.run(count())


def check_each_once(cluster: ApacheCluster, topic: str, count: int, *, leave_out: str = "") -> None:
    """Every number once, and each key's in the order in which they were sent."""
    by_key: dict[str, list[int]] = {}
    for messages in content(cluster, topic).values():
        for message in messages:
            if message.keys == (leave_out,):
                continue
            by_key.setdefault(message.keys[0], []).append(int(message.body))
    numbers = Counter(number for each in by_key.values() for number in each)
    assert {number: times for number, times in numbers.items() if times > 1} == {}
    assert sorted(numbers) == list(range(count))
    for numbers_of_key in by_key.values():
        assert numbers_of_key == sorted(numbers_of_key)


def test_after_kills_each_message_is_in_the_cluster_once_and_in_order(
    server: LiveServer, cluster: ApacheCluster
) -> None:
    count = 20_000
    with client_of(server) as client:
        client.topics.create("kills", read_queues=QUEUES, write_queues=QUEUES)
        fill(client, "kills", 0, count)
    for share in (0.1, 0.3, 0.6):
        process = begin(server, cluster)
        at_least = round(count * share)
        until(lambda at=at_least: copied(cluster, "kills") >= at, "the copies", LIMIT_S)
        assert process.poll() is None, process.communicate()
        process.send_signal(signal.SIGKILL)
        process.communicate()
    rounds = move(server, cluster)
    assert 0 < rounds[0]["copied"] < count
    check_each_once(cluster, "kills", count)
    assert move(server, cluster)[0]["copied"] == 0


def test_messages_groups_and_offsets_are_as_they_were(
    server: LiveServer, cluster: ApacheCluster
) -> None:
    with client_of(server) as client:
        client.topics.create("parcels", read_queues=QUEUES, write_queues=QUEUES, type="FIFO")
        client.groups.create("riders", retry_max=1, ordered=True)
        client.groups.create("readers", start="earliest")
        sent = NewMessage(
            "first",
            tag="paid",
            keys=("k1", "k2"),
            properties={"colour": "red"},
            message_group="g1",
            queue=1,
        )
        client.messages.send("parcels", [sent])
        client.messages.send("parcels", [NewMessage("x" * 3_000_000, message_group="g1", queue=1)])
        original = client.messages.get("parcels", 1, 0)
        client.topics.create("letters", read_queues=1, write_queues=1)
        client.messages.send("letters", [NewMessage(str(each)) for each in range(10)])
        page = client.deliveries.receive("readers", "letters", max=10)
        client.deliveries.ack("readers", [each.receipt for each in page[:4]])
        client.deliveries.reject("readers", [page[4].receipt])
        client.deliveries.nack("readers", [page[5].receipt], delay_s=0)
        until(lambda: client.groups.lag("readers").retry_waiting == 0, "the retry")
    (done,) = move(server, cluster)
    assert (done["failures"], done["waiting"], done["consumers"]) == (0, 0, 0)

    queue = ClusterQueue("parcels", "b", 0)  # queue 1 of the brokers a and b
    parcels = content(cluster, "parcels")
    assert {each for each, messages in parcels.items() if messages} == {queue}
    copy, large = parcels[queue]
    assert len(large.body) == 3_000_000
    assert (copy.body, copy.tag, copy.keys) == (b"first", "paid", ("k1", "k2"))
    assert (copy.message_id, copy.born_ms) == (original.message_id, original.born_ms)
    assert copy.properties["colour"] == "red"
    assert copy.properties["__SHARDINGKEY"] == "g1"
    assert copy.properties[SOURCE] == f"kitemq_move@1@0@{original.stored_ms}"
    assert [each.body for each in content(cluster, "letters")[ClusterQueue("letters", "a", 0)]] == [
        str(each).encode() for each in range(10)
    ]
    (retry,) = content(cluster, "%RETRY%readers")[ClusterQueue("%RETRY%readers", "a", 0)]
    assert (retry.body, retry.reconsume_times) == (b"5", 1)
    assert retry.properties["RETRY_TOPIC"] == "letters"
    (dead,) = content(cluster, "%DLQ%readers")[ClusterQueue("%DLQ%readers", "a", 0)]
    assert dead.body == b"4"

    async def look() -> None:
        async with ClusterClient(cluster.name_server) as there:
            groups = {each.group_name: each for each in await there.groups.all()}
            assert groups["riders"].consume_message_orderly
            assert groups["riders"].retry_max_times == 1
            letters = ClusterQueue("letters", "a", 0)
            assert await there.groups.committed("readers", letters) == 6
            got = await there.deliveries.receive("readers", "letters", count_max=32, wait_s=10)
            assert [each.message.body for each in got] == [b"6", b"7", b"8", b"9"]

    asyncio.run(look())


def test_what_others_sent_there_is_neither_mixed_up_nor_passed_over(
    server: LiveServer, cluster: ApacheCluster
) -> None:
    queue = ClusterQueue("shared", "a", 0)

    async def send(body: bytes) -> None:
        async with ClusterClient(cluster.name_server) as there:
            await there.sends.send("shared", NewClusterMessage(body), queue=queue)

    async def committed(*offsets: int) -> int | None:
        async with ClusterClient(cluster.name_server) as there:
            for offset in offsets:
                await there.groups.commit("sharers", queue, offset)
            return await there.groups.committed("sharers", queue)

    with client_of(server) as client:
        client.topics.create("shared", read_queues=1, write_queues=1)
        client.groups.create("sharers", start="earliest")
        client.messages.send("shared", [NewMessage("0"), NewMessage("1")])
        client.groups.commit_offset("sharers", "shared", 0, 0)
        move(server, cluster)
        assert asyncio.run(committed()) == 0
        asyncio.run(send(b"foreign"))
        client.messages.send("shared", [NewMessage("2"), NewMessage("3")])
        client.groups.commit_offset("sharers", "shared", 0, 1)
        assert move(server, cluster)[0]["copied"] == 2
        assert [each.body for each in content(cluster, "shared")[queue]] == [
            b"0", b"1", b"foreign", b"2", b"3",
        ]  # fmt: skip
        assert asyncio.run(committed()) == 1
        client.groups.commit_offset("sharers", "shared", 0, 3)
        move(server, cluster)
        assert asyncio.run(committed()) == 2  # not past what it has not got yet
        client.groups.commit_offset("sharers", "shared", 0, 4)
        assert asyncio.run(committed(3)) == 3
        move(server, cluster)
        assert asyncio.run(committed()) == 5
        client.groups.commit_offset("sharers", "shared", 0, 0)
        move(server, cluster)
        assert asyncio.run(committed()) == 5


def test_a_move_that_follows_goes_on_through_a_broker_that_ends_until_nobody_is_left(
    server: LiveServer, cluster: ApacheCluster
) -> None:
    count = 6_000
    with client_of(server) as client:
        client.topics.create("follows", read_queues=QUEUES, write_queues=QUEUES)
        client.messages.send("follows", [NewMessage("x" * 10, keys=("late",), delay_level=2)])
        fill(client, "follows", 0, count // 2)
        process = begin(server, cluster, "--follow", "--quiet-s", "20")
        until(lambda: copied(cluster, "follows") >= count // 4, "the copies", LIMIT_S)
        cluster.kill("a")
        fill(client, "follows", count // 2, count - count // 2)
        cluster.restart("a")
        output, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, errors
    assert "done: all is in the cluster" in errors
    rounds = [json.loads(line) for line in output.splitlines()]
    assert sum(each["copied"] for each in rounds) >= count + 1
    assert (rounds[-1]["copied"], rounds[-1]["waiting"], rounds[-1]["failures"]) == (0, 0, 0)
    late = [
        message
        for messages in content(cluster, "follows").values()
        for message in messages
        if message.keys == ("late",)
    ]
    assert [each.body for each in late] == [b"x" * 10]
    assert "DELAY" not in late[0].properties
    check_each_once(cluster, "follows", count, leave_out="late")


def test_a_cluster_that_is_not_there_is_named(server: LiveServer, cluster: ApacheCluster) -> None:
    words = ["--server", server.url, "move", "--to", "127.0.0.1:1"]
    done = subprocess.run(
        [sys.executable, "-m", "kitemq", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 4
    assert "no name server answers" in done.stderr
