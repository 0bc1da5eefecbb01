"""Connected clients: who they are, and questions that they answer themselves."""

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from app.remoting.call import RemotingCall, json_body
from app.remoting.clients import RemotingClient
from app.remoting.errors import ErrorResponse, RemotingRefusal
from app.security.access import Action, Kind
from protocol.remoting.codes import RequestCode, ResponseCode

if TYPE_CHECKING:
    from app.remoting.backend import RemotingBackend

ASK_S = 5.0
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
    topics = {
        each.topic: {
            "topic": each.topic,
            "subString": each.text,
            "tagsSet": [],
            "codeSet": [],
            "subVersion": each.version,
            "expressionType": each.kind,
            "classFilterMode": False,
        }
        for each in first.topics.values()
    }
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


def running_info(backend: "RemotingBackend", call: RemotingCall) -> Awaitable[ErrorResponse]:
    """A consumer's running info, which is requested from it."""
    group = call.group(Action.READ)
    client = backend.clients.find(call.text("clientId"))
    if client is None or group not in client.consumers:
        raise RemotingRefusal(
            ResponseCode.CONSUMER_NOT_ONLINE, f"no such consumer of {group!r} is connected"
        )
    return _running_info(client, group, call.text("jstackEnable", "false"))


async def _running_info(client: RemotingClient, group: str, jstack: str) -> ErrorResponse:
    fields = {"consumerGroup": group, "clientId": client.name, "jstackEnable": jstack}
    try:
        answer = await client.connection.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, fields, ASK_S)
    except TimeoutError:
        raise RemotingRefusal(
            ResponseCode.CONSUME_MSG_TIMEOUT, f"the consumer did not answer within {ASK_S:.0f} s"
        ) from None
    codes = set(ResponseCode)
    code = ResponseCode(answer.code) if answer.code in codes else ResponseCode.SYSTEM_ERROR
    return ErrorResponse(code, body=answer.body, remark=answer.remark)


def _connection(client: RemotingClient) -> dict[str, Any]:
    command_version = client.version_number
    return {
        "clientId": client.name,
        "clientAddr": client.connection.client,
        "language": client.language or LANGUAGE_UNKNOWN,
        "version": command_version,
    }
