"""Allocates queues to the pulling consumers of a group; pure functions of queues and client ids.

Queues and clients are sorted first, so that all clients which see the same members agree. A client
that is not a member gets no queue.
Source: docs/rocketmq-rules.md#sharing-queues.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from hashlib import md5
from typing import NamedTuple

VIRTUAL_NODES = 10  # of each client on the ring
ROOM_SEPARATOR = "@"  # "room@broker"


class Strategy(StrEnum):
    """Strategies for sharing queues out."""

    AVERAGE = "average"
    CIRCLE = "circle"
    CONSISTENT_HASH = "consistent_hash"
    MACHINE_ROOM = "machine_room"


class QueueRef(NamedTuple):
    """A queue as clients sort it."""

    topic: str
    broker: str
    queue: int


def allocate(
    strategy: Strategy,
    queues: Iterable[QueueRef],
    clients: Iterable[str],
    client: str,
    *,
    rooms: Sequence[str] = (),
) -> list[QueueRef]:
    """The queues of `client`, sorted. `rooms` are whose brokers count for MACHINE_ROOM."""
    everyone = sorted(set(clients))
    ordered = sorted(set(queues))
    if client not in everyone:
        return []
    if strategy is Strategy.MACHINE_ROOM:
        return machine_room(ordered, everyone, client, rooms)
    return ALLOCATORS[strategy](ordered, everyone, client)


def average(queues: Sequence[QueueRef], clients: Sequence[str], client: str) -> list[QueueRef]:
    """Neighbouring queues, the first clients one more each where it does not come out even."""
    size, more = divmod(len(queues), len(clients))
    index = clients.index(client)
    start = index * size + min(index, more)
    return list(queues[start : start + size + (index < more)])


def circle(queues: Sequence[QueueRef], clients: Sequence[str], client: str) -> list[QueueRef]:
    """One queue to each client in turn, round and round."""
    return list(queues[clients.index(client) :: len(clients)])


def consistent_hash(
    queues: Sequence[QueueRef], clients: Sequence[str], client: str
) -> list[QueueRef]:
    """Each queue to the next client on a ring, so that few queues move when a client does."""
    ring: dict[int, str] = {}
    for name in clients:
        for number in range(VIRTUAL_NODES):
            ring[_ring_place(f"{name}-{number}")] = name
    places = sorted(ring)
    return [queue for queue in queues if _owner(ring, places, queue) == client]


def machine_room(
    queues: Sequence[QueueRef], clients: Sequence[str], client: str, rooms: Sequence[str]
) -> list[QueueRef]:
    """Neighbouring queues of the brokers "room@name" whose room is given; what is over, in turn."""
    inside = [queue for queue in queues if _room(queue.broker) in rooms]
    size, more = divmod(len(inside), len(clients))
    index = clients.index(client)
    own = inside[index * size : (index + 1) * size]
    if index < more:
        own.append(inside[size * len(clients) + index])
    return own


ALLOCATORS: dict[Strategy, Callable[[Sequence[QueueRef], Sequence[str], str], list[QueueRef]]] = {
    Strategy.AVERAGE: average,
    Strategy.CIRCLE: circle,
    Strategy.CONSISTENT_HASH: consistent_hash,
}


def _owner(ring: dict[int, str], places: Sequence[int], queue: QueueRef) -> str:
    text = f"MessageQueue [topic={queue.topic}, brokerName={queue.broker}, queueId={queue.queue}]"
    return ring[places[bisect_left(places, _ring_place(text)) % len(places)]]


def _ring_place(text: str) -> int:
    return int.from_bytes(md5(text.encode(), usedforsecurity=False).digest()[:4], "big")


def _room(broker: str) -> str | None:
    room, _, name = broker.partition(ROOM_SEPARATOR)
    return room if name and ROOM_SEPARATOR not in name else None
