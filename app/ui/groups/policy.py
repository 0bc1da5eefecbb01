"""Retry policies in forms and in words. Pure."""

from app.ui.framework.forms import Form
from app.ui.framework.language import _, translated
from app.ui.framework.typed_time import LENGTH_HELP, find_length_ms, length_text
from engine.broker import Exponential, Ladder, RetryPolicy, Steps

KINDS = ("ladder", "exponential", "steps")
FIELDS = ("policy", "initial", "longest", "multiplier", "steps")
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
SHOWN_MAX = 20


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


def read(form: Form) -> RetryPolicy:
    """The policy in a form; errors are reported at their fields."""
    kind = form.choice("policy", _("Retry policy"), KINDS)
    if kind == "exponential":
        return Exponential(
            _length(form, "initial", _("The first wait")),
            _length(form, "longest", _("The longest wait")),
            _factor(form),
        )
    if kind == "steps":
        parts = [part for part in form.values["steps"].replace(",", " ").split() if part]
        waits = [find_length_ms(part) for part in parts]
        lengths = [wait for wait in waits if wait is not None]
        if not lengths or len(lengths) < len(waits):
            form.refuse(
                "steps",
                _(
                    "Each wait must be a length of time. %(length_help)s",
                    length_help=translated(LENGTH_HELP),
                ),
            )
        return Steps(tuple(lengths) or (1_000,))
    return Ladder()


def waits(policy: RetryPolicy, retry_max: int) -> tuple[list[str], int]:
    """The waits before the first twenty retries, and the number of further retries."""
    rows = [_wait(policy, number) for number in range(min(retry_max, SHOWN_MAX))]
    return rows, retry_max - len(rows)


def _wait(policy: RetryPolicy, number: int) -> str:
    if isinstance(policy, Exponential):
        wait_ms = min(policy.initial_ms * policy.multiplier**number, policy.max_ms)
        return length_text(round(wait_ms))
    if isinstance(policy, Steps):
        return length_text(policy.delays_ms[min(number, len(policy.delays_ms) - 1)])
    return LADDER[min(number, len(LADDER) - 1)]


def _length(form: Form, name: str, label: str) -> int:
    length_ms = find_length_ms(form.values[name])
    if length_ms is None:
        form.refuse(
            name,
            _(
                "%(label)s must be a length of time. %(length_help)s",
                label=label,
                length_help=translated(LENGTH_HELP),
            ),
        )
    return length_ms or 1


def _factor(form: Form) -> float:
    try:
        return float(form.values["multiplier"])
    except ValueError:
        form.refuse("multiplier", _("The multiplier must be a number from 1 to 100."))
        return 1.0
