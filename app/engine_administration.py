"""The verbs of `app.administration`, answered by the embedded engine without a wait."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from app.administration import (
    TAKES_ALL,
    Administration,
    DeadLetterLists,
    JourneyVerbs,
    MemberLists,
    ReplayVerbs,
    ResetOrder,
    ResetVerbs,
    queues_untold,
)
from app.engine_messaging import HostVerbs
from app.host import EngineHost
from app.pause import paced
from engine.broker import (
    Broker,
    DeadLetters,
    Journey,
    Member,
    Members,
    OffsetResets,
    ReplayJobs,
    Reset,
    ResetPlan,
    ResetPreview,
    Traces,
)
from engine.errors import TopicNotFound
from engine.message import StoredMessage
from kitemq.model.members import MemberQueue


class EngineMemberLists(HostVerbs, MemberLists):
    """`MemberLists` of a started `EngineHost`."""

    @property
    def _engine(self) -> Members:
        return self._host.broker.members

    @property
    def timeout_s(self) -> float:
        return self._engine.timeout_s

    async def queues(self, group: str, member: Member) -> list[MemberQueue]:
        """The shares of a pulling member in the topics that it subscribes to."""
        if not member.is_pulling:
            raise queues_untold(TAKES_ALL)
        shares = []
        async for topic in paced(sorted(member.topics)):
            with suppress(TopicNotFound):
                shares.append(self._engine.assignment(group, topic, member.client))
        return [MemberQueue(each.topic, queue) for each in shares for queue in each.queues]


class EngineDeadLetterLists(HostVerbs, DeadLetterLists):
    """`DeadLetterLists` of a started `EngineHost`."""

    @property
    def _engine(self) -> DeadLetters:
        return self._host.broker.dead_letters


class EngineReplayVerbs(HostVerbs, ReplayVerbs):
    """`ReplayVerbs` of a started `EngineHost`."""

    @property
    def _engine(self) -> ReplayJobs:
        return self._host.broker.replays


class EngineJourneyVerbs(HostVerbs, JourneyVerbs):
    """`JourneyVerbs` of a started `EngineHost`."""

    @property
    def _engine(self) -> Traces:
        return self._host.broker.traces

    async def journey(self, message_id: str, records: Sequence[StoredMessage]) -> Journey:
        """In short steps, between which others work."""
        steps = self._engine.journey_steps(message_id, list(records))
        while True:
            try:
                next(steps)
            except StopIteration as end:
                journey: Journey = end.value
                return journey
            await asyncio.sleep(0)


class EngineResetVerbs(HostVerbs, ResetVerbs):
    """`ResetVerbs` of a started `EngineHost`, with the work spread over turns of the loop."""

    @property
    def _engine(self) -> OffsetResets:
        return self._host.broker.resets

    async def preview(self, group: str, order: ResetOrder | int) -> ResetPreview:
        return (await self._plan(group, order)).preview()

    async def apply(
        self, group: str, order: ResetOrder | int, *, precondition: str, force: bool
    ) -> Reset:
        plan = await self._plan(group, order)
        return self._engine.apply(plan, precondition=precondition, force=force)

    async def _plan(self, group: str, order: ResetOrder | int) -> ResetPlan:
        resets = self._engine
        if isinstance(order, int):
            return resets.plan_undo(group, order)
        if order.goals:
            goals = {(topic, queue): offset for topic, queue, offset in order.goals}
            return resets.plan_offsets(group, goals)
        plan = resets.plan(group, order.topics, order.target, queues=order.queues)
        has_more = plan.step()
        while has_more:
            await asyncio.sleep(0)
            has_more = plan.step()
        return plan


class EngineAdministration(HostVerbs, Administration):
    """`Administration` of a started `EngineHost`, on the loop's thread."""

    def __init__(self, host: EngineHost) -> None:
        super().__init__(host)
        self.members = EngineMemberLists(host)
        self.dead_letters = EngineDeadLetterLists(host)
        self.replays = EngineReplayVerbs(host)
        self.journeys = EngineJourneyVerbs(host)
        self.resets = EngineResetVerbs(host)

    @property
    def _engine(self) -> Broker:
        return self._host.broker
