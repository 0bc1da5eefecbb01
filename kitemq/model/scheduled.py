"""Messages that wait for their time of delivery."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from kitemq.model.messages import MessageView

TIME_MS_MAX = 2**53 - 1
DELAY_MS_MAX = 365 * 24 * 3600 * 1000

Time = Annotated[int, Meta(ge=0, le=TIME_MS_MAX, description="Milliseconds since 1970 UTC.")]
DelayMs = Annotated[
    int, Meta(ge=0, le=DELAY_MS_MAX, description="Exactly so much later, at most a year.")
]


class WaitingMessage(msgspec.Struct, frozen=True):
    """A waiting message: when it is due, where it goes, and how the log keeps it meanwhile.

    `delay_level` is 0 for an exact time. A retry, bound for a `%RETRY%` topic, cannot be changed.
    """

    message_id: str
    due_ms: int
    topic: str
    queue: int | None
    message: MessageView
    delay_level: int = 0


class WaitingPage(msgspec.Struct, frozen=True):
    """Waiting messages by time. `next` is null at the end; `total` counts those of all topics.

    A page for one topic may be short or empty although `next` is given: ask on. Where more wait
    than the engine can list, `unknown` says why, and `total` is null.
    """

    items: list[WaitingMessage]
    next: str | None
    total: int | None
    unknown: str = ""


class ScheduledChange(msgspec.Struct, frozen=True):
    """The result for a waiting message.

    recalled: it will never be delivered; delivered: just now; rescheduled; already_delivered.
    """

    message_id: str
    result: str


class NewTime(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The new delivery time: one of the two."""

    deliver_at_ms: Time | UnsetType = UNSET
    delay_ms: Annotated[DelayMs, Meta(description="So much later than now.")] | UnsetType = UNSET
