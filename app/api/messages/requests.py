"""Request and reply: send a request and wait, reply to a received one, fetch a late reply."""

import msgspec

from app.api.framework.operation import Call, Operations
from app.api.messages.messages import ShowQuery, fields_of, while_connected
from app.messaging import Messaging
from app.security.access import READ_SERVER, Action, Kind, Needs
from app.services import bodies
from app.services.new_message import bytes_of, message_of
from app.services.requests import CORRELATION_ID, REPLY_TO_CLIENT, request_at, ttl_ms_of
from engine.broker import ReplyMessage
from engine.errors import Invalid
from engine.message import Message
from kitemq.model.conversion import convert
from kitemq.model.messages import Stored
from kitemq.model.requests import (
    NewReply,
    NewRequest,
    ReplyState,
    RequestAnswer,
    RequestTotals,
    StoredReply,
)
from kitemq.protocol.columns import ProtocolError
from kitemq.protocol.text import parse_receipt

REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"  # the topic that stores replies
operations = Operations("requests", topic="prices")


@operations.post(
    "/topics/{topic}/request",
    capability="request_replies",
    needs=Action.PRODUCE,
    errors=(409, 504),
    example_body='{"message": {"body": "tea"}, "timeout_ms": 5000}',
)
async def request(call: Call[None, NewRequest]) -> RequestAnswer:
    """Send a message and wait for the reply to it.

    Some consumer of the topic answers with POST /replies. Where no reply comes in time the problem
    is a 504 `timeout` that names the correlation id; a reply that comes later is kept for
    reply_keep_s and found with GET /replies/{correlation_id}. Choose the `correlation_id` to be
    able to look for the reply after a lost connection, too.
    """
    new = call.body
    asking = call.services.messaging.requests.ask(
        _message_of(call),
        timeout_ms=new.timeout_ms,
        client=new.client or call.client,
        correlation_id=new.correlation_id,
    )
    try:
        answered = await while_connected(call, asking)
    except Invalid as error:
        field = error.field.replace("messages[0].", "message.", 1)
        error.field = field.replace(".message_id", ".id")
        raise
    await bodies.decompress([answered.reply])
    return RequestAnswer(
        answered.correlation_id, answered.message_id, Stored(*fields_of(answered.reply))
    )


@operations.post(
    "/replies",
    capability="request_replies",
    needs=Needs(Action.PRODUCE, Kind.TOPIC),
    errors=(404,),
    example_body='{"correlation_id": "0f6b5a1c", "body": "3.50 EUR"}',
)
async def reply(call: Call[None, NewReply]) -> ReplyState:
    """Reply to a request.

    The request is named by its property CORRELATION_ID, or by the receipt it was received with.
    The first reply wins. A reply is stored in the topic DefaultCluster_REPLY_TOPIC; replying does
    not acknowledge the request.
    """
    call.require(Action.PRODUCE, Kind.TOPIC, REPLY_TOPIC)
    new = await _engine_reply(call.services.messaging, call.body, call.client)
    replying = await call.services.messaging.requests.reply(new)
    return ReplyState(new.correlation_id, replying.result.value, replying.message_id or None)


@operations.get("/replies/{correlation_id}", capability="request_replies", needs=READ_SERVER)
async def get_reply(call: Call[ShowQuery, None]) -> StoredReply:
    """Fetch the reply to a request, late or not, for as long as reply_keep_s says.

    Asks for the right to read the topic of replies; the answer to one's own request needs none.
    """
    call.require_messages(REPLY_TOPIC)
    correlation_id = call.path("correlation_id")
    reply = await call.services.messaging.requests.find(correlation_id)
    await bodies.decompress([reply.message])
    message = Stored(*fields_of(reply.message, call.query.encoding))
    return StoredReply(correlation_id, reply.is_late, message)


@operations.get("/requests", capability="request_replies", needs=READ_SERVER)
async def count_requests(call: Call[None, None]) -> RequestTotals:
    """Count the requests since the start: how many wait, and how the others ended."""
    return convert(call.services.messaging.requests.counts, RequestTotals)


def _message_of(call: Call[None, NewRequest]) -> Message:
    now_ms = call.host.clock.now_ms()
    try:
        return message_of(call.path("topic"), call.body.message, call.client, "", now_ms)
    except Invalid as error:
        error.field = f"message.{error.field}"
        raise


async def _engine_reply(messaging: Messaging, new: NewReply, client: str) -> ReplyMessage:
    if bool(new.correlation_id) == bool(new.receipt):
        raise Invalid(
            "give either correlation_id or receipt",
            field="correlation_id",
            remedy="name the request by one of them",
        )
    plain = ReplyMessage(
        correlation_id=new.correlation_id,
        body=bytes_of(new.body, new.encoding, ""),
        tag=new.tag,
        properties=new.properties,
        born_host=client,
    )
    if not new.receipt:
        return plain
    try:
        topic, queue, offset, _ = parse_receipt(new.receipt)
    except ProtocolError:
        raise Invalid(
            f"{new.receipt[:80]!r} is no receipt", field="receipt", remedy="send it as it came"
        ) from None
    request = await request_at(messaging, topic, queue, offset)
    return msgspec.structs.replace(
        plain,
        correlation_id=request.properties[CORRELATION_ID],
        requester=request.properties.get(REPLY_TO_CLIENT, ""),
        ttl_ms=ttl_ms_of(request),
    )
