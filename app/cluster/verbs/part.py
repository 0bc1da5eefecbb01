"""What the parts of the verbs share."""

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from app.cluster.catalog import ClusterCatalog
from app.cluster.client import ClusterClient
from app.cluster.engine_errors import as_engine_error
from app.cluster.errors import ClusterUnreachable, broker_away, missing_part
from app.cluster.messages import ClusterMessage
from app.cluster.numbering import QueueNumbers
from app.cluster.routes import ClusterQueue
from app.tasks import end_tasks
from engine.broker import RETRY_PREFIX, GroupLag, TopicStats
from engine.message import StoredMessage

T = TypeVar("T")
F = TypeVar("F", TopicStats, GroupLag)
AT_ONCE = 64  # requests of one call
# What Apache's brokers note on every message: nothing that its producer said.
BROKERS_NOTES = re.compile(rb"(?<![^\x02])(?:MSG_REGION|TRACE_ON|CLUSTER)\x01[^\x02]*\x02?")
FIXED_BYTES = 75  # of a record, without hosts, body, topic and properties


class ClusterPart:
    """Verbs that a cluster answers."""

    def __init__(self, catalog: ClusterCatalog) -> None:
        self._catalog = catalog

    @property
    def _client(self) -> ClusterClient:
        return self._catalog.client

    @property
    def _numbers(self) -> QueueNumbers:
        return self._catalog.numbers

    async def _ask_brokers(
        self, ask: Callable[[str], Coroutine[Any, Any, T]]
    ) -> list[T | ClusterUnreachable]:
        """What each broker that has queue numbers answers, in their order, or that it is away.

        Raises ClusterError: ClusterUnreachable where no name server answers.
        """
        masters = set(await self._client.masters())

        async def answer(broker: str) -> T:
            if broker not in masters:
                raise broker_away(broker)
            return await ask(broker)

        answers = await asyncio.gather(*map(answer, self._numbers.brokers), return_exceptions=True)
        there: list[T | ClusterUnreachable] = []
        for each in answers:
            if isinstance(each, BaseException) and not isinstance(each, ClusterUnreachable):
                raise each
            there.append(each)
        return there

    async def _place(self, topic: str, queue: int) -> ClusterQueue:
        """Where a queue lies, of a topic that there is; TopicNotFound, QueueNotFound, Refused.

        Brokers tell the name servers of a new retry topic only within 30 s, so it needs no route.
        """
        if not topic.startswith(RETRY_PREFIX):
            await self._catalog.route(topic)
        return self._numbers.place(topic, queue)

    def _stored(self, message: ClusterMessage) -> StoredMessage:
        return stored_message(message, self._numbers.number(message.place))


def stored_message(
    message: ClusterMessage, queue: int, *, topic: str = "", more: bytes = b""
) -> StoredMessage:
    """A message of a cluster as the engine's callers know it, under the number of its queue.

    `topic` is where it lies, if not where it says; `more` are properties besides its own, of which
    those are left out that every broker adds.
    """
    record = message.record
    sizes = map(len, (record.born_host, record.store_host, record.body, record.properties))
    return StoredMessage(
        topic=topic or record.topic,
        queue=queue,
        offset=record.offset,
        position=record.position,
        size_bytes=FIXED_BYTES + sum(sizes) + len(record.topic.encode()),
        body=record.body,
        property_block=BROKERS_NOTES.sub(b"", record.properties) + more,
        flag=record.flag,
        sys_flag=record.sys_flag,
        attempt=record.reconsume_times + 1,
        born_ms=record.born_ms,
        born_host=message.born_host,
        stored_ms=record.stored_ms,
        store_host=message.store_host,
        prepared_position=record.prepared_position,
    )


def whole(figures: F) -> F:
    """The figures; Busy where some are missing."""
    if figures.unknown:
        raise as_engine_error(missing_part(figures.unknown))
    return figures


async def all_of(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results in order, AT_ONCE at a time; the first error once all have ended."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(each: Coroutine[Any, Any, T]) -> T:
        async with slots:
            return await each

    coroutines = list(work)
    tasks = [asyncio.ensure_future(one(each)) for each in coroutines]
    try:
        results = await asyncio.gather(*tasks, return_exceptions=True)
    except BaseException:
        await end_tasks(*tasks)
        for each in coroutines:  # some may not have begun
            each.close()
        raise
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]


def bounded(count: int, sequence: Sequence[T]) -> list[Sequence[T]]:
    """The sequence in pieces of at most `count`."""
    return [sequence[at : at + count] for at in range(0, len(sequence), count)]
