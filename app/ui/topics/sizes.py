"""How many bytes a topic's messages take in the log: counted where they are few, else estimated."""

from collections.abc import Iterable
from dataclasses import dataclass

from engine.broker import QueueContent

QUEUE_MESSAGES_MAX = 100  # whose sizes are read on a topic's page, by queue
LIST_QUEUES_MAX = 32  # of one topic, in a list
LIST_MESSAGES_MAX = 25  # of each of them


@dataclass(frozen=True)
class Size:
    """Bytes of the stored records of `messages`, by the newest `measured`; None: not known."""

    bytes: int | None
    messages: int
    measured: int
    is_exact: bool


def size_of(contents: Iterable[QueueContent], messages: int) -> Size:
    """The size of `messages`, each as long as those that were measured are on average. Pure."""
    queues = list(contents)
    measured = sum(content.measured for content in queues)
    total = sum(content.bytes for content in queues)
    if not messages:
        return Size(0, 0, 0, is_exact=True)
    if not measured:
        return Size(None, messages, 0, is_exact=False)
    return Size(total * messages // measured, messages, measured, is_exact=measured == messages)
