"""Finding messages: through a topic step by step, and by one text in everything."""

from typing import Annotated

import msgspec
from msgspec import Meta

from app.api.framework.operation import Call, Operations
from app.api.messages.messages import fields_of, message_view
from app.security.access import READ_SERVER, Action
from app.security.message_rights import require_message, visible_matches
from app.services import bodies
from engine.broker import FOREVER_MS, ScanQuery
from engine.errors import Invalid
from kitemq.model.conversion import convert
from kitemq.model.messages import Encoding, Filter, Order, SearchPage, SearchResult, Stored

operations = Operations("messages")
LIMIT_MAX = 200
BUDGET_MS = 2000
BUDGET_MS_MAX = 10_000
TEXT_MAX = 512


class TopicSearch(msgspec.Struct, forbid_unknown_fields=True):
    """The search in a topic."""

    begin_ms: Annotated[int, Meta(ge=0, description="Stored then or later, ms since 1970 UTC.")] = 0
    end_ms: Annotated[int, Meta(ge=0, description="Stored before that; 0 means no end.")] = 0
    filter: Filter = "*"
    contains: Annotated[
        str,
        Meta(max_length=TEXT_MAX, description="A text that the body holds, as UTF-8, case counts."),
    ] = ""
    order: Annotated[
        Order, Meta(description="Which come first, by the time of storing: oldest or newest.")
    ] = "oldest"
    limit: Annotated[int, Meta(ge=1, le=LIMIT_MAX)] = 32
    cursor: Annotated[
        str, Meta(description="`next_cursor` of the answer before; all else as it was then.")
    ] = ""
    budget_ms: Annotated[
        int, Meta(ge=0, le=BUDGET_MS_MAX, description="The search pauses after so much time.")
    ] = BUDGET_MS
    encoding: Encoding = Encoding.AUTO


class TextSearch(msgspec.Struct, forbid_unknown_fields=True):
    """One text."""

    q: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=TEXT_MAX,
            description="A message id, an offset id, a key, or part of a topic's or group's name.",
        ),
    ]
    encoding: Encoding = Encoding.AUTO


@operations.get(
    "/topics/{topic}/search",
    capability="content_search",
    needs=Action.READ,
    example="?filter=paid&limit=10",
)
async def search_topic(call: Call[TopicSearch, None]) -> SearchPage:
    """Look through a topic for messages, in the order of storing or the newest first.

    All queues come merged. The search says how far it looked and goes on at `next_cursor`, until
    that is null; what arrives meanwhile is not part of it. A page may be short, or empty, where
    its time was up. By key, `/topics/{topic}/messages/by-key` finds at once.
    """
    query = call.query
    if 0 < query.end_ms <= query.begin_ms:
        raise Invalid("the time ends before it begins", field="end_ms", remedy="after begin_ms")
    call.require_messages(call.path("topic"))
    search = call.services.search
    page = await search.scan(
        ScanQuery(
            call.path("topic"),
            query.begin_ms,
            query.end_ms or FOREVER_MS,
            query.filter,
            query.contains,
            is_newest_first=query.order == "newest",
        ),
        count_max=query.limit,
        cursor=query.cursor,
        budget_s=query.budget_ms / 1000,
    )
    require_message(call.who, *page.items)
    await bodies.decompress(page.items)
    items = [Stored(*fields_of(message, query.encoding)) for message in page.items]
    return convert(page, SearchPage, items=items)


@operations.get("/search", needs=READ_SERVER, example="?q=orders")
async def search_anything(call: Call[TextSearch, None]) -> SearchResult:
    """Find messages, topics and groups by one text.

    Messages with this id, or else with this key in any topic, and topics and groups of such names.
    A key finds only messages that the caller may read.
    """
    search = call.services.search
    text = call.query.q.strip()
    matches = await search.anything(text)
    visible = visible_matches(call.who, text, matches.messages)
    await bodies.decompress(visible)
    messages = [message_view(message, call.query.encoding) for message in visible]
    return convert(matches, SearchResult, messages=messages)
