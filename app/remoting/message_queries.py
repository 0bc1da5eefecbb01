"""Queries for messages by id and by key."""

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING

from app.eager import eager
from app.remoting.call import RemotingCall
from app.remoting.errors import ErrorResponse, RemotingRefusal
from app.remoting.records import record_of, records_of
from app.security.access import Action, Kind
from engine.broker import FOREVER_MS, ScanQuery
from engine.message import StoredMessage
from kitemq.model.numbers import is_whole
from protocol.remoting.codes import ResponseCode

if TYPE_CHECKING:
    from app.remoting.backend import RemotingBackend

UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"
COUNT_MAX = 64
HEX_DIGITS = frozenset("0123456789abcdefABCDEF")
POSITION_CHARS = 16
OF_KEY, OF_TAG, OF_ID = "K", "T", "U"  # types of an index
NAMES = {OF_KEY: "key", OF_TAG: "tag", OF_ID: "message id"}
TAG_BUDGET_S = 10.0
OFFSET_ID_CHARS = (32, 56)  # after an IPv4 and an IPv6 address


@eager
async def view_message(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The record at a position of the log, as an offset id states it."""
    message = await backend.message_at(call.number("offset"))
    call.require(Action.READ_MESSAGES, Kind.TOPIC, message.origin_topic)
    return ErrorResponse(body=record_of(message, backend.address(call.connection)))


def query_message(backend: "RemotingBackend", call: RemotingCall) -> Awaitable[ErrorResponse]:
    """The newest messages of a topic with a key, the oldest with a tag, or those with an id.

    `lastKey` goes on after the message it names.
    """
    return _query(backend, call, call.topic(Action.READ_MESSAGES))


async def _query(backend: "RemotingBackend", call: RemotingCall, topic: str) -> ErrorResponse:
    key, search = call.text("key"), backend.services.search
    begin_ms = max(0, call.number("beginTimestamp", 0))
    end_ms = max(0, call.number("endTimestamp", 0))
    count_max = min(max(1, call.number("maxNum", 32)), COUNT_MAX)
    index = OF_ID if call.is_true(UNIQUE_KEY_QUERY) else call.text("indexType", OF_KEY) or OF_KEY
    messages: Sequence[StoredMessage]
    if index == OF_ID:
        messages = [each for each in await search.by_id(key) if each.topic == topic]
    elif index == OF_KEY:
        page = await search.by_key(
            topic,
            key,
            count_max=count_max,
            begin_ms=begin_ms,
            end_ms=end_ms,
            cursor=_last_position(call, f"@{topic}@{OF_KEY}@{key}@"),
        )
        messages = page.messages
    elif index == OF_TAG:
        last = int(_last_position(call, f"@{topic}@{OF_TAG}@{key}@") or -1)
        before_ms = min(end_ms + 1, FOREVER_MS) if end_ms else FOREVER_MS
        query = ScanQuery(topic, begin_ms, before_ms, key, begin_position=last + 1)
        found = await search.scan(query, count_max=count_max, budget_s=TAG_BUDGET_S)
        messages = found.items
    else:
        raise RemotingRefusal(
            ResponseCode.INVALID_PARAMETER,
            f"the field 'indexType' is {index[:80]!r}: give K, T or U",
        )
    if not messages:
        raise RemotingRefusal(
            ResponseCode.QUERY_NOT_FOUND,
            f"topic {topic!r} has no such message with {NAMES[index]} {key!r}",
        )
    fields = {
        "indexLastUpdateTimestamp": str(max(each.stored_ms for each in messages)),
        "indexLastUpdatePhyoffset": str(max(each.position for each in messages)),
    }
    return ErrorResponse(fields=fields, body=records_of(messages, backend.address(call.connection)))


def _last_position(call: RemotingCall, middle: str) -> str:
    """The position at the end of `lastKey`, which the tool prints with each message; "" for none.

    It has the form "hour@topic@type@key@message id@position".
    """
    last_key = call.text("lastKey", "")
    position = last_key.rpartition("@")[2]
    if last_key and not (middle in last_key and is_whole(position)):
        raise RemotingRefusal(
            ResponseCode.INVALID_PARAMETER,
            f"the field 'lastKey' is {last_key[:200]!r}; give the IndexKey of a message that this "
            "query showed",
        )
    return position


def position_in(offset_id: str) -> int:
    """The position that an offset id states after its address, which clients may know otherwise."""
    if len(offset_id) not in OFFSET_ID_CHARS or not HEX_DIGITS.issuperset(offset_id):
        raise RemotingRefusal(
            ResponseCode.INVALID_PARAMETER, f"{offset_id[:80]!r} is no offset id of a message"
        )
    return int(offset_id[-POSITION_CHARS:], 16)
