"""Retry policies: how long a failed message waits before it comes back.

`ladder` is RocketMQ's and the default: the delay levels from 10 s to 2 h. The others name their
waits in milliseconds, and are kept to the millisecond by the exact timers. How many attempts there
are is not a policy's but the group's (`retry_max`).
"""

import msgspec

from engine.errors import Invalid

FIELD = "retry_policy"
WAIT_MS_MAX = 7 * 24 * 3600 * 1000
STEPS_MAX = 100
MULTIPLIER_MAX = 100.0


class _Policy(msgspec.Struct, frozen=True, tag_field="kind", forbid_unknown_fields=True):
    """What all kinds share: how they are written."""


class Ladder(_Policy, frozen=True, tag="ladder"):
    """The delay levels: 10 s after the first failure, then level by level up to 2 h."""


class Exponential(_Policy, frozen=True, tag="exponential"):
    """`initial_ms` after the first failure, then `multiplier` times as long, at most `max_ms`."""

    initial_ms: int = 5_000
    max_ms: int = 7_200_000
    multiplier: float = 2.0


class Steps(_Policy, frozen=True, tag="steps"):
    """A wait of its own after each failure; the last one counts for all that follow."""

    delays_ms: tuple[int, ...]


RetryPolicy = Ladder | Exponential | Steps


def exact_wait_ms(policy: RetryPolicy, attempt: int) -> int | None:
    """Wait after delivery number `attempt` failed, in ms; None leaves it to the levels."""
    if isinstance(policy, Exponential):
        try:
            return min(round(policy.initial_ms * policy.multiplier ** (attempt - 1)), policy.max_ms)
        except OverflowError:
            return policy.max_ms
    if isinstance(policy, Steps):
        return policy.delays_ms[min(attempt, len(policy.delays_ms)) - 1]
    return None


def check_policy(policy: RetryPolicy) -> None:
    """Raises Invalid, naming the field as `retry_policy.initial_ms`, for what cannot be."""
    if isinstance(policy, Exponential):
        _check_exponential(policy)
    elif isinstance(policy, Steps):
        _check_steps(policy)
    elif not isinstance(policy, Ladder):
        raise Invalid(
            f"{policy!r} is no retry policy",
            field=FIELD,
            remedy="choose the kind ladder, exponential or steps",
        )


def _check_exponential(policy: Exponential) -> None:
    _check_wait(policy.initial_ms, "initial_ms", 1)
    _check_wait(policy.max_ms, "max_ms", policy.initial_ms)
    if not 1.0 <= policy.multiplier <= MULTIPLIER_MAX:
        raise Invalid(
            f"a multiplier of {policy.multiplier}",
            field=f"{FIELD}.multiplier",
            remedy=f"choose 1 to {MULTIPLIER_MAX:g}",
        )


def _check_steps(policy: Steps) -> None:
    if not 1 <= len(policy.delays_ms) <= STEPS_MAX:
        raise Invalid(
            f"{len(policy.delays_ms)} waits",
            field=f"{FIELD}.delays_ms",
            remedy=f"give 1 to {STEPS_MAX} waits in milliseconds",
        )
    for index, wait_ms in enumerate(policy.delays_ms):
        _check_wait(wait_ms, f"delays_ms[{index}]", 0)


def _check_wait(wait_ms: int, name: str, least: int) -> None:
    if not least <= wait_ms <= WAIT_MS_MAX:
        raise Invalid(
            f"a wait of {wait_ms} ms",
            field=f"{FIELD}.{name}",
            remedy=f"choose {least} to {WAIT_MS_MAX} ms (a week)",
        )
