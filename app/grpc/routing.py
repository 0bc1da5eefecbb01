"""QueryRoute and QueryAssignment: a topic's queues, and the message types that it accepts."""

from typing import Any

from app.grpc import workarounds
from app.grpc.backend import GrpcBackend
from app.grpc.call import GrpcCall
from app.grpc.codes import GrpcRefusal, ok
from app.grpc.names import outer
from app.security.access import Action
from engine.broker import TopicConfig, TopicType
from engine.errors import TopicNotFound
from protocol.rocketmq.messages import (
    Assignment,
    Broker,
    Endpoints,
    MessageQueue,
    QueryAssignmentResponse,
    QueryRouteResponse,
)
from protocol.rocketmq.numbers import AddressScheme, Code, MessageType, Permission

ALL_QUEUES = -1
EVERY_TYPE = (
    MessageType.NORMAL,
    MessageType.FIFO,
    MessageType.DELAY,
    MessageType.TRANSACTION,
    MessageType.PRIORITY,
)
ACCEPTED: dict[TopicType, tuple[MessageType, ...]] = {
    TopicType.NORMAL: (MessageType.NORMAL, MessageType.PRIORITY),
    TopicType.FIFO: (MessageType.FIFO,),
    TopicType.DELAY: (MessageType.DELAY,),
    TopicType.TRANSACTION: (MessageType.TRANSACTION,),
}


async def query_route(backend: GrpcBackend, call: GrpcCall, request: Any) -> Any:
    """All queues of a topic, on one broker at the address that the client called.

    A client whose settings were refused gets the reason here too (`workarounds.py`, on Java).
    """
    client = backend.clients.find(call.client)
    if client is not None and client.refusal is not None and client.user == call.principal.name:
        raise client.refusal
    topic = await find_topic(backend, call.topic(request.topic, Action.READ))
    broker = _broker(backend, call, request.endpoints)
    resource = outer(topic.name, call.namespace)
    queues = [
        MessageQueue(
            topic=resource,
            id=number,
            permission=permission,
            broker=broker,
            accept_message_types=_listed_types(backend, call, topic),
        )
        for number, permission in enumerate(_permissions(topic))
    ]
    return QueryRouteResponse(status=ok(), message_queues=queues)


async def query_assignment(backend: GrpcBackend, call: GrpcCall, request: Any) -> Any:
    """One assignment for all queues: each receive is served from every queue of the topic."""
    topic = await find_topic(backend, call.topic(request.topic, Action.CONSUME))
    call.group(request.group, Action.CONSUME)
    if not topic.is_readable:
        raise GrpcRefusal(Code.FORBIDDEN, f"the topic {topic.name!r} has no readable queue")
    queue = MessageQueue(
        topic=outer(topic.name, call.namespace),
        id=ALL_QUEUES,
        permission=Permission.READ_WRITE if topic.is_writable else Permission.READ,
        broker=_broker(backend, call, request.endpoints),
        accept_message_types=_listed_types(backend, call, topic),
    )
    return QueryAssignmentResponse(status=ok(), assignments=[Assignment(message_queue=queue)])


async def find_topic(backend: GrpcBackend, name: str) -> TopicConfig:
    """The topic, or the one that its first message would create; else raises GrpcRefusal."""
    try:
        topic = await backend.messaging.plan_topic(name)
    except TopicNotFound:
        # The text is Apache's: its clients' own tests look for it.
        raise GrpcRefusal(
            Code.TOPIC_NOT_FOUND,
            f"CODE: 17  DESC: No topic route info in name server for the topic: {name}",
        ) from None
    if topic.is_system and not name.startswith("%"):
        raise GrpcRefusal(Code.ILLEGAL_TOPIC, f"{name!r} is the system's own topic")
    return topic


def accepted_types(backend: GrpcBackend, topic: TopicConfig) -> tuple[MessageType, ...]:
    """The message types that a topic accepts over gRPC."""
    is_checked = not topic.is_automatic or backend.settings.grpc_check_automatic_topics
    return ACCEPTED[topic.type] if is_checked else EVERY_TYPE


def _listed_types(
    backend: GrpcBackend, call: GrpcCall, topic: TopicConfig
) -> tuple[MessageType, ...]:
    """The same without types that the client's version cannot parse."""
    return workarounds.known_types(accepted_types(backend, topic), call.speaks, call.version)


def _permissions(topic: TopicConfig) -> list[Permission]:
    """The permission of each queue, by number."""
    reads = topic.read_queues if topic.is_readable else 0
    writes = topic.write_queues if topic.is_writable else 0
    if not reads and not writes:
        return [Permission.NONE]
    both = min(reads, writes)
    alone = Permission.READ if reads > writes else Permission.WRITE
    # Numbers go up from 0, and those of queues that can be both read and written come first.
    return [Permission.READ_WRITE] * both + [alone] * (max(reads, writes) - both)


def _broker(backend: GrpcBackend, call: GrpcCall, called: Any) -> Any:
    return Broker(
        name=backend.settings.broker_name, id=0, endpoints=_endpoints(backend, call, called)
    )


def _endpoints(backend: GrpcBackend, call: GrpcCall, called: Any) -> Any:
    """The address for the client: the one it called, so that port mappings work."""
    if backend.settings.grpc_advertised:
        return endpoints_of(backend.settings.grpc_advertised)
    if called.addresses:
        return called
    return endpoints_of((call.origin.server or backend.address,))


def endpoints_of(addresses: tuple[str, ...]) -> Any:
    """Addresses ("host:port") as Endpoints, with the scheme of the first one."""
    endpoints = Endpoints(scheme=_scheme(_split(addresses[0])[0]))
    for address in addresses:
        host, port = _split(address)
        endpoints.addresses.add(host=host, port=port)
    return endpoints


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _scheme(host: str) -> AddressScheme:
    if ":" in host:
        return AddressScheme.IPv6
    is_number = all(part.isdecimal() for part in host.split("."))
    return AddressScheme.IPv4 if is_number else AddressScheme.DOMAIN_NAME
