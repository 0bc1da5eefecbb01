"""Topics: list, create, look at, change, delete."""

from operator import attrgetter
from typing import Annotated

import msgspec
from msgspec import Meta

from app.api.framework.operation import Call, Operations
from app.api.framework.paging import PAGE_DEFAULT, Cursor, Limit, page_of
from app.pause import paced
from app.security.access import READ_SERVER, Action, Kind, Needs
from engine.broker import TopicConfig
from kitemq.model.conversion import convert, set_fields
from kitemq.model.topics import NewTopic, Topic, TopicDetail, TopicPage, TopicSettings, TopicType

operations = Operations("topics")


class TopicQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Filters of the list of topics."""

    q: Annotated[str, Meta(description="Part of the name, in any case.")] = ""
    type: TopicType | None = None
    system: Annotated[bool, Meta(description="The engine's own topics too.")] = False
    limit: Limit = PAGE_DEFAULT
    cursor: Cursor = ""


def topic_out(config: TopicConfig) -> Topic:
    """A topic as the API shows it."""
    return convert(config, Topic, system=config.is_system, created_ms=config.created_ms or None)


@operations.get("/topics", needs=READ_SERVER, example="?q=order&limit=10")
async def list_topics(call: Call[TopicQuery, None]) -> TopicPage:
    """List topics.

    Sorted by name; follow `next_cursor` until it is null.
    """
    query = call.query
    text = query.q.lower()
    topics = await call.administration.topics(system=query.system)
    if text or query.type is not None:
        topics = [
            config
            async for config in paced(topics)
            if text in config.name.lower() and query.type in (None, config.type.value)
        ]
    page, next_cursor = page_of(topics, attrgetter("name"), query.cursor, query.limit)
    items = [topic_out(config) async for config in paced(page)]
    return TopicPage(items, next_cursor, len(topics))


@operations.post(
    "/topics",
    needs=Needs(Action.ADMINISTER, Kind.TOPIC),
    status=201,
    errors=(409,),
    example_body='{"name": "orders", "read_queues": 8, "write_queues": 8}',
)
async def create_topic(call: Call[None, NewTopic]) -> Topic:
    """Create a topic.

    Without queue numbers it gets the setting `default_queues`. A name that is taken is a 409.
    """
    new = call.body
    call.require(Action.ADMINISTER, Kind.TOPIC, new.name)
    queues = call.settings.default_queues
    defaults = {"read_queues": queues, "write_queues": queues}
    config = convert(new, TopicConfig, **{**defaults, **set_fields(new)})
    return topic_out(await call.services.topics.create(call.actor, config))


@operations.get("/topics/{topic}", needs=Action.READ)
async def get_topic(call: Call[None, None]) -> TopicDetail:
    """Look at one topic with its queues.

    While a broker of a cluster is away, `unknown` says so, and its queues are missing.
    """
    name = call.path("topic")
    config = await call.administration.topic(name)
    stats = await call.administration.present_stats(name)
    messages = None if stats.unknown else stats.messages
    parts = {"queues": stats.queues, "messages": messages, "unknown": stats.unknown}
    return convert(topic_out(config), TopicDetail, **parts)


@operations.patch(
    "/topics/{topic}", needs=Action.ADMINISTER, errors=(409,), example_body='{"permission": 4}'
)
async def change_topic(call: Call[None, TopicSettings]) -> Topic:
    """Change a topic.

    Only what is given changes; a topic keeps its type for life.
    """
    return topic_out(await call.services.topics.change(call.actor, call.path("topic"), call.body))


@operations.delete("/topics/{topic}", needs=Action.ADMINISTER)
async def delete_topic(call: Call[None, None]) -> None:
    """Delete a topic.

    Its messages and the progress of all groups in it are gone at once.
    """
    await call.services.topics.delete(call.actor, call.path("topic"))
