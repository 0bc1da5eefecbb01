"""The kind of a topic by its name, as the lists' filters call it. Pure."""

from engine.broker import DEAD_LETTER_PREFIX, RETRY_PREFIX, TopicConfig

USER_KINDS = ("NORMAL", "FIFO", "DELAY", "TRANSACTION")
SYSTEM_KINDS = ("RETRY", "DLQ", "SYSTEM")
KINDS = USER_KINDS + SYSTEM_KINDS


def kind_of(topic: TopicConfig) -> str:
    """The topic's type, or for the engine's own topics what they are for."""
    name = topic.name
    if name.startswith(RETRY_PREFIX):
        return "RETRY"
    if name.startswith(DEAD_LETTER_PREFIX):
        return "DLQ"
    return "SYSTEM" if topic.is_system else topic.type.value


def group_of(topic: str) -> str:
    """The consumer group whose retries or dead letters a topic holds; "" for any other."""
    for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX):
        if topic.startswith(prefix):
            return topic.removeprefix(prefix)
    return ""
