"""The tables that the jobs make: their names, columns, keys, and how a run replaces them.

A job hands each table over as a file of JSON lines beside `result.json`, which repeats what is
said here (`manifest`), so that a loader of the files needs nothing of this package. `hour` is the
UTC hour that a row belongs to, as the Parquet manifest names it ("2026-11-21T03"); a row's other
times are ms since 1970 UTC. A NULL number is unknown; a text that does not apply is "".
"""

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

HOURS, ALL = "hours", "all"
TRACES_JOB, LAG_JOB = "traces", "lag"
# Hours before the wanted one that a job reads too. Of messages as many as the longest delay level
# takes, and one; of traces as long as one attempt may last.
LOOKBACK_HOURS = {"messages": 3, "trace": 1, "lag": 1}
FORMAT = 1
FORM = "%Y-%m-%dT%H"  # of an hour


class Field(NamedTuple):
    """One column; `kind` is STRING, INT, BIGINT, DOUBLE, BOOLEAN or JSON (a text that is JSON)."""

    name: str
    kind: str
    meaning: str


class OutputTable(NamedTuple):
    """`replaces`: "hours" (delete the run's hours, insert), or "all" (delete everything, insert).

    Its rows are unique by `key`.
    """

    name: str
    job: str
    replaces: str
    key: tuple[str, ...]
    fields: tuple[Field, ...]


HOUR = Field("hour", "STRING", "the hour of the event that the row counts")
TOPIC = Field("topic", "STRING", "where the producer sent it; of retries too")
GROUP = Field("group", "STRING", 'consumer group; "" where none takes part')
MESSAGES = Field("messages", "BIGINT", "scaled up by the traces' sampling")
COUNTED = Field("counted", "BIGINT", "those that were really seen: less than `messages` if sampled")
QUEUE = Field("queue", "INT", "")
LAG_TOPIC = Field("topic", "STRING", "as subscribed; %RETRY%group for the group's own")

STATE_FIELDS = (
    Field("lag", "BIGINT", "messages not done at the last sample"),
    Field("time_lag_ms", "BIGINT", "age of the oldest message not done; 0 without any"),
    Field("produce_per_s", "DOUBLE", "over the window"),
    Field("consume_per_s", "DOUBLE", "over the window"),
    Field("eta_s", "DOUBLE", "until the lag is gone; only of CATCHING_UP"),
    Field("retry_waiting", "BIGINT", "of the whole group"),
    Field("dead", "BIGINT", "of the whole group, ever"),
    Field("members", "INT", "of the whole group"),
    Field("advice", "STRING", "code of one sentence (docs/reports.md)"),
    Field("advice_params", "JSON", "its parameters, by name"),
)

