"""All records of a message of a cluster: the one that was sent, its retries and its dead letters.

They lie in topics of their own, whose names follow from the groups that consume the message.
"""

from collections.abc import Iterable, Sequence

from app.cluster.catalog import ClusterCatalog
from app.cluster.engine_errors import engine_errors
from app.cluster.verbs.part import ClusterPart, all_of
from app.cluster.verbs.topic_lists import ClusterTopicLists
from engine.broker import DEAD_LETTER_PREFIX, RETRY_PREFIX, origin_of
from engine.errors import Refused, TopicNotFound
from engine.message import StoredMessage

GROUPS_MAX = 100
RECORDS_MAX = 64


class ClusterRecords(ClusterPart):
    """Finds what belongs together."""

    def __init__(self, catalog: ClusterCatalog, topics: ClusterTopicLists) -> None:
        super().__init__(catalog)
        self._topic_lists = topics

    async def groups(self, records: Sequence[StoredMessage]) -> list[str]:
        """The groups that consume the message of these records, or gave it up; at most 100."""
        groups = {
            each.topic.removeprefix(DEAD_LETTER_PREFIX)
            for each in records
            if each.topic.startswith(DEAD_LETTER_PREFIX)
        }
        for topic in {_home_of(each) for each in records}:
            try:
                groups.update(await self._topic_lists.groups_of(topic))
            except TopicNotFound:
                continue
        return sorted(groups)[:GROUPS_MAX]

    async def all(self, records: Sequence[StoredMessage]) -> list[StoredMessage]:
        """These and all others of their message, oldest first, at most 64. Busy."""
        groups = await self.groups(records)
        message_ids = {each.message_id for each in records if each.message_id}
        homes = {_home_of(each) for each in records} - {""}
        topics = homes | {topic for group in groups for topic in _topics_of(group, homes)}
        parts = await all_of(
            self._of_topic(topic, message_id)
            for topic in sorted(topics)
            for message_id in sorted(message_ids)
        )
        every = {(each.topic, each.queue, each.offset): each for each in records}
        every |= {(each.topic, each.queue, each.offset): each for part in parts for each in part}
        ordered = sorted(every.values(), key=lambda each: (each.stored_ms, each.attempt))
        return ordered[:RECORDS_MAX]

    async def _of_topic(self, topic: str, message_id: str) -> list[StoredMessage]:
        try:
            with engine_errors():
                messages = await self._client.reads.by_key(topic, message_id, is_id=True)
            return [self._stored(each) for each in messages]
        except (TopicNotFound, Refused):
            return []


def _home_of(record: StoredMessage) -> str:
    """The topic that the message was sent to."""
    return origin_of(record) or record.topic


def _topics_of(group: str, homes: Iterable[str]) -> list[str]:
    """Where a group has retries and dead letters of messages of these topics."""
    own = [f"{RETRY_PREFIX}{group}", f"{DEAD_LETTER_PREFIX}{group}"]
    return own + [f"{RETRY_PREFIX}{group}{mark}{home}" for home in homes for mark in "_+"]
