"""POP: the server hands out single messages, which clients acknowledge one by one.

Messages come from the queue that a client names, or from all queues of the topic, and from the
group's retries. `pop_settling.py` takes acknowledgements.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from app.eager import eager
from app.remoting.call import RemotingCall
from app.remoting.errors import ErrorResponse, RemotingRefusal
from app.remoting.heartbeats import engine_filter
from app.remoting.records import record_of, records_of
from app.security.access import Action
from app.server_host import Place
from engine.broker import RETRY_PREFIX, Delivery, Receipt
from engine.errors import Busy, DiskFull, EngineError
from engine.message import StoredMessage
from protocol.remoting.codes import ResponseCode
from protocol.remoting.pop import (
    NORMAL_MARK,
    ORDER_QUEUE,
    RETRY_MARK,
    PopPlace,
    message_offsets,
    order_counts,
    start_offsets,
)

if TYPE_CHECKING:
    from app.remoting.backend import RemotingBackend

BATCH_MAX = 32  # as Apache
POLL_MAX_S = 60.0
FROM_FIRST = 0  # of `initMode`


@eager
async def pop(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """Deliver messages of a topic for an invisible time; waits for the first if told so."""
    group, topic, queue = await _target(backend, call)
    count_max = call.number("maxMsgNums")
    if not 1 <= count_max <= BATCH_MAX:
        raise RemotingRefusal(
            ResponseCode.INVALID_PARAMETER,
            f"maxMsgNums is {count_max}, it must be 1 to {BATCH_MAX}",
        )
    filter = engine_filter(call.text("exp", ""), call.text("expType", ""))
    await _begin_at(backend, group, topic, call.number("initMode", FROM_FIRST))
    invisible_ms = call.number("invisibleTime")
    connection = call.connection
    receive = partial(
        backend.messaging.receive,
        group,
        {topic: filter},
        count_max=count_max,
        invisible_s=invisible_ms / 1000,
        client=client_name(backend, call, group),
        queue=queue,
    )
    code = ResponseCode.POLLING_TIMEOUT
    attempt = call.text("attemptId", "")
    if attempt and (lost := backend.attempts.take(group, attempt)):
        await _put_back(backend, group, lost)  # the client never got that answer
    deliveries = await receive()
    if not deliveries and (wait_s := _poll_s(call)) > 0:
        try:
            async with _held(backend, call, group, topic):
                deliveries = await receive(wait_s=wait_s)
        except _PollingFull:
            code = ResponseCode.POLLING_FULL
    receipts = [delivery.receipt for delivery in deliveries]
    if deliveries and not connection.is_open:
        await _put_back(backend, group, receipts)
    elif deliveries and attempt:
        backend.attempts.add(group, attempt, receipts)
    rest = 0
    if deliveries:
        own = sum(receipt.topic == topic for receipt in receipts)
        rest = max(0, await _undone(backend, group, topic, queue) - own)
    return _answer(backend, call, deliveries, invisible_ms, code, rest)


@eager
async def peek(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """Messages of a topic that a group has not done, from where it is; changes nothing."""
    group, topic, queue = await _target(backend, call)
    count_max = min(call.number("maxMsgNums"), BATCH_MAX)
    messages: list[StoredMessage] = []
    for each in await _queues(backend, topic, queue):
        if len(messages) >= count_max:
            break
        offset, _ = await _undone_range(backend, group, topic, each)
        count = count_max - len(messages)
        result = await backend.messaging.pull(topic, each, offset, filter="*", count_max=count)
        messages += result.messages
    rest = max(0, await _undone(backend, group, topic, queue) - len(messages))
    fields = {"popTime": str(backend.host.clock.now_ms()), "invisibleTime": "0", "reviveQid": "0"}
    fields["restNum"] = str(rest)
    code = ResponseCode.SUCCESS if messages else ResponseCode.PULL_NOT_FOUND
    address = backend.address(call.connection)
    return ErrorResponse(code, fields, records_of(messages, address))


@eager
async def notification(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """Whether a POP would find something; waits for a message if told so."""
    group, topic, queue = await _target(backend, call)
    places: list[Place] = []

    def begin(wake: Callable[[], None]) -> Place:
        client = client_name(backend, call, group)
        places.append(backend.messaging.wait_to_receive(group, {topic: "*"}, wake, client, queue))
        return places[0]

    has_message = is_full = False
    try:
        async with _held(backend, call, group, topic):
            has_message = await backend.host.wait(begin, max(_poll_s(call), 0.001))
    except _PollingFull:
        is_full = True
    finally:
        for place in places:
            place.cancel()  # the message is still there: another waiting receive may take it
    return ErrorResponse(fields={"hasMsg": _bool(has_message), "pollingFull": _bool(is_full)})


@eager
async def polling_info(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """How many POPs and notifications of a group wait for messages of a topic."""
    group, topic, _ = await _target(backend, call)
    waiting = backend.pops[group, topic]
    return ErrorResponse(fields={"pollingNum": str(waiting)})


def client_name(backend: "RemotingBackend", call: RemotingCall, group: str) -> str:
    """The name under which a connection holds messages of a group."""
    clients, connection = backend.clients, call.connection
    name = clients.member_name(connection, group) or clients.name_of(connection)
    return name or connection.client


class _PollingFull(Exception):
    """No more may wait."""


@asynccontextmanager
async def _held(
    backend: "RemotingBackend", call: RemotingCall, group: str, topic: str
) -> AsyncIterator[None]:
    """Count a waiting POP during the context; raises _PollingFull beyond a limit."""
    try:
        with backend.polling(call.connection):
            call.connection.release(call)
            backend.pops[group, topic] += 1
            try:
                yield
            finally:
                backend.pops[group, topic] -= 1
                if not backend.pops[group, topic]:
                    del backend.pops[group, topic]
    except DiskFull:
        raise
    except (RemotingRefusal, Busy):
        raise _PollingFull from None


async def _target(backend: "RemotingBackend", call: RemotingCall) -> tuple[str, str, int | None]:
    """Group, topic and queue of a request, None for all; RemotingRefusal for one there is not."""
    group = call.group(Action.CONSUME)
    topic = call.topic(Action.CONSUME)
    queues, queue = (await backend.messaging.topic(topic)).read_queues, call.number("queueId", -1)
    if queue >= queues:
        raise RemotingRefusal(
            ResponseCode.INVALID_PARAMETER,
            f"topic {topic!r} has queues 0 to {queues - 1}, not {queue}",
        )
    if await backend.messaging.is_broadcast(group):
        raise RemotingRefusal(
            ResponseCode.INVALID_PARAMETER, f"the group {group!r} broadcasts: it cannot POP"
        )
    return group, topic, None if queue < 0 else queue


async def _queues(backend: "RemotingBackend", topic: str, queue: int | None) -> Sequence[int]:
    return range((await backend.messaging.topic(topic)).read_queues) if queue is None else (queue,)


async def _undone(backend: "RemotingBackend", group: str, topic: str, queue: int | None) -> int:
    """How many messages lie behind the group's place, those in flight included."""
    undone = 0
    for each in await _queues(backend, topic, queue):
        offset, end = await _undone_range(backend, group, topic, each)
        undone += end - offset
    return undone


