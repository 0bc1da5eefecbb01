"""Pulls with long polling, and messages that consumers send back."""

from typing import TYPE_CHECKING

from app.eager import eager
from app.remoting.call import RemotingCall
from app.remoting.errors import OK, ErrorResponse, RemotingRefusal
from app.remoting.heartbeats import engine_filter
from app.remoting.records import records_of
from app.security.access import Action
from engine.broker import PullAnswer, PullResult
from protocol.remoting.codes import PullFlag, ResponseCode

if TYPE_CHECKING:
    from app.remoting.backend import RemotingBackend

BATCH_MAX = 160
BYTES = 256 * 1024  # of one answer, where the client names no limit
BYTES_MAX = 4 * 1024 * 1024
SUSPEND_MAX_S = 60.0
CODES = {
    PullAnswer.FOUND: ResponseCode.SUCCESS,
    PullAnswer.NOT_FOUND: ResponseCode.PULL_NOT_FOUND,
    PullAnswer.RETRY_IMMEDIATELY: ResponseCode.PULL_RETRY_IMMEDIATELY,
    PullAnswer.OFFSET_MOVED: ResponseCode.PULL_OFFSET_MOVED,
}
GOES_ON = frozenset({PullAnswer.NOT_FOUND, PullAnswer.RETRY_IMMEDIATELY})
LEVELS_MAX = 1 << 16


