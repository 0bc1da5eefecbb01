"""Connected clients: who they are, and questions that they answer themselves."""

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from app.remoting.administration.bodies import subscription_shape
from app.remoting.call import RemotingCall, json_body
from app.remoting.clients import RemotingClient
from app.remoting.errors import ErrorResponse, RemotingRefusal
from app.remoting.message_queries import position_in
from app.security.access import Action, Kind
from kitemq.model.clients import ProcessingVerdict
from protocol.remoting.codes import RequestCode, ResponseCode
from protocol.remoting.loose_json import raw_member

if TYPE_CHECKING:
    from app.remoting.backend import RemotingBackend

ASK_S = 5.0
CODES = frozenset(ResponseCode)
LANGUAGE_UNKNOWN = "OTHER"


def consumer_connections(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The consumers of a group with their subscriptions."""
    group = call.group(Action.READ)
    clients = backend.clients.consumers_of(group)
    if not clients:
        raise RemotingRefusal(
            ResponseCode.CONSUMER_NOT_ONLINE, f"the group {group!r} has no classic consumer"
        )
    first = clients[0].consumers[group]
    topics = {each.topic: subscription_shape(each) for each in first.topics.values()}
    return ErrorResponse(
        body=json_body(
            {
                "connectionSet": [_connection(each) for each in clients],
                "subscriptionTable": topics,
                "consumeType": first.consume_type,
                "messageModel": first.message_model,
                "consumeFromWhere": first.consume_from,
            }
        )
    )


def producer_connections(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The producers of a producer group."""
    call.require(Action.READ, Kind.SERVER)
    group = call.text("producerGroup")
    clients = backend.clients.producers_of(group)
    if not clients:
        raise RemotingRefusal(
            ResponseCode.CONSUMER_NOT_ONLINE, f"the producer group {group!r} has no client"
        )
    return ErrorResponse(body=json_body({"connectionSet": [_connection(each) for each in clients]}))


def all_producers(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The clients of all producer groups."""
    call.require(Action.READ, Kind.SERVER)
    groups: dict[str, list[dict[str, Any]]] = {}
    for client in backend.clients.all():
        for group in client.producers:
            groups.setdefault(group, []).append(
                {
                    "clientId": client.name,
                    "remoteIP": client.connection.client,
                    "language": client.language or LANGUAGE_UNKNOWN,
                    "version": client.version_number,
                    "lastUpdateTimestamp": client.seen_ms,
                }
            )
    return ErrorResponse(body=json_body({"data": groups}))


def subscription(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The subscription of a group's consumers to a topic; none if no consumer is connected."""
    group, topic = call.group(Action.READ, "group"), call.topic(Action.READ)
    found = backend.clients.subscription_of(group, topic)
    shape = found and subscription_shape(found)
    return ErrorResponse(
        body=json_body({"group": group, "topic": topic, "subscriptionData": shape})
    )


def running_info(backend: "RemotingBackend", call: RemotingCall) -> Awaitable[ErrorResponse]:
    """A consumer's running info, which is requested from it."""
    group = call.group(Action.READ)
    client = _consumer(backend, group, call.text("clientId"))
    fields = {
        "consumerGroup": group,
        "clientId": client.name,
        "jstackEnable": call.text("jstackEnable", "false"),
    }
    return _ask(client, RequestCode.GET_CONSUMER_RUNNING_INFO, fields)


def consumer_offsets(backend: "RemotingBackend", call: RemotingCall) -> Awaitable[ErrorResponse]:
    """The offsets that consumers of a group hold for a topic, which are requested from them."""
    group, topic = call.group(Action.READ, "group"), call.topic(Action.READ)
    if name := call.text("clientAddr", ""):
        clients = [_consumer(backend, group, name)]
    else:
        clients = backend.clients.consumers_of(group)
    if not clients:
        raise RemotingRefusal(
            ResponseCode.SYSTEM_ERROR, f"the group {group!r} has no classic consumer"
        )
    return _consumer_offsets(clients, {"topic": topic, "group": group})


async def _consumer_offsets(clients: list[RemotingClient], fields: dict[str, str]) -> ErrorResponse:
    entries = []
    for client in clients:
        answer = await _ask(client, RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, fields)
        if answer.code is ResponseCode.SUCCESS:
            offsets = raw_member(answer.body, "messageQueueTable")
            entries.append(json_body(client.name) + b":" + offsets)
    body = b'{"consumerTable":{' + b",".join(entries) + b'},"messageQueueTable":{}}'
    return ErrorResponse(body=body)


def consume_directly(backend: "RemotingBackend", call: RemotingCall) -> Awaitable[ErrorResponse]:
    """Let a consumer process a stored message apart from its delivery; audited."""
    group = call.group(Action.ADMINISTER)
    client = _consumer(backend, group, call.text("clientId"))
    position = position_in(call.text("msgId"))
    return _consume_directly(backend, call, client.name, group, position)


async def _consume_directly(
    backend: "RemotingBackend", call: RemotingCall, client: str, group: str, position: int
) -> ErrorResponse:
    message = await backend.message_at(position)
    result = await backend.services.clients.verify(
        call.actor, client, group, message.topic, message.queue, message.offset
    )
    if result.verdict is ProcessingVerdict.NO_ANSWER:
        raise RemotingRefusal(ResponseCode.CONSUME_MSG_TIMEOUT, result.detail)
    if not result.code:
        raise RemotingRefusal(ResponseCode.SYSTEM_ERROR, result.detail)
    body = {
        "order": False,
        "autoCommit": True,
        "consumeResult": result.code,
        "remark": result.detail,
        "spentTimeMills": round(result.took_ms),
    }
    return ErrorResponse(body=json_body(body))


def _consumer(backend: "RemotingBackend", group: str, name: str) -> RemotingClient:
    client = backend.clients.find(name)
    if client is None or group not in client.consumers:
        raise RemotingRefusal(
            ResponseCode.CONSUMER_NOT_ONLINE, f"no such consumer of {group!r} is connected"
        )
    return client


async def _ask(client: RemotingClient, code: RequestCode, fields: dict[str, str]) -> ErrorResponse:
    try:
        answer = await client.connection.ask(code, fields, ASK_S)
    except TimeoutError:
        raise RemotingRefusal(
            ResponseCode.CONSUME_MSG_TIMEOUT, f"the consumer did not answer within {ASK_S:.0f} s"
        ) from None
    result = ResponseCode(answer.code) if answer.code in CODES else ResponseCode.SYSTEM_ERROR
    return ErrorResponse(result, body=answer.body, remark=answer.remark)


def _connection(client: RemotingClient) -> dict[str, Any]:
    command_version = client.version_number
    return {
        "clientId": client.name,
        "clientAddr": client.connection.client,
        "language": client.language or LANGUAGE_UNKNOWN,
        "version": command_version,
    }
