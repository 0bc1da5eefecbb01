"""The three frames that every report starts from: their columns, for Arrow and for Spark.

A frame is a folder of hour partitions, written by `roll.py`:
`analytics/<frame>/dt=YYYY-MM-DD/hr=HH/part-*.parquet`. The hour is that of the frame's clock column
(`CLOCK`), which is the engine's own clock, so a row never changes its partition. Spark adds the
partition columns `dt` (string) and `hr` (int).

Times are ms since 1970 UTC as BIGINT. What is not known, or does not apply, is NULL for a number
and "" for a text. `log_position` is the place in the commit log of the record that a row comes
from: below the manifest's `position` a row is in Parquet, from there on it is not.
"""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pyarrow

TRACE, MESSAGES, LAG = "trace", "messages", "lag"
CLOCK = {TRACE: "at_ms", MESSAGES: "stored_ms", LAG: "at_ms"}


class FrameColumn(NamedTuple):
    """One column; `kind` is Spark's name of its type."""

    name: str
    kind: str  # STRING, INT, BIGINT or BOOLEAN
    meaning: str


FRAMES: dict[str, tuple[FrameColumn, ...]] = {
    TRACE: (
        FrameColumn("log_position", "BIGINT", "of the trace record that the row was written in"),
        FrameColumn("row_number", "INT", "within that record, from 0: both name the row"),
        FrameColumn("at_ms", "BIGINT", "when it happened"),
        FrameColumn(
            "kind", "STRING", "delivered, acked, failed, expired, dead, returned, pulled, …"
        ),
        FrameColumn("group", "STRING", "consumer group; of a transaction its producer group"),
        FrameColumn("topic", "STRING", "where the messages lie; %RETRY%group for a retry"),
        FrameColumn("queue", "INT", "NULL where there is no place"),
        FrameColumn(
            "first_offset", "BIGINT", "of a run of neighbours; NULL where there is no place"
        ),
        FrameColumn("message_count", "BIGINT", "length of the run"),
        FrameColumn("client", "STRING", "the consumer; of a replay the job"),
        FrameColumn("attempt", "INT", "number of the delivery, or of the check; NULL without one"),
        FrameColumn("wait_ms", "BIGINT", "until it comes back; 0 for at once"),
        FrameColumn("born_ms", "BIGINT", "producer's clock; of deliveries"),
        FrameColumn("stored_ms", "BIGINT", "of deliveries"),
        FrameColumn("detail", "STRING", "reason, code, outcome or error"),
        FrameColumn(
            "message_id",
            "STRING",
            "where there is no place; of a request its correlation id; of a delivery that a client "
            "traced the number of its call and the id",
        ),
        FrameColumn(
            "sample", "INT", "messages traced of 10,000; counts are scaled by 10,000 / sample"
        ),
    ),
    MESSAGES: (
        FrameColumn("log_position", "BIGINT", "of the record; names the row"),
        FrameColumn("topic", "STRING", "where it lies"),
        FrameColumn("queue", "INT", ""),
        FrameColumn("offset", "BIGINT", "begins anew where a topic was deleted and made again"),
        FrameColumn("role", "STRING", "message, retry, dead, delayed, half, given_up or reply"),
        FrameColumn("stored_ms", "BIGINT", "when the record was written"),
        FrameColumn("born_ms", "BIGINT", "producer's clock; the same through retries and replays"),
        FrameColumn("event_ms", "BIGINT", "stated by the producer"),
        FrameColumn("size_bytes", "INT", "of the whole record"),
        FrameColumn("body_bytes", "INT", ""),
        FrameColumn("tag", "STRING", ""),
        FrameColumn("keys", "STRING", "separated by spaces"),
        FrameColumn("message_id", "STRING", "the same through delay, retries and replays"),
        FrameColumn("message_group", "STRING", "of an ordered message"),
        FrameColumn("attempt", "INT", "1 for the first; of a dead letter failures + 1"),
        FrameColumn(
            "group", "STRING", "consumer group of a retry or dead letter, also while delayed"
        ),
        FrameColumn("origin_topic", "STRING", "where its producer sent it"),
        FrameColumn(
            "target_topic", "STRING", "of a delayed or half message: where it is bound for"
        ),
        FrameColumn("due_ms", "BIGINT", "of a delayed message; and once a timed one was released"),
        FrameColumn(
            "delay_level", "INT", "1 and up, of a delayed message and once it was released"
        ),
        FrameColumn("source_topic", "STRING", "the record that this one replaced: by a release,"),
        FrameColumn("source_queue", "INT", "a retry, a dead letter"),
        FrameColumn("source_offset", "BIGINT", ""),
        FrameColumn("reason", "STRING", "of a dead letter: attempts_exhausted, rejected, …"),
        FrameColumn("error", "STRING", "of a retry or dead letter: what its consumer said"),
        FrameColumn("failed_client", "STRING", "of a retry or dead letter"),
        FrameColumn("producer_group", "STRING", "of a transaction"),
        FrameColumn("is_transaction", "BOOLEAN", "a half message, or one that was committed"),
        FrameColumn("producer_host", "STRING", "address without the port"),
        FrameColumn("redriven_job", "STRING", "of a replayed copy"),
        FrameColumn("redriven_from", "STRING", "topic@queue@offset"),
    ),
    LAG: (
        FrameColumn(
            "at_ms", "BIGINT", "of the round of samples; with the next three names the row"
        ),
        FrameColumn("group", "STRING", ""),
        FrameColumn("topic", "STRING", ""),
        FrameColumn("queue", "INT", ""),
        FrameColumn("min_offset", "BIGINT", "first offset still kept"),
        FrameColumn("max_offset", "BIGINT", "one past the last"),
        FrameColumn("committed", "BIGINT", "everything before it is done"),
        FrameColumn("cursor", "BIGINT", "next to be handed out for the first time"),
        FrameColumn("lag", "BIGINT", "messages that are not done"),
        FrameColumn("is_matching", "BOOLEAN", "lag leaves out what the group's filter does"),
        FrameColumn(
            "oldest_ms", "BIGINT", "when the oldest one not done was stored; NULL without lag"
        ),
        FrameColumn("inflight", "BIGINT", "with clients; NULL if unknown"),
        FrameColumn(
            "retry_waiting", "BIGINT", "of the whole group, in delay levels; NULL if unknown"
        ),
        FrameColumn("dead", "BIGINT", "of the whole group"),
        FrameColumn("members", "INT", "of the whole group; NULL if unknown"),
        FrameColumn(
            "active_ms", "BIGINT", "last hand-out, pull, ack or failure here; NULL if unknown"
        ),
        FrameColumn(
            "expired", "BIGINT", "ever taken by retention before the group was done with them"
        ),
        FrameColumn(
            "resets", "BIGINT", "number of the group's last reset by a person; NULL if unknown"
        ),
    ),
}


def names(frame: str) -> list[str]:
    """Names of the columns, in their order."""
    return [column.name for column in FRAMES[frame]]


def ddl(frame: str) -> str:
    """The columns as Spark reads a schema: "`at_ms` BIGINT, …"."""
    return ", ".join(f"`{column.name}` {column.kind}" for column in FRAMES[frame])


def arrow_schema(frame: str) -> "pyarrow.Schema":
    """The same for pyarrow; every column may be NULL."""
    import pyarrow

    types = {
        "STRING": pyarrow.string(),
        "INT": pyarrow.int32(),
        "BIGINT": pyarrow.int64(),
        "BOOLEAN": pyarrow.bool_(),
    }
    return pyarrow.schema([(column.name, types[column.kind]) for column in FRAMES[frame]])
