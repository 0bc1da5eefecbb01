"""Reading messages without consuming them: by offset, by id, by key."""

import asyncio
from base64 import b64encode
from collections.abc import Coroutine
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from app.api.framework.operation import Call, ClientGone, Operations
from app.security.access import READ_SERVER, Action, Kind
from app.security.message_rights import all_visible, missing_right, require_message
from app.services import bodies
from engine.broker import PullResult
from engine.compression import PlainBody
from engine.errors import MessageNotFound
from engine.message import KEYS, SHARDING_KEY, TAGS, UNIQ_KEY, WAIT, StoredMessage
from kitemq.model.messages import (
    Compressed,
    Encoding,
    Filter,
    KeyedMessages,
    MessageList,
    MessageView,
    PullPage,
    Stored,
    Wait,
)
from kitemq.model.values import OFFSET_MAX

operations = Operations("messages", id="7F00000100001F900000000000000000")
PULL_MAX = 160
KEY_MAX = 64
# Properties that have a field of their own.
FIELD_PROPERTIES = frozenset({TAGS, KEYS, UNIQ_KEY, SHARDING_KEY, WAIT})

T = TypeVar("T")

Offset = Annotated[int, Meta(ge=0, le=OFFSET_MAX)]


class PullQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The range to read."""

    queue: Annotated[int, Meta(ge=0, le=65535)] = 0
    offset: Offset = 0
    limit: Annotated[int, Meta(ge=1, le=PULL_MAX)] = 32
    filter: Filter = "*"
    wait_ms: Wait = 0
    group: Annotated[
        str, Meta(description="The group on whose behalf: needs the right to consume.")
    ] = ""
    encoding: Encoding = Encoding.AUTO


class ShowQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The encoding of bodies."""

    encoding: Encoding = Encoding.AUTO


class KeyQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The key to search."""

    key: Annotated[str, Meta(min_length=1)]
    limit: Annotated[int, Meta(ge=1, le=KEY_MAX)] = 32
    begin_ms: Annotated[int, Meta(ge=0, description="Stored then or later, ms since 1970 UTC.")] = 0
    end_ms: Annotated[int, Meta(ge=0, description="Stored before that; 0 means no end.")] = 0
    cursor: Annotated[
        str, Meta(description="`next_cursor` of the answer before; all else as it was then.")
    ] = ""
    encoding: Encoding = Encoding.AUTO


def fields_of(message: StoredMessage, encoding: Encoding = Encoding.AUTO) -> tuple[Any, ...]:
    """The values of `Stored`, in the order of its fields."""
    plain = message.plain
    body, body_encoding = _encode_body(plain.body, encoding)
    properties = message.properties
    return (
        message.message_id,
        message.offset_id,
        message.topic,
        message.queue,
        str(message.offset),
        str(message.position),
        message.origin_topic,
        properties.get(TAGS, ""),
        message.keys,
        {name: value for name, value in properties.items() if name not in FIELD_PROPERTIES},
        properties.get(SHARDING_KEY, ""),
        message.attempt,
        message.born_ms,
        message.born_host,
        message.stored_ms,
        message.size_bytes,
        body,
        body_encoding,
        compressed_of(plain) if plain.codec else None,
    )


def compressed_of(plain: PlainBody) -> Compressed:
    """The compression of a body, and whether it still is compressed."""
    return Compressed(plain.codec, plain.stored_bytes, len(plain.body), plain.why_raw)


def _encode_body(body: bytes, encoding: Encoding) -> tuple[str, str]:
    if encoding is not Encoding.BASE64:
        try:
            return body.decode(), "utf-8"
        except UnicodeDecodeError:
            if encoding is Encoding.UTF8:
                return body.decode(errors="replace"), "utf-8"
    return b64encode(body).decode(), "base64"


@operations.get(
    "/topics/{topic}/messages",
    needs=Action.READ,
    errors=(409, 410),
    example="?queue=0&offset=0&limit=10",
)
async def pull(call: Call[PullQuery, None]) -> PullPage:
    """Read a queue from an offset on.

    Nothing is delivered: the caller stores its offset, and may commit it for a group with
    PUT /groups/{group}/offsets. With `wait_ms` it waits for a message that matches.

    On behalf of a `group` it is consuming: it may make the group, and takes the notice of a reset.
    It needs the rights `consume` of group and topic instead of `read_messages`, and is refused
    while the server is read-only, and to pages of other sites.
    """
    query, topic = call.query, call.path("topic")
    if query.group:
        call.require_own_page()
        call.require(Action.CONSUME, Kind.GROUP, query.group)
        call.require(Action.CONSUME, Kind.TOPIC, topic)
    else:
        call.require_messages(topic)
    pulling = call.messaging.pull(
        topic,
        query.queue,
        query.offset,
        count_max=query.limit,
        filter=query.filter,
        group=query.group,
        wait_s=query.wait_ms / 1000,
    )
    result: PullResult = await (while_connected(call, pulling) if query.wait_ms else pulling)
    if not query.group:
        require_message(call.who, *result.messages)
    messages, next_offset = result.messages, result.next_offset
    count = await bodies.delivered_count(messages)
    if count < len(messages):
        messages, next_offset = messages[:count], messages[count].offset
    return PullPage(
        result.status.lower(),
        [Stored(*fields_of(message, query.encoding)) for message in messages],
        str(next_offset),
        str(result.min_offset),
        str(result.max_offset),
    )


@operations.get("/topics/{topic}/messages/by-key", needs=Action.READ, example="?key=1")
async def find_by_key(call: Call[KeyQuery, None]) -> KeyedMessages:
    """Find messages of a topic by key, the newest first; a time bounds when they were stored.

    What there is beyond `limit` comes with `next_cursor`.
    """
    query = call.query
    topic = call.path("topic")
    call.require_messages(topic)
    await call.messaging.topic(topic)
    search = call.services.search
    page = await search.by_key(
        topic,
        query.key,
        count_max=query.limit,
        begin_ms=query.begin_ms,
        end_ms=query.end_ms,
        cursor=query.cursor,
    )
    require_message(call.who, *page.messages)
    await bodies.decompress(page.messages)
    items = [message_view(message, query.encoding) for message in page.messages]
    return KeyedMessages(items, page.next_cursor or None)


@operations.get("/topics/{topic}/messages/{queue}/{offset}", needs=Action.READ, errors=(410,))
async def get_message(call: Call[ShowQuery, None]) -> Stored:
    """Read one message by its queue and offset."""
    queue = call.number("queue", 65535)
    offset = call.number("offset")
    topic = call.path("topic")
    call.require_messages(topic)
    message = await call.messaging.message(topic, queue, offset)
    require_message(call.who, message)
    await bodies.decompress([message])
    return Stored(*fields_of(message, call.query.encoding))


@operations.get("/messages/{id}", needs=READ_SERVER)
async def find_by_id(call: Call[ShowQuery, None]) -> MessageList:
    """Find every record of a message by its id, the oldest first.

    Takes a message id or an offset id: as sent, each retry, and the dead letter, at most 64.
    Messages that the caller may not read come without their content.
    """
    message_id = call.path("id")
    search = call.services.search
    messages = await search.by_id(message_id)
    if not messages:
        raise MessageNotFound(
            f"no message has the id {message_id[:100]!r}", field="id", remedy="check the id"
        )
    visible = all_visible(call.who, messages)
    await bodies.decompress(visible)
    return MessageList([message_view(message, call.query.encoding) for message in visible])


def message_view(message: StoredMessage, encoding: Encoding = Encoding.AUTO) -> MessageView:
    """A message that `message_rights` has looked at."""
    values = (*fields_of(message, encoding), missing_right(message))
    return MessageView(*values)


async def while_connected(call: Call[Any, Any], waiting: Coroutine[Any, Any, T]) -> T:
    """The result of `waiting`, which is cancelled (and ClientGone raised) when the client goes.

    If it had just finished, ClientGone carries the unused result.
    """
    work = asyncio.ensure_future(waiting)
    gone = asyncio.ensure_future(_disconnected(call))
    try:
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        if gone.done():
            raise ClientGone(work.result() if work.done() else None)
        return work.result()
    finally:
        gone.cancel()
        work.cancel()


async def _disconnected(call: Call[Any, Any]) -> None:
    while (await call.receive())["type"] != "http.disconnect":
        pass
