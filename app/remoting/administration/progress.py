"""How far groups are in their topics: statistics and resets."""

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from app.remoting.administration.bodies import by_queue, name_list
from app.remoting.call import RemotingCall
from app.remoting.errors import ErrorResponse, RemotingRefusal
from app.security.access import Action
from app.services.resets import ResetOrder
from engine.broker import QueueLag, ResetTarget, ResetTo
from engine.errors import EngineError
from protocol.remoting.codes import RequestCode, ResponseCode

if TYPE_CHECKING:
    from app.remoting.backend import RemotingBackend


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
    return ErrorResponse(body=by_queue(backend, "offsetTable", entries, {"consumeTps": rate}))


def topics_of_group(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The topics that a group has consumed from."""
    group = call.group(Action.READ, "group")
    return name_list(sorted({each.topic for each in _lag(backend, group)}))


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
    body = by_queue(backend, "offsetTable", moved)
    fields = {"topic": topic, "group": group, "timestamp": str(at_ms), "isForce": "true"}
    for client in backend.clients.consumers_of(group):
        client.connection.tell(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, fields, body)
    return ErrorResponse(body=body)


def _lag(backend: "RemotingBackend", group: str) -> list[QueueLag]:
    try:
        return backend.broker.lag(group).queues
    except EngineError as error:
        raise RemotingRefusal(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"there is no group {group!r}"
        ) from error
