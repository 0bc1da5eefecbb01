"""Sharing of queues by the server, for clients that do not share them themselves.

A client is also told here whether it pulls its queues or POPs them.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from app.eager import eager
from app.remoting.call import RemotingCall, json_body
from app.remoting.errors import OK, ErrorResponse, RemotingRefusal
from app.remoting.request_modes import POP, PULL, RequestMode
from app.security.access import Action, Kind
from engine.broker import RETRY_PREFIX, Strategy
from engine.errors import GroupNotFound, TopicNotFound
from protocol.remoting.codes import ResponseCode

if TYPE_CHECKING:
    from app.remoting.backend import RemotingBackend

STRATEGIES = {"AVG": Strategy.AVERAGE, "AVG_BY_CIRCLE": Strategy.CIRCLE}
BROADCASTING = "BROADCASTING"
ALL_QUEUES = (-1,)


class _AssignmentQuery(msgspec.Struct):
    topic: str
    consumerGroup: str
    clientId: str
    strategyName: str = "AVG"
    messageModel: str = "CLUSTERING"


@eager
async def query_assignment(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """The queues of a client, and whether it pulls or POPs them.

    A client that POPs gets the queue -1, which stands for all, or its own and those it shares.
    Without a list of queues, for a topic or a strategy that there is not, a client keeps what it
    has.
    """
    query = call.document(_AssignmentQuery)
    call.require(Action.CONSUME, Kind.GROUP, query.consumerGroup)
    is_popping = backend.request_modes.pops(query.consumerGroup, query.topic)
    find_queues = _popped_queues if is_popping else _pulled_queues
    try:
        queues = await find_queues(backend, query)
    except (GroupNotFound, TopicNotFound):
        queues = None
    if queues is None:
        return ErrorResponse(body=json_body({"messageQueueAssignments": None}))
    name = backend.settings.broker_name
    assignments = [
        {
            "messageQueue": {"topic": query.topic, "brokerName": name, "queueId": queue},
            "mode": POP if is_popping else PULL,
        }
        for queue in queues
    ]
    return ErrorResponse(body=json_body({"messageQueueAssignments": assignments}))


async def set_request_mode(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """Let a group POP or pull a topic; its clients learn of it at once. Audited."""
    mode = call.document(RequestMode)
    call.require(Action.ADMINISTER, Kind.GROUP, mode.consumerGroup)
    if mode.topic.startswith(RETRY_PREFIX):
        raise RemotingRefusal(
            ResponseCode.NO_PERMISSION, "a retry topic goes with the topics of its group"
        )
    if mode.mode not in (PULL, POP):
        raise RemotingRefusal(
            ResponseCode.INVALID_PARAMETER, f"the mode is {mode.mode[:40]!r}, no PULL or POP"
        )
    await backend.messaging.topic(mode.topic)
    await backend.messaging.group(mode.consumerGroup)
    group = mode.consumerGroup
    before = backend.request_modes.find(group, mode.topic)
    audit = backend.services.audit
    async with audit.change(call.actor, "group.request_mode", group, before=before) as change:
        await backend.request_modes.set(mode)
        change.after = mode
    backend.clients.changed(group)
    return OK


def all_request_modes(backend: "RemotingBackend", call: RemotingCall) -> ErrorResponse:
    """Which groups POP which topics, and which were set to pull."""
    call.require(Action.READ, Kind.SERVER)
    modes: dict[str, dict[str, RequestMode]] = {}
    for mode in backend.request_modes.all():
        modes.setdefault(mode.topic, {})[mode.consumerGroup] = mode
    return ErrorResponse(body=json_body({"messageRequestModeMap": modes}))


async def _popped_queues(
    backend: "RemotingBackend", query: _AssignmentQuery
) -> Sequence[int] | None:
    """The client's own queues and those of the next clients, as many as are to share each.

    All clients POP all queues where as many share, and one each where clients are more than queues.
    """
    share = backend.request_modes.share(query.consumerGroup, query.topic)
    clients = _consumers(backend, query.consumerGroup) if share > 0 else []
    if share <= 0 or share >= len(clients) - 1:
        return ALL_QUEUES
    if query.clientId not in clients:
        return []
    index = clients.index(query.clientId)
    count = (await backend.messaging.topic(query.topic)).read_queues
    if len(clients) > count:
        return (index % count,)
    queues: set[int] = set()
    for number in range(index, index + share + 1):
        of_client = msgspec.structs.replace(query, clientId=clients[number % len(clients)])
        shared = await _pulled_queues(backend, of_client)
        if shared is None:
            return None
        queues.update(shared)
    return sorted(queues)


def _consumers(backend: "RemotingBackend", group: str) -> list[str]:
    """The classic consumers of a group, in order."""
    return [each.client for each in backend.broker.members.of(group) if each.is_pulling]


async def _pulled_queues(
    backend: "RemotingBackend", query: _AssignmentQuery
) -> Sequence[int] | None:
    group, topic, strategy = query.consumerGroup, query.topic, STRATEGIES.get(query.strategyName)
    if query.messageModel == BROADCASTING:
        return range((await backend.messaging.topic(topic)).read_queues)
    if strategy is None:
        return None
    if topic.startswith(RETRY_PREFIX):
        return _retry_queues(backend, query)
    shared = await backend.messaging.members.assignment(
        group, topic, query.clientId, strategy=strategy
    )
    return shared.queues


def _retry_queues(backend: "RemotingBackend", query: _AssignmentQuery) -> Sequence[int]:
    """The group's retry topic has one queue; POP delivers its messages with the topics' own.

    Clients also ask for retry topics of single topics, which there are none of.
    """
    group = query.consumerGroup
    if query.topic != RETRY_PREFIX + group or backend.request_modes.pops_any(group):
        return []
    return [0] if _consumers(backend, group)[:1] == [query.clientId] else []
