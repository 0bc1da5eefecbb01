"""Retry policies in forms and in words. Pure."""

from functools import partial
from typing import Annotated, Literal

from msgspec import Meta

from app.ui.framework import typed_forms
from app.ui.framework.forms import Form
from app.ui.framework.language import N_, _, translated
from app.ui.framework.typed_forms import Fields, InvalidField
from app.ui.framework.typed_time import LENGTH_HELP, find_length_ms, length_text
from engine.broker import Exponential, Ladder, RetryPolicy, Steps

# The form's field names by the engine's.
ENGINE_NAMES = {
    "initial_ms": "initial",
    "max_ms": "longest",
    "delays_ms": "steps",
    "retry_policy": "policy",
}
# RocketMQ's delay levels that retries wait in, from the first failure on.
LADDER = (
    *("10s", "30s", "1m", "2m", "3m", "4m", "5m", "6m"),
    *("7m", "8m", "9m", "10m", "20m", "30m", "1h", "2h"),
)
LISTED_MAX = 20


def values_of(policy: RetryPolicy) -> dict[str, str]:
    """A policy as the form's fields; those of the other kinds hold their defaults."""
    slope = policy if isinstance(policy, Exponential) else Exponential()
    steps = policy.delays_ms if isinstance(policy, Steps) else (1_000, 30_000)
    return {
        "policy": kind_of(policy),
        "initial": length_text(slope.initial_ms),
        "longest": length_text(slope.max_ms),
        "multiplier": f"{slope.multiplier:g}",
        "steps": ", ".join(map(length_text, steps)),
    }


def kind_of(policy: RetryPolicy) -> str:
    """The policy's name, as the API writes it."""
    if isinstance(policy, Exponential):
        return "exponential"
    return "steps" if isinstance(policy, Steps) else "ladder"


def length_ms(label: str, text: str) -> int:
    """A typed wait in ms. Raises InvalidField, which names the `label` of the field."""
    wait_ms = find_length_ms(text)
    if wait_ms is None:
        raise InvalidField(
            _(
                "%(label)s must be a length of time. %(length_help)s",
                label=translated(label),
                length_help=translated(LENGTH_HELP),
            )
        )
    return wait_ms


def factor(text: str) -> float:
    """A typed multiplier. Raises InvalidField."""
    try:
        return float(text)
    except ValueError:
        raise InvalidField(_("The multiplier must be a number from 1 to 100.")) from None


def lengths_ms(text: str) -> tuple[int, ...]:
    """Typed waits in ms, at least one. Raises InvalidField."""
    waits = [find_length_ms(part) for part in text.replace(",", " ").split()]
    lengths = tuple(wait for wait in waits if wait is not None)
    if not lengths or len(lengths) < len(waits):
        length_help = translated(LENGTH_HELP)
        raise InvalidField(
            _("Each wait must be a length of time. %(length_help)s", length_help=length_help)
        )
    return lengths


class PolicyFields(Fields, frozen=True):
    """The kind of a policy, whose own fields have a struct each."""

    policy: Annotated[Literal["ladder", "exponential", "steps"], Meta(title=N_("Retry policy"))]


class ExponentialFields(Fields, frozen=True):
    """The fields of an exponential policy."""

    initial: Annotated[int, partial(length_ms, N_("The first wait"))] = 1
    longest: Annotated[int, partial(length_ms, N_("The longest wait"))] = 1
    multiplier: Annotated[float, factor] = 1.0


class StepsFields(Fields, frozen=True):
    """The field of a policy with a list of waits."""

    steps: Annotated[tuple[int, ...], lengths_ms] = (1_000,)


def read(form: Form) -> RetryPolicy:
    """The policy in a form; errors are reported at their fields."""
    kind = typed_forms.parse(form, PolicyFields).policy
    if kind == "exponential":
        slope = typed_forms.parse(form, ExponentialFields)
        return Exponential(slope.initial, slope.longest, slope.multiplier)
    return Steps(typed_forms.parse(form, StepsFields).steps) if kind == "steps" else Ladder()


def waits(policy: RetryPolicy, retry_max: int) -> tuple[list[str], int]:
    """The waits before the first twenty retries, and the number of further retries."""
    rows = [_wait(policy, number) for number in range(min(retry_max, LISTED_MAX))]
    return rows, retry_max - len(rows)


def _wait(policy: RetryPolicy, number: int) -> str:
    if isinstance(policy, Exponential):
        wait_ms = min(policy.initial_ms * policy.multiplier**number, policy.max_ms)
        return length_text(round(wait_ms))
    if isinstance(policy, Steps):
        return length_text(policy.delays_ms[min(number, len(policy.delays_ms) - 1)])
    return LADDER[min(number, len(LADDER) - 1)]
