"""Where a rule stands for one subject, and how that changes. Pure; time is an argument.

    ok -> pending -> firing -> ok, and no_data where the figure is not known.

A rule that fires goes on firing while its figure is unknown: nobody can say that it is over.
"""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """Where a rule stands; pending is over its threshold, but not yet for long enough."""

    OK = "ok"
    PENDING = "pending"
    FIRING = "firing"
    NO_DATA = "no_data"


class Event(StrEnum):
    """What an evaluation found."""

    FINE = "fine"
    OVER = "over"  # over the threshold
    HELD = "held"  # over it, and for as long as the rule asks
    MISSING = "missing"  # the figure is not known


MOVES: dict[tuple[State, Event], State] = {
    (State.OK, Event.FINE): State.OK,
    (State.OK, Event.OVER): State.PENDING,
    (State.OK, Event.HELD): State.FIRING,
    (State.OK, Event.MISSING): State.NO_DATA,
    (State.PENDING, Event.FINE): State.OK,
    (State.PENDING, Event.OVER): State.PENDING,
    (State.PENDING, Event.HELD): State.FIRING,
    (State.PENDING, Event.MISSING): State.NO_DATA,
    (State.FIRING, Event.FINE): State.OK,
    (State.FIRING, Event.OVER): State.FIRING,
    (State.FIRING, Event.HELD): State.FIRING,
    (State.FIRING, Event.MISSING): State.FIRING,
    (State.NO_DATA, Event.FINE): State.OK,
    (State.NO_DATA, Event.OVER): State.PENDING,
    (State.NO_DATA, Event.HELD): State.FIRING,
    (State.NO_DATA, Event.MISSING): State.NO_DATA,
}


@dataclass(frozen=True)
class Reading:
    """What a rule found about one subject; without `is_over` the figure is not known."""

    subject: str
    value: int | None
    is_over: bool | None
    detail: str = ""


def event_of(reading: Reading, state: State, since_ms: int, now_ms: int, for_s: int) -> Event:
    """What a reading means to a state that began at `since_ms`."""
    if reading.is_over is None:
        return Event.MISSING
    if not reading.is_over:
        return Event.FINE
    held_ms = now_ms - since_ms if state is State.PENDING else 0
    return Event.HELD if state is State.FIRING or held_ms >= for_s * 1000 else Event.OVER


def move(state: State, event: Event) -> State:
    """The state after an event."""
    return MOVES[state, event]
