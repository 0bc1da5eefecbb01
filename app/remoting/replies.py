"""Requests that wait for a reply, and the replies, for all endpoints together.

A producer's request is registered with the engine, so that a reply over any endpoint is pushed to
it, and a classic consumer may reply to a request from any endpoint.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from app.eager import eager
from app.remoting.call import RemotingCall
from app.remoting.errors import ErrorResponse, RemotingRefusal
from app.remoting.records import REGION
from app.security.access import Action
from app.services.requests import CORRELATION_ID, REPLY_TO_CLIENT, TTL
from engine.broker import PendingRequest, ReplyMessage, ReplyResult
from engine.compression import PlainBody, plain_body
from engine.message import (
    BODY_BYTES_MAX,
    RESERVED,
    TAGS,
    UNIQ_KEY,
    Message,
    StoredMessage,
    split_properties,
)
from kitemq.model.numbers import is_whole
from protocol.remoting.codes import RequestCode, ResponseCode

if TYPE_CHECKING:
    from app.remoting.backend import RemotingBackend
    from app.remoting.connection import RemotingConnection

TIMEOUT_MS = 3000  # of a request that states none
TIMEOUT_MS_MAX = 30_000
DIGITS_MAX = 9
INLINE_BYTES_MAX = 32 * 1024  # a larger compressed body is decompressed on a thread


def is_request(properties: Mapping[str, str]) -> bool:
    """Whether a message with these properties waits for a reply."""
    return CORRELATION_ID in properties and REPLY_TO_CLIENT in properties


def begin_request(
    backend: "RemotingBackend",
    call: RemotingCall,
    message: Message,
    properties: Mapping[str, str],
) -> PendingRequest:
    """Store a request and wait for its reply, which is pushed to the client; raises as a send."""
    client = properties[REPLY_TO_CLIENT]

    def end() -> None:
        if request.reply is not None:
            _push(backend, call.connection, client, request.reply)

    request = backend.services.host.broker.requests.request(
        message,
        timeout_ms=min(_ttl_ms(properties) or TIMEOUT_MS, TIMEOUT_MS_MAX),
        client=client,
        on_end=end,
        correlation_id=properties[CORRELATION_ID],
    )
    return request


@eager
async def send_reply(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """Store a reply and pass it to its requester; SYSTEM_ERROR where none waits, as Apache."""
    call.use_long_names()
    call.topic(Action.PRODUCE)
    properties = split_properties(call.text("properties", ""))
    correlation_id = properties.get(CORRELATION_ID, "")
    if not correlation_id:
        raise RemotingRefusal(
            ResponseCode.MESSAGE_ILLEGAL, f"the reply has no property {CORRELATION_ID}"
        )
    plain = await _plain(call.body, call.number("sysFlag", 0))
    if plain.why_raw:
        raise RemotingRefusal(
            ResponseCode.MESSAGE_ILLEGAL, f"the body cannot be decompressed: {plain.why_raw}"
        )
    outcome = backend.services.host.broker.requests.reply(
        ReplyMessage(
            correlation_id=correlation_id,
            body=plain.body,
            tag=properties.get(TAGS, ""),
            properties={name: each for name, each in properties.items() if name not in RESERVED},
            requester=properties.get(REPLY_TO_CLIENT, ""),
            ttl_ms=_ttl_ms(properties),
            born_host=call.connection.client,
            message_id=properties.get(UNIQ_KEY, ""),
        )
    )
    if outcome.result is ReplyResult.LATE:
        raise RemotingRefusal(
            ResponseCode.SYSTEM_ERROR,
            f"no requester waits for a reply to {correlation_id!r}: the reply is kept",
        )
    is_stored = outcome.position >= 0
    stored_at = backend.offset_id(call.connection, outcome.position) if is_stored else "0"
    offset = str(max(0, outcome.offset))
    return ErrorResponse(
        fields={"msgId": stored_at, "queueId": "0", "queueOffset": offset} | REGION
    )


async def _plain(body: bytes, sys_flag: int) -> PlainBody:
    if len(body) <= INLINE_BYTES_MAX:
        return plain_body(body, sys_flag, bytes_max=BODY_BYTES_MAX)
    return await asyncio.to_thread(plain_body, body, sys_flag, bytes_max=BODY_BYTES_MAX)


def _push(
    backend: "RemotingBackend", connection: "RemotingConnection", client: str, reply: StoredMessage
) -> None:
    """Push a reply to its requester, over another connection where that of the request ended."""
    if not connection.is_open and (known := backend.clients.find(client)) is not None:
        connection = known.connection
    address = backend.address(connection)
    connection.tell(
        RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
        {
            "bornHost": reply.born_host if ":" in reply.born_host else address,
            "storeHost": address,
            "storeTimestamp": str(reply.stored_ms),
            "producerGroup": client,
            "topic": reply.topic,
            "defaultTopic": "TBW102",
            "defaultTopicQueueNums": "0",
            "queueId": str(reply.queue),
            "sysFlag": "0",
            "bornTimestamp": str(reply.born_ms),
            "flag": str(reply.flag),
            "properties": reply.property_block.decode(),
            "reconsumeTimes": "0",
            "unitMode": "false",
        },
        reply.body,
    )


def _ttl_ms(properties: Mapping[str, str]) -> int:
    text = properties.get(TTL, "")
    return int(text) if is_whole(text, DIGITS_MAX) else 0
