"""Moving a group: resets, copies of another group's progress, and pauses of a topic; audited."""

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from app.administration import ResetOrder
from app.remoting.administration.bodies import by_queue
from app.remoting.administration.progress import queue_lags
from app.remoting.call import RemotingCall, json_body
from app.remoting.errors import OK, ErrorResponse
from app.security.access import Action
from engine.broker import ResetTarget, ResetTo
from protocol.remoting.codes import RequestCode

if TYPE_CHECKING:
    from app.remoting.backend import RemotingBackend


def reset_offsets(backend: "RemotingBackend", call: RemotingCall) -> Awaitable[ErrorResponse]:
    """Reset a group in a topic to a time, or one queue to an offset; audited.

    To a time, queues only move back, unless `isForce` says that they may move forward too.
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
    if not call.is_true("isForce") and target.to is not ResetTo.OFFSET:
        preview = await backend.services.resets.preview(group, order)
        back = [
            (each.topic, each.queue, each.target)
            for each in preview.queues
            if each.target is not None and each.target < (each.current or 0)
        ]
        if not back:
            return ErrorResponse(body=by_queue(backend, "offsetTable", []))
        order = ResetOrder([topic], ResetTarget(ResetTo.OFFSET), goals=back)
    return ErrorResponse(body=await _move(backend, call, group, order, at_ms))


def clone_offsets(backend: "RemotingBackend", call: RemotingCall) -> Awaitable[ErrorResponse]:
    """Move a group to the progress of another one, in one topic or all of it; audited."""
    source = call.group(Action.READ, "srcGroup")
    group, topic = call.group(Action.ADMINISTER, "destGroup"), call.text("topic", "")
    return _clone_offsets(backend, call, source, group, topic)


async def _clone_offsets(
    backend: "RemotingBackend", call: RemotingCall, source: str, group: str, topic: str
) -> ErrorResponse:
    goals: dict[str, list[tuple[str, int, int | None]]] = {}
    for each in queue_lags(backend, source):
        if topic in ("", each.topic):
            goals.setdefault(each.topic, []).append((each.topic, each.queue, each.committed))
    for name, queues in goals.items():
        order = ResetOrder([name], ResetTarget(ResetTo.OFFSET), goals=queues)
        await _move(backend, call, group, order, -1)
    return OK


def group_forbidden(backend: "RemotingBackend", call: RemotingCall) -> Awaitable[ErrorResponse]:
    """Whether a group may read a topic; `readable` pauses or resumes it there, audited."""
    is_change = bool(call.text("readable", ""))
    group = call.group(Action.ADMINISTER if is_change else Action.READ, "group")
    return _group_forbidden(backend, call, group, call.topic(Action.READ), is_change)


async def _group_forbidden(
    backend: "RemotingBackend", call: RemotingCall, group: str, topic: str, is_change: bool
) -> ErrorResponse:
    groups = backend.services.groups
    if is_change:
        change = groups.resume if call.is_true("readable") else groups.pause
        await change(call.actor, group, topic)
    is_readable = topic not in backend.broker.group(group).paused_topics
    return ErrorResponse(body=json_body({"group": group, "topic": topic, "readable": is_readable}))


async def _move(
    backend: "RemotingBackend", call: RemotingCall, group: str, order: ResetOrder, at_ms: int
) -> bytes:
    """Move the group in a topic, and notify its connected consumers; its places there as a body.

    Where the group is there already, its consumers may yet be elsewhere.
    """
    resets = backend.services.resets
    moves = (await resets.preview(group, order)).queues
    places = {(each.topic, each.queue): each.target for each in moves if each.target is not None}
    if any(each.moves for each in moves):
        reset = await resets.apply(call.actor, group, order, precondition="", force=True)
        places |= {(each.topic, each.queue): each.after or 0 for each in reset.queues}
    body = by_queue(backend, "offsetTable", list(places.items()))
    (topic,) = order.topics
    fields = {"topic": topic, "group": group, "timestamp": str(at_ms), "isForce": "true"}
    for client in backend.clients.consumers_of(group):
        client.connection.tell(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, fields, body)
    return body
