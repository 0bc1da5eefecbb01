"""Where a rule stands for one subject, and how that changes. Pure; time is an argument.

    ok -> pending -> firing -> ok, and no_data where the figure is not known.

A rule that fires goes on firing while its figure is unknown: nobody can say that it is over.
"""

from dataclasses import dataclass
from enum import StrEnum

from kitemq.model.alerts import RuleState


class Event(StrEnum):
    """What an evaluation found."""

    FINE = "fine"
    OVER = "over"  # over the threshold
    HELD = "held"  # over it, and for as long as the rule asks
    MISSING = "missing"  # the figure is not known


MOVES: dict[tuple[RuleState, Event], RuleState] = {
    (RuleState.OK, Event.FINE): RuleState.OK,
    (RuleState.OK, Event.OVER): RuleState.PENDING,
    (RuleState.OK, Event.HELD): RuleState.FIRING,
    (RuleState.OK, Event.MISSING): RuleState.NO_DATA,
    (RuleState.PENDING, Event.FINE): RuleState.OK,
    (RuleState.PENDING, Event.OVER): RuleState.PENDING,
    (RuleState.PENDING, Event.HELD): RuleState.FIRING,
    (RuleState.PENDING, Event.MISSING): RuleState.NO_DATA,
    (RuleState.FIRING, Event.FINE): RuleState.OK,
    (RuleState.FIRING, Event.OVER): RuleState.FIRING,
    (RuleState.FIRING, Event.HELD): RuleState.FIRING,
    (RuleState.FIRING, Event.MISSING): RuleState.FIRING,
    (RuleState.NO_DATA, Event.FINE): RuleState.OK,
    (RuleState.NO_DATA, Event.OVER): RuleState.PENDING,
    (RuleState.NO_DATA, Event.HELD): RuleState.FIRING,
    (RuleState.NO_DATA, Event.MISSING): RuleState.NO_DATA,
}


@dataclass(frozen=True)
class Reading:
    """A rule's reading of one subject; without `is_over` the figure is unknown."""

    subject: str
    value: int | None
    is_over: bool | None
    detail: str = ""


def event_of(reading: Reading, state: RuleState, since_ms: int, now_ms: int, for_s: int) -> Event:
    """Classify a reading, for a state that began at `since_ms`."""
    if reading.is_over is None:
        return Event.MISSING
    if not reading.is_over:
        return Event.FINE
    over_ms = now_ms - since_ms if state is RuleState.PENDING else 0
    return Event.HELD if state is RuleState.FIRING or over_ms >= for_s * 1000 else Event.OVER


def move(state: RuleState, event: Event) -> RuleState:
    """The state after an event."""
    return MOVES[state, event]
