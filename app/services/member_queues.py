"""Which queues the members of a group read, as they tell.

A broker of a cluster waits up to ten seconds for the client that it asks, in one of its 16 threads
for administration. So a few are asked side by side, and one that says nothing is left alone for a
while.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from operator import attrgetter

from app.administration import (
    LISTS_NONE,
    LISTS_TOO_MANY,
    QUEUES_MAX,
    TAKES_ALL,
    Administration,
    queues_untold,
)
from app.services.connections import Connections
from engine.broker import RETRY_PREFIX, Member
from engine.errors import EngineError
from kitemq.model.members import MemberQueue, MemberQueues
from kitemq.model.values import Int64
from protocol.remoting.running_info import ALL_QUEUES, ReadQueue

ASK_S = 2.0  # of one member
CALL_S = 4.0  # of all together
AT_ONCE = 4
KEPT_S = 5.0
SILENT_S = 60.0
KEPT_MAX = 10_000
SILENT = f"it did not answer within {ASK_S:g} s; it is asked again a minute later"
NOT_YET = "others were asked first, and time is up; ask again"
QUEUES_UNKNOWN = (TAKES_ALL, LISTS_NONE, LISTS_TOO_MANY, SILENT, NOT_YET)


class MemberQueueLists:
    """Asks members, of a cluster through its brokers, and keeps what they tell for KEPT_S."""

    def __init__(self, administration: Administration, connections: Connections) -> None:
        self._administration = administration
        self._connections = connections
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._kept: dict[tuple[str, str], tuple[MemberQueues, float]] = {}

    async def of(self, group: str, members: Sequence[Member]) -> list[MemberQueues]:
        """The queues of these members in their order, or why they are not told, within CALL_S."""
        until_s = asyncio.get_running_loop().time() + CALL_S - ASK_S
        return await asyncio.gather(*(self._get(group, each, until_s) for each in members))

    async def _get(self, group: str, member: Member, until_s: float) -> MemberQueues:
        """What is known, or an answer that is asked for before `until_s`."""
        key = group, member.client
        if known := self._known(key):
            return known
        try:
            async with asyncio.timeout_at(until_s):
                await self._slots.acquire()
        except TimeoutError:
            return MemberQueues(member.client, None, NOT_YET)
        try:
            if known := self._known(key):  # another has asked meanwhile
                return known
            queues, kept_s = await self._ask(group, member)
        finally:
            self._slots.release()
        if len(self._kept) >= KEPT_MAX:
            self._kept.clear()
        self._kept[key] = queues, time.monotonic() + kept_s
        return queues

    def _known(self, key: tuple[str, str]) -> MemberQueues | None:
        queues, until_s = self._kept.get(key, (None, 0.0))
        return queues if time.monotonic() < until_s else None

    async def _ask(self, group: str, member: Member) -> tuple[MemberQueues, float]:
        """The answer, and for how long it counts."""
        client = member.client
        endpoint = self._connections.endpoint_of(client)
        try:
            async with asyncio.timeout(ASK_S):
                queues = await (
                    self._administration.members.queues(group, member)
                    if endpoint is None
                    else endpoint.queues(client, group, ASK_S)
                )
        except TimeoutError:
            return MemberQueues(client, None, SILENT), SILENT_S
        except EngineError as error:
            return MemberQueues(client, None, error.detail), KEPT_S
        return MemberQueues(client, queues), KEPT_S


def member_queues(
    told: Sequence[ReadQueue] | None, numbers: Callable[[ReadQueue], Iterable[int]]
) -> list[MemberQueue]:
    """What a client told of itself, under the numbers of its queues; Refused where it lists none.

    How many messages are with it is not known of single queues where it has all of a broker.
    """
    if told is None:
        raise queues_untold(LISTS_NONE)
    every = (
        MemberQueue(
            each.topic,
            number,
            is_shared=each.is_pop,
            offset=None if each.offset is None else Int64(each.offset),
            cached=None if each.queue == ALL_QUEUES else each.cached,
            is_locked=each.is_locked,
        )
        for each in told
        if not each.topic.startswith(RETRY_PREFIX)
        for number in numbers(each)
    )
    queues = list(islice(every, QUEUES_MAX + 1))
    if len(queues) > QUEUES_MAX:
        raise queues_untold(LISTS_TOO_MANY)
    return sorted(queues, key=attrgetter("topic", "queue"))
