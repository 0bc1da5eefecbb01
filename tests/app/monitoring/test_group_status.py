"""The status of a group: one word for what its figures amount to."""

from dataclasses import dataclass
from itertools import product

import pytest

from app.administration import Administration
from app.monitoring.forecast import UNKNOWN, Forecast, Outlook
from app.monitoring.group_status import (
    BEHIND_MS,
    LATE_MS,
    SEVERITY,
    GroupCondition,
    NextAction,
    standing_of,
)
from app.monitoring.meter import Meter
from app.monitoring.sampler import GroupFigures, Sampler, Snapshot
from engine.broker import Broker, GroupConfig
from engine.clock import ManualClock
from engine.message import Message
from kitemq.model.groups import GroupStatus, StatusReason

SHRINKING = Forecast(Outlook.SHRINKING, 1, 5.0)
FLAT = Forecast(Outlook.NOT_SHRINKING, per_s=0.0)
CLEAR = Forecast(Outlook.CLEAR)


@dataclass(frozen=True)
class Case:
    """A condition's fields, and the reason that is right for it."""

    reason: StatusReason
    members: int = 1
    unread: int | None = 100
    inflight: int = 0
    age_ms: int = 0
    rate: float = 0.0
    forecast: Forecast = UNKNOWN
    growth: int = 0


CASES = (
    Case(StatusReason.NOT_BEGUN, members=0, unread=None),
    Case(StatusReason.NOT_BEGUN, unread=None),
    Case(StatusReason.UNUSED, members=0, unread=0, forecast=CLEAR),
    Case(StatusReason.WAITING, unread=0, forecast=CLEAR),
    Case(StatusReason.KEEPS_UP, unread=0, rate=3.0, forecast=CLEAR),
    Case(StatusReason.NO_CONSUMERS, members=0),
    Case(StatusReason.NO_CONSUMERS, members=0, age_ms=LATE_MS, forecast=FLAT, growth=500),
    # Whoever acknowledges without a name is a consumer all the same.
    Case(StatusReason.KEEPS_UP, members=0, rate=1.0),
    Case(StatusReason.IN_FLIGHT, forecast=FLAT),
    Case(StatusReason.KEEPS_UP, rate=9.0, forecast=SHRINKING),
    Case(StatusReason.SHRINKING, rate=9.0, age_ms=BEHIND_MS, forecast=SHRINKING),
    Case(StatusReason.SHRINKING, age_ms=LATE_MS, forecast=SHRINKING),
    Case(StatusReason.KEEPS_UP, rate=9.0, age_ms=BEHIND_MS, forecast=FLAT),
    Case(StatusReason.NOT_SHRINKING, rate=9.0, age_ms=LATE_MS, forecast=FLAT),
    Case(StatusReason.KEEPS_UP, rate=9.0, age_ms=LATE_MS),  # a minute of samples is missing
    Case(StatusReason.STALLED, age_ms=LATE_MS, forecast=FLAT),
    Case(StatusReason.STALLED, age_ms=LATE_MS),
    Case(StatusReason.IN_FLIGHT, inflight=100, age_ms=LATE_MS, forecast=FLAT),
    Case(StatusReason.GROWING, rate=9.0, growth=500, forecast=FLAT),
    Case(StatusReason.STALLED, growth=500, forecast=FLAT),
)


@pytest.mark.parametrize("case", CASES)
def test_a_condition_has_one_reason(case: Case) -> None:
    condition = GroupCondition(
        is_paused=False,
        members=case.members,
        unread=case.unread,
        inflight=case.inflight,
        oldest_age_ms=case.age_ms,
        rate=case.rate,
        forecast=case.forecast,
        growth=case.growth,
    )
    assert standing_of(condition).reason is case.reason


def test_every_condition_has_a_status_and_only_what_needs_somebody_has_an_action() -> None:
    severe = {GroupStatus.NO_CONSUMERS, GroupStatus.FALLING_BEHIND, GroupStatus.PAUSED}
    values = product(
        (False, True), (0, 2), (None, 0, 9), (0, 9), (0, BEHIND_MS, LATE_MS), (0.0, 1.0),
        (UNKNOWN, SHRINKING, FLAT), (0, 200),
    )  # fmt: skip
    statuses = set()
    for each in values:
        standing = standing_of(GroupCondition(*each))
        statuses.add(standing.status)
        assert (standing.action is not NextAction.NONE) == (standing.status in severe)
    assert statuses == set(GroupStatus)
    assert sorted(statuses, key=SEVERITY.__getitem__)[0] is GroupStatus.NO_CONSUMERS


def test_a_group_whose_topics_are_all_paused_is_paused() -> None:
    figures = GroupFigures(9, None, 0, 0, 0, {"orders": 9, "%RETRY%g": 0}, members=1)
    one = GroupConfig("g", paused_topics=("orders",))
    assert Snapshot().standing(one, figures).status is GroupStatus.PAUSED
    assert Snapshot().standing(GroupConfig("g"), figures).status is GroupStatus.ACTIVE
    more = GroupFigures(9, None, 0, 0, 0, {"orders": 9, "mails": 0}, members=1)
    assert Snapshot().standing(one, more).status is GroupStatus.ACTIVE


@pytest.mark.anyio
async def test_a_pulling_consumer_that_keeps_up_is_active_and_a_failing_one_is_stalled(
    broker: Broker, administration: Administration, clock: ManualClock, meter: Meter
) -> None:
    sampler = Sampler(administration, meter, clock.now_ms)
    broker.send([Message("orders", b"x", queue=0) for _ in range(40)])

    async def status_of(group: str) -> GroupStatus:
        await sampler.refresh()
        return sampler.snapshot.standing(broker.group(group), await sampler.read(group)).status

    broker.members.heartbeat("pulling", "p1", topics={"orders": "*"})
    for offset in range(0, 40, 10):
        broker.pull("orders", 0, offset, count_max=10, group="pulling")
        broker.advance_offset("pulling", "orders", 0, offset + 10)
        clock.advance(5)
    assert (await sampler.read("pulling")).rate == 0
    assert await status_of("pulling") is GroupStatus.ACTIVE
    for _ in range(12):
        clock.advance(31)
        broker.members.seen("popping", "w1")
        broker.receive("popping", {"orders": "*"}, count_max=3, invisible_s=5)
    assert await status_of("popping") is GroupStatus.FALLING_BEHIND
    assert await status_of("pulling") is GroupStatus.IDLE
