"""How far groups are in their topics: statistics and times."""

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from app.eager import eager
from app.remoting.administration.bodies import DATA_VERSION, by_queue, name_list, queue_key
from app.remoting.call import RemotingCall, json_body
from app.remoting.errors import ErrorResponse, RemotingRefusal
from app.security.access import Action, Kind
from engine.broker import QueueLag
from engine.errors import EngineError, MessageNotFound
from protocol.remoting.codes import ResponseCode

if TYPE_CHECKING:
    from app.remoting.backend import RemotingBackend


OFFSET_MAX = (1 << 63) - 1


@eager
async def consume_stats(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The progress of a group in each queue, of one topic if named."""
    group, topic = call.group(Action.READ), call.text("topic", "")
    queues = [each for each in queue_lags(backend, group) if topic in ("", each.topic)]
    return ErrorResponse(body=await _stats_body(backend, group, queues))


@eager
async def broker_consume_stats(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The progress of all groups in all of their topics; of ordered groups where named."""
    call.require(Action.READ, Kind.SERVER)
    is_ordered, entries, lag, inflight = call.is_true("isOrder"), [], 0, 0
    for group in backend.broker.groups():
        if is_ordered and not group.ordered:
            continue
        topics: dict[str, list[QueueLag]] = {}
        for each in queue_lags(backend, group.name):
            topics.setdefault(each.topic, []).append(each)
            lag += each.max_offset - each.committed
            inflight += each.inflight or 0
        parts = [await _stats_body(backend, group.name, queues) for queues in topics.values()]
        entries.append(b"{" + json_body(group.name) + b":[" + b",".join(parts) + b"]}")
    rest = {
        "brokerAddr": backend.address(call.connection),
        "totalDiff": lag,
        "totalInflightDiff": inflight,
    }
    body = b'{"consumeStatsList":[' + b",".join(entries) + b"]," + json_body(rest)[1:]
    return ErrorResponse(body=body)


def all_offsets(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The offsets of all groups, as a broker keeps them."""
    call.require(Action.READ, Kind.SERVER)
    table: dict[str, dict[str, int]] = {}
    for group in backend.broker.groups():
        for each in queue_lags(backend, group.name):
            queues = table.setdefault(f"{each.topic}@{group.name}", {})
            queues[str(each.queue)] = each.committed
    return ErrorResponse(body=json_body({"offsetTable": table, "dataVersion": DATA_VERSION}))


def delay_offsets(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """How far each delay level is."""
    call.require(Action.READ, Kind.SERVER)
    table = backend.broker.passed_levels()
    return ErrorResponse(body=json_body({"offsetTable": table, "dataVersion": DATA_VERSION}))


def correction_offsets(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The lowest offset of a topic's groups in each queue.

    A queue in which the compared group lies before that is answered with the highest number.
    """
    topic, compared = call.topic(Action.READ), call.text("compareGroup", "")
    left_out = set(call.text("filterGroups", "").split(","))
    lowest: dict[int, int] = {}
    for group in backend.broker.groups_of(topic):
        for each in queue_lags(backend, group):
            if each.topic == topic and group not in left_out:
                lowest[each.queue] = min(lowest.get(each.queue, OFFSET_MAX), each.committed)
    if compared in backend.broker.groups_of(topic):
        for each in queue_lags(backend, compared):
            if each.topic == topic and lowest.get(each.queue, 0) > each.committed:
                lowest[each.queue] = OFFSET_MAX
    offsets = {str(queue): offset for queue, offset in sorted(lowest.items())}
    return ErrorResponse(body=json_body({"correctionOffsets": offsets}))


def time_spans(backend: "RemotingBackend", call: RemotingCall) -> Awaitable[ErrorResponse]:
    """The times between which a group's progress lies in each queue of a topic."""
    group = call.group(Action.READ, "group")
    return _time_spans(backend, group, call.topic(Action.READ))


async def _time_spans(backend: "RemotingBackend", group: str, topic: str) -> ErrorResponse:
    lags = {each.queue: each for each in queue_lags(backend, group) if each.topic == topic}
    spans = [
        await _time_span(backend, topic, each.queue, each.last_stored_ms, lags.get(each.queue))
        for each in backend.broker.topic_stats(topic).queues
    ]
    return ErrorResponse(body=json_body({"consumeTimeSpanSet": spans}))


async def _time_span(
    backend: "RemotingBackend", topic: str, queue: int, last_ms: int | None, lag: QueueLag | None
) -> dict[str, Any]:
    content = await backend.messaging.queue_content(topic, queue, count_max=1)
    first_ms = -1 if content.first_stored_ms is None else content.first_stored_ms
    consumed_ms = await _consumed_ms(backend, lag) if lag is not None else None
    oldest_ms = lag.oldest_ms if lag is not None else content.first_stored_ms
    now_ms = backend.host.clock.now_ms()
    return {
        "messageQueue": queue_key(backend, topic, queue),
        "minTimeStamp": first_ms,
        "maxTimeStamp": -1 if last_ms is None else last_ms,
        "consumeTimeStamp": first_ms if consumed_ms is None else consumed_ms,
        "delayTime": 0 if oldest_ms is None else max(0, now_ms - oldest_ms),
    }


def topics_of_group(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The topics that a group has consumed from."""
    group = call.group(Action.READ, "group")
    return name_list(sorted({each.topic for each in queue_lags(backend, group)}))


async def _consumed_ms(backend: "RemotingBackend", lag: QueueLag) -> int | None:
    """When the last message before a group's place was stored; None for none."""
    if lag.committed <= lag.min_offset:
        return None
    try:
        message = await backend.messaging.message(lag.topic, lag.queue, lag.committed - 1)
    except MessageNotFound:  # retention took it
        return None
    return message.stored_ms


async def _stats_body(backend: "RemotingBackend", group: str, queues: list[QueueLag]) -> bytes:
    """The progress of a group in these queues, and in others of their topics."""
    rate = backend.broker.statistics.group_rate(group)
    entries = {}
    known = {each.name for each in backend.broker.topics(system=True)}
    for topic in known & {each.topic for each in queues}:
        for queue in backend.broker.topic_stats(topic).queues:
            entries[topic, queue.queue] = _progress(queue.max_offset, 0, 0, None)
    for each in queues:
        consumed_ms = await _consumed_ms(backend, each)
        entries[each.topic, each.queue] = _progress(
            each.max_offset, each.committed, each.cursor, consumed_ms
        )
    return by_queue(backend, "offsetTable", entries.items(), {"consumeTps": rate})


def _progress(end: int, committed: int, pulled: int, consumed_ms: int | None) -> dict[str, int]:
    return {
        "brokerOffset": end,
        "consumerOffset": committed,
        "pullOffset": pulled,
        "lastTimestamp": consumed_ms or 0,
    }


def queue_lags(backend: "RemotingBackend", group: str) -> list[QueueLag]:
    """The lag of a group in each queue; raises RemotingRefusal if there is no such group."""
    try:
        return backend.broker.lag(group).queues
    except EngineError as error:
        raise RemotingRefusal(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"there is no group {group!r}"
        ) from error
