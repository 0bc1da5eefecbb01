"""Names of topics and consumer groups: RocketMQ's alphabet, limits and system names."""

import re

from engine.errors import Invalid

NAME = re.compile(r"[%|a-zA-Z0-9_-]+\Z")
TOPIC_LENGTH_MAX = 127
SYSTEM_TOPIC_LENGTH_MAX = 255
GROUP_LENGTH_MAX = 120

RETRY_PREFIX = "%RETRY%"
DEAD_LETTER_PREFIX = "%DLQ%"
GROUP_QUEUE = 0  # retry and dead-letter topics have one queue
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
TIMER_TOPIC = "rmq_sys_wheel_timer"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
GIVEN_UP_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"  # of RocketMQ's own default cluster
SYSTEM_PREFIX = "rmq_sys_"
TRACE_TOPIC = "rmq_sys_kite_trace"  # what the engine saw
CLIENT_TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"  # what clients saw, in RocketMQ's text format

# No client may send to these; the engine writes them itself.
CLOSED_TOPICS = frozenset(
    {
        SCHEDULE_TOPIC,
        TIMER_TOPIC,
        TRACE_TOPIC,
        HALF_TOPIC,
        OP_TOPIC,
        GIVEN_UP_TOPIC,
        REPLY_TOPIC,
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
    }
)
SYSTEM_TOPICS = CLOSED_TOPICS | {"TBW102", "BenchmarkTest", CLIENT_TRACE_TOPIC}


def retry_topic(group: str) -> str:
    """The topic from which a group's failed messages come back."""
    return RETRY_PREFIX + group


def dead_letter_topic(group: str) -> str:
    """The topic of a group's dead letters."""
    return DEAD_LETTER_PREFIX + group


def is_group_topic(topic: str) -> bool:
    """Whether `topic` is a group's retry or dead-letter topic."""
    return topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX))


def is_system_topic(topic: str) -> bool:
    """Whether `topic` is the engine's own, hidden from lists unless asked for."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_PREFIX) or is_group_topic(topic)


def is_topic_name(name: str) -> bool:
    """Whether a topic may have this name."""
    return NAME.match(name) is not None and len(name) <= _topic_length_max(name)


def check_topic_name(name: str, *, field: str = "topic") -> str:
    """`name` itself; Invalid with the rule that it breaks."""
    return _check(name, _topic_length_max(name), field, "topic")


def _topic_length_max(name: str) -> int:
    return SYSTEM_TOPIC_LENGTH_MAX if is_group_topic(name) else TOPIC_LENGTH_MAX


def check_group_name(name: str, *, field: str = "group") -> str:
    """`name` itself; Invalid with the rule that it breaks."""
    return _check(name, GROUP_LENGTH_MAX, field, "consumer group")


def _check(name: str, length_max: int, field: str, kind: str) -> str:
    if not name.strip():
        raise Invalid(
            f"the {kind} name is empty",
            field=field,
            remedy=f"name the {kind}",
            code="invalid_name",
        )
    if len(name) > length_max:
        raise Invalid(
            f"the {kind} name has {len(name)} characters, {length_max} is the most",
            field=field,
            remedy="choose a shorter name",
            code="invalid_name",
        )
    if not NAME.match(name):
        raise Invalid(
            f"the {kind} name {name!r} holds a character that is not allowed",
            field=field,
            remedy="use letters, digits, '_', '-', '%' and '|' only",
            code="invalid_name",
        )
    return name
