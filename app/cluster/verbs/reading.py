"""Pulls, offsets and single messages of a cluster, and of its topics what messages need."""

import asyncio
import time
from collections.abc import Callable, Hashable
from typing import NoReturn

from app.capabilities import not_supported
from app.cluster.catalog import ClusterCatalog
from app.cluster.engine_errors import as_engine_error, engine_errors
from app.cluster.errors import ClusterError, ClusterUnreachable
from app.cluster.link import Fields
from app.cluster.reading import PULL_BYTES_MAX, PULL_MAX, READER, WAIT_S_MAX, ClusterPage
from app.cluster.routes import ClusterQueue
from app.cluster.verbs.filters import MessageFilter, message_filter
from app.cluster.verbs.part import ClusterPart
from app.cluster.verbs.waits import ClusterWait, ClusterWaits
from engine.broker import GroupConfig, PullAnswer, PullResult, PullStatus, QueueContent, TopicConfig
from engine.errors import EngineError, Invalid, MessageNotFound, QueueNotFound
from engine.message import StoredMessage
from protocol.remoting.codes import ResponseCode

# A pull with time left goes on after these; on any other, waiting would change nothing.
PULL_GOES_ON = frozenset({PullAnswer.NOT_FOUND, PullAnswer.RETRY_IMMEDIATELY})
STATUSES = {
    ResponseCode.SUCCESS: PullStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: PullStatus.OFFSET_OVERFLOW_ONE,
    ResponseCode.PULL_RETRY_IMMEDIATELY: PullStatus.NO_MATCHED_MESSAGE,
    ResponseCode.PULL_OFFSET_MOVED: PullStatus.OFFSET_OVERFLOW_BADLY,
}
CONTENT_MAX = 32  # messages that a broker gives at once


