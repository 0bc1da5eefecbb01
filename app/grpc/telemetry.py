"""Telemetry, Heartbeat and NotifyClientTermination: settings of clients, and commands to them.

A stream belongs to the client in its header even before it sends settings: one official client
reopens it after a restart without sending them.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

from app.grpc import client_settings, workarounds
from app.grpc.backend import GrpcBackend
from app.grpc.call import TEXT_CHARS_MAX, GrpcCall
from app.grpc.clients import GrpcClient
from app.grpc.codes import GrpcRefusal, ok
from app.grpc.stream import TelemetryStream
from app.security.access import Action
from app.tasks import end_tasks
from engine.broker import GroupConfig
from engine.errors import EngineError, Forbidden
from protocol.rocketmq.messages import (
    HeartbeatResponse,
    NotifyClientTerminationResponse,
    TelemetryCommand,
)
from protocol.rocketmq.numbers import ClientType, Code

log = logging.getLogger("kitemq.grpc")

CONSUMERS = frozenset(ClientType) - {ClientType.PRODUCER, ClientType.CLIENT_TYPE_UNSPECIFIED}
ANSWERS = ("thread_stack_trace", "verify_message_result", workarounds.VERIFY_DECLINED)
PROPERTIES_MAX = 32
SETTINGS_BYTES_MAX = 256 * 1024
SETTINGS_TOPICS_MAX = 256


async def telemetry(
    backend: GrpcBackend, call: GrpcCall, requests: AsyncIterator[Any]
) -> AsyncGenerator[Any, None]:
    """Answer settings and send commands; ends when either side ends the stream."""
    client = backend.clients.touch(call)
    stream = TelemetryStream(call.metadata, backend.clients.outboxes)
    backend.clients.set_stream(client, stream)
    reader = asyncio.ensure_future(_read(backend, call, client, stream, requests))
    try:
        while (command := await stream.next()) is not None:
            yield command
        if stream.error is not None:
            raise stream.error
    finally:
        backend.clients.remove_stream(client, stream)
        await end_tasks(reader)


async def _read(
    backend: GrpcBackend,
    call: GrpcCall,
    client: GrpcClient,
    stream: TelemetryStream,
    requests: AsyncIterator[Any],
) -> None:
    """Process a client's commands; an error ends its stream."""
    try:
        async for command in requests:
            client.seen_s = backend.host.clock.monotonic_s()
            kind = command.WhichOneof("command")
            if kind == "settings":
                answer = await settle(backend, call, command)
                client.settings_answer = client_settings.words(answer, is_whole=client.is_whole)
                if not stream.offer(TelemetryCommand(status=ok(), settings=answer)):
                    raise GrpcRefusal(
                        Code.TOO_MANY_REQUESTS, "the client does not read what it is sent"
                    )
            elif kind in ANSWERS:
                answer = client.questions.get(getattr(command, kind).nonce)
                if answer is not None and not answer.done():
                    answer.set_result(command)
    except (GrpcRefusal, EngineError) as error:
        stream.error = error
    except Exception:
        log.exception("the telemetry stream of the client %r failed", client.name)
        stream.error = GrpcRefusal(
            Code.INTERNAL_SERVER_ERROR, "the server failed; its log says why"
        )
    finally:
        stream.close()


async def settle(backend: GrpcBackend, call: GrpcCall, command: Any) -> Any:
    """Store a client's settings; returns them with the server's part filled in.

    Topics and groups that the caller has no right to are left out; calls that use them are refused.
    Only a push consumer, whose program makes no such call, is refused here at its start.

    Raises GrpcRefusal for settings with neither publishing nor subscription.
    """
    settings = command.settings
    _check(settings)
    client = backend.clients.touch(call)
    backend.clients.store_settings(client, settings)
    number = settings.client_type
    if number in set(ClientType):
        client.kind = ClientType(number)
    client.version = settings.user_agent.version[:TEXT_CHARS_MAX] or client.version
    client.language = client.speaks.name if client.speaks else client.language
    if settings.WhichOneof("pub_sub") == "publishing":
        return _settle_producer(backend, call, client, settings)
    return await _settle_consumer(backend, call, client, settings)


