"""Messages as the columns that a frame would have brought."""

import struct
from collections.abc import Sequence

from engine.message import Message, PutResult
from engine.message_columns import MessageColumns, PutColumns


def pack(messages: Sequence[Message], *, id_prefix: str = "") -> MessageColumns:
    """Columns of messages with the same topic and queue, without properties; ids from 0 on."""
    count, bodies = len(messages), [message.body for message in messages]
    data = struct.pack(f">{count}I", *map(len, bodies)) + b"".join(bodies)
    starts = []
    texts = ([message.tag for message in messages], [" ".join(each.keys) for each in messages])
    for column in texts:
        starts.append(len(data))
        lengths = struct.pack(f">{count}H", *map(len, column))
        data += lengths + "".join(column).encode("ascii")
    return MessageColumns(
        topic=messages[0].topic,
        queue=messages[0].queue,
        count=count,
        data=data,
        bodies_at=0,
        body_bytes=sum(map(len, bodies)),
        messages=lambda: messages,
        tags_at=starts[0],
        keys_at=starts[1],
        id_prefix=id_prefix,
    )


def name(messages: Sequence[Message], columns: MessageColumns, sent: PutColumns) -> PutResult:
    """The result as of `send`: each message gets its id and queue."""
    [result] = sent.results
    ids = columns.message_ids(len(messages)) or result.message_ids()
    for message, message_id in zip(messages, ids, strict=True):
        message.message_id, message.queue = message_id, result.queue
    return PutResult(
        messages,
        list(result.offsets),
        result.positions,
        sent.durability,
        sent.flush_position,
        sent.runs,
    )
