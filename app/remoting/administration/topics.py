"""Topics: lists, configurations, statistics, and changes, which are audited."""

from collections.abc import Awaitable
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from app.remoting.administration.bodies import (
    DATA_VERSION,
    by_queue,
    name_list,
    subscription_shape,
)
from app.remoting.call import RemotingCall, json_body
from app.remoting.errors import OK, ErrorResponse, RemotingRefusal
from app.security.access import Action, Kind
from engine.broker import TopicConfig, TopicType, tag_hash
from engine.errors import TopicNotFound
from kitemq.model.topics import TopicSettings
from protocol.remoting.codes import ResponseCode

if TYPE_CHECKING:
    from app.remoting.backend import RemotingBackend

TYPE_ATTRIBUTE = "message.type"
ENTRIES_MAX = 160
PERMISSION_WRITE = 2


class _Topic(Struct):
    topicName: str
    readQueueNums: int = 8
    writeQueueNums: int = 8
    perm: int = 6
    attributes: dict[str, str] = {}


class _Topics(Struct):
    topicConfigList: list[_Topic] = []


def list_topics(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The names of all topics, including system, retry and dead-letter topics."""
    call.require(Action.READ, Kind.SERVER)
    return name_list(each.name for each in backend.broker.topics(system=True))


def list_system_topics(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The names of the system topics."""
    call.require(Action.READ, Kind.SERVER)
    topics = (each for each in backend.broker.topics(system=True) if each.is_system)
    return name_list(each.name for each in topics if not each.name.startswith("%"))


def topic_config(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The configuration of one topic."""
    return ErrorResponse(
        body=json_body(backend.broker.topic(call.topic(Action.READ)).rocketmq_entry())
    )


def all_topic_configs(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The configurations of all topics."""
    call.require(Action.READ, Kind.SERVER)
    table = {each.name: each.rocketmq_entry() for each in backend.broker.topics(system=True)}
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
    attributes = call.text("attributes", "")
    pairs = (pair.strip().partition("=") for pair in attributes.split(",") if pair.strip())
    return _update_topic(backend, call, config, {name: value for name, _, value in pairs})


def update_topics(backend: "RemotingBackend", call: RemotingCall) -> Awaitable[ErrorResponse]:
    """The same for several topics, one after the other."""
    topics = call.document(_Topics).topicConfigList
    for each in topics:
        call.require(Action.ADMINISTER, Kind.TOPIC, each.topicName)
    return _update_topics(backend, call, topics)


async def _update_topics(
    backend: "RemotingBackend", call: RemotingCall, topics: list[_Topic]
) -> ErrorResponse:
    for each in topics:
        config = TopicConfig(
            each.topicName,
            read_queues=each.readQueueNums,
            write_queues=each.writeQueueNums,
            permission=each.perm,
        )
        await _update_topic(backend, call, config, each.attributes)
    return OK


async def _update_topic(
    backend: "RemotingBackend", call: RemotingCall, config: TopicConfig, attributes: dict[str, str]
) -> ErrorResponse:
    topics, kind = backend.services.topics, _type_in(attributes)
    try:
        known = backend.broker.topic(config.name)
    except TopicNotFound:
        await topics.create(call.actor, structs.replace(config, type=kind or config.type))
        return OK
    if kind not in (None, known.type):
        raise RemotingRefusal(
            ResponseCode.ILLEGAL_OPERATION,
            f"{config.name!r} is a topic of type {known.type}, which stays as it is",
        )
    changes = TopicSettings(
        read_queues=config.read_queues,
        write_queues=config.write_queues,
        permission=config.permission,
    )
    await topics.change(call.actor, config.name, changes)
    return OK


def wipe_write_permission(
    backend: "RemotingBackend", call: RemotingCall
) -> Awaitable[ErrorResponse]:
    """Take the permission to write from all topics; audited for each."""
    return _set_writable(backend, call, "wipeTopicCount", is_writable=False)


def add_write_permission(
    backend: "RemotingBackend", call: RemotingCall
) -> Awaitable[ErrorResponse]:
    """Give the permission to write to all topics; audited for each."""
    return _set_writable(backend, call, "addTopicCount", is_writable=True)


async def _set_writable(
    backend: "RemotingBackend", call: RemotingCall, field: str, *, is_writable: bool
) -> ErrorResponse:
    call.require(Action.ADMINISTER, Kind.SERVER)
    if call.text("brokerName") != backend.settings.broker_name:
        raise RemotingRefusal(
            ResponseCode.INVALID_PARAMETER, f"the one broker is {backend.settings.broker_name!r}"
        )
    changed = 0
    for each in backend.broker.topics():
        permission = each.permission | PERMISSION_WRITE
        permission -= 0 if is_writable else PERMISSION_WRITE
        if permission != each.permission:
            changes = TopicSettings(permission=permission)
            await backend.services.topics.change(call.actor, each.name, changes)
            changed += 1
    return ErrorResponse(fields={field: str(changed)})


def no_topics(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """An empty list of topics."""
    call.require(Action.READ, Kind.SERVER)
    return name_list(())


def nothing_to_clean(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """Done: files go with their topic or by retention, there are none to be found."""
    call.require(Action.ADMINISTER, Kind.SERVER)
    return OK


def queue_entries(backend: "RemotingBackend", call: RemotingCall) -> Awaitable[ErrorResponse]:
    """Where messages of a queue lie in the log, from an index on."""
    return _queue_entries(backend, call, call.topic(Action.READ))


async def _queue_entries(
    backend: "RemotingBackend", call: RemotingCall, topic: str
) -> ErrorResponse:
    queue, index = call.number("queueId"), call.number("index")
    count, group = min(max(1, call.number("count", 1)), ENTRIES_MAX), call.text("consumerGroup", "")
    if not 0 <= queue < backend.broker.topic(topic).read_queues:
        raise RemotingRefusal(ResponseCode.SYSTEM_ERROR, f"{queue}@{topic} is not exist!")
    first, end = await backend.messaging.queue_bounds(topic, queue)
    page = await backend.messaging.pull(topic, queue, index, count_max=count)
    subscription = backend.clients.subscription_of(group, topic) if group else None
    entries = [
        {
            "physicOffset": each.position,
            "physicSize": each.size_bytes,
            "tagsCode": tag_hash(each.tag),
            "eval": False,
        }
        for each in page.messages
        if index <= each.offset < index + count
    ]
    body = {
        "subscriptionData": subscription and subscription_shape(subscription),
        "filterData": "null" if subscription or not group else f"{group}@{topic} is not online!",
        "queueData": entries,
        "maxQueueIndex": end,
        "minQueueIndex": first,
    }
    return ErrorResponse(body=json_body(body))


def delete_topic(backend: "RemotingBackend", call: RemotingCall) -> Awaitable[ErrorResponse]:
    """Delete a topic with its messages; audited. It is no error if there is none."""
    return _delete_topic(backend, call, call.topic(Action.ADMINISTER))


async def _delete_topic(backend: "RemotingBackend", call: RemotingCall, name: str) -> ErrorResponse:
    with suppress(TopicNotFound):
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
    return ErrorResponse(body=by_queue(backend, "offsetTable", entries))


def consumed_by(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The groups that consume a topic."""
    topic = call.topic(Action.READ)
    groups = set(backend.broker.groups_of(topic))
    for client in backend.clients.all():
        groups |= {name for name, each in client.consumers.items() if topic in each.topics}
    return ErrorResponse(body=json_body({"groupList": sorted(groups)}))


def _type_in(attributes: dict[str, str]) -> TopicType | None:
    """The type of messages among a topic's attributes, whose names may begin with a sign."""
    kind = None
    for name, value in attributes.items():
        if name.lstrip("+") != TYPE_ATTRIBUTE or value not in set(TopicType):
            raise RemotingRefusal(
                ResponseCode.INVALID_PARAMETER,
                f"the attribute {name}={value} is not offered; {TYPE_ATTRIBUTE} is one of "
                f"{', '.join(TopicType)}"[:300],
            )
        kind = TopicType(value)
    return kind
