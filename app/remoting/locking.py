"""Queue locks of orderly consumers."""

from typing import TYPE_CHECKING

import msgspec

from app.eager import eager
from app.remoting.call import RemotingCall, json_body
from app.remoting.errors import OK, ErrorResponse
from app.security.access import Action, Kind
from engine.broker import LockedQueue
from engine.errors import GroupNotFound

if TYPE_CHECKING:
    from app.remoting.backend import RemotingBackend


class _Queue(msgspec.Struct):
    topic: str
    queueId: int
    brokerName: str = ""


class _Locks(msgspec.Struct):
    consumerGroup: str
    clientId: str
    mqSet: list[_Queue] = []


@eager
async def lock(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """Lock queues for a client, or extend its locks; the answer lists those that it has."""
    request, queues = _lock_request(backend, call)
    locked = []
    if queues:
        locks = backend.messaging.locks
        locked = (await locks.lock(request.consumerGroup, request.clientId, queues)).locked
    name = backend.settings.broker_name
    locked_queues = [
        {"topic": topic, "brokerName": name, "queueId": queue} for topic, queue in locked
    ]
    return ErrorResponse(body=json_body({"lockOKMQSet": locked_queues}))


@eager
async def unlock(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """Release a client's queue locks."""
    request, queues = _lock_request(backend, call)
    if queues:
        try:
            await backend.messaging.locks.unlock(request.consumerGroup, request.clientId, queues)
        except GroupNotFound:
            return OK  # then there are no locks
    return OK


def _lock_request(
    backend: "RemotingBackend", call: RemotingCall
) -> tuple[_Locks, list[LockedQueue]]:
    request = call.document(_Locks)
    call.require(Action.CONSUME, Kind.GROUP, request.consumerGroup)
    name = backend.settings.broker_name
    queues = [
        LockedQueue(each.topic, each.queueId)
        for each in request.mqSet
        if each.brokerName in ("", name)
    ]
    return request, queues
