"""Decompresses message bodies off the event loop, within a limit for each answer.

Every endpoint delivers `StoredMessage.plain`. Decompressing it here first moves large bodies to a
thread, and one answer never holds more than ANSWER_BYTES_MAX decompressed.
"""

import asyncio
from collections.abc import Iterable, Sequence

from engine.message import BATCH_BYTES_MAX, StoredMessage

# Compressed bytes that are decompressed on the loop: a body of some KiB takes microseconds.
INLINE_BYTES_MAX = 8 * 1024
# Decompressed bodies in one answer that lists messages; the others stay compressed.
ANSWER_BYTES_MAX = 16 * 1024 * 1024
# Decompressed bytes of one delivery; the remaining messages follow in the next one.
DELIVERED_BYTES_MAX = BATCH_BYTES_MAX
ANSWER_IS_FULL = (
    f"not decompressed: the answer holds {ANSWER_BYTES_MAX // 2**20} MiB of decompressed bodies "
    "already; read the message by itself"
)


async def decompress(messages: Iterable[StoredMessage]) -> None:
    """See to it that `plain` of each message is at hand; past ANSWER_BYTES_MAX it is the raw body.

    A thread does the work unless all of it is small.
    """
    compressed = [each for each in messages if each.is_compressed]
    if not compressed:
        return
    if is_small(compressed):
        decompress_all(compressed)
    else:
        await asyncio.to_thread(decompress_all, compressed)


async def delivered_count(messages: Sequence[StoredMessage]) -> int:
    """Decompress messages for delivery and return how many from the start fit into one answer.

    At least one does; together they have at most DELIVERED_BYTES_MAX bytes.
    """
    if not any(each.is_compressed for each in messages):
        return len(messages)
    if is_small(messages):
        return fitting_count(messages)
    return await asyncio.to_thread(fitting_count, messages)


def is_small(messages: Iterable[StoredMessage]) -> bool:
    """Whether the bodies are small enough to decompress on the event loop.

    A few bytes may expand to BODY_BYTES_MAX for each message, so at most two of them are.
    """
    compressed = [len(each.body) for each in messages if each.is_compressed]
    return sum(compressed) <= INLINE_BYTES_MAX and len(compressed) <= 2


def decompress_all(messages: Sequence[StoredMessage]) -> None:
    """Decompress in order, within ANSWER_BYTES_MAX; for a thread."""
    size_bytes = 0
    for message in messages:
        if not message.is_compressed:
            continue
        if size_bytes >= ANSWER_BYTES_MAX:
            message.keep_raw(ANSWER_IS_FULL)
        else:
            size_bytes += len(message.plain.body)


def fitting_count(messages: Sequence[StoredMessage]) -> int:
    """As `delivered_count`, at once; for a thread unless they are small."""
    if not any(each.is_compressed for each in messages):
        return len(messages)
    size_bytes = 0
    for index, message in enumerate(messages):
        size_bytes += len(message.plain.body)
        if index and size_bytes > DELIVERED_BYTES_MAX:
            return index
    return len(messages)
