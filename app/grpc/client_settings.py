"""The answer to a client's settings: its own message with the server's part filled in."""

from typing import Any

from app.grpc import workarounds
from app.messaging import Messaging
from engine.broker import Exponential, GroupConfig, Ladder, RetryPolicy, Steps, TopicType
from engine.errors import GroupNotFound, TopicNotFound
from protocol.rocketmq.messages import Settings
from protocol.rocketmq.numbers import ClientLanguage, FilterType

SEND_ATTEMPTS = 3
SEND_WAIT = Exponential(10, 1000, 2.0)
BATCH = 32
POLL_S = 20.0
LADDER_S = (10, 30, *range(60, 601, 60), 1200, 1800, 3600, 7200)  # the delay levels from 3 on
LADDER_LIKE = Exponential(10_000, 7_200_000, 2.0)  # for clients without list policies
LIST_MAX = 32


def for_producer(settings: Any, language: ClientLanguage) -> Any:
    """The answer to a producer's settings."""
    answer = _copy(settings)
    answer.publishing.max_body_size = workarounds.body_bytes_max(language)
    answer.publishing.validate_message_type = True
    answer.backoff_policy.max_attempts = SEND_ATTEMPTS
    _set_exponential(answer.backoff_policy, SEND_WAIT)
    return answer


def for_consumer(
    settings: Any, group: GroupConfig, language: ClientLanguage, *, is_fifo: bool
) -> Any:
    """The answer to a consumer's settings."""
    answer = _copy(settings)
    answer.subscription.fifo = is_fifo
    answer.subscription.receive_batch_size = BATCH
    answer.subscription.long_polling_timeout.seconds = round(workarounds.poll_s(language, POLL_S))
    answer.backoff_policy.max_attempts = group.retry_max + 1
    _set_policy(answer.backoff_policy, group.retry_policy, group.retry_max, language)
    return answer


async def group_of(messaging: Messaging, name: str, retry_max: int) -> GroupConfig:
    """The group's configuration, or the one that it would be created with."""
    try:
        return await messaging.group(name)
    except GroupNotFound:
        return GroupConfig(name, retry_max=retry_max)


async def is_fifo(messaging: Messaging, group: GroupConfig, topics: list[str]) -> bool:
    """Whether the client processes one message at a time: an ordered group with FIFO topics only.

    The flag applies to all topics of a client. If it also subscribes to others, the flag is off:
    the server keeps the order of the FIFO topics, and the others need not wait.
    """
    if not group.ordered:
        return False
    are_fifo = [await _is_fifo(messaging, topic) for topic in topics]
    return bool(are_fifo) and all(are_fifo)


async def _is_fifo(messaging: Messaging, topic: str) -> bool:
    try:
        return (await messaging.topic(topic)).type is TopicType.FIFO
    except TopicNotFound:
        return False


def filter_text(expression: Any) -> str:
    """A filter as the engine writes it."""
    text = str(expression.expression)
    if expression.type == FilterType.SQL:
        return f"SQL92: {text}"
    return text or "*"


def words(answer: Any, *, is_whole: bool = True) -> str:
    """A summary of the answer, such as "17 attempts, polls of 20 s, batches of 32".

    Without `is_whole` it adds that the client's settings were too large to be stored.
    """
    return _words(answer) + ("" if is_whole else "; its settings are too many bytes to be kept")


def _words(answer: Any) -> str:
    attempts = f"{answer.backoff_policy.max_attempts} attempts"
    if answer.WhichOneof("pub_sub") == "publishing":
        return f"{attempts}, bodies of at most {answer.publishing.max_body_size:,} bytes"
    subscription = answer.subscription
    order = ", in order" if subscription.fifo else ""
    polls = f"polls of {subscription.long_polling_timeout.seconds} s"
    return f"{attempts}, {polls}, batches of {subscription.receive_batch_size}{order}"


def _copy(settings: Any) -> Any:
    answer = Settings()
    answer.CopyFrom(settings)
    answer.ClearField("backoff_policy")
    answer.metric.on = False
    return answer


def _set_policy(
    backoff_policy: Any, policy: RetryPolicy, retry_max: int, language: ClientLanguage
) -> None:
    if language in workarounds.EXPONENTIAL_ONLY or (
        isinstance(policy, Exponential) and language not in workarounds.LIST_ONLY
    ):
        _set_exponential(backoff_policy, _as_exponential(policy))
        return
    for wait_ms in _as_list(policy, retry_max):
        next_wait = backoff_policy.customized_backoff.next.add()
        _set_ms(next_wait, wait_ms)


def _set_exponential(backoff_policy: Any, policy: Exponential) -> None:
    backoff = backoff_policy.exponential_backoff
    _set_ms(backoff.initial, policy.initial_ms)
    _set_ms(backoff.max, policy.max_ms)
    backoff.multiplier = policy.multiplier


def _as_exponential(policy: RetryPolicy) -> Exponential:
    if isinstance(policy, Steps):
        first, last = max(1, policy.delays_ms[0]), max(1, *policy.delays_ms)
        return Exponential(first, last, 2.0 if last > first else 1.0)
    return LADDER_LIKE if isinstance(policy, Ladder) else policy


def _as_list(policy: RetryPolicy, retry_max: int) -> list[int]:
    if isinstance(policy, Steps):
        return list(policy.delays_ms)
    if isinstance(policy, Ladder):
        return [wait_s * 1000 for wait_s in LADDER_S]
    count = max(1, min(retry_max, LIST_MAX))
    waits = [policy.initial_ms * policy.multiplier**number for number in range(count)]
    return [round(min(wait, policy.max_ms)) for wait in waits]


def _set_ms(field: Any, wait_ms: int) -> None:
    field.seconds, ms = divmod(wait_ms, 1000)
    field.nanos = ms * 1_000_000
