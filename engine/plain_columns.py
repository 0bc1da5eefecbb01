"""Whether messages that came as columns may be stored without being looked at one by one."""

from collections.abc import Callable, Sequence

from engine.errors import EngineError
from engine.message import (
    BATCH_BYTES_MAX,
    BATCH_COUNT_MAX,
    BODY_BYTES_MAX,
    RESERVED,
    WAIT,
    Message,
)
from engine.message_checks import KEYS_MAX, LENGTH_PLAIN, MESSAGE_ID_LENGTH_MAX, check_message
from engine.message_columns import BatchColumns, MessageColumns
from engine.store import kernel
from engine.store.record import encode_properties
from engine.store.store import Store
from engine.topic.catalog import TopicConfig, TopicType

# Longer ones in a column may be good, too: together with `LENGTH_PLAIN` these always are.
COLUMN_TAG_BYTES_MAX = 1024
COLUMN_KEYS_BYTES_MAX = 4096
LIMITS = (
    *(BODY_BYTES_MAX, COLUMN_TAG_BYTES_MAX, COLUMN_KEYS_BYTES_MAX, KEYS_MAX),
    *(MESSAGE_ID_LENGTH_MAX, LENGTH_PLAIN),
)
# A smaller batch is stored sooner by messages.
COLUMNS_COUNT_MIN = 4 if kernel.KERNEL == "compiled" else 16
RESERVED_NAMES = frozenset([name.encode() for name in RESERVED])


def batch_columns(batch: bytes, start: int = 0) -> BatchColumns:
    """The plain messages of a classic batch from byte `start` on, up to the first that is special.

    The layout of the batch is `protocol.remoting.batches`'. Special is all that is not stored just
    as it is: without an id, delayed, transactional, with a message group, a request, or in error.
    """
    return BatchColumns(
        *kernel.batch_columns(batch, start, BATCH_COUNT_MAX, *LIMITS, RESERVED_NAMES)
    )


def plain_topic(
    batches: Sequence[MessageColumns],
    open_topic: Callable[[Message], TopicConfig],
    store: Store,
) -> TopicConfig | None:
    """The topic of batches whose messages may all be stored just as they are; else None.

    What all messages of a batch share is checked as one message, the columns by the kernel. Where
    that finds the least doubtful the answer is None: messages are then looked at one by one.
    """
    name = batches[0].topic
    if name[:1] == "%" or not store.may_take_columns(name):
        return None
    if any(batch.topic != name for batch in batches):
        return None
    if not 0 < sum([batch.count for batch in batches]) <= BATCH_COUNT_MAX:
        return None
    if sum([batch.body_bytes for batch in batches]) > BATCH_BYTES_MAX:
        return None
    topic: TopicConfig | None = None
    try:
        for batch in batches:
            alike = _alike(batch)
            topic = topic or open_topic(alike)
            check_message(alike, topic)
            if topic.type is TopicType.FIFO or not _is_plain_batch(batch, alike):
                return None
    except EngineError:
        return None
    return topic


def _alike(batch: MessageColumns) -> Message:
    """A message with what all of a batch share, and a body and an id like theirs."""
    message_id = f"{batch.id_prefix}{batch.id_first:08X}" if batch.id_prefix else ""
    return Message(
        *(batch.topic, b"body", batch.tag, batch.keys, batch.properties, "", message_id),
        queue=batch.queue,
        flag=batch.flag,
        born_ms=batch.born_ms,
        born_host=batch.born_host,
    )


def _is_plain_batch(batch: MessageColumns, alike: Message) -> bool:
    return (
        WAIT not in batch.properties
        and len(encode_properties(alike)) <= LENGTH_PLAIN
        and kernel.are_plain(
            *(batch.data, batch.count, batch.bodies_at, batch.tags_at, batch.keys_at),
            *(batch.flags_at, batch.born_at, batch.ids_at, batch.properties_at),
            *LIMITS,
        )
    )
