"""The status of a consumer group: what it is, why, and the one thing to do about it. Pure.

A group is behind once its oldest unread message is a minute old; younger ones are on their way.
"""

from enum import StrEnum

import msgspec

from app.monitoring.forecast import UNKNOWN, Forecast, Outlook
from kitemq.model.groups import GroupStatus, StatusReason

BEHIND_MS = 60_000
LATE_MS = 300_000


class NextAction(StrEnum):
    """What an operator does about a status, as the tail of the group's address."""

    NONE = ""
    RESUME = "/resume"
    CLIENTS = "/clients"
    QUEUES = "#lag-title"


class GroupCondition(msgspec.Struct, frozen=True, gc=False):
    """What is known of a group; `unread` is None before its first offset.

    `rate` are the messages consumed a second over the last minute, None if unknown, `growth` those
    by which the lag clearly grew over a quarter of an hour and still does.
    """

    is_paused: bool
    members: int
    unread: int | None
    inflight: int | None  # None: unknown
    oldest_age_ms: int
    rate: float | None
    forecast: Forecast = UNKNOWN
    growth: int = 0

    @property
    def is_quiet(self) -> bool:
        return not self.unread and not self.rate

    @property
    def is_late(self) -> bool:
        """Whether messages that no client holds have waited for too long."""
        return (self.unread or 0) > (self.inflight or 0) and self.oldest_age_ms >= LATE_MS


class GroupStanding(msgspec.Struct, frozen=True, gc=False):
    """A group's status with its reason, and the condition that they come from."""

    status: GroupStatus
    reason: StatusReason
    condition: GroupCondition
    action: NextAction = NextAction.NONE


SEVERITY = {status: rank for rank, status in enumerate(GroupStatus)}  # 0 is the most severe
STATUS = {
    StatusReason.PAUSED: GroupStatus.PAUSED,
    StatusReason.NO_CONSUMERS: GroupStatus.NO_CONSUMERS,
    StatusReason.STALLED: GroupStatus.FALLING_BEHIND,
    StatusReason.GROWING: GroupStatus.FALLING_BEHIND,
    StatusReason.NOT_SHRINKING: GroupStatus.FALLING_BEHIND,
    StatusReason.SHRINKING: GroupStatus.CATCHING_UP,
    StatusReason.IN_FLIGHT: GroupStatus.ACTIVE,
    StatusReason.KEEPS_UP: GroupStatus.ACTIVE,
    StatusReason.WAITING: GroupStatus.IDLE,
    StatusReason.UNUSED: GroupStatus.IDLE,
    StatusReason.NOT_BEGUN: GroupStatus.IDLE,
}
ACTIONS = {
    StatusReason.PAUSED: NextAction.RESUME,
    StatusReason.NO_CONSUMERS: NextAction.CLIENTS,
    StatusReason.STALLED: NextAction.CLIENTS,
    StatusReason.GROWING: NextAction.QUEUES,
    StatusReason.NOT_SHRINKING: NextAction.QUEUES,
}


def standing_of(condition: GroupCondition) -> GroupStanding:
    """The status that a condition amounts to."""
    reason = _reason(condition)
    return GroupStanding(STATUS[reason], reason, condition, ACTIONS.get(reason, NextAction.NONE))


def _reason(now: GroupCondition) -> StatusReason:
    if now.is_paused:
        return StatusReason.PAUSED
    if now.is_quiet:
        return _idle(now)
    if not now.members and not now.rate and now.inflight is not None:  # else one may receive
        return StatusReason.NO_CONSUMERS
    if now.growth:
        return StatusReason.STALLED if now.rate == 0 else StatusReason.GROWING
    if now.oldest_age_ms >= BEHIND_MS and now.forecast.outlook is Outlook.SHRINKING:
        return StatusReason.SHRINKING
    if now.is_late and now.rate == 0:
        return StatusReason.STALLED
    if now.is_late and now.forecast.outlook is Outlook.NOT_SHRINKING:
        return StatusReason.NOT_SHRINKING
    return StatusReason.KEEPS_UP if now.rate else StatusReason.IN_FLIGHT


def _idle(now: GroupCondition) -> StatusReason:
    if now.unread is None:
        return StatusReason.NOT_BEGUN
    return StatusReason.WAITING if now.members else StatusReason.UNUSED