async def _undone_range(
    backend: "RemotingBackend", group: str, topic: str, queue: int
) -> tuple[int, int]:
    """Where a group is in a queue, which is the queue's beginning at first, and the queue's end."""
    first, end = await backend.messaging.queue_bounds(topic, queue)
    committed = await backend.messaging.committed_offset(group, topic, queue)
    return max(first, committed or 0), end


async def _begin_at(backend: "RemotingBackend", group: str, topic: str, mode: int) -> None:
    """Begin a group that is new to a topic where its client wants, by RocketMQ's rule."""
    messaging = backend.messaging
    queues = await _queues(backend, topic, None)
    for queue in queues:
        if await messaging.committed_offset(group, topic, queue) is not None:
            return
    for queue in queues:
        first, end = await messaging.queue_bounds(topic, queue)
        is_from_first = mode == FROM_FIRST or await messaging.is_young_queue(topic, queue)
        offset = first if is_from_first else max(first, end - 1)
        await messaging.commit_offset(group, topic, queue, offset)


def _poll_s(call: RemotingCall) -> float:
    return min(call.number("pollTime", 0) / 1000, POLL_MAX_S)


async def _put_back(backend: "RemotingBackend", group: str, receipts: Sequence[Receipt]) -> None:
    """Release messages whose client did not get the answer."""
    try:
        await backend.messaging.release(group, receipts)
    except EngineError:
        return  # they run out by themselves


def _answer(
    backend: "RemotingBackend",
    call: RemotingCall,
    deliveries: Sequence[Delivery],
    invisible_ms: int,
    code: ResponseCode,
    rest: int,
) -> ErrorResponse:
    is_ordered = call.is_true("order")
    pop_ms = backend.host.clock.now_ms()
    if deliveries:
        pop_ms = deliveries[0].invisible_until_ms - invisible_ms
    fields = {
        "popTime": str(pop_ms),
        "invisibleTime": str(invisible_ms),
        "reviveQid": str(ORDER_QUEUE if is_ordered else 0),
        "restNum": str(rest),
    }
    if not deliveries:
        return ErrorResponse(code, fields)
    places = [_place(delivery) for delivery in deliveries]
    fields["startOffsetInfo"] = start_offsets(places)
    fields["msgOffsetInfo"] = message_offsets(places)
    if is_ordered and (counts := order_counts(places)):
        fields["orderCountInfo"] = counts
    address = backend.address(call.connection)
    records = [
        record_of(delivery.message, address, attempt=delivery.attempt) for delivery in deliveries
    ]
    return ErrorResponse(fields=fields, body=b"".join(records))


def _place(delivery: Delivery) -> PopPlace:
    topic, queue, offset, _ = delivery.receipt
    mark = RETRY_MARK if topic.startswith(RETRY_PREFIX) else NORMAL_MARK
    return PopPlace(mark, queue, offset, delivery.attempt - 1)


def _bool(value: bool) -> str:
    return "true" if value else "false"
