"""Topics: lists, configurations, statistics, and changes, which are audited."""

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from app.remoting.administration.bodies import DATA_VERSION, by_queue, name_list
from app.remoting.call import RemotingCall, json_body
from app.remoting.errors import OK, ErrorResponse
from app.security.access import Action, Kind
from engine.broker import TopicConfig
from engine.errors import TopicNotFound
from kitemq.model.topics import TopicSettings

if TYPE_CHECKING:
    from app.remoting.backend import RemotingBackend


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
    return ErrorResponse(body=by_queue(backend, "offsetTable", entries))


def consumed_by(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The groups that consume a topic."""
    topic = call.topic(Action.READ)
    groups = set(backend.broker.groups_of(topic))
    for client in backend.clients.all():
        groups |= {name for name, each in client.consumers.items() if topic in each.topics}
    return ErrorResponse(body=json_body({"groupList": sorted(groups)}))


def _topic_shape(topic: TopicConfig) -> dict[str, Any]:
    return {**topic.rocketmq_entry(), "attributes": {}}
