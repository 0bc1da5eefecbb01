"""What a classic client answers to GET_CONSUMER_RUNNING_INFO: the queues that it reads.

Push consumers list them, and so does `DefaultLitePullConsumer` of 5.3.3; of 4.9 it has the same
tables, always empty, as `DefaultMQPullConsumer` of any version.
"""

from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from protocol.remoting.loose_json import raw_member, standard_json

PASSIVE = "CONSUME_PASSIVELY"
ALL_QUEUES = -1  # of a broker: what a POP client has where queues are not shared out
QUEUE_MAX = 65_535


class ReadQueue(NamedTuple):
    """A queue that a client reads.

    By POP without `offset`, as the broker has it. `cached` messages are with the client and not yet
    consumed, `is_locked` is None where it does not consume in order.
    """

    topic: str
    broker: str
    queue: int
    offset: int | None
    cached: int
    is_pop: bool
    is_locked: bool | None


class _ReadPlace(msgspec.Struct, rename="camel"):
    topic: str
    broker_name: str
    queue_id: Annotated[int, Meta(ge=ALL_QUEUES, le=QUEUE_MAX)]


class _QueueState(msgspec.Struct, rename="camel"):
    """Of a queue by pulls or by POP; `droped` is how versions before 5.0 write it."""

    commit_offset: int = -1
    cached_msg_count: int = 0
    wait_ack_count: int = 0
    locked: bool = False
    dropped: bool = False
    droped: bool = False


class _Properties(msgspec.Struct):
    consume_type: Any = msgspec.field(name="PROP_CONSUME_TYPE", default="")
    is_ordered: Any = msgspec.field(name="PROP_CONSUMEORDERLY", default="")


def read_queues(body: bytes) -> list[ReadQueue] | None:
    """The queues that a client reads; None where it does not list them.

    Those that it lost to another member, and is about to let go, are left out.
    """
    try:
        properties = msgspec.json.decode(raw_member(body, "properties"), type=_Properties)
        is_ordered = properties.is_ordered in ("true", True)
        queues = [
            *_table(body, "mqTable", is_pop=False, is_ordered=is_ordered),
            *_table(body, "mqPopTable", is_pop=True, is_ordered=is_ordered),
        ]
    except (msgspec.MsgspecError, RecursionError):
        return None
    return queues if queues or properties.consume_type == PASSIVE else None


def _table(body: bytes, name: str, *, is_pop: bool, is_ordered: bool) -> list[ReadQueue]:
    table = msgspec.json.decode(
        standard_json(raw_member(body, name)), type=dict[str, _QueueState], strict=False
    )
    queues = []
    for key, state in table.items():
        if state.dropped or state.droped:
            continue
        place = msgspec.json.decode(key, type=_ReadPlace)
        offset = None if is_pop or state.commit_offset < 0 else state.commit_offset
        queues.append(
            ReadQueue(
                place.topic,
                place.broker_name,
                place.queue_id,
                offset,
                cached=state.wait_ack_count if is_pop else state.cached_msg_count,
                is_pop=is_pop,
                is_locked=state.locked if is_ordered and not is_pop else None,
            )
        )
    return queues
