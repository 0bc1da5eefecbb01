"""PullMessage, and offsets of clients that track their own; Apache's proxy has neither."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

from app.grpc.backend import GrpcBackend
from app.grpc.call import GrpcCall
from app.grpc.client_settings import filter_text
from app.grpc.clients import GrpcClient
from app.grpc.codes import GrpcRefusal, ok, status
from app.grpc.receiving import poll_s
from app.grpc.shapes import to_wire
from app.security.access import Action
from app.services import bodies
from engine.broker import PullResult, PullStatus
from protocol.rocketmq.messages import (
    GetOffsetResponse,
    PullMessageResponse,
    QueryOffsetResponse,
    UpdateOffsetResponse,
)
from protocol.rocketmq.numbers import Code, QueryOffsetPolicy

BATCH_MAX = 160
BYTES_MAX = 4 * 1024 * 1024


async def pull_message(
    backend: GrpcBackend, call: GrpcCall, request: Any
) -> AsyncGenerator[Any, None]:
    """Read a queue from an offset; the next offset always comes last."""
    group = call.group(request.group, Action.CONSUME)
    topic = call.topic(request.message_queue.topic, Action.CONSUME)
    client = backend.clients.touch(call)
    with backend.polling(call, client):
        await backend.clients.join_group(client, group)
        pulling = backend.messaging.pull(
            topic,
            request.message_queue.id,
            request.offset,
            count_max=min(max(1, request.batch_size), BATCH_MAX),
            bytes_max=BYTES_MAX,
            filter=filter_text(request.filter_expression),
            group=group,
            wait_s=poll_s(request, call.limit_s),
        )
        result = await _unless_gone(client, pulling)
    if result is None:
        yield PullMessageResponse(status=status(Code.MESSAGE_NOT_FOUND, "the client left"))
        yield PullMessageResponse(next_offset=request.offset)
        return
    if result.messages:
        yield PullMessageResponse(status=ok())
    elif result.status in (PullStatus.OFFSET_TOO_SMALL, PullStatus.OFFSET_OVERFLOW_BADLY):
        yield PullMessageResponse(
            status=status(
                Code.ILLEGAL_OFFSET,
                f"the queue holds offsets {result.min_offset} to {result.max_offset}; "
                f"go on at {result.next_offset}",
            )
        )
    else:
        yield PullMessageResponse(status=status(Code.MESSAGE_NOT_FOUND, "no new message"))
    for message in result.messages:
        await bodies.decompress([message])
        yield PullMessageResponse(message=to_wire(message, call.namespace))
        message.decompressed = None  # many at once would take much memory
    yield PullMessageResponse(next_offset=result.next_offset)


async def _unless_gone(
    client: GrpcClient, pulling: Coroutine[Any, Any, PullResult]
) -> PullResult | None:
    """The result of the pull; None if the client ends meanwhile."""
    task = asyncio.ensure_future(pulling)
    client.waits.add(task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        if client.is_gone and task.cancelled():
            return None
        raise
    finally:
        client.waits.discard(task.cancel)


async def update_offset(backend: GrpcBackend, call: GrpcCall, request: Any) -> Any:
    """Set a group's offset in one queue, at most to the queue's end."""
    group, topic = _place(call, request)
    queue = request.message_queue.id
    config = await backend.messaging.topic(topic)
    if 0 <= queue < max(config.read_queues, config.write_queues):
        _, end = await backend.messaging.queue_bounds(topic, queue)
        if request.offset > end:
            raise GrpcRefusal(
                Code.ILLEGAL_OFFSET,
                f"the queue ends at offset {end}, {request.offset} lies beyond it",
            )
    if not await backend.messaging.commit_offset(group, topic, queue, request.offset, call.client):
        raise GrpcRefusal(
            Code.PRECONDITION_FAILED, "the group was moved meanwhile: pull from its new place first"
        )
    return UpdateOffsetResponse(status=ok())


async def get_offset(backend: GrpcBackend, call: GrpcCall, request: Any) -> Any:
    """A group's committed offset in one queue."""
    group, topic = _place(call, request)
    client = call.client if await backend.messaging.is_broadcast(group) else ""
    offset = await backend.messaging.committed_offset(
        group, topic, request.message_queue.id, client
    )
    if offset is None:
        raise GrpcRefusal(Code.OFFSET_NOT_FOUND, "the group has no progress in this queue")
    return GetOffsetResponse(status=ok(), offset=offset)


async def query_offset(backend: GrpcBackend, call: GrpcCall, request: Any) -> Any:
    """The offset at a queue's beginning, at its end, or at a time."""
    topic = call.topic(request.message_queue.topic, Action.READ)
    queue = request.message_queue.id
    time = request.timestamp
    at_ms = time.seconds * 1000 + time.nanos // 1_000_000
    offset = await backend.messaging.offset_at_time(topic, queue, at_ms)
    if request.query_offset_policy != QueryOffsetPolicy.TIMESTAMP:
        first, end = await backend.messaging.queue_bounds(topic, queue)
        is_end = request.query_offset_policy == QueryOffsetPolicy.END
        offset = end if is_end else first
    return QueryOffsetResponse(status=ok(), offset=offset)


def _place(call: GrpcCall, request: Any) -> tuple[str, str]:
    group = call.group(request.group, Action.CONSUME)
    return group, call.topic(request.message_queue.topic, Action.CONSUME)
