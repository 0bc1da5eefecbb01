"""The delivery state of one message in one group, as journeys show it."""

from enum import StrEnum

import msgspec

from engine.delivery.message_state import MessageState
from engine.delivery.progress_store import ProgressStore


class DeliveryStatus(StrEnum):
    """State of a message in a group."""

    AHEAD = "ahead"  # not reached yet
    READY = "ready"  # may be delivered, or waits for an earlier one of its message group
    INFLIGHT = "inflight"
    WAITING = "waiting"  # failed, keeps its place and comes back at `until_ms`
    DONE = "done"  # acknowledged, moved on, filtered out or skipped
    NEVER = "never"  # the group does not consume this queue


class DeliveryState(msgspec.Struct, frozen=True):
    """`until_ms` is when a delivery or a wait ends, ms since 1970 UTC; 0 where neither goes on."""

    place: DeliveryStatus
    client: str = ""
    until_ms: int = 0


STATUSES = {
    MessageState.READY: DeliveryStatus.READY,
    MessageState.INFLIGHT: DeliveryStatus.INFLIGHT,
    MessageState.WAITING: DeliveryStatus.WAITING,
}


def delivery_state_of(
    progress_store: ProgressStore, group: str, topic: str, queue: int, offset: int
) -> DeliveryState:
    """The state of the message at this place, by the cursor and the outstanding messages."""
    progress = progress_store.find(group, topic, queue)
    if progress is None:
        return DeliveryState(DeliveryStatus.NEVER)
    slot = progress.slots.get(offset)
    if slot is not None:
        return DeliveryState(STATUSES[slot.phase], slot.client, slot.until_ms)
    return DeliveryState(DeliveryStatus.DONE if offset < progress.cursor else DeliveryStatus.AHEAD)
