"""How far a group is: its lag, and the offsets that pulling consumers commit."""

from typing import Annotated

import msgspec
from msgspec import Meta

from app.api.framework.operation import API, Call, operation
from app.api.groups.groups import TAG
from app.security.access import Action, Kind, Needs
from engine.broker import Broker, Counts
from engine.errors import Conflict, Invalid

OFFSET_MAX = 2**63 - 1

ClientName = Annotated[
    str, Meta(max_length=255, description="Whose progress, where the group broadcasts.")
]


class QueueLag(msgspec.Struct):
    """Progress of a group in one queue. Everything before `committed` is done."""

    topic: str
    queue: int
    min_offset: str
    max_offset: str
    committed: str
    count: Annotated[int, Meta(description="Messages not done, those in flight included.")]
    inflight: int
    oldest_ms: Annotated[int | None, Meta(description="When its oldest open message was stored.")]
    counts: Annotated[
        Counts,
        Meta(
            description="matching: `count` leaves out what the group's tag filter does; all: it "
            "counts everything, as the filter is not known (nobody received since the start), is "
            "SQL92, or over 10,000 messages are open."
        ),
    ]
    expired: Annotated[
        int, Meta(description="Messages that went by retention or a purge before it was done.")
    ]


class Lag(msgspec.Struct):
    """What a group has still to do."""

    group: str
    count: int
    inflight: int
    retry_waiting: int
    dead: int
    dismissed: Annotated[int, Meta(description="Of the dead ones, those that people let rest.")]
    oldest_age_ms: int | None
    counts: Annotated[Counts, Meta(description="all where it is for any queue.")]
    queues: list[QueueLag]


class OffsetQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Of which topic."""

    topic: str
    client: ClientName = ""


class QueueOffset(msgspec.Struct):
    """A committed offset: the next message to read. Null where none was committed."""

    queue: int
    offset: str | None
    start: Annotated[str | None, Meta(description="Where to begin if nothing is committed.")]


class Offsets(msgspec.Struct):
    """A group's committed offsets in one topic."""

    group: str
    topic: str
    queues: list[QueueOffset]


class NewOffset(msgspec.Struct, forbid_unknown_fields=True):
    """The offset to commit: the next message to read, backwards too."""

    topic: str
    queue: Annotated[int, Meta(ge=0, le=65535)]
    offset: Annotated[str | int, Meta(description="As a text, or a number.")]
    client: ClientName = ""


@operation(
    "GET",
    f"{API}/groups/{{group}}/lag",
    tag=TAG,
    needs=Needs(Action.READ, Kind.GROUP, "group"),
    answer=Lag,
    errors=(404,),
    example="curl $URL/api/v1/groups/billing/lag",
)
async def get_lag(call: Call[None, None]) -> Lag:
    """See what a group has still to do, queue by queue."""
    name = call.path("group")
    lag = call.host.broker.lag(name)
    return Lag(
        name,
        lag.count,
        lag.inflight,
        lag.retry_waiting,
        lag.dead,
        lag.dismissed,
        lag.oldest_age_ms,
        lag.counts,
        [
            QueueLag(
                item.topic,
                item.queue,
                str(item.min_offset),
                str(item.max_offset),
                str(item.committed),
                item.count,
                item.inflight,
                item.oldest_ms,
                item.counts,
                item.expired,
            )
            for item in lag.queues
        ],
    )


@operation(
    "GET",
    f"{API}/groups/{{group}}/offsets",
    tag=TAG,
    needs=Needs(Action.READ, Kind.GROUP, "group"),
    query=OffsetQuery,
    answer=Offsets,
    errors=(404,),
    example="curl '$URL/api/v1/groups/billing/offsets?topic=orders'",
)
async def get_offsets(call: Call[OffsetQuery, None]) -> Offsets:
    """Read a group's committed offsets in a topic."""
    broker = call.host.broker
    group, topic = call.path("group"), call.query.topic
    broker.group(group)
    queues = range(broker.topic(topic).read_queues)
    return Offsets(
        group,
        topic,
        [_queue_offset(broker, group, topic, queue, call.query.client) for queue in queues],
    )


@operation(
    "PUT",
    f"{API}/groups/{{group}}/offsets",
    tag=TAG,
    needs=Needs(Action.CONSUME, Kind.GROUP, "group"),
    body=NewOffset,
    status=204,
    errors=(404, 409),
    example="curl -X PUT $URL/api/v1/groups/billing/offsets -H 'Content-Type: application/json' "
    """-d '{"topic": "orders", "queue": 0, "offset": "12"}'""",
)
async def commit_offset(call: Call[None, NewOffset]) -> None:
    """Commit how far a group has read a queue.

    For consumers that pull and keep their own place. Whatever is in flight there is forgotten.
    409 after a reset of the queue, until a client of the group has pulled from it and was told.
    """
    new = call.body
    offset = _offset_of(new.offset)
    group, broker = call.path("group"), call.host.broker
    call.check_client(group, new.client)
    if not broker.commit_offset(group, new.topic, new.queue, offset, new.client):
        raise Conflict(
            f"the group {group!r} was reset in queue {new.queue} of {new.topic!r}",
            field="offset",
            remedy="pull that queue with this group, then go on at the next_offset of the answer",
        )


def _queue_offset(broker: Broker, group: str, topic: str, queue: int, client: str) -> QueueOffset:
    offset = broker.committed_offset(group, topic, queue, client)
    start = broker.start_offset(group, topic, queue) if offset is None else None
    return QueueOffset(queue, _text(offset), _text(start))


def _offset_of(value: str | int) -> int:
    text = str(value)
    if text.isdecimal() and text.isascii() and len(text) < 20 and int(text) <= OFFSET_MAX:
        return int(text)
    raise Invalid(
        f"{text[:40]!r} is no offset", field="offset", remedy="send a whole number from 0"
    )


def _text(offset: int | None) -> str | None:
    return None if offset is None else str(offset)


OPERATIONS = (get_lag, get_offsets, commit_offset)
