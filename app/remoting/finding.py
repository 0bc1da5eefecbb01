"""Messages by their ids and keys."""

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from app.remoting.call import Call
from app.remoting.errors import Answer, Refusal
from app.remoting.records import record_of, records_of
from app.security.access import Action, Kind
from protocol.remoting.codes import ResponseCode

if TYPE_CHECKING:
    from app.remoting.context import Context

UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"
COUNT_MAX = 64


def view_message(context: "Context", call: Call) -> Answer:
    """The record at a position of the log, as an offset id states it."""
    message = context.message_at(call.number("offset"))
    call.require(Action.READ_MESSAGES, Kind.TOPIC, message.origin_topic)
    return Answer(body=record_of(message, context.address(call.connection)))


def query_message(context: "Context", call: Call) -> Awaitable[Answer]:
    """The newest messages of a topic with a key, or with a message id."""
    return _query(context, call, call.topic(Action.READ_MESSAGES))


async def _query(context: "Context", call: Call, topic: str) -> Answer:
    key, search = call.text("key"), context.state.search
    begin_ms, end_ms = call.number("beginTimestamp", 0), call.number("endTimestamp", 0)
    count_max = min(max(1, call.number("maxNum", 32)), COUNT_MAX)
    if call.is_true(UNIQUE_KEY_QUERY):
        found = [each for each in await search.by_id(key) if each.topic == topic]
    else:
        page = await search.by_key(
            topic, key, count_max=count_max, begin_ms=max(0, begin_ms), end_ms=max(0, end_ms)
        )
        found = page.messages
    if not found:
        raise Refusal(
            ResponseCode.QUERY_NOT_FOUND, f"topic {topic!r} has no such message with key {key!r}"
        )
    fields = {
        "indexLastUpdateTimestamp": str(max(each.stored_ms for each in found)),
        "indexLastUpdatePhyoffset": str(max(each.position for each in found)),
    }
    return Answer(fields=fields, body=records_of(found, context.address(call.connection)))
