"""When a message is delivered: the choices of a form, and the field that each of them needs."""

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from app.ui.framework import typed_forms, typed_time
from app.ui.framework.forms import Form
from app.ui.framework.language import N_, _, translated
from app.ui.framework.typed_forms import Fields, InvalidField, Moment
from app.ui.framework.zones import Zone
from kitemq.model.server import Capabilities

LEVELS = (
    "1 s", "5 s", "10 s", "30 s", "1 min", "2 min", "3 min", "4 min", "5 min", "6 min", "7 min",
    "8 min", "9 min", "10 min", "20 min", "30 min", "1 h", "2 h",
)  # fmt: skip
CHOICES = (
    ("now", N_("Now")),
    ("after", N_("After a duration")),
    ("at", N_("At an exact time")),
    ("level", N_("After a delay level")),
)
EXACT = ("after", "at")
DEFAULTS = {"deliver": "now", "delay_level": "1", "after": "10m", "at": ""}


def length_ms(text: str) -> int:
    """A typed length of time in ms. Raises InvalidField."""
    value_ms = typed_time.find_length_ms(text)
    if not value_ms:
        length_help = translated(typed_time.LENGTH_HELP)
        raise InvalidField(_("Invalid duration. %(length_help)s", length_help=length_help))
    return value_ms


class TimeTexts(Fields, frozen=True):
    """The fields as text; each choice has a struct of its own."""

    deliver: str
    delay_level: str
    after: str
    at: str
    zone: str


class Choice(Fields, frozen=True):
    """Which field counts; without the choice the level does."""

    deliver: Annotated[Literal["now", "after", "at", "level"] | None, Meta(title=N_("Delivery"))]


class LevelChoice(Fields, frozen=True):
    """The level, 0 for none."""

    delay_level: Annotated[int, Meta(title=N_("Delay"), ge=0, le=len(LEVELS))]


class LengthChoice(Fields, frozen=True):
    """The length of time from now."""

    after: Annotated[int, length_ms] = 0


class MomentChoice(Fields, frozen=True):
    """The time."""

    at: Moment


@dataclass(frozen=True)
class DeliveryTime:
    """A delay level, or the time of delivery; zeros for no delay."""

    delay_level: int = 0
    deliver_at_ms: int = 0


def read(form: Form, now_ms: int, zone: Zone) -> DeliveryTime:
    """The chosen time, with an error at the field that is invalid."""
    choice = typed_forms.parse(form, Choice).deliver
    if choice == "now" or not (choice or form.values["delay_level"]):
        return DeliveryTime()
    if choice == "after":
        wait_ms = typed_forms.parse(form, LengthChoice).after
        return DeliveryTime(deliver_at_ms=now_ms + wait_ms)
    if choice == "at":
        at_ms = typed_forms.parse(form, MomentChoice, zone).at
        if at_ms <= now_ms and "at" not in form.errors:
            form.refuse("at", _("That time has passed. Choose Now instead."))
        return DeliveryTime(deliver_at_ms=at_ms)
    return DeliveryTime(delay_level=typed_forms.parse(form, LevelChoice).delay_level)


def choices(capabilities: Capabilities) -> list[tuple[str, str]]:
    """The choices that the engine has."""
    return [each for each in CHOICES if capabilities.exact_timers or each[0] not in EXACT]


def levels() -> list[tuple[str, str]]:
    """The delay levels as options."""
    return [
        (str(level), _("level %(level)s: after %(wait)s", level=level, wait=wait))
        for level, wait in enumerate(LEVELS, 1)
    ]
