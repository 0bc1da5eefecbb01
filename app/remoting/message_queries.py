"""Queries for messages by id and by key."""

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from app.eager import eager
from app.remoting.call import RemotingCall
from app.remoting.errors import ErrorResponse, RemotingRefusal
from app.remoting.records import record_of, records_of
from app.security.access import Action, Kind
from protocol.remoting.codes import ResponseCode

if TYPE_CHECKING:
    from app.remoting.backend import RemotingBackend

UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"
COUNT_MAX = 64
HEX_DIGITS = frozenset("0123456789abcdefABCDEF")
POSITION_CHARS = 16
OFFSET_ID_CHARS = (32, 56)  # after an IPv4 and an IPv6 address


@eager
async def view_message(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The record at a position of the log, as an offset id states it."""
    message = await backend.message_at(call.number("offset"))
    call.require(Action.READ_MESSAGES, Kind.TOPIC, message.origin_topic)
    return ErrorResponse(body=record_of(message, backend.address(call.connection)))


def query_message(backend: "RemotingBackend", call: RemotingCall) -> Awaitable[ErrorResponse]:
    """The newest messages of a topic with a key, or with a message id."""
    return _query(backend, call, call.topic(Action.READ_MESSAGES))


async def _query(backend: "RemotingBackend", call: RemotingCall, topic: str) -> ErrorResponse:
    key, search = call.text("key"), backend.services.search
    begin_ms, end_ms = call.number("beginTimestamp", 0), call.number("endTimestamp", 0)
    count_max = min(max(1, call.number("maxNum", 32)), COUNT_MAX)
    if call.is_true(UNIQUE_KEY_QUERY):
        messages = [each for each in await search.by_id(key) if each.topic == topic]
    else:
        page = await search.by_key(
            topic, key, count_max=count_max, begin_ms=max(0, begin_ms), end_ms=max(0, end_ms)
        )
        messages = page.messages
    if not messages:
        raise RemotingRefusal(
            ResponseCode.QUERY_NOT_FOUND, f"topic {topic!r} has no such message with key {key!r}"
        )
    fields = {
        "indexLastUpdateTimestamp": str(max(each.stored_ms for each in messages)),
        "indexLastUpdatePhyoffset": str(max(each.position for each in messages)),
    }
    return ErrorResponse(fields=fields, body=records_of(messages, backend.address(call.connection)))


def position_in(offset_id: str) -> int:
    """The position that an offset id states after its address, which clients may know otherwise."""
    if len(offset_id) not in OFFSET_ID_CHARS or not HEX_DIGITS.issuperset(offset_id):
        raise RemotingRefusal(
            ResponseCode.INVALID_PARAMETER, f"{offset_id[:80]!r} is no offset id of a message"
        )
    return int(offset_id[-POSITION_CHARS:], 16)
