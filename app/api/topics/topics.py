"""Topics: list, create, look at, change, delete."""

from heapq import nsmallest
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from app.api.framework.operation import API, Call, operation
from app.security.access import READ_SERVER, Action, Kind, Needs
from app.services.audit import Actor, actor_at
from app.services.topics import TopicChanges, Topics
from engine.broker import TopicConfig, TopicType
from engine.message import Promise

TAG = "topics"
PAGE_DEFAULT = 50
PAGE_MAX = 200

Queues = Annotated[int, Meta(ge=1, le=1024)]
Permission = Annotated[int, Meta(description="6 read and write, 4 read, 2 write, 0 neither")]
RetentionMs = Annotated[
    int,
    Meta(
        description="How long its messages are kept, in ms; 0 for good, null as long as the "
        "broker's. Longer than the broker's keeps everybody's log files for as long."
    ),
]
TraceSample = Annotated[
    float,
    Meta(ge=0, le=1, description="Share of its messages whose hand-outs are traced, 0 to 1."),
]
Limit = Annotated[int, Meta(ge=1, le=PAGE_MAX, description="Items of one page.")]
Cursor = Annotated[str, Meta(description="`next_cursor` of the page before.")]
Milliseconds = Annotated[int, Meta(description="Milliseconds since 1970-01-01 UTC.")]


class Topic(msgspec.Struct):
    """A topic's configuration. What is null is the broker's default."""

    name: str
    type: TopicType
    read_queues: int
    write_queues: int
    permission: Permission
    promise: Promise | None
    system: bool
    created_ms: Milliseconds
    retention_ms: Annotated[int | None, Meta(description="0: its messages are kept for good.")]
    trace_sample: Annotated[
        float | None, Meta(description="Share of its messages whose hand-outs are traced.")
    ]


class QueueStats(msgspec.Struct):
    """One queue: the offsets it keeps, and when its last message was stored."""

    queue: int
    min_offset: str
    max_offset: Annotated[str, Meta(description="The offset that the next message gets.")]
    last_stored_ms: Milliseconds | None


class TopicDetail(Topic):
    """A topic with its queues."""

    messages: int
    queues: list[QueueStats]


class TopicPage(msgspec.Struct):
    """A page of topics by name; `total` counts all that match."""

    items: list[Topic]
    next_cursor: str | None
    total: int


class TopicQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which topics are listed."""

    q: Annotated[str, Meta(description="Part of the name, in any case.")] = ""
    type: TopicType | None = None
    system: Annotated[bool, Meta(description="The engine's own topics too.")] = False
    limit: Limit = PAGE_DEFAULT
    cursor: Cursor = ""


class NewTopic(msgspec.Struct, forbid_unknown_fields=True):
    """A topic to be created."""

    name: Annotated[str, Meta(description="Letters, digits, `_`, `-`, `%`, `|`; at most 127.")]
    type: TopicType = TopicType.NORMAL
    read_queues: Queues | UnsetType = UNSET
    write_queues: Queues | UnsetType = UNSET
    permission: Permission = 6
    promise: Promise | None = None
    retention_ms: RetentionMs | None = None
    trace_sample: TraceSample | None = None


class TopicPatch(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What changes; what is left out stays. Shrink write queues first, drain, then read queues."""

    read_queues: Queues | UnsetType = UNSET
    write_queues: Queues | UnsetType = UNSET
    permission: Permission | UnsetType = UNSET
    promise: Promise | UnsetType | None = UNSET
    retention_ms: RetentionMs | UnsetType | None = UNSET
    trace_sample: TraceSample | UnsetType | None = UNSET


def topic_out(config: TopicConfig) -> Topic:
    """A topic as the API shows it."""
    return Topic(
        config.name,
        config.type,
        config.read_queues,
        config.write_queues,
        config.permission,
        config.promise,
        config.is_system,
        config.created_ms,
        config.retention_ms,
        config.trace_sample,
    )


def actor_of(call: Call[Any, Any]) -> Actor:
    """Who makes this call, for the audit trail."""
    return actor_at(call.who.audit_name(call.client), call.header(b"x-request-id"))


