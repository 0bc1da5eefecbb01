"""The size of a topic's messages in the log: exact for few messages, else estimated."""

from collections.abc import Iterable
from dataclasses import dataclass

from engine.broker import QueueContent

QUEUE_MESSAGES_MAX = 100  # measured per queue on a topic's page
LIST_QUEUES_MAX = 32  # of one topic, in a list
LIST_MESSAGES_MAX = 25  # of each of them


@dataclass(frozen=True)
class Size:
    """The bytes of `messages`, estimated from the newest `measured`; None if unknown."""

    bytes: int | None
    messages: int
    measured: int
    is_exact: bool


NO_SIZE = Size(None, 0, 0, is_exact=False)


def size_of(contents: Iterable[QueueContent], messages: int) -> Size:
    """Estimate the size of `messages` by the mean of the measured ones. Pure."""
    queues = list(contents)
    measured = sum(content.measured for content in queues)
    total = sum(content.bytes for content in queues)
    if not messages:
        return Size(0, 0, 0, is_exact=True)
    if not measured:
        return Size(None, messages, 0, is_exact=False)
    return Size(total * messages // measured, messages, measured, is_exact=measured == messages)