TABLES: tuple[OutputTable, ...] = (
    OutputTable(
        "latency",
        TRACES_JOB,
        HOURS,
        ("hour", "metric", "topic", "group", "client"),
        (
            HOUR,
            Field("metric", "STRING", "one of definitions.METRICS"),
            TOPIC,
            Field("group", "STRING", 'of consumers; of `decision` of producers; else ""'),
            Field("client", "STRING", 'of `process` only; "*" for all but the busiest'),
            Field("n", "BIGINT", "values measured"),
            MESSAGES,
            Field("total", "BIGINT", "their sum in ms"),
            Field("least", "BIGINT", "ms"),
            Field("most", "BIGINT", "ms"),
            Field("skewed", "BIGINT", "of n: negative by clock skew, taken as 0"),
            Field("p50", "DOUBLE", "ms, from the buckets: at most 2.5 % off"),
            Field("p95", "DOUBLE", "ms"),
            Field("p99", "DOUBLE", "ms"),
            Field("buckets", "JSON", "histogram {bucket: count}: bucket b is 1.05^b to 1.05^(b+1)"),
        ),
    ),
    OutputTable(
        "throughput",
        TRACES_JOB,
        HOURS,
        ("hour", "kind", "topic", "group"),
        (
            HOUR,
            Field("kind", "STRING", "one of definitions.STORED_KINDS or of TRACED_KINDS"),
            TOPIC,
            GROUP,
            MESSAGES,
            COUNTED,
            Field("bytes", "BIGINT", "of whole records; NULL for what traces tell"),
        ),
    ),
    OutputTable(
        "outcomes",
        TRACES_JOB,
        HOURS,
        ("hour", "topic", "group"),
        (
            HOUR,
            TOPIC,
            GROUP,
            Field("attempts", "BIGINT", "deliveries, scaled"),
            Field("retried", "BIGINT", "of these, deliveries after the first of a message"),
            Field("acked", "BIGINT", ""),
            Field("failed", "BIGINT", "attempts that their consumer failed"),
            Field("expired", "BIGINT", "attempts whose time ran out"),
            Field("returned", "BIGINT", "attempts put back unused"),
            Field("dead", "BIGINT", "messages given up"),
            Field(
                "unfinished",
                "BIGINT",
                "attempts that ran over 15 minutes this hour",
            ),
            Field("retry_rate", "DOUBLE", "retried / attempts"),
            Field("dead_rate", "DOUBLE", "dead / (acked + dead)"),
            Field("success_rate", "DOUBLE", "acked / (acked + dead)"),
        ),
    ),
    OutputTable(
        "failures",
        TRACES_JOB,
        HOURS,
        ("hour", "kind", "topic", "group", "rank"),
        (
            HOUR,
            Field("kind", "STRING", "failed, expired, dead or refused"),
            TOPIC,
            GROUP,
            Field("rank", "INT", "1 for the most frequent reason; 0 for all that have no row"),
            Field("reason", "STRING", 'error, reason or code; "" if none was given, or rank is 0'),
            Field("reasons", "BIGINT", "how many different ones the row stands for"),
            MESSAGES,
            COUNTED,
        ),
    ),
    OutputTable(
        "slowest",
        TRACES_JOB,
        HOURS,
        ("hour", "topic", "group", "rank"),
        (
            HOUR,
            TOPIC,
            GROUP,
            Field("rank", "INT", "1 for the slowest"),
            Field("end_to_end_ms", "BIGINT", ""),
            Field("message_id", "STRING", '"" if its record is not at hand'),
            Field("stored_topic", "STRING", "where the acknowledged record lies"),
            QUEUE,
            Field("offset", "BIGINT", ""),
            Field("born_ms", "BIGINT", ""),
            Field("stored_ms", "BIGINT", ""),
            Field("delivered_ms", "BIGINT", "for the last time"),
            Field("acked_ms", "BIGINT", ""),
            Field("attempt", "INT", "that succeeded"),
            Field("client", "STRING", ""),
        ),
    ),
    OutputTable(
        "hot_keys",
        TRACES_JOB,
        HOURS,
        ("hour", "topic", "kind", "rank"),
        (
            HOUR,
            TOPIC,
            Field("kind", "STRING", "key, tag or message_group"),
            Field("rank", "INT", "1 for the most frequent; 0 for all that have no row"),
            Field("value", "STRING", '"" for rank 0'),
            Field("values", "BIGINT", "how many different ones the row stands for"),
            Field("messages", "BIGINT", "exact: every stored message counts"),
            Field("bytes", "BIGINT", "of their records"),
        ),
    ),
    OutputTable(
        "queue_skew",
        TRACES_JOB,
        HOURS,
        ("hour", "topic", "queue"),
        (
            HOUR,
            TOPIC,
            QUEUE,
            Field("messages", "BIGINT", "stored, exact"),
            Field("bytes", "BIGINT", ""),
            Field("queues", "INT", "of the topic that got any"),
            Field("share", "DOUBLE", "of the topic's messages"),
            Field("skew", "DOUBLE", "messages / mean of these queues: 1 is even"),
        ),
    ),
    OutputTable(
        "transactions",
        TRACES_JOB,
        HOURS,
        ("hour", "topic", "group", "outcome", "detail"),
        (
            HOUR,
            Field("topic", "STRING", 'bound for; "" if the half message is not at hand'),
            Field("group", "STRING", "of producers"),
            Field("outcome", "STRING", "one of definitions.OUTCOMES"),
            Field("detail", "STRING", 'by whom, or whether anybody could be asked; ""'),
            Field("messages", "BIGINT", "exact: never sampled"),
        ),
    ),
    OutputTable(
        "lag_hours",
        LAG_JOB,
        HOURS,
        ("hour", "group", "topic"),
        (
            HOUR,
            Field("group", "STRING", ""),
            LAG_TOPIC,
            Field("at_ms", "BIGINT", "of the hour's last evaluation, which the figures are of"),
            Field("state", "STRING", "of the worst queue then"),
            Field("worst_state", "STRING", "in the whole hour"),
            Field("worst_queue", "INT", "the one whose state this is"),
            Field("queues", "INT", ""),
            *STATE_FIELDS,
            Field("lag_max", "BIGINT", "of all queues together, in the hour"),
            Field("time_lag_max_ms", "BIGINT", "in the hour"),
            Field("hot_queue", "INT", "lag over 3 times the median and 20 % of all; NULL if none"),
            Field("idle_members", "INT", "members beyond one a queue; NULL if unknown"),
            Field("lost", "BIGINT", "messages that retention took unread, in the hour"),
            Field("completeness", "DOUBLE", "samples there are of those expected, 0 to 1"),
            Field("evaluations", "INT", "in the hour"),
            Field("state_ms", "JSON", "{state: ms} of all queues together, in the hour"),
            Field("evaluated", "JSON", "[[begin_ms, end_ms], ...] of which samples tell the state"),
        ),
    ),
    OutputTable(
        "lag_bands",
        LAG_JOB,
        HOURS,
        ("hour", "group", "topic", "queue", "begin_ms"),
        (
            HOUR,
            Field("group", "STRING", ""),
            LAG_TOPIC,
            QUEUE,
            Field("begin_ms", "BIGINT", "first evaluation in this state, within the hour"),
            Field("end_ms", "BIGINT", "where the next begins; a step past the last one"),
            Field("state", "STRING", "never OK: what was evaluated, with no band, is"),
            Field("lag_max", "BIGINT", ""),
            Field("time_lag_max_ms", "BIGINT", ""),
        ),
    ),
    OutputTable(
        "lag_now",
        LAG_JOB,
        ALL,
        ("group", "topic", "queue"),
        (
            HOUR,
            Field("group", "STRING", ""),
            LAG_TOPIC,
            QUEUE,
            Field("at_ms", "BIGINT", "of the evaluation"),
            Field("state", "STRING", "published: a change shows when it was found twice running"),
            Field("raw_state", "STRING", "as found; hand both to the next run as `previous`"),
            *STATE_FIELDS,
            Field("slope_per_s", "DOUBLE", "of the lag, by regression over the window"),
            Field("committed", "BIGINT", "the offset that blocks a STALLED queue"),
            Field("lost", "BIGINT", "messages that retention took unread, in the window"),
            Field("risk_s", "DOUBLE", "until retention overtakes the group; NULL if it never will"),
            Field("completeness", "DOUBLE", "0 to 1"),
        ),
    ),
)
BY_NAME = {table.name: table for table in TABLES}
INPUTS = {TRACES_JOB: ("messages", "trace"), LAG_JOB: ("lag",)}  # frames that a job reads


