"""Buries messages that used up their attempts: in the dead-letter topic of their group.

RocketMQ's own way (CONSUMER_SEND_MSG_BACK) has no place for the reason. So the message is sent
there as any other, with what KiteMQ notes on its dead letters.
"""

from app.cluster.engine_errors import engine_errors
from app.cluster.messages import NewClusterMessage
from app.cluster.queue_copy import LEFT_BEHIND
from app.cluster.verbs.part import ClusterPart
from engine.broker import DEAD_LETTER_PREFIX, GroupConfig
from engine.errors import TopicNotFound
from engine.message import (
    DLQ_ORIGIN_MESSAGE_ID,
    DLQ_ORIGIN_TOPIC,
    FAILED_CLIENT,
    FAILED_ERROR,
    FAILED_REASON,
    RETRY_TOPIC,
    SHARDING_KEY,
    StoredMessage,
    copy_of,
)
from protocol.remoting.codes import SysFlag

# As the embedded engine says it.
EXHAUSTED, REJECTED = "attempts_exhausted", "rejected"


class ClusterDeadLetters(ClusterPart):
    """The dead letters of all groups."""

    async def bury(
        self,
        group: GroupConfig,
        stored: StoredMessage,
        *,
        error: str = "",
        client: str = "",
        is_rejected: bool = False,
    ) -> None:
        """Send it to the dead letters, unless its group has none; settling it is the caller's."""
        if not group.dead_letters:
            return
        topic = f"{DEAD_LETTER_PREFIX}{group.name}"
        copy = copy_of(stored)
        notes = {
            DLQ_ORIGIN_TOPIC: stored.origin_topic,
            DLQ_ORIGIN_MESSAGE_ID: stored.offset_id,
            RETRY_TOPIC: stored.origin_topic,
            FAILED_ERROR: error,
            FAILED_CLIENT: client,
            FAILED_REASON: REJECTED if is_rejected else EXHAUSTED,
        }
        if copy.message_group:
            copy.properties[SHARDING_KEY] = copy.message_group
        properties = {
            name: text for name, text in copy.properties.items() if name not in LEFT_BEHIND
        }
        letter = NewClusterMessage(
            copy.body,
            copy.tag,
            copy.keys,
            properties | {name: text for name, text in notes.items() if text},
            copy.message_id,
            born_ms=copy.born_ms,
            reconsume_times=stored.attempt,
            flag=copy.flag,
            sys_flag=copy.sys_flag & (SysFlag.COMPRESSED | SysFlag.COMPRESSION_TYPE),
        )
        try:
            await self._catalog.route(topic)
        except TopicNotFound:
            with engine_errors():
                await self._client.topics.create(topic, 1)
        with engine_errors():
            await self._client.sends.send(topic, letter)
