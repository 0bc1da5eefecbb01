"""The copying of a queue, with KiteMQ's own port for classic clients as the cluster.

`tests/rocketmq/test_move.py` moves whole servers into Apache's brokers, and kills both sides.
"""

from collections.abc import AsyncIterator

import pytest

from app.cluster.client import ClusterClient
from app.cluster.errors import ClusterError
from app.cluster.groups import ClusterGroup
from app.cluster.messages import NewClusterMessage
from app.cluster.queue_copy import QueueCopy
from app.cluster.routes import ClusterQueue
from kitemq.model.messages import PullPage, Stored
from tests.remoting.port import Running

pytestmark = pytest.mark.anyio


@pytest.fixture
async def cluster(running: Running) -> AsyncIterator[ClusterClient]:
    async with ClusterClient(running.port.address) as cluster:
        await cluster.topics.create("orders", 1)
        await cluster.groups.create(ClusterGroup("move"))
        yield cluster


class ListedQueue:
    """A queue of a source: the bodies that it keeps, from an offset on."""

    def __init__(self, *bodies: str, first: int = 0) -> None:
        self.bodies = list(bodies)
        self.first = first

    async def pull(self, topic: str, queue: int, offset: int, *, limit: int) -> PullPage:
        end = self.first + len(self.bodies)
        messages = [
            stored(topic, queue, at, self.bodies[at - self.first])
            for at in range(max(offset, self.first), min(end, offset + 2))
        ]
        after = int(messages[-1].offset) + 1 if messages else min(max(offset, self.first), end)
        return PullPage("found", messages, str(after), str(self.first), str(end))


def stored(topic: str, queue: int, offset: int, body: str) -> Stored:
    return Stored(
        message_id=f"ID{offset}", offset_id="", topic=topic, queue=queue, offset=offset,
        position=0, origin_topic=topic, tag="", keys=(), properties={"DELAY": "3"},
        message_group="", attempt=1, born_ms=1_000, born_host="", stored_ms=2_000, size_bytes=100,
        body=body, encoding="utf-8", compressed=None,
    )  # fmt: skip


def copy_of(source: ListedQueue, cluster: ClusterClient) -> QueueCopy:
    """As a process has it that has just started."""
    return QueueCopy(source, cluster, "move", 5, target(cluster))


def target(cluster: ClusterClient) -> ClusterQueue:
    (queue,) = cluster._link.routes._routes["orders"][0].writable("orders")
    return queue


async def bodies(cluster: ClusterClient) -> list[str]:
    messages = (await cluster.reads.pull(target(cluster), 0)).messages
    assert not any("DELAY" in each.properties for each in messages)
    return [each.body.decode() for each in messages]


async def send(cluster: ClusterClient, *others: str) -> None:
    for body in others:
        message = NewClusterMessage(body.encode())
        await cluster.sends.send("orders", message, queue=target(cluster))


async def test_another_process_goes_on_after_the_last_copy(cluster: ClusterClient) -> None:
    source = ListedQueue("a", "b", "c")
    await copy_of(source, cluster).catch_up()
    await send(cluster, "x", "y")
    source.bodies += ["d", "e"]
    await copy_of(source, cluster).catch_up()
    await cluster.groups.delete("move")
    await cluster.groups.create(ClusterGroup("move"))
    await send(cluster, *("z" * 40))
    source.bodies += ["f"]
    later = copy_of(source, cluster)
    await later.catch_up()
    await later.catch_up()
    assert later.copied == 1
    assert [each for each in await bodies(cluster) if each not in "xyz"] == list("abcde")
    page = await cluster.reads.pull(target(cluster), 47)
    assert [each.body for each in page.messages] == [b"f"]


async def test_a_place_here_is_that_of_its_copy_there(cluster: ClusterClient) -> None:
    source = ListedQueue(*"abcd", first=10)
    await send(cluster, "x")
    copy = copy_of(source, cluster)
    await copy.catch_up()
    await send(cluster, "y", "z")
    source.bodies += ["e", "f"]
    await copy.catch_up()
    assert await bodies(cluster) == list("xabcdyzef")
    for each in (copy, copy_of(source, cluster)):
        places = [await each.place_of(offset) for offset in (0, 10, 11, 13, 14, 15, 16, 99)]
        assert places == [1, 1, 2, 4, 7, 8, 9, 9]
        assert [await each.first_foreign(begin, 9) for begin in (0, 1, 3, 5, 6, 7)] == [
            0, 5, 5, 5, 6, 9,
        ]  # fmt: skip
        assert await each.first_foreign(1, 5) == 5


async def test_a_source_that_was_made_anew_is_named(cluster: ClusterClient) -> None:
    await copy_of(ListedQueue(*"abc"), cluster).catch_up()
    copy = copy_of(ListedQueue("A"), cluster)
    with pytest.raises(ClusterError, match="ends at offset 1 here, and was copied up to 3"):
        await copy.catch_up()
    await cluster.topics.delete("orders")
    await cluster.topics.create("orders", 1)
    await copy.catch_up()
    assert await bodies(cluster) == ["A"]


async def test_nothing_is_copied_where_the_copies_are_gone(
    running: Running, cluster: ClusterClient
) -> None:
    source = ListedQueue(*"abc")
    await copy_of(source, cluster).catch_up()
    purged = await running.http.post("/api/v1/topics/orders/purge", json={"all": True})
    assert purged.status_code == 200
    source.bodies += ["d"]
    with pytest.raises(ClusterError, match="copies are gone"):
        await copy_of(source, cluster).catch_up()