@eager
async def pull(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """Messages of one queue from an offset; waits for one if the client allows."""
    group = call.group(Action.CONSUME)
    topic = call.topic(Action.CONSUME)
    queue, offset, flags = (
        call.number("queueId"),
        call.number("queueOffset"),
        call.number("sysFlag"),
    )
    if flags & PullFlag.COMMIT_OFFSET and (committed := call.number("commitOffset", 0)) > 0:
        await _commit(backend, call, group, topic, queue, committed)
    filter = _filter(backend, call, group, topic, flags)
    size = {
        "count_max": min(max(1, call.number("maxMsgNums")), BATCH_MAX),
        "bytes_max": min(max(1, call.number("maxMsgBytes", 0) or BYTES), BYTES_MAX),
    }
    result = await backend.messaging.pull(
        topic, queue, max(0, offset), filter=filter, group=group, **size
    )
    wait_s = min(call.number("suspendTimeoutMillis", 0) / 1000, SUSPEND_MAX_S)
    if not flags & PullFlag.SUSPEND or wait_s <= 0 or result.answer not in GOES_ON:
        return _answer(backend, call, result)
    return await _wait_for_messages(
        backend, call, (topic, queue, result.next_offset, group, filter), size, wait_s
    )


async def _wait_for_messages(
    backend: "RemotingBackend",
    call: RemotingCall,
    place: tuple[str, int, int, str, str],
    size: dict[str, int],
    wait_s: float,
) -> ErrorResponse:
    """Wait for a message; meanwhile the request counts as a waiting pull."""
    topic, queue, offset, group, filter = place
    with backend.polling(call.connection):
        call.connection.release(call)
        result = await backend.messaging.pull(
            topic, queue, offset, filter=filter, group=group, wait_s=wait_s, **size
        )
    return _answer(backend, call, result)


def _answer(backend: "RemotingBackend", call: RemotingCall, result: PullResult) -> ErrorResponse:
    fields = {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": str(result.next_offset),
        "minOffset": str(result.min_offset),
        "maxOffset": str(result.max_offset),
        "topicSysFlag": "0",
        "groupSysFlag": "0",
    }
    body = b""
    if result.messages:
        body = records_of(result.messages, backend.address(call.connection))
    return ErrorResponse(CODES[result.answer], fields, body, result.status.value)


def _filter(
    backend: "RemotingBackend", call: RemotingCall, group: str, topic: str, flags: int
) -> str:
    """The filter of a pull: its own, or that of its client's last heartbeat."""
    if flags & PullFlag.CLASS_FILTER:
        raise RemotingRefusal(
            ResponseCode.SUBSCRIPTION_PARSE_FAILED, "filter classes are not offered"
        )
    if flags & PullFlag.SUBSCRIPTION:
        return engine_filter(call.text("subscription", ""), call.text("expressionType", ""))
    filter = backend.clients.filter_of(call.connection, group, topic)
    if filter is None:
        raise RemotingRefusal(
            ResponseCode.SUBSCRIPTION_NOT_EXIST,
            f"no consumer of {group!r} has told its subscription to {topic!r} yet",
        )
    return filter


async def _commit(
    backend: "RemotingBackend", call: RemotingCall, group: str, topic: str, queue: int, offset: int
) -> bool:
    """Advance a group's offset; False if a reset forbids it."""
    client = ""
    if await backend.messaging.is_broadcast(group):
        client = backend.clients.member_name(call.connection, group)
    return await backend.messaging.advance_offset(group, topic, queue, offset, client)


@eager
async def update_offset(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """Commit a consumer's offset in a queue."""
    group, topic = call.group(Action.CONSUME), call.topic(Action.CONSUME)
    queue, offset = call.number("queueId"), call.number("commitOffset")
    end = (await _queue_bounds(backend, topic, queue))[1]
    if offset > end:
        raise RemotingRefusal(
            ResponseCode.INVALID_PARAMETER,
            f"the queue ends at offset {end}, {offset} lies beyond it",
        )
    if not await _commit(backend, call, group, topic, queue, offset):
        raise RemotingRefusal(
            ResponseCode.ILLEGAL_OPERATION,
            "the group was moved meanwhile: pull from its new place first",
        )
    return OK


@eager
async def query_offset(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """A group's offset in a queue; without one, RocketMQ's rules for the start apply."""
    group, topic = call.group(Action.CONSUME), call.topic(Action.CONSUME)
    queue, messaging = call.number("queueId"), backend.messaging
    client = ""
    if await backend.messaging.is_broadcast(group):
        client = backend.clients.member_name(call.connection, group)
    offset = await messaging.committed_offset(group, topic, queue, client)
    if offset is None:
        is_zero = call.text("setZeroIfNotFound", "true").lower() != "false"
        if not (is_zero and await messaging.is_young_queue(topic, queue)):
            raise RemotingRefusal(
                ResponseCode.QUERY_NOT_FOUND, "the group has not consumed from this queue yet"
            )
        offset = 0
    return ErrorResponse(fields={"offset": str(offset)})


@eager
async def max_offset(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The offset of the next message of a queue."""
    return await _bound(backend, call, 1)


@eager
async def min_offset(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The oldest offset of a queue."""
    return await _bound(backend, call, 0)


@eager
async def search_offset(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The first offset stored at or after a time; with UPPER the last one at or before it."""
    topic, queue = call.topic(Action.READ), call.number("queueId")
    at_ms = max(0, call.number("timestamp"))
    if call.text("boundaryType", "LOWER").upper() == "UPPER":
        first, _ = await _queue_bounds(backend, topic, queue)
        after = await backend.messaging.offset_at_time(topic, queue, at_ms + 1)
        offset = max(first, after - 1)
    else:
        offset = await backend.messaging.offset_at_time(topic, queue, at_ms)
    return ErrorResponse(fields={"offset": str(offset)})


@eager
async def earliest_time(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """When the oldest message of a queue was stored."""
    topic, queue = call.topic(Action.READ), call.number("queueId")
    await _queue_bounds(backend, topic, queue)
    first_ms = (await backend.messaging.queue_content(topic, queue, count_max=1)).first_stored_ms
    return ErrorResponse(fields={"timestamp": str(-1 if first_ms is None else first_ms)})


@eager
async def send_back(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """Retry a message that a consumer failed to process, or make it a dead letter."""
    group = call.group(Action.CONSUME, "group")
    message = await backend.message_at(call.number("offset"))
    retries = call.number("maxReconsumeTimes", -1)
    level = min(max(-1, call.number("delayLevel", 0)), LEVELS_MAX)
    await backend.messaging.send_back(
        group,
        message.topic,
        message.queue,
        message.offset,
        delay_level=level,
        retry_max=retries if retries >= 0 else None,
        error="sent back by its consumer",
        client=backend.clients.member_name(call.connection, group),
    )
    return OK


async def _bound(backend: "RemotingBackend", call: RemotingCall, which: int) -> ErrorResponse:
    topic, queue = call.topic(Action.READ), call.number("queueId")
    return ErrorResponse(
        fields={"offset": str((await _queue_bounds(backend, topic, queue))[which])}
    )


async def _queue_bounds(backend: "RemotingBackend", topic: str, queue: int) -> tuple[int, int]:
    """The oldest offset of a queue, and its next one."""
    config = await backend.messaging.topic(topic)
    queue_count = max(config.read_queues, config.write_queues)
    if not 0 <= queue < queue_count:
        raise RemotingRefusal(
            ResponseCode.INVALID_PARAMETER,
            f"topic {topic!r} has queues 0 to {queue_count - 1}, not {queue}",
        )
    return await backend.messaging.queue_bounds(topic, queue)
