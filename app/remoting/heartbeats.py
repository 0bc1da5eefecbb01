"""Heartbeats, unregistration, and the members of groups."""

from typing import TYPE_CHECKING, Any

import msgspec

from app.eager import eager
from app.remoting.call import RemotingCall, json_body
from app.remoting.clients import RemotingConsumer, RemotingSubscription
from app.remoting.errors import OK, ErrorResponse, RemotingRefusal
from app.security.access import Action, Kind
from engine.errors import GroupNotFound
from protocol.remoting.codes import ResponseCode

if TYPE_CHECKING:
    from app.remoting.backend import RemotingBackend

SQL = "SQL92"
GROUPS_MAX = 128  # that one heartbeat may name
# Java's enumerations in their order: C++ clients send the place of a value instead of its name.
CONSUME_TYPES = ("CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP")
MESSAGE_MODELS = ("BROADCASTING", "CLUSTERING", "LITE_SELECTIVE")
STARTS = (
    "CONSUME_FROM_LAST_OFFSET",
    "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
    "CONSUME_FROM_MIN_OFFSET",
    "CONSUME_FROM_MAX_OFFSET",
    "CONSUME_FROM_FIRST_OFFSET",
    "CONSUME_FROM_TIMESTAMP",
)


class _Subscription(msgspec.Struct):
    topic: str
    subString: str | None = None
    expressionType: str | None = None
    subVersion: int = 0


class _Consumer(msgspec.Struct):
    groupName: str
    consumeType: str | int = ""
    messageModel: str | int = ""
    consumeFromWhere: str | int = ""
    subscriptionDataSet: list[_Subscription] = []


class _Producer(msgspec.Struct):
    groupName: str


class _Heartbeat(msgspec.Struct):
    clientID: str
    producerDataSet: list[_Producer] = []
    consumerDataSet: list[_Consumer] = []


class _ClientCheck(msgspec.Struct):
    clientId: str = ""
    group: str = ""
    subscriptionData: _Subscription | None = None


@eager
async def heartbeat(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """Store a client's producer groups, consumer groups and subscriptions."""
    beat = call.document(_Heartbeat)
    if len(beat.producerDataSet) + len(beat.consumerDataSet) > GROUPS_MAX:
        raise RemotingRefusal(ResponseCode.INVALID_PARAMETER, f"more than {GROUPS_MAX} groups")
    for consumer in beat.consumerDataSet:
        call.require(Action.CONSUME, Kind.GROUP, consumer.groupName)
    command, clients = call.command, backend.clients
    client = clients.touch(
        call.connection, beat.clientID, call.principal, command.language, command.version
    )
    for producer in beat.producerDataSet:
        clients.register_producer(client, producer.groupName)
    for consumer in beat.consumerDataSet:
        await clients.join_group(client, _consumer(consumer), call.principal)
    clients.retain_groups(client, (consumer.groupName for consumer in beat.consumerDataSet))
    return OK


def unregister(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """Remove a producer or consumer of a client."""
    client = backend.clients.find(call.text("clientID"))
    if client is None or client.connection is not call.connection:
        return OK
    if group := call.text("producerGroup", ""):
        backend.clients.unregister_producer(client, group)
    if group := call.text("consumerGroup", ""):
        backend.clients.leave_group(client, group)
    if not client.producers and not client.consumers:
        backend.clients.remove(client)
    return OK


def consumer_list(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The members of a group that share its queues."""
    group = call.group(Action.READ)
    try:
        members = [each.client for each in backend.broker.members.of(group) if each.is_pulling]
    except GroupNotFound:
        members = []
    if not members:
        return ErrorResponse(
            ResponseCode.SYSTEM_ERROR, remark=f"the group {group!r} has no consumer"
        )
    return ErrorResponse(body=json_body({"consumerIdList": members}))


@eager
async def check_client(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """Check an SQL92 subscription; others are not checked, as with Apache."""
    check = call.document(_ClientCheck)
    if check.subscriptionData is not None:
        await backend.messaging.check_filter(filter_text(check.subscriptionData))
    return OK


def filter_text(subscription: Any) -> str:
    """A subscription's filter in the engine's form."""
    return engine_filter(subscription.subString or "", subscription.expressionType or "")


def engine_filter(text: str, kind: str) -> str:
    """A tag or SQL92 expression in the engine's form."""
    return f"SQL92: {text}" if kind == SQL else text or "*"


def _consumer(consumer: _Consumer) -> RemotingConsumer:
    topics = {
        each.topic: RemotingSubscription(
            each.topic,
            each.subString or "*",
            each.expressionType or "TAG",
            each.subVersion,
            filter_text(each),
        )
        for each in consumer.subscriptionDataSet
    }
    return RemotingConsumer(
        consumer.groupName,
        _name_of(consumer.consumeType, CONSUME_TYPES),
        _name_of(consumer.messageModel, MESSAGE_MODELS),
        _name_of(consumer.consumeFromWhere, STARTS),
        topics,
    )


def _name_of(value: str | int, names: tuple[str, ...]) -> str:
    """The name of an enumeration's value; "" for a place that it does not have."""
    if isinstance(value, str):
        return value
    return names[value] if 0 <= value < len(names) else ""
