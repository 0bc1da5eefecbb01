"""REST for a group's progress: its lag, and the offsets that pulling consumers commit."""

import msgspec

from app.api.framework.operation import Call, Operations
from app.messaging import Messaging
from app.security.access import Action
from engine.errors import Conflict
from kitemq.model.conversion import convert
from kitemq.model.progress import ClientName, Lag, NewOffset, Offsets, QueueOffset


class OffsetQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Of which topic."""

    topic: str
    client: ClientName = ""


operations = Operations("groups")


@operations.get("/groups/{group}/lag", needs=Action.READ)
async def get_lag(call: Call[None, None]) -> Lag:
    """Get a group's lag, queue by queue.

    While a broker of a cluster is away, `unknown` says so, and its queues are missing.
    """
    name = call.path("group")
    lag = await call.administration.present_lag(name)
    sums = dict.fromkeys(("count", "dead", "oldest_age_ms") if lag.unknown else ())
    return convert(lag, Lag, group=name, **sums)


@operations.get("/groups/{group}/offsets", needs=Action.READ, example="?topic=orders")
async def get_offsets(call: Call[OffsetQuery, None]) -> Offsets:
    """Read a group's committed offsets in a topic."""
    group, topic = call.path("group"), call.query.topic
    await call.messaging.group(group)
    queues = range((await call.messaging.topic(topic)).read_queues)
    client = call.query.client
    offsets = [await _queue_offset(call.messaging, group, topic, each, client) for each in queues]
    return Offsets(group, topic, offsets)


@operations.put(
    "/groups/{group}/offsets",
    needs=Action.CONSUME,
    errors=(409,),
    example_body='{"topic": "orders", "queue": 0, "offset": "12"}',
)
async def commit_offset(call: Call[None, NewOffset]) -> None:
    """Commit how far a group has read a queue.

    For consumers that pull and store their own offset. Deliveries in flight there are forgotten.
    409 after a reset of the queue, until a client of the group has pulled from it.
    """
    new = call.body
    group, offset = call.path("group"), int(new.offset)
    call.check_client(group, new.client)
    if not await call.messaging.commit_offset(group, new.topic, new.queue, offset, new.client):
        raise Conflict(
            f"the group {group!r} was reset in queue {new.queue} of {new.topic!r}",
            field="offset",
            remedy="pull that queue with this group, then go on at the next_offset of the answer",
        )


async def _queue_offset(
    messaging: Messaging, group: str, topic: str, queue: int, client: str
) -> QueueOffset:
    offset = await messaging.committed_offset(group, topic, queue, client)
    start = await messaging.start_offset(group, topic, queue) if offset is None else None
    return convert(None, QueueOffset, queue=queue, offset=offset, start=start)
