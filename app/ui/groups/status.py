"""The status of a group in words: its label, a sentence that says why, and the next action."""

from dataclasses import dataclass

from app.monitoring.group_status import GroupStanding, NextAction
from app.ui.framework import formats
from app.ui.framework.language import N_, ngettext, translated
from app.ui.framework.templating import segment
from kitemq.model.groups import GroupStatus, StatusReason

LABELS = {
    GroupStatus.NO_CONSUMERS: N_("No consumers"),
    GroupStatus.FALLING_BEHIND: N_("Falling behind"),
    GroupStatus.PAUSED: N_("Paused"),
    GroupStatus.CATCHING_UP: N_("Catching up"),
    GroupStatus.ACTIVE: N_("Active"),
    GroupStatus.IDLE: N_("Idle"),
}
SENTENCES = {
    StatusReason.PAUSED: N_("Delivery is paused; %(unread)s unread."),
    StatusReason.NO_CONSUMERS: N_(
        "%(unread)s unread and no consumer connected. Oldest unread message: %(age)s."
    ),
    StatusReason.STALLED: N_(
        "%(unread)s unread and nothing consumed in the last minute. Oldest unread message: %(age)s."
    ),
    StatusReason.GROWING: N_(
        "%(unread)s unread, %(growth)s more than 15 min ago; %(rate)s consumed per second."
    ),
    StatusReason.NOT_SHRINKING: N_(
        "%(unread)s unread and not catching up at %(rate)s per second. Oldest unread message: "
        "%(age)s."
    ),
    StatusReason.SHRINKING: N_("%(unread)s unread, caught up in about %(clears)s."),
    StatusReason.IN_FLIGHT: N_("%(unread)s unread, %(inflight)s in flight."),
    StatusReason.KEEPS_UP: N_("%(unread)s unread; %(rate)s consumed per second."),
    StatusReason.UNUSED: N_("Nothing unread, no consumer connected."),
    StatusReason.NOT_BEGUN: N_("Nothing consumed yet."),
}
ACTIONS = {
    NextAction.NONE: "",
    NextAction.RESUME: N_("Resume"),
    NextAction.CLIENTS: N_("View clients"),
    NextAction.QUEUES: N_("View queues"),
}


@dataclass(frozen=True)
class StatusView:
    """A group's status as pages show it; `action` is "" where there is nothing to do."""

    name: GroupStatus
    label: str
    sentence: str
    action: str
    href: str


@dataclass(frozen=True)
class StatusFacet:
    """A link above the list that leaves one status; `name` is "" for all."""

    name: str
    label: str
    count: int


def view_of(group: str, standing: GroupStanding) -> StatusView:
    """The status of a group in the page's language."""
    return StatusView(
        name=standing.status,
        label=translated(LABELS[standing.status]),
        sentence=sentence(standing),
        action=translated(ACTIONS[standing.action]),
        href=f"/groups/{segment(group)}{standing.action}",
    )


def sentence(standing: GroupStanding) -> str:
    """Why a group has its status."""
    now = standing.condition
    if standing.reason is StatusReason.WAITING:
        return ngettext(
            "Nothing unread; %(num)s consumer connected.",
            "Nothing unread; %(num)s consumers connected.",
            now.members,
        )
    clears_ms = (now.unread or 0) / now.forecast.per_s * 1000 if now.forecast.per_s else 0
    return translated(SENTENCES[standing.reason]) % {
        "unread": formats.count(now.unread or 0),
        "inflight": formats.count(now.inflight),
        "age": formats.duration(now.oldest_age_ms),
        "growth": formats.count(now.growth),
        "rate": formats.rate(now.rate),
        "clears": formats.duration(round(clears_ms)),
    }
