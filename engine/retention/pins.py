"""Components that pin old records against retention, such as timers and half messages."""

from collections.abc import Callable
from typing import NamedTuple

import msgspec


class RetentionPin(NamedTuple):
    """A component with messages that wait; `name` says whose they are, for people.

    `oldest_position` is where the oldest of them lies, None when none waits. `move_before`, where
    it can, writes what lies before a position again at the log's end, in ticks of its own.
    """

    name: str
    oldest_position: Callable[[], int | None]
    move_before: Callable[[int], None] | None = None


class ActivePin(msgspec.Struct, frozen=True):
    """A pin that keeps old segments now: its oldest record lies at `position`."""

    name: str
    position: int


def active_pins(pins: list[RetentionPin], target: int) -> list[ActivePin]:
    """Those with something before `target`, which are asked to move it where they can."""
    active = []
    for pin in pins:
        position = pin.oldest_position()
        if position is not None and position < target:
            active.append(ActivePin(pin.name, position))
            if pin.move_before is not None:
                pin.move_before(target)
    return active