class ClusterReadVerbs(ClusterPart):
    """Reads without consuming, and keeps the progress of those who pull."""

    def __init__(self, catalog: ClusterCatalog, waits: ClusterWaits) -> None:
        self._catalog, self._waits = catalog, waits

    # -- pulling --------------------------------------------------------------------------------

    async def pull(
        self,
        topic: str,
        queue: int,
        offset: int,
        *,
        count_max: int = 32,
        bytes_max: int = 256 * 1024,
        filter: str = "*",
        group: str = "",
        wait_s: float = 0.0,
    ) -> PullResult:
        """As `Messaging.pull`; most brokers give 32 messages at once."""
        match = message_filter(filter, self._catalog.capabilities)
        if not 1 <= count_max <= PULL_MAX:
            raise Invalid(
                f"{count_max} messages at once",
                field="count_max",
                remedy=f"ask for 1 to {PULL_MAX}",
            )
        if offset < 0:
            raise Invalid(f"{offset} is no offset", field="offset", remedy="count from 0")
        if group:
            await self._catalog.ensure_group(group)
        place = await self._readable(topic, queue)
        end_s = time.monotonic() + wait_s
        first_offset = offset
        while True:
            with engine_errors():
                page = await self._client.reads.pull(
                    place,
                    offset,
                    count_max=count_max,
                    tags=match.expression,
                    is_sql=match.is_sql,
                    group=group or READER,
                    bytes_max=max(1, min(bytes_max, PULL_BYTES_MAX)),
                )
            result = self._pulled(page, first_offset, match)
            rest_s = end_s - time.monotonic()
            if rest_s <= 0 or result.answer not in PULL_GOES_ON:
                return result
            if result.next_offset > offset:
                offset = result.next_offset
                continue
            if not await self._waits.until(*self._pull_wait(place, offset, match), rest_s):
                return result

    def wait_to_pull(
        self, topic: str, queue: int, offset: int, filter: str, wake: Callable[[], None]
    ) -> ClusterWait:
        """Call `wake` once when a message at or past `offset` may match; Busy beyond the bounds."""
        match = message_filter(filter, self._catalog.capabilities)
        place = self._numbers.place(topic, queue)
        return self._waits.begin(*self._pull_wait(place, offset, match), wake)

    def storing_order(self, message: StoredMessage) -> tuple[int, ...]:
        """By the brokers' clocks; within a millisecond queue by queue."""
        return message.stored_ms, message.queue, message.offset

    async def check_filter(self, filter: str) -> None:
        """Raise Invalid for a filter that cannot be read, Refused for one that brokers do not."""
        message_filter(filter, self._catalog.capabilities)

    async def commit_offset(
        self, group: str, topic: str, queue: int, offset: int, client: str = ""
    ) -> bool:
        """Set a group's progress to any offset, also backwards."""
        await self._catalog.group(group)
        place = await self._readable(topic, queue)
        if offset < 0:
            raise Invalid(f"{offset} is no offset", field="offset", remedy="count from 0")
        with engine_errors():
            return await self._client.groups.commit(group, place, offset)

    async def advance_offset(
        self, group: str, topic: str, queue: int, offset: int, client: str = ""
    ) -> bool:
        """A pulling client is done with all before `offset`; never backwards."""
        committed = await self.committed_offset(group, topic, queue, client)
        if committed is None or committed < offset:
            return await self.commit_offset(group, topic, queue, offset, client)
        return True

    async def committed_offset(
        self, group: str, topic: str, queue: int, client: str = ""
    ) -> int | None:
        """The offset before which everything is done; None where the group never consumed."""
        await self._catalog.group(group)
        place = await self._readable(topic, queue)
        with engine_errors():
            return await self._client.groups.committed(group, place)

    async def start_offset(self, group: str, topic: str, queue: int) -> int:
        """Where a pulling client without a committed offset begins: at what is kept."""
        return (await self.queue_bounds(topic, queue))[0]

    async def is_young_queue(self, topic: str, queue: int) -> bool:
        """Whether a new group gets the whole queue by RocketMQ's rule, as its broker says."""
        place = await self._readable(topic, queue)
        with engine_errors():
            return await self._client.groups.is_young(READER, place)

    async def send_back(
        self,
        group: str,
        topic: str,
        queue: int,
        offset: int,
        *,
        delay_level: int = 0,
        retry_max: int | None = None,
        error: str = "",
        client: str = "",
    ) -> None:
        """A pulling client failed with a message: its broker retries it later, or gives it up."""
        config = await self._catalog.group(group)
        stored = await self.message(topic, queue, offset)
        place = self._numbers.place(topic, queue)
        limit = config.retry_max if retry_max is None else retry_max
        fields: Fields = {
            "offset": stored.position,
            "group": group,
            "delayLevel": delay_level,
            "originMsgId": stored.message_id,
            "originTopic": stored.origin_topic,
            "unitMode": False,
            "maxReconsumeTimes": limit,
        }
        with engine_errors():
            await self._client.groups.send_back(place.broker, fields)

    # -- reading --------------------------------------------------------------------------------

    async def message(self, topic: str, queue: int, offset: int) -> StoredMessage:
        """One message by its place; MessageNotFound where there is none, or no longer."""
        place = await self._place(topic, queue)
        missing = MessageNotFound(
            f"queue {queue} of {topic!r} has no message at offset {offset}",
            field="offset",
            remedy="the queue's statistics say which offsets there are",
        )
        if offset < 0:
            raise missing
        try:
            with engine_errors():
                page = await self._client.reads.pull(place, offset, count_max=1)
        except (Invalid, QueueNotFound):
            raise missing from None
        if not page.messages or page.messages[0].offset != offset:
            raise missing
        return self._stored(page.messages[0])

    async def message_by_offset_id(self, offset_id: str) -> StoredMessage:
        """The very record that an offset id names; MessageNotFound."""
        try:
            message = await self._client.reads.by_offset_id(offset_id)
        except ClusterUnreachable as error:
            raise as_engine_error(error) from error
        except ClusterError as error:
            raise MessageNotFound(
                f"no message has the offset id {offset_id!r}: {error.detail}", field="id"
            ) from None
        return self._stored(message)

    async def message_at(self, position: int) -> NoReturn:
        """Refused: each broker has a log of its own."""
        raise not_supported(
            "finds no message by a position, of which each broker has one",
            field="position",
            remedy="give its offset id, which names the broker",
        )

    async def offset_at_time(self, topic: str, queue: int, at_ms: int) -> int:
        """The first offset of a queue stored at or after `at_ms`; its end where all are older."""
        place = await self._readable(topic, queue)
        with engine_errors():
            return await self._client.reads.offset_at(place, at_ms)

    async def queue_bounds(self, topic: str, queue: int) -> tuple[int, int]:
        """The first offset of a topic's queue that is kept, and the next one to be stored."""
        place = await self._readable(topic, queue)
        with engine_errors():
            first, end = await asyncio.gather(
                self._client.reads.min_offset(place), self._client.reads.max_offset(place)
            )
        return first, max(first, end)

    async def queue_content(self, topic: str, queue: int, *, count_max: int) -> QueueContent:
        """The age of a queue's oldest message and the size of its newest, at most 32."""
        try:
            first, end = await self.queue_bounds(topic, queue)
        except QueueNotFound:
            if not 0 <= queue < (await self._catalog.topic(topic)).write_queues:
                raise
            first = end = 0  # it is for writing alone, and its broker lets nobody read it
        if first == end:
            return QueueContent(None, 0, 0)
        place = self._numbers.place(topic, queue)
        newest_count = min(count_max, CONTENT_MAX)
        with engine_errors():
            oldest, newest = await asyncio.gather(
                self._client.reads.pull(place, first, count_max=1),
                self._client.reads.pull(
                    place, max(first, end - newest_count), count_max=max(1, newest_count)
                ),
            )
        sizes = [self._stored(each).size_bytes for each in newest.messages[:newest_count]]
        first_ms = oldest.messages[0].stored_ms if oldest.messages else None
        return QueueContent(first_ms, len(sizes), sum(sizes))

    # -- topics and groups ----------------------------------------------------------------------

    async def topic(self, name: str) -> TopicConfig:
        """The configuration of a topic; TopicNotFound."""
        return await self._catalog.topic(name)

    async def plan_topic(self, name: str) -> TopicConfig:
        """The topic as the next message to it would find it; nothing is created."""
        return await self._catalog.plan_topic(name)

    async def group(self, name: str) -> GroupConfig:
        """Settings of a group; GroupNotFound."""
        return await self._catalog.group(name)

    async def is_broadcast(self, group: str) -> bool:
        """False: in a cluster it is a client that broadcasts, and keeps its own progress."""
        return False

    # -- inside ----------------------------------------------------------------------------------

    async def _readable(self, topic: str, queue: int) -> ClusterQueue:
        """A queue that there is, as far as the brokers that answer know; QueueNotFound."""
        route = await self._catalog.route(topic)
        count, _ = self._numbers.counts(route)
        place = self._numbers.place(topic, queue) if queue >= 0 else None
        known = {each.broker_name: each.read_queue_nums for each in route.queue_datas}
        if place is None or queue >= count or place.queue >= known.get(place.broker, count):
            raise QueueNotFound(
                f"topic {topic!r} has no queue {queue} to read",
                field="queue",
                remedy=f"choose 0 to {count - 1}",
            )
        return place

    def _pull_wait(
        self, place: ClusterQueue, offset: int, match: MessageFilter
    ) -> tuple[Hashable, Callable[[], "asyncio.Future[bool]"]]:
        """What a pull waits for, and how its broker is asked."""

        async def ask() -> bool:
            try:
                page = await self._client.reads.pull(
                    place,
                    offset,
                    count_max=1,
                    tags=match.expression,
                    is_sql=match.is_sql,
                    wait_s=WAIT_S_MAX,
                )
            except (ClusterError, EngineError):
                return True  # the pull says what is wrong
            return page.code != ResponseCode.PULL_NOT_FOUND

        return (place, offset, match.expression), lambda: asyncio.ensure_future(ask())

    def _pulled(self, page: ClusterPage, offset: int, match: MessageFilter) -> PullResult:
        messages = [self._stored(each) for each in page.messages]
        fit = [each for each in messages if match.fits(each)]
        is_named = page.remark in PullStatus.__members__
        status = PullStatus[page.remark] if is_named else STATUSES[ResponseCode(page.code)]
        if messages and not fit:
            status = PullStatus.NO_MATCHED_MESSAGE
        elif fit:
            status = PullStatus.FOUND
        return PullResult(status, fit, page.next_offset, page.min_offset, page.max_offset, offset)