def tables_of(job: str) -> list[OutputTable]:
    """What a job makes."""
    return [table for table in TABLES if table.job == job]


def manifest(table: OutputTable) -> dict[str, object]:
    """The same for `result.json`."""
    return {
        "replaces": table.replaces,
        "key": list(table.key),
        "columns": [{"name": field.name, "kind": field.kind} for field in table.fields],
    }


def hours_before(hour: str, count: int) -> list[str]:
    """An hour and so many before it, oldest first; ValueError for what is no hour."""
    last = datetime.strptime(hour, FORM).replace(tzinfo=UTC)
    return [(last - timedelta(hours=back)).strftime(FORM) for back in range(count, -1, -1)]


def fingerprint(job: str, hour: str, known: Mapping[str, Mapping[str, str]]) -> str:
    """What a result of an hour was made of: the hour is due again when this changes.

    `known` is by frame and hour as the Parquet manifest has it ("rows-last"). The rule, for who
    decides without this package: a line "frame hour rows-last" for each partition that exists of
    INPUTS, of the hour and LOOKBACK_HOURS before it, frames and then hours in order of the
    alphabet, each ended by a newline; the first 16 hexadecimal digits of their SHA-256.
    """
    lines = [
        f"{frame} {each} {known[frame][each]}\n"
        for frame in INPUTS[job]
        for each in hours_before(hour, LOOKBACK_HOURS[frame])
        if each in known.get(frame, {})
    ]
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:16]
