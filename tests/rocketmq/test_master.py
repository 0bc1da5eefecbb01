"""KiteMQ as a standby of Apache RocketMQ's own broker: over kills, to a promotion, and refused.

What a standby makes of single records and tables is tested in `tests/engine/replication`.
"""

import asyncio
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from app.cluster.client import ClusterClient
from app.cluster.errors import ClusterError
from app.cluster.groups import ClusterGroup
from app.cluster.messages import NewClusterMessage
from app.cluster.routes import ClusterQueue
from kitemq import Client, Consumer, Producer
from kitemq.errors import KiteError
from protocol.remoting.codes import RequestCode
from tests.crash.process import ServerProcess
from tests.patience import until
from tests.rocketmq.cluster import ApacheCluster, missing_cluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.crash,
    pytest.mark.timeout(1500),
]
SEGMENT_BYTES = 1024 * 1024
LIMIT_S = 180.0
TOPIC, GROUP, LATER, DEALS = "orders", "readers", "later", "deals"
QUEUES = 4


class Load(threading.Thread):
    """Sends numbered messages to the master, singly and in batches, until `end`."""

    def __init__(self, cluster: ApacheCluster) -> None:
        super().__init__(daemon=True)
        self._cluster, self._is_over = cluster, threading.Event()
        self.accepted: list[str] = []
        self.delayed: set[str] = set()

    def run(self) -> None:
        asyncio.run(self._send_all())

    def end(self) -> None:
        self._is_over.set()
        self.join(LIMIT_S)
        assert not self.is_alive()

    def wait(self, count: int) -> None:
        """Until so many more are accepted."""
        end = len(self.accepted) + count
        until(lambda: len(self.accepted) > end, "nothing is accepted", LIMIT_S)

    async def _send_all(self) -> None:
        number = 0
        async with ClusterClient(self._cluster.name_server) as client:
            while not self._is_over.is_set():
                with suppress(ClusterError):
                    await self._send(client, number)
                number += 20

    async def _send(self, client: ClusterClient, first: int) -> None:
        queue = ClusterQueue(TOPIC, "a", first // 20 % QUEUES)
        batch = [message_of(number) for number in range(first, first + 19)]
        await client.sends.send_batch(TOPIC, batch, queue=queue)
        self.accepted += [message.message_id for message in batch]
        last = message_of(first + 19)
        await client.sends.send(TOPIC, last, queue=queue)
        self.accepted.append(last.message_id)
        if first % 180 == 0:
            late = NewClusterMessage(b"%d" % first, message_id=f"L{first}", delay_level=1)
            await client.sends.send(LATER, late)
            self.delayed.add(late.message_id)
            await client.groups.commit(GROUP, queue, first // 180)


def message_of(number: int) -> NewClusterMessage:
    body, key = b"%d " % number * 50, f"k{number}"
    return NewClusterMessage(body, f"t{number % 3}", (key,), message_id=f"M{number}")


class Migration:
    """A cluster with the broker "a", and a standby of it."""

    def __init__(self, cluster: ApacheCluster, root: Path) -> None:
        self.cluster, self.root = cluster, root
        self.standby = self.server("standby")

    def server(self, name: str, **settings: object) -> ServerProcess:
        shape = {"segment_bytes": SEGMENT_BYTES, "queue_file_entries": 30_000, **settings}
        follow = f"rocketmq://{self.cluster.name_server}/a"
        return ServerProcess(self.root / name, follow=follow, **shape)

    def set_up(self) -> None:
        """Topics and a group, once the broker takes them."""

        async def create() -> None:
            async with ClusterClient(self.cluster.name_server) as client:
                await client.topics.create(TOPIC, QUEUES)
                await client.topics.create(LATER, 1, kind="DELAY")
                await client.topics.create(DEALS, 1, kind="TRANSACTION")
                await client.groups.create(ClusterGroup(GROUP, retry_max_times=7))

        def is_set_up() -> bool:
            with suppress(ClusterError):
                asyncio.run(create())
                return True
            return False

        until(is_set_up, "the broker takes no topic", LIMIT_S)

    def is_equal(self) -> bool:
        """Whether the standby has every byte of the log, and as much of the last segment."""
        theirs = self.cluster.store("a") / "commitlog"
        ours = self.standby.data / "commitlog"
        names = [path.name for path in ours.iterdir() if path.name.isdigit()]
        lacking = [name for name in self._begun(theirs) if name not in names]
        return not lacking and all(
            (ours / name).read_bytes() == (theirs / name).read_bytes() for name in names
        )

    def _begun(self, folder: Path) -> list[str]:
        """The files of the log that have anything: the broker makes the next one ahead."""
        return [path.name for path in folder.iterdir() if path.read_bytes().strip(b"\0")]

    def offsets(self) -> dict[int, int | None]:
        """How far the group is on the master, by queue."""

        async def ask() -> dict[int, int | None]:
            async with ClusterClient(self.cluster.name_server) as client:
                queues = [ClusterQueue(TOPIC, "a", queue) for queue in range(QUEUES)]
                return {each.queue: await client.groups.committed(GROUP, each) for each in queues}

        return asyncio.run(ask())

    def copied_offsets(self) -> dict[int, int | None]:
        """The same on the standby."""
        with self.standby.client() as client:
            lag = client.groups.lag(GROUP)
        return {each.queue: int(each.committed) for each in lag.queues if each.topic == TOPIC}

    def failure(self, server: ServerProcess) -> str:
        with server.client() as client:
            return client.server.replication().failure


@pytest.fixture
def migration(tmp_path: Path) -> Iterator[Migration]:
    if reason := missing_cluster():
        pytest.skip(reason)
    more = f"mappedFileSizeCommitLog={SEGMENT_BYTES}"
    with ApacheCluster(tmp_path / "cluster", "a", more=more) as cluster:
        migration = Migration(cluster, tmp_path)
        migration.set_up()
        try:
            yield migration
        finally:
            migration.standby.kill()


def ids_of(client: Client, topic: str, queues: int) -> list[str]:
    ids: list[str] = []
    for queue in range(queues):
        page = client.messages.pull(topic, queue, 0)
        while page.messages:
            ids += [each.message_id for each in page.messages]
            page = client.messages.pull(topic, queue, int(page.next_offset))
    return ids


def promote(server: ServerProcess) -> None:
    command = [sys.executable, "-m", "kitemq", "promote", "--server", server.url]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr


def test_a_standby_has_the_masters_log_over_kills_of_both_and_goes_on_as_a_leader(
    migration: Migration,
) -> None:
    cluster, standby = migration.cluster, migration.standby
    standby.start()
    load = Load(cluster)
    load.start()
    for _ in range(2):
        load.wait(3000)
        standby.kill()
        load.wait(1000)
        standby.start()
    cluster.kill("a")
    cluster.restart("a")
    load.wait(2000)
    load.end()
    until(migration.is_equal, "the logs differ", LIMIT_S)
    until(lambda: migration.copied_offsets() == migration.offsets(), "the groups differ", LIMIT_S)
    assert len(list((standby.data / "commitlog").iterdir())) > 2
    with standby.client() as client:
        topics = {each.name: each.write_queues for each in client.topics.list()}
        assert topics[TOPIC] == QUEUES
        last = load.accepted[-1]
        assert [each.message_id for each in client.messages.find(last)] == [last]
        assert client.messages.find_by_key(TOPIC, f"k{last[1:]}")
        with pytest.raises(KiteError, match="standby of rocketmq://"):
            client.topics.create("other")
    asyncio.run(_leave(migration))
    with standby.client() as client:
        until(lambda: load.delayed <= set(ids_of(client, LATER, 1)), "delays last", LIMIT_S)
        left = Left(migration.copied_offsets(), ids_of(client, LATER, 1))
    cluster.kill("a")
    until(lambda: migration.failure(standby), "the standby sees its master", LIMIT_S)
    promote(standby)
    _go_on(migration, load.accepted, left)


async def _leave(migration: Migration) -> None:
    """What waits as the master ends: a delayed message, an exact time, two transactions."""
    async with ClusterClient(migration.cluster.name_server) as client:
        now_ms = int(time.time() * 1000)
        await client.sends.send(LATER, NewClusterMessage(b"level", message_id="D", delay_level=5))
        timed = NewClusterMessage(b"timed", message_id="T", deliver_at_ms=now_ms + 55_000)
        await client.sends.send(LATER, timed)
        for name in ("committed", "open"):
            fields = _half(name)
            answer = await client._link.ask("a", RequestCode.SEND_MESSAGE, fields, body=b"deal")
            if name == "committed":
                end = {
                    "producerGroup": "makers",
                    "tranStateTableOffset": answer.fields["queueOffset"],
                    "commitLogOffset": int(answer.fields["msgId"][-16:], 16),
                    "commitOrRollback": 8,
                    "fromTransactionCheck": False,
                    "msgId": name,
                    "transactionId": name,
                }
                await client._link.ask("a", RequestCode.END_TRANSACTION, end)
        first = (await client.reads.pull(ClusterQueue(TOPIC, "a", 0), 0)).messages[0]
        back = {
            "offset": first.position,
            "group": GROUP,
            "delayLevel": -1,
            "originMsgId": first.message_id,
            "originTopic": TOPIC,
            "unitMode": False,
            "maxReconsumeTimes": 7,
        }
        await client._link.ask("a", RequestCode.CONSUMER_SEND_MSG_BACK, back)
    until(migration.is_equal, "the logs differ", LIMIT_S)


def _half(name: str) -> dict[str, object]:
    properties = {"UNIQ_KEY": name, "TRAN_MSG": "true", "PGROUP": "makers", "WAIT": "true"}
    return {
        "producerGroup": "makers",
        "topic": DEALS,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": 4,
        "queueId": 0,
        "sysFlag": 4,
        "bornTimestamp": int(time.time() * 1000),
        "flag": 0,
        "properties": "".join(f"{key}\x01{value}\x02" for key, value in properties.items()),
        "reconsumeTimes": 0,
        "unitMode": False,
        "batch": False,
    }


class Left(NamedTuple):
    """What the standby had when its master ended."""

    offsets: dict[int, int | None]
    later: list[str]


def _go_on(migration: Migration, accepted: list[str], left: Left) -> None:
    """The promoted server has all that was accepted, each once, and its group goes on."""
    server = migration.standby
    with server.client() as client:
        assert client.server.replication().leader == ""
        ids = ids_of(client, TOPIC, QUEUES)
        assert set(accepted) <= set(ids)
        assert migration.copied_offsets() == left.offsets
        deals = [each.transaction_id for each in client.transactions.list()]
        assert deals == ["open"]
        assert ids_of(client, DEALS, 1) == ["committed"]
        assert len(ids_of(client, f"%DLQ%{GROUP}", 1)) == 1
        until(lambda: {"D", "T"} <= set(ids_of(client, LATER, 1)), "they wait for good", LIMIT_S)
        # A broker that was killed delivers some again itself; what it delivered is not here.
        waited = [name for name in ("D", "T") if name not in left.later]
        assert sorted(ids_of(client, LATER, 1)[len(left.later) :]) == waited
        waiting = sum(each.count for each in client.groups.lag(GROUP).queues if each.topic == TOPIC)
    with Producer(server.url) as producer:
        producer.send(TOPIC, b"own")
    received: list[str] = []
    with Consumer(GROUP, TOPIC, server.url) as consumer:
        for each in consumer:
            received.append(each.message_id)
            each.ack()
            if len(received) == waiting + 1:
                break
    assert len(set(received)) == waiting + 1
    server.kill()
    server.start()
    with server.client() as client:
        assert client.server.replication().leader == ""
    server.stop()
    assert server.verify() == ""


def test_a_master_that_lost_its_end_is_not_followed(migration: Migration) -> None:
    cluster, standby = migration.cluster, migration.standby
    other = migration.server("other", segment_bytes=2 * SEGMENT_BYTES)
    standby.start()
    _send(cluster, 0, 500)
    until(migration.is_equal, "the logs differ", LIMIT_S)
    cluster.stop("a")
    earlier = migration.root / "earlier"
    shutil.copytree(cluster.store("a"), earlier)
    cluster.restart("a")
    _send(cluster, 500, 500)
    until(migration.is_equal, "the logs differ", LIMIT_S)
    before = _sizes(standby.data)
    cluster.kill("a")
    shutil.rmtree(cluster.store("a"))
    shutil.move(earlier, cluster.store("a"))
    cluster.restart("a")
    until(lambda: "lost what came last" in migration.failure(standby), "no word", LIMIT_S)
    _send(cluster, 5000, 700)
    until(lambda: "other bytes" in migration.failure(standby), "it goes on", LIMIT_S)
    assert _sizes(standby.data) == before
    with standby.client() as client:
        assert f"M{999}" in ids_of(client, TOPIC, QUEUES)
    try:
        other.start()
        words = f"mappedFileSizeCommitLog is {SEGMENT_BYTES}, the setting segment_bytes is"
        until(lambda: words in migration.failure(other), "no word of the size", LIMIT_S)
    finally:
        other.kill()


def _send(cluster: ApacheCluster, first: int, count: int) -> None:
    async def send() -> None:
        async with ClusterClient(cluster.name_server) as client:
            for number in range(first, first + count):
                queue = ClusterQueue(TOPIC, "a", number % QUEUES)
                await client.sends.send(TOPIC, message_of(number), queue=queue)

    def is_sent() -> bool:
        with suppress(ClusterError):
            asyncio.run(send())
            return True
        return False

    until(is_sent, "the broker takes nothing", LIMIT_S)


def _sizes(data: Path) -> list[int]:
    """The log's bytes, by file."""
    paths = sorted((data / "commitlog").iterdir())
    return [len(path.read_bytes().rstrip(b"\0")) for path in paths]
