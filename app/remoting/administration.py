"""Requests of administration tools: topics, groups, statistics, connections.

Maps by queue have objects as keys, as RocketMQ's tools write them; such a body is no valid JSON.
"""

from collections.abc import Awaitable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from app.remoting.call import RemotingCall, json_body
from app.remoting.clients import RemotingClient
from app.remoting.errors import OK, ErrorResponse, RemotingRefusal
from app.security.access import Action, Kind
from app.services.resets import ResetOrder
from app.version import VERSION
from engine.broker import GroupConfig, QueueLag, ResetTarget, ResetTo, TopicConfig
from engine.errors import EngineError, GroupNotFound, TopicNotFound
from kitemq.model.groups import GroupSettings
from kitemq.model.topics import TopicSettings
from protocol.remoting.codes import VERSION as PROTOCOL_VERSION
from protocol.remoting.codes import RequestCode, ResponseCode

if TYPE_CHECKING:
    from app.remoting.backend import RemotingBackend

ASK_S = 5.0
DATA_VERSION = {"counter": 0, "stateVersion": 0, "timestamp": 0}
LANGUAGE_UNKNOWN = "OTHER"


class _Group(msgspec.Struct):
    groupName: str
    consumeEnable: bool = True
    retryMaxTimes: int = 16
    consumeMessageOrderly: bool | msgspec.UnsetType = msgspec.UNSET  # older tools leave it out


# -- topics ------------------------------------------------------------------------------------


