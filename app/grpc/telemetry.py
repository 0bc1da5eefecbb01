"""Telemetry, Heartbeat and NotifyClientTermination: what clients tell of themselves, and are asked.

The stream belongs to the client that its header names, also before it has sent any settings: one
official client opens it again after a restart without sending them.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

from app.grpc import client_settings, workarounds
from app.grpc.backend import GrpcBackend
from app.grpc.call import TEXT_CHARS_MAX, GrpcCall
from app.grpc.clients import GrpcClient
from app.grpc.codes import GrpcRefusal, ok
from app.grpc.stream import TelemetryStream
from app.security.access import Action
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
) -> AsyncIterator[Any]:
    """Answer settings, and write what the client is asked; ends when either side ends it."""
    client = backend.clients.seen(call)
    stream = TelemetryStream(call.metadata, backend.clients.outboxes)
    backend.clients.opened(client, stream)
    reader = asyncio.ensure_future(_read(backend, call, client, stream, requests))
    try:
        while (command := await stream.next()) is not None:
            yield command
        if stream.error is not None:
            raise stream.error
    finally:
        backend.clients.closed(client, stream)
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)


async def _read(
    backend: GrpcBackend,
    call: GrpcCall,
    client: GrpcClient,
    stream: TelemetryStream,
    requests: AsyncIterator[Any],
) -> None:
    """Take in what a client says; what fails ends its stream with the reason."""
    try:
        async for command in requests:
            client.seen_s = backend.host.clock.monotonic_s()
            kind = command.WhichOneof("command")
            if kind == "settings":
                answer = settle(backend, call, command)
                client.told = client_settings.words(answer, is_whole=client.is_whole)
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


def settle(backend: GrpcBackend, call: GrpcCall, command: Any) -> Any:
    """Take over a client's settings; what they are with the server's part filled in.

    What the caller may not use is left out: the calls that use it are refused with the reason. Only
    a push consumer, whose program makes no such call, is refused here, as it starts.

    Raises Refusal for what says neither what it publishes nor what it subscribes to.
    """
    told = command.settings
    _check(told)
    client = backend.clients.seen(call)
    backend.clients.reports(client, told)
    number = told.client_type
    if number in set(ClientType):
        client.kind = ClientType(number)
    client.version = told.user_agent.version[:TEXT_CHARS_MAX] or client.version
    client.language = client.speaks.name if client.speaks else client.language
    if told.WhichOneof("pub_sub") == "publishing":
        return _settle_producer(backend, call, client, told)
    return _settle_consumer(backend, call, client, told)


def _settle_producer(backend: GrpcBackend, call: GrpcCall, client: GrpcClient, told: Any) -> Any:
    missing: list[Forbidden] = []
    for topic in told.publishing.topics[:SETTINGS_TOPICS_MAX]:
        if name := _allowed(call.topic, topic, Action.PRODUCE, missing):
            backend.clients.produces(client, name)
    return client_settings.for_producer(told, client.speaks)


def _settle_consumer(backend: GrpcBackend, call: GrpcCall, client: GrpcClient, told: Any) -> Any:
    missing: list[Forbidden] = []
    topics = {
        name: client_settings.filter_text(entry.expression)
        for entry in told.subscription.subscriptions[:SETTINGS_TOPICS_MAX]
        if (name := _allowed(call.topic, entry.topic, Action.CONSUME, missing))
    }
    group = _allowed(call.group, told.subscription.group, Action.CONSUME, missing)
    is_starting = client.is_push and not client.told
    if missing and is_starting and workarounds.tells_refusals(client.speaks, client.version):
        client.refusal = missing[0]
        raise missing[0]
    client.refusal = None
    config = GroupConfig("", retry_max=backend.settings.retry_max)
    if group:
        backend.clients.consumes(client, group, topics)
        config = client_settings.group_of(backend.broker, group, backend.settings.retry_max)
    in_order = client_settings.is_fifo(backend.broker, config, list(topics))
    return client_settings.for_consumer(told, config, client.speaks, is_fifo=in_order)


def _allowed(
    named: Callable[[Any, Action], str], resource: Any, action: Action, missing: list[Forbidden]
) -> str:
    """The name of a topic or group; "" where the caller may not do this, which `missing` says."""
    try:
        return named(resource, action)
    except Forbidden as error:
        missing.append(error)
        return ""


async def heartbeat(backend: GrpcBackend, call: GrpcCall, request: Any) -> Any:
    """A client is alive; a consumer stays a member of its group."""
    if request.client_type not in set(ClientType) or not request.client_type:
        raise GrpcRefusal(
            Code.UNRECOGNIZED_CLIENT_TYPE, f"the client type is {request.client_type}"
        )
    client = backend.clients.seen(call)
    client.kind = ClientType(request.client_type)
    if request.HasField("group") and client.kind in CONSUMERS:
        backend.clients.consumes(client, call.group(request.group, Action.CONSUME))
    return HeartbeatResponse(status=ok())


async def notify_client_termination(backend: GrpcBackend, call: GrpcCall, request: Any) -> Any:
    """A client says goodbye."""
    if not backend.clients.terminated(call):
        raise GrpcRefusal(Code.UNRECOGNIZED_CLIENT_TYPE, "the client is not known")
    return NotifyClientTerminationResponse(status=ok())


async def ask_stack(backend: GrpcBackend, client: GrpcClient, timeout_s: float = 5.0) -> str:
    """What the threads of a client do; Refusal where it cannot be asked, TimeoutError."""
    answer = await backend.clients.question(client, "print_thread_stack_trace_command", timeout_s)
    return str(answer.thread_stack_trace.thread_stack_trace)


async def ask_verify(
    backend: GrpcBackend, client: GrpcClient, message: Any, timeout_s: float = 5.0
) -> Any:
    """Let a push consumer process a message apart from its delivery; the status that it answers."""
    answer = await backend.clients.question(
        client, "verify_message_command", timeout_s, message=message
    )
    return answer.status


def _check(told: Any) -> None:
    if told.WhichOneof("pub_sub") is None:
        raise GrpcRefusal(
            Code.BAD_REQUEST, "the settings name neither publishing nor a subscription"
        )
    if told.ByteSize() > SETTINGS_BYTES_MAX:
        raise GrpcRefusal(Code.PAYLOAD_TOO_LARGE, f"settings of over {SETTINGS_BYTES_MAX} bytes")
    if len(told.client_properties) > PROPERTIES_MAX:
        raise GrpcRefusal(
            Code.INVALID_CLIENT_PROPERTIES, f"more than {PROPERTIES_MAX} properties of the client"
        )


async def sync_lite_subscription(backend: GrpcBackend, call: GrpcCall, request: Any) -> Any:
    """Lite topics are not offered."""
    raise GrpcRefusal(Code.UNSUPPORTED, "lite topics are not offered by this server")
