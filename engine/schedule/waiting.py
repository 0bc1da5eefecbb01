"""What waits, in order of due time: messages with an exact time, and those in delay levels."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from engine.errors import Invalid
from engine.message import StoredMessage
from engine.schedule.deliver import LevelDeliverer, LevelPlace
from engine.schedule.timer_agenda import Pending
from engine.schedule.timer_deliver import TimerDeliverer

EXACT = 0  # the level of messages with an exact time
OFFSET_MAX = 1 << 62
PLACE_CHARS_MAX = 60


class WaitingPlace(NamedTuple):
    """A message that waits: when it is due, its delay level (0: an exact time), its offset."""

    due_ms: int
    level: int
    offset: int


FIRST = WaitingPlace(-OFFSET_MAX, EXACT, -1)


class WaitingList:
    """Reads the places and records of all messages that wait."""

    def __init__(self, timers: TimerDeliverer, levels: LevelDeliverer) -> None:
        self._timers = timers
        self._levels = levels

    @property
    def count(self) -> int:
        """Number of waiting messages, retries included."""
        return self._timers.count + sum(self._levels.waiting())

    def after(self, place: WaitingPlace, count_max: int) -> list[WaitingPlace]:
        """What is due after `place`, at most `count_max`."""
        offset = place.offset if place.level == EXACT else OFFSET_MAX
        timers = self._timers.after(self._pending(place._replace(offset=offset)), count_max)
        levels = self._levels.after(
            LevelPlace(place.due_ms, place.level - 1, place.offset), count_max
        )
        places = [*map(self.timer_place, timers), *map(self.level_place, levels)]
        return sorted(places)[:count_max]

    def read(
        self, places: Sequence[WaitingPlace]
    ) -> Iterator[tuple[WaitingPlace, StoredMessage | None]]:
        """Their records, read a write's worth at a time; None for one that is gone."""
        for level, run in groupby(places, key=lambda place: place.level):
            rest = list(run)
            while rest:
                records = self._records(level, rest)
                yield from zip(rest, records, strict=False)
                rest = rest[len(records) :]

    def due_ms(self, place: WaitingPlace) -> int:
        """When it is due by the calendar that it was sent by."""
        if place.level != EXACT:
            return place.due_ms
        return self._timers.due_ms(self._pending(place))

    def timer_place(self, pending: Pending) -> WaitingPlace:
        """The place of a message with an exact time."""
        return WaitingPlace(pending.due_ms - self._timers.ahead_ms, EXACT, pending.offset)

    def level_place(self, place: LevelPlace) -> WaitingPlace:
        """The place of a message in a delay level."""
        return WaitingPlace(place.due_ms, place.queue + 1, place.offset)

    def _records(self, level: int, places: Sequence[WaitingPlace]) -> list[StoredMessage | None]:
        if level == EXACT:
            return [each.stored for each in self._timers.read(list(map(self._pending, places)))]
        return self._levels.read(level - 1, [place.offset for place in places])

    def _pending(self, place: WaitingPlace) -> Pending:
        return Pending(place.due_ms + self._timers.ahead_ms, place.offset)


def parse_place(text: str) -> WaitingPlace:
    """The place that a page's `next` names; Invalid for anything else."""
    parts = text.split("-")
    if len(text) > PLACE_CHARS_MAX or len(parts) != 3 or not all(map(str.isdecimal, parts)):
        raise Invalid(
            f"{text[:PLACE_CHARS_MAX]!r} is no place in the list",
            field="after",
            remedy="give a page's `next`",
        )
    return WaitingPlace(*map(int, parts))


def place_text(place: WaitingPlace) -> str:
    """A place as a page's `next`."""
    return f"{max(0, place.due_ms)}-{place.level}-{place.offset}"