@operation(
    "GET",
    f"{API}/topics",
    tag=TAG,
    needs=READ_SERVER,
    query=TopicQuery,
    answer=TopicPage,
    example="curl '$URL/api/v1/topics?q=order&limit=10'",
)
async def list_topics(call: Call[TopicQuery, None]) -> TopicPage:
    """List topics.

    Sorted by name; follow `next_cursor` until it is null.
    """
    query = call.query
    wanted = query.q.lower()
    found = [
        config
        for config in call.host.broker.topics(system=query.system)
        if wanted in config.name.lower() and query.type in (None, config.type)
    ]
    rest = (config for config in found if config.name > query.cursor)
    page = nsmallest(query.limit + 1, rest, key=lambda config: config.name)
    more = len(page) > query.limit
    return TopicPage(
        [topic_out(config) for config in page[: query.limit]],
        page[query.limit - 1].name if more else None,
        len(found),
    )


@operation(
    "POST",
    f"{API}/topics",
    tag=TAG,
    needs=Needs(Action.ADMINISTER, Kind.TOPIC),
    body=NewTopic,
    answer=Topic,
    status=201,
    errors=(409,),
    example="curl -X POST $URL/api/v1/topics -H 'Content-Type: application/json' "
    """-d '{"name": "orders", "read_queues": 8, "write_queues": 8}'""",
)
async def create_topic(call: Call[None, NewTopic]) -> Topic:
    """Create a topic.

    Without queue numbers it gets the setting `default_queues`. A name that is taken is a 409.
    """
    new = call.body
    queues = call.settings.default_queues
    call.require(Action.ADMINISTER, Kind.TOPIC, new.name)
    config = TopicConfig(
        new.name,
        type=new.type,
        read_queues=queues if new.read_queues is UNSET else new.read_queues,
        write_queues=queues if new.write_queues is UNSET else new.write_queues,
        permission=new.permission,
        promise=new.promise,
        retention_ms=new.retention_ms,
        trace_sample=new.trace_sample,
    )
    topics: Topics = call.state.topics
    return topic_out(await topics.create(actor_of(call), config))


@operation(
    "GET",
    f"{API}/topics/{{topic}}",
    tag=TAG,
    needs=Needs(Action.READ, Kind.TOPIC, "topic"),
    answer=TopicDetail,
    errors=(404,),
    example="curl $URL/api/v1/topics/orders",
)
async def get_topic(call: Call[None, None]) -> TopicDetail:
    """Look at one topic with its queues."""
    name = call.path("topic")
    config = call.host.broker.topic(name)
    stats = call.host.broker.topic_stats(name)
    return TopicDetail(
        **msgspec.structs.asdict(topic_out(config)),
        messages=stats.messages,
        queues=[
            QueueStats(item.queue, str(item.min_offset), str(item.max_offset), item.last_stored_ms)
            for item in stats.queues
        ],
    )


@operation(
    "PATCH",
    f"{API}/topics/{{topic}}",
    tag=TAG,
    needs=Needs(Action.ADMINISTER, Kind.TOPIC, "topic"),
    body=TopicPatch,
    answer=Topic,
    errors=(404, 409),
    example="curl -X PATCH $URL/api/v1/topics/orders -H 'Content-Type: application/json' "
    """-d '{"permission": 4}'""",
)
async def change_topic(call: Call[None, TopicPatch]) -> Topic:
    """Change a topic.

    Only what is given changes; a topic keeps its type for life.
    """
    patch = call.body
    changes = TopicChanges(
        patch.read_queues,
        patch.write_queues,
        patch.permission,
        patch.promise,
        patch.retention_ms,
        patch.trace_sample,
    )
    topics: Topics = call.state.topics
    return topic_out(await topics.change(actor_of(call), call.path("topic"), changes))


@operation(
    "DELETE",
    f"{API}/topics/{{topic}}",
    tag=TAG,
    needs=Needs(Action.ADMINISTER, Kind.TOPIC, "topic"),
    status=204,
    errors=(404,),
    example="curl -X DELETE $URL/api/v1/topics/orders",
)
async def delete_topic(call: Call[None, None]) -> None:
    """Delete a topic.

    Its messages and the progress of all groups in it are gone at once.
    """
    topics: Topics = call.state.topics
    await topics.delete(actor_of(call), call.path("topic"))


OPERATIONS = (list_topics, create_topic, get_topic, change_topic, delete_topic)
