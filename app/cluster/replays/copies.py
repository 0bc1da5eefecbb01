"""Sends the copies of a replay job, each once, and finds those that were sent before."""

import msgspec

from app.cluster.catalog import ClusterCatalog
from app.cluster.engine_errors import as_engine_error, engine_errors
from app.cluster.errors import ClusterError, ClusterNoAnswer, ClusterRefused, ClusterUnreachable
from app.cluster.groups import for_retries
from app.cluster.queue_copy import LEFT_BEHIND
from app.cluster.routes import TopicRoute
from app.cluster.sending import ELSEWHERE
from app.cluster.verbs.part import ClusterPart
from app.cluster.verbs.sending import NO_QUEUE, new_message, place_of
from engine.broker import RETRY_PREFIX
from engine.errors import Busy, EngineError, TopicNotFound
from engine.message import FAILED_REASON, SOURCE, Message, StoredMessage
from protocol.remoting.codes import SysFlag

RETRY_TOPICS_MAX = 10_000
REPLAYED = "KITE_REPLAYED"  # the job, and the place that the copy comes from
POP_TIME = "1ST_POP_TIME"  # of what a broker had retried for a POP consumer


class InDoubt(Exception):
    """No answer came: the copy may be stored, or be so in some seconds."""


class JobCopies(ClusterPart):
    """Copies on their way into the cluster."""

    def __init__(self, catalog: ClusterCatalog) -> None:
        super().__init__(catalog)
        self._retry_topics: set[str] = set()  # that brokers take messages for

    async def send(self, copy: Message) -> None:
        """Store one, by one request; InDoubt, Busy where nothing was done, what else refuses it."""
        route = await self._route(copy.topic)
        writable = self._catalog.write_numbers(copy.topic, route)
        place = place_of(copy, self._numbers, writable)
        new = msgspec.structs.replace(
            new_message(copy, copy.message_id),
            properties={
                name: text
                for name, text in copy.properties.items()
                if name not in LEFT_BEHIND or name == SOURCE
            }
            | {REPLAYED: copy.properties[SOURCE]},
            sys_flag=copy.sys_flag & (SysFlag.COMPRESSED | SysFlag.COMPRESSION_TYPE),
        )
        try:
            queue = await self._client.sends.choose(copy.topic) if place == NO_QUEUE else place
            await self._client.sends.send(copy.topic, new, queue=queue)
        except ClusterNoAnswer as error:
            raise InDoubt(error.detail) from error
        except ClusterError as error:
            raise _as_engine_error(error) from error

    async def is_there(self, copy: Message) -> bool:
        """Whether the very same copy is in the cluster, as its brokers' index says. Busy."""
        try:
            with engine_errors():
                messages = await self._client.reads.by_key(copy.topic, copy.message_id, is_id=True)
        except TopicNotFound:
            return False
        return any(each.properties.get(REPLAYED) == copy.properties[SOURCE] for each in messages)

    def retry_topic(self, stored: StoredMessage, copy: Message) -> str:
        """Where a group gets its retries of a message: POP consumers have a topic for each topic.

        What died of POP, KiteMQ's own way to receive, has been there.
        """
        is_popped = FAILED_REASON in stored.properties or POP_TIME in stored.properties
        return f"{copy.topic}_{stored.origin_topic}" if is_popped else copy.topic

    async def _route(self, topic: str) -> TopicRoute:
        """The route of a topic; of a retry topic, which POP makes at its first retry, made here."""
        if not topic.startswith(RETRY_PREFIX) or topic in self._retry_topics:
            return await self._catalog.route(topic)
        with engine_errors("topic"):
            if not await self._client.topics.exists(topic):
                await self._client.topics.create(topic, 1)
            if await self._client.groups.find(topic.removeprefix(RETRY_PREFIX)) is None:
                await self._client.groups.create(for_retries(topic))
        route = await self._catalog.route(topic)
        if len(self._retry_topics) >= RETRY_TOPICS_MAX:
            self._retry_topics.clear()
        self._retry_topics.add(topic)
        return route


def _as_engine_error(error: ClusterError) -> EngineError:
    """Busy also where the broker may take it later."""
    if isinstance(error, ClusterUnreachable) or (
        isinstance(error, ClusterRefused) and error.answer in ELSEWHERE
    ):
        return Busy(error.detail, remedy=error.remedy, retry_after_s=1.0, code=error.code)
    return as_engine_error(error)