def list_topics(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The names of all topics, including system, retry and dead-letter topics."""
    call.require(Action.READ, Kind.SERVER)
    return _names(each.name for each in backend.broker.topics(system=True))


def list_system_topics(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The names of the system topics."""
    call.require(Action.READ, Kind.SERVER)
    topics = (each for each in backend.broker.topics(system=True) if each.is_system)
    return _names(each.name for each in topics if not each.name.startswith("%"))


def topic_config(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The configuration of one topic."""
    return ErrorResponse(
        body=json_body(_topic_shape(backend.broker.topic(call.topic(Action.READ))))
    )


def all_topic_configs(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The configurations of all topics."""
    call.require(Action.READ, Kind.SERVER)
    table = {each.name: _topic_shape(each) for each in backend.broker.topics(system=True)}
    return ErrorResponse(body=json_body({"topicConfigTable": table, "dataVersion": DATA_VERSION}))


def update_topic(backend: "RemotingBackend", call: RemotingCall) -> Awaitable[ErrorResponse]:
    """Create a topic, or change its queues and permission; audited."""
    topic = call.topic(Action.ADMINISTER)
    config = TopicConfig(
        topic,
        read_queues=call.number("readQueueNums"),
        write_queues=call.number("writeQueueNums"),
        permission=call.number("perm"),
    )
    return _update_topic(backend, call, config)


async def _update_topic(
    backend: "RemotingBackend", call: RemotingCall, config: TopicConfig
) -> ErrorResponse:
    topics = backend.services.topics
    try:
        backend.broker.topic(config.name)
    except TopicNotFound:
        await topics.create(call.actor, config)
        return OK
    changes = TopicSettings(
        read_queues=config.read_queues,
        write_queues=config.write_queues,
        permission=config.permission,
    )
    await topics.change(call.actor, config.name, changes)
    return OK


def delete_topic(backend: "RemotingBackend", call: RemotingCall) -> Awaitable[ErrorResponse]:
    """Delete a topic with its messages; audited."""
    return _delete_topic(backend, call, call.topic(Action.ADMINISTER))


async def _delete_topic(backend: "RemotingBackend", call: RemotingCall, name: str) -> ErrorResponse:
    await backend.services.topics.delete(call.actor, name)
    return OK


def delete_route(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """Delete a topic's route; here it is deleted with the topic."""
    call.topic(Action.ADMINISTER)
    return OK


def topic_stats(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The offsets of a topic's queues, and when each got its last message."""
    topic = call.topic(Action.READ)
    entries = (
        (
            (topic, each.queue),
            {
                "minOffset": each.min_offset,
                "maxOffset": each.max_offset,
                "lastUpdateTimestamp": each.last_stored_ms or 0,
            },
        )
        for each in backend.broker.topic_stats(topic).queues
    )
    return ErrorResponse(body=_by_queue(backend, "offsetTable", entries))


def consumed_by(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The groups that consume a topic."""
    topic = call.topic(Action.READ)
    groups = set(backend.broker.groups_of(topic))
    for client in backend.clients.all():
        groups |= {name for name, each in client.consumers.items() if topic in each.topics}
    return ErrorResponse(body=json_body({"groupList": sorted(groups)}))


# -- groups ------------------------------------------------------------------------------------


def update_group(backend: "RemotingBackend", call: RemotingCall) -> Awaitable[ErrorResponse]:
    """Create a consumer group, or change whether it consumes, its retries and order; audited."""
    settings = call.document(_Group)
    call.require(Action.ADMINISTER, Kind.GROUP, settings.groupName)
    return _update_group(backend, call, settings)


async def _update_group(
    backend: "RemotingBackend", call: RemotingCall, settings: _Group
) -> ErrorResponse:
    groups, name = backend.services.groups, settings.groupName
    changes = GroupSettings(
        retry_max=settings.retryMaxTimes,
        consume_enabled=settings.consumeEnable,
        ordered=settings.consumeMessageOrderly,
    )
    try:
        backend.broker.group(name)
    except GroupNotFound:
        config = GroupConfig(
            name,
            retry_max=settings.retryMaxTimes,
            consume_enabled=settings.consumeEnable,
            ordered=settings.consumeMessageOrderly is True,
        )
        await groups.create(call.actor, config)
    else:
        await groups.change(call.actor, name, changes)
    return OK


def delete_group(backend: "RemotingBackend", call: RemotingCall) -> Awaitable[ErrorResponse]:
    """Delete a consumer group with its progress; audited."""
    return _delete_group(backend, call, call.group(Action.ADMINISTER, "groupName"))


async def _delete_group(backend: "RemotingBackend", call: RemotingCall, name: str) -> ErrorResponse:
    await backend.services.groups.delete(call.actor, name)
    return OK


def group_config(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The configuration of one consumer group."""
    group = backend.broker.group(call.group(Action.READ, "group"))
    return ErrorResponse(body=json_body(_group_shape(group)))


def all_group_configs(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The configurations of all consumer groups."""
    call.require(Action.READ, Kind.SERVER)
    table = {each.name: _group_shape(each) for each in backend.broker.groups()}
    return ErrorResponse(
        body=json_body(
            {"subscriptionGroupTable": table, "forbiddenTable": {}, "dataVersion": DATA_VERSION}
        )
    )


def consume_stats(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The progress of a group in each queue, of one topic if named."""
    group, topic = call.group(Action.READ), call.text("topic", "")
    queues = [each for each in _lag(backend, group) if topic in ("", each.topic)]
    rate = backend.broker.statistics.group_rate(group)
    entries = (
        (
            (each.topic, each.queue),
            {
                "brokerOffset": each.max_offset,
                "consumerOffset": each.committed,
                "pullOffset": each.cursor,
                "lastTimestamp": each.oldest_ms or 0,
            },
        )
        for each in queues
    )
    return ErrorResponse(body=_by_queue(backend, "offsetTable", entries, {"consumeTps": rate}))


def topics_of_group(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The topics that a group has consumed from."""
    group = call.group(Action.READ, "group")
    return _names(sorted({each.topic for each in _lag(backend, group)}))


def reset_offsets(backend: "RemotingBackend", call: RemotingCall) -> Awaitable[ErrorResponse]:
    """Reset a group in a topic to a time, or one queue to an offset; audited.

    Connected consumers are notified and continue from there at once.
    """
    group = call.group(Action.ADMINISTER, "group")
    return _reset_offsets(backend, call, group, call.topic(Action.READ))


async def _reset_offsets(
    backend: "RemotingBackend", call: RemotingCall, group: str, topic: str
) -> ErrorResponse:
    at_ms, offset = call.number("timestamp", -1), call.number("offset", -1)
    queue = call.number("queueId", -1)
    target = ResetTarget(ResetTo.LATEST)
    if queue >= 0 and offset >= 0:
        target = ResetTarget(ResetTo.OFFSET, offset)
    elif at_ms >= 0:
        target = ResetTarget(ResetTo.TIME, at_ms)
    order = ResetOrder([topic], target, queues=[queue] if queue >= 0 else ())
    reset = await backend.services.resets.apply(
        call.actor, group, order, precondition="", force=call.is_true("isForce")
    )
    moved = [((each.topic, each.queue), each.after or 0) for each in reset.queues]
    body = _by_queue(backend, "offsetTable", moved)
    fields = {"topic": topic, "group": group, "timestamp": str(at_ms), "isForce": "true"}
    for client in backend.clients.consumers_of(group):
        client.connection.tell(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, fields, body)
    return ErrorResponse(body=body)


# -- clients -----------------------------------------------------------------------------------


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


# -- the broker --------------------------------------------------------------------------------


def runtime_info(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """Figures of the broker by name."""
    call.require(Action.READ, Kind.SERVER)
    broker, settings = backend.broker, backend.settings
    health = broker.health()
    traffic = broker.statistics.broker().traffic
    rates_in = f"{traffic.messages_in.minute:.2f}"
    rates_out = f"{traffic.messages_out.minute:.2f}"
    table = {
        "brokerVersion": str(PROTOCOL_VERSION),
        "brokerVersionDesc": f"KiteMQ {VERSION}",
        "bootTimestamp": str(backend.services.started_ms),
        "brokerActive": "true",
        "putTps": " ".join([rates_in] * 3),
        "getTotalTps": " ".join([rates_out] * 3),
        "getFoundTps": " ".join([rates_out] * 3),
        "getMissTps": "0.00 0.00 0.00",
        "getTransferredTps": " ".join([rates_out] * 3),
        "getTransferedTps": " ".join([rates_out] * 3),
        "msgPutTotalTodayNow": str(traffic.messages_in.total),
        "msgGetTotalTodayNow": str(traffic.messages_out.total),
        "msgPutTotalTodayMorning": "0",
        "msgGetTotalTodayMorning": "0",
        "msgPutTotalYesterdayMorning": "0",
        "msgGetTotalYesterdayMorning": "0",
        "sendThreadPoolQueueSize": "0",
        "sendThreadPoolQueueCapacity": str(settings.requests_max),
        "sendThreadPoolQueueHeadWaitTimeMills": "0",
        "pullThreadPoolQueueSize": str(backend.figures.polls),
        "pullThreadPoolQueueCapacity": str(settings.remoting_polls_max),
        "pullThreadPoolQueueHeadWaitTimeMills": "0",
        "pageCacheLockTimeMills": "0",
        "commitLogDirCapacity": f"Free : {health.disk_free_bytes} bytes.",
        "commitLogMaxOffset": str(broker.log_end),
        "commitLogMinOffset": str(broker.log_end - health.log_bytes),
        "dispatchBehindBytes": "0",
        "remainHowManyDataToFlush": f"{health.unflushed_bytes} bytes",
    }
    return ErrorResponse(body=json_body({"table": table}))


def broker_config(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The settings that RocketMQ's tools know by name."""
    call.require(Action.READ, Kind.SERVER)
    settings = backend.settings
    config = {
        "brokerName": settings.broker_name,
        "brokerClusterName": settings.cluster_name,
        "brokerId": "0",
        "brokerRole": "ASYNC_MASTER",
        "brokerPermission": "6",
        "autoCreateTopicEnable": str(settings.auto_create_topics).lower(),
        "autoCreateSubscriptionGroup": str(settings.auto_create_groups).lower(),
        "defaultTopicQueueNums": str(settings.default_queues),
        "flushDiskType": "SYNC_FLUSH" if settings.durability == "flushed" else "ASYNC_FLUSH",
        "maxMessageSize": "4194304",
        "namesrvAddr": backend.address(call.connection),
    }
    text = "".join(f"{name}={value}\n" for name, value in config.items())
    return ErrorResponse(fields={"version": "{}"}, body=text.encode())


def kv_config(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """Values of a name server; there are none."""
    call.require(Action.READ, Kind.SERVER)
    raise RemotingRefusal(
        ResponseCode.QUERY_NOT_FOUND,
        f"no value is kept for {call.text('namespace', '')}.{call.text('key', '')}",
    )


# -- shapes ------------------------------------------------------------------------------------


def _names(names: Iterable[str]) -> ErrorResponse:
    return ErrorResponse(body=json_body({"topicList": list(names), "brokerAddr": None}))


def _by_queue(
    backend: "RemotingBackend",
    name: str,
    entries: Iterable[tuple[tuple[str, int], Any]],
    more: dict[str, Any] | None = None,
) -> bytes:
    """An object with a map whose keys are queues, and some other members."""
    broker, encode = backend.settings.broker_name, msgspec.json.encode
    parts = [
        encode({"brokerName": broker, "queueId": queue, "topic": topic}) + b":" + encode(value)
        for (topic, queue), value in entries
    ]
    members = [encode(name) + b":{" + b",".join(parts) + b"}"]
    members += [encode(key) + b":" + encode(value) for key, value in (more or {}).items()]
    return b"{" + b",".join(members) + b"}"


def _lag(backend: "RemotingBackend", group: str) -> list[QueueLag]:
    try:
        return backend.broker.lag(group).queues
    except EngineError as error:
        raise RemotingRefusal(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"there is no group {group!r}"
        ) from error


def _connection(client: RemotingClient) -> dict[str, Any]:
    command_version = client.version_number
    return {
        "clientId": client.name,
        "clientAddr": client.connection.client,
        "language": client.language or LANGUAGE_UNKNOWN,
        "version": command_version,
    }


def _topic_shape(topic: TopicConfig) -> dict[str, Any]:
    return {**topic.rocketmq_entry(), "attributes": {}}


def _group_shape(group: GroupConfig) -> dict[str, Any]:
    return {
        **group.rocketmq_entry(),
        "groupSysFlag": 0,
        "consumeTimeoutMinute": 15,
        "attributes": {},
    }
