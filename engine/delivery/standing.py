"""How one message stands with one group right now, for whoever tells its journey."""

from enum import StrEnum

import msgspec

from engine.delivery.ledger import Ledger
from engine.delivery.slot import Phase


class Place(StrEnum):
    """Where a message stands with a group."""

    AHEAD = "ahead"  # not reached yet
    READY = "ready"  # may be handed out, or waits for an earlier one of its message group
    INFLIGHT = "inflight"
    WAITING = "waiting"  # failed, keeps its place and comes back at `until_ms`
    DONE = "done"  # acknowledged, moved on, filtered out or skipped
    NEVER = "never"  # the group does not consume this queue


class Standing(msgspec.Struct, frozen=True):
    """`until_ms` is when a hand-out or a wait ends, ms since 1970 UTC; 0 where neither goes on."""

    place: Place
    client: str = ""
    until_ms: int = 0


PLACES = {Phase.READY: Place.READY, Phase.INFLIGHT: Place.INFLIGHT, Phase.WAITING: Place.WAITING}


def standing_of(ledger: Ledger, group: str, topic: str, queue: int, offset: int) -> Standing:
    """How the message at this place stands; by the cursor and what is outstanding."""
    progress = ledger.find(group, topic, queue)
    if progress is None:
        return Standing(Place.NEVER)
    slot = progress.slots.get(offset)
    if slot is not None:
        return Standing(PLACES[slot.phase], slot.client, slot.until_ms)
    return Standing(Place.DONE if offset < progress.cursor else Place.AHEAD)
