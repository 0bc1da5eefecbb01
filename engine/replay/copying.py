"""Builds the copy of a message that a job sends: the properties kept, removed and added.

It keeps id, key, tag, message group, body, its own properties and the time it was born. It begins
anew: attempt 1, without the cause it died of. It names the job and the place it comes from, so
that a reader of it, or of the dead letter it becomes again, knows.
"""

from engine.message import (
    DELAY,
    DLQ_ORIGIN_MESSAGE_ID,
    DLQ_ORIGIN_TOPIC,
    FAILED_CLIENT,
    FAILED_ERROR,
    FAILED_REASON,
    ORIGIN_MESSAGE_ID,
    REAL_QID,
    REAL_TOPIC,
    REDRIVEN_FROM,
    REDRIVEN_JOB,
    REDRIVEN_TIMES,
    RETRY_TOPIC,
    SOURCE,
    Message,
    StoredMessage,
    copy_of,
)
from engine.replay.conditions import origin_of
from engine.replay.job_store import SOURCE_PREFIX

# Its way so far, and a transaction that is long decided.
LEFT_BEHIND = (
    DELAY,
    REAL_TOPIC,
    REAL_QID,
    RETRY_TOPIC,
    ORIGIN_MESSAGE_ID,
    DLQ_ORIGIN_TOPIC,
    DLQ_ORIGIN_MESSAGE_ID,
    FAILED_ERROR,
    FAILED_CLIENT,
    FAILED_REASON,
    "TRAN_MSG",
)
TRANSACTION_BITS = 0b1100


def origin_id_of(stored: StoredMessage) -> str:
    """The offset id of the record that was first sent."""
    properties = stored.properties
    return (
        properties.get(DLQ_ORIGIN_MESSAGE_ID)
        or properties.get(ORIGIN_MESSAGE_ID)
        or stored.offset_id
    )


def times_of(stored: StoredMessage) -> int:
    """Number of jobs that sent the message before."""
    text = stored.properties.get(REDRIVEN_TIMES, "")
    return int(text) if text.isdecimal() and len(text) < 10 else 0


def copy_for(job_id: str, stored: StoredMessage, topic: str) -> Message:
    """The message that a job sends to `topic` for this record, without a queue yet."""
    message = copy_of(stored)
    properties = message.properties
    for name in LEFT_BEHIND:
        properties.pop(name, None)
    properties[SOURCE] = f"{SOURCE_PREFIX}{job_id}@{stored.queue}@{stored.offset}"
    properties[REDRIVEN_JOB] = job_id
    properties[REDRIVEN_FROM] = f"{stored.topic}@{stored.queue}@{stored.offset}"
    properties[REDRIVEN_TIMES] = str(times_of(stored) + 1)
    message.topic = topic
    message.attempt = 1
    message.sys_flag &= ~TRANSACTION_BITS
    return message


def retry_copy_for(job_id: str, stored: StoredMessage, topic: str) -> Message:
    """The same for a group's retry topic: it is delivered as if it came from its origin."""
    message = copy_for(job_id, stored, topic)
    message.queue = 0
    message.properties[RETRY_TOPIC] = origin_of(stored)
    message.properties[ORIGIN_MESSAGE_ID] = origin_id_of(stored)
    return message