def _settle_producer(
    backend: GrpcBackend, call: GrpcCall, client: GrpcClient, settings: Any
) -> Any:
    missing: list[Forbidden] = []
    for topic in settings.publishing.topics[:SETTINGS_TOPICS_MAX]:
        if name := _allowed(call.topic, topic, Action.PRODUCE, missing):
            backend.clients.register_producer(client, name)
    return client_settings.for_producer(settings, client.speaks)


async def _settle_consumer(
    backend: GrpcBackend, call: GrpcCall, client: GrpcClient, settings: Any
) -> Any:
    missing: list[Forbidden] = []
    topics = {
        name: client_settings.filter_text(entry.expression)
        for entry in settings.subscription.subscriptions[:SETTINGS_TOPICS_MAX]
        if (name := _allowed(call.topic, entry.topic, Action.CONSUME, missing))
    }
    group = _allowed(call.group, settings.subscription.group, Action.CONSUME, missing)
    is_starting = client.is_push and not client.settings_answer
    if missing and is_starting and workarounds.tells_refusals(client.speaks, client.version):
        client.refusal = missing[0]
        raise missing[0]
    client.refusal = None
    config = GroupConfig("", retry_max=backend.settings.retry_max)
    if group:
        await backend.clients.join_group(client, group, topics)
        config = await client_settings.group_of(
            backend.messaging, group, backend.settings.retry_max
        )
    in_order = await client_settings.is_fifo(backend.messaging, config, list(topics))
    return client_settings.for_consumer(settings, config, client.speaks, is_fifo=in_order)


def _allowed(
    named: Callable[[Any, Action], str], resource: Any, action: Action, missing: list[Forbidden]
) -> str:
    """The name of a topic or group; "" without the right, which is added to `missing`."""
    try:
        return named(resource, action)
    except Forbidden as error:
        missing.append(error)
        return ""


async def heartbeat(backend: GrpcBackend, call: GrpcCall, request: Any) -> Any:
    """Keep a client alive, and a consumer a member of its group."""
    if request.client_type not in set(ClientType) or not request.client_type:
        raise GrpcRefusal(
            Code.UNRECOGNIZED_CLIENT_TYPE, f"the client type is {request.client_type}"
        )
    client = backend.clients.touch(call)
    client.kind = ClientType(request.client_type)
    if request.HasField("group") and client.kind in CONSUMERS:
        await backend.clients.join_group(client, call.group(request.group, Action.CONSUME))
    return HeartbeatResponse(status=ok())


async def notify_client_termination(backend: GrpcBackend, call: GrpcCall, request: Any) -> Any:
    """Remove a client that ends."""
    if not backend.clients.terminate(call):
        raise GrpcRefusal(Code.UNRECOGNIZED_CLIENT_TYPE, "the client is not known")
    return NotifyClientTerminationResponse(status=ok())


async def ask_stack(backend: GrpcBackend, client: GrpcClient, timeout_s: float = 5.0) -> str:
    """A client's thread dump; raises GrpcRefusal if it is not reachable, TimeoutError."""
    answer = await backend.clients.request(client, "print_thread_stack_trace_command", timeout_s)
    return str(answer.thread_stack_trace.thread_stack_trace)


async def ask_verify(
    backend: GrpcBackend, client: GrpcClient, message: Any, timeout_s: float = 5.0
) -> Any:
    """Have a push consumer process a message outside its delivery; returns its status."""
    answer = await backend.clients.request(
        client, "verify_message_command", timeout_s, message=message
    )
    return answer.status


def _check(settings: Any) -> None:
    if settings.WhichOneof("pub_sub") is None:
        raise GrpcRefusal(
            Code.BAD_REQUEST, "the settings name neither publishing nor a subscription"
        )
    if settings.ByteSize() > SETTINGS_BYTES_MAX:
        raise GrpcRefusal(Code.PAYLOAD_TOO_LARGE, f"settings of over {SETTINGS_BYTES_MAX} bytes")
    if len(settings.client_properties) > PROPERTIES_MAX:
        raise GrpcRefusal(
            Code.INVALID_CLIENT_PROPERTIES, f"more than {PROPERTIES_MAX} properties of the client"
        )


async def sync_lite_subscription(backend: GrpcBackend, call: GrpcCall, request: Any) -> Any:
    """Lite topics are not offered."""
    raise GrpcRefusal(Code.UNSUPPORTED, "lite topics are not offered by this server")
