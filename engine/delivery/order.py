"""Lanes: messages of one lane are delivered one after the other, lanes side by side.

For an ordered group a lane of a FIFO topic is a message group: only its earliest outstanding
message may be with a client. In a retry topic a lane is the topic that a message came from: a
client names the topics that it receives from, and messages of others wait aside. What waits counts
as outstanding: once a queue is full of it, the lanes behind have to wait too.
"""

from bisect import bisect_left, insort
from typing import Protocol

OPEN_LANE = ""  # of messages without order


class Lanes(Protocol):
    """Knows the lane of every outstanding message that has one."""

    def enter(self, offset: int, lane: str) -> bool:
        """Add a message; whether it may go now."""

    def leave(self, offset: int) -> int | None:
        """Remove one that is done; the message that may go instead, if that sets one free."""

    def bucket(self, offset: int) -> str:
        """The lane in which it waits to be delivered."""

    def lane(self, offset: int) -> str:
        """Its lane, "" for none."""


class OrderLanes:
    """Lanes of an ordered group in a FIFO topic: one after the other within a message group."""

    def __init__(self) -> None:
        self._lane_of: dict[int, str] = {}
        self._waiting: dict[str, list[int]] = {}

    def is_busy(self, lane: str) -> bool:
        """Whether an earlier message of this group is outstanding."""
        return lane in self._waiting

    def offsets(self) -> list[int]:
        """Every outstanding message that has a message group."""
        return sorted(self._lane_of)

    def enter(self, offset: int, lane: str) -> bool:
        if not lane:
            return True
        self._lane_of[offset] = lane
        waiting = self._waiting.setdefault(lane, [])
        insort(waiting, offset)
        return waiting[0] == offset

    def leave(self, offset: int) -> int | None:
        lane = self._lane_of.pop(offset, "")
        if not lane:
            return None
        waiting = self._waiting[lane]
        at = bisect_left(waiting, offset)
        del waiting[at]
        if not waiting:
            del self._waiting[lane]
            return None
        return waiting[0] if at == 0 else None

    def bucket(self, offset: int) -> str:
        return OPEN_LANE

    def lane(self, offset: int) -> str:
        return self._lane_of.get(offset, "")


class TopicLanes:
    """Lanes of a retry topic: independent of each other, free within."""

    def __init__(self) -> None:
        self._lane_of: dict[int, str] = {}

    def enter(self, offset: int, lane: str) -> bool:
        self._lane_of[offset] = lane
        return True

    def leave(self, offset: int) -> int | None:
        self._lane_of.pop(offset, None)
        return None

    def bucket(self, offset: int) -> str:
        return self._lane_of.get(offset, OPEN_LANE)

    def lane(self, offset: int) -> str:
        return self._lane_of.get(offset, "")

    def offsets_of(self, lane: str) -> list[int]:
        """Every outstanding message that came from this topic."""
        return [offset for offset, name in self._lane_of.items() if name == lane]
