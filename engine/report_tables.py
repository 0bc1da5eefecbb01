"""The tables that reports make: their names, columns, keys, and how a run replaces them.

The jobs (`analytics/`) and the server, which do not import each other, share this. A job hands
each table over as a file of JSON lines beside `result.json`, which repeats what is said here
(`manifest`), so that a result of another version is recognized. `hour` is the UTC hour that a row
belongs to, as the Parquet manifest names it ("2026-11-21T03"); a row's other times are ms since
1970 UTC. A NULL number is unknown; a text that does not apply is "".
"""

import msgspec

HOURS, ALL = "hours", "all"  # what a run replaces of a table
TRACES_JOB, LAG_JOB = "traces", "lag"
JOBS = (TRACES_JOB, LAG_JOB)
FORMAT = 1  # of a result


class ResultColumn(msgspec.Struct, frozen=True):
    """A column; `kind` is STRING, INT, BIGINT, DOUBLE or JSON (a text that is JSON)."""

    name: str
    kind: str
    meaning: str = ""


class ResultTable(msgspec.Struct, frozen=True):
    """A table that a job makes: rows are unique by `key`, and replaced by hours or all at once."""

    name: str
    job: str
    replaces: str  # HOURS (delete the run's hours, insert) or ALL (delete everything, insert)
    key: tuple[str, ...]
    columns: tuple[ResultColumn, ...]
    sums: tuple[str, ...] = ()  # columns that may be added up over hours, topics and groups

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Columns that rows may be chosen by and put together by."""
        texts = [column.name for column in self.columns if column.kind == "STRING"]
        others = ("advice", "message_id", *self.sums)
        whole = ["queue"] if "queue" in self.key else []
        return tuple(name for name in [*texts, *whole] if name not in others)


HOUR = ResultColumn("hour", "STRING", "the hour of the event that the row counts")
TOPIC = ResultColumn("topic", "STRING", "where the producer sent it; of retries too")
GROUP = ResultColumn("group", "STRING", 'consumer group; "" where none takes part')
MESSAGES = ResultColumn("messages", "BIGINT", "scaled up by the traces' sampling")
COUNTED = ResultColumn(
    "counted", "BIGINT", "those that were really seen: less than `messages` if sampled"
)
QUEUE = ResultColumn("queue", "INT", "")
LAG_TOPIC = ResultColumn("topic", "STRING", "as subscribed; %RETRY%group for the group's own")

STATE_FIELDS = (
    ResultColumn("lag", "BIGINT", "messages not done at the last sample"),
    ResultColumn("time_lag_ms", "BIGINT", "age of the oldest message not done; 0 without any"),
    ResultColumn("produce_per_s", "DOUBLE", "over the window"),
    ResultColumn("consume_per_s", "DOUBLE", "over the window"),
    ResultColumn("eta_s", "DOUBLE", "until the lag is gone; only of CATCHING_UP"),
    ResultColumn("retry_waiting", "BIGINT", "of the whole group"),
    ResultColumn("dead", "BIGINT", "of the whole group, ever"),
    ResultColumn("members", "INT", "of the whole group"),
    ResultColumn("advice", "STRING", "code of one sentence (docs/reports.md)"),
    ResultColumn("advice_params", "JSON", "its parameters, by name"),
)

RESULTS: tuple[ResultTable, ...] = (
    ResultTable(
        "latency",
        TRACES_JOB,
        HOURS,
        ("hour", "metric", "topic", "group", "client"),
        (
            HOUR,
            ResultColumn("metric", "STRING", "one of definitions.METRICS"),
            TOPIC,
            ResultColumn("group", "STRING", 'of consumers; of `decision` of producers; else ""'),
            ResultColumn("client", "STRING", 'of `process` only; "*" for all but the busiest'),
            ResultColumn("n", "BIGINT", "values measured"),
            MESSAGES,
            ResultColumn("total", "BIGINT", "their sum in ms"),
            ResultColumn("least", "BIGINT", "ms"),
            ResultColumn("most", "BIGINT", "ms"),
            ResultColumn("skewed", "BIGINT", "of n: negative by clock skew, taken as 0"),
            ResultColumn("p50", "DOUBLE", "ms, from the buckets: at most 2.5 % off"),
            ResultColumn("p95", "DOUBLE", "ms"),
            ResultColumn("p99", "DOUBLE", "ms"),
            ResultColumn(
                "buckets", "JSON", "histogram {bucket: count}: bucket b is 1.05^b to 1.05^(b+1)"
            ),
        ),
    ),
    ResultTable(
        "throughput",
        TRACES_JOB,
        HOURS,
        ("hour", "kind", "topic", "group"),
        (
            HOUR,
            ResultColumn("kind", "STRING", "one of definitions.STORED_KINDS or of TRACED_KINDS"),
            TOPIC,
            GROUP,
            MESSAGES,
            COUNTED,
            ResultColumn("bytes", "BIGINT", "of whole records; NULL for what traces tell"),
        ),
        sums=("messages", "counted", "bytes"),
    ),
    ResultTable(
        "outcomes",
        TRACES_JOB,
        HOURS,
        ("hour", "topic", "group"),
        (
            HOUR,
            TOPIC,
            GROUP,
            ResultColumn("attempts", "BIGINT", "deliveries, scaled"),
            ResultColumn("retried", "BIGINT", "of these, deliveries after the first of a message"),
            ResultColumn("acked", "BIGINT", ""),
            ResultColumn("failed", "BIGINT", "attempts that their consumer failed"),
            ResultColumn("expired", "BIGINT", "attempts whose time ran out; NULL before a cluster"),
            ResultColumn("returned", "BIGINT", "attempts put back unused; NULL before a cluster"),
            ResultColumn("dead", "BIGINT", "messages given up; NULL before a cluster"),
            ResultColumn(
                "unfinished",
                "BIGINT",
                "attempts that ran over 15 minutes this hour",
            ),
            ResultColumn("retry_rate", "DOUBLE", "retried / attempts"),
            ResultColumn("dead_rate", "DOUBLE", "dead / (acked + dead)"),
            ResultColumn("success_rate", "DOUBLE", "acked / (acked + dead)"),
        ),
        sums=(
            "attempts",
            "retried",
            "acked",
            "failed",
            "expired",
            "returned",
            "dead",
            "unfinished",
        ),
    ),
    ResultTable(
        "failures",
        TRACES_JOB,
        HOURS,
        ("hour", "kind", "topic", "group", "rank"),
        (
            HOUR,
            ResultColumn("kind", "STRING", "failed, expired, dead or refused"),
            TOPIC,
            GROUP,
            ResultColumn(
                "rank", "INT", "1 for the most frequent reason; 0 for all that have no row"
            ),
            ResultColumn(
                "reason", "STRING", 'error, reason or code; "" if none was given, or rank is 0'
            ),
            ResultColumn("reasons", "BIGINT", "how many different ones the row stands for"),
            MESSAGES,
            COUNTED,
        ),
        sums=("messages", "counted"),
    ),
    ResultTable(
        "slowest",
        TRACES_JOB,
        HOURS,
        ("hour", "topic", "group", "rank"),
        (
            HOUR,
            TOPIC,
            GROUP,
            ResultColumn("rank", "INT", "1 for the slowest"),
            ResultColumn("end_to_end_ms", "BIGINT", ""),
            ResultColumn("message_id", "STRING", '"" if its record is not at hand'),
            ResultColumn("stored_topic", "STRING", "where the acknowledged record lies"),
            QUEUE,
            ResultColumn("offset", "BIGINT", ""),
            ResultColumn("born_ms", "BIGINT", ""),
            ResultColumn("stored_ms", "BIGINT", ""),
            ResultColumn("delivered_ms", "BIGINT", "for the last time"),
            ResultColumn("acked_ms", "BIGINT", ""),
            ResultColumn("attempt", "INT", "that succeeded"),
            ResultColumn("client", "STRING", ""),
        ),
    ),
    ResultTable(
        "hot_keys",
        TRACES_JOB,
        HOURS,
        ("hour", "topic", "kind", "rank"),
        (
            HOUR,
            TOPIC,
            ResultColumn("kind", "STRING", "key, tag or message_group"),
            ResultColumn("rank", "INT", "1 for the most frequent; 0 for all that have no row"),
            ResultColumn("value", "STRING", '"" for rank 0'),
            ResultColumn("values", "BIGINT", "how many different ones the row stands for"),
            ResultColumn("messages", "BIGINT", "exact: every stored message counts"),
            ResultColumn("bytes", "BIGINT", "of their records"),
        ),
        sums=("messages", "bytes"),
    ),
    ResultTable(
        "queue_skew",
        TRACES_JOB,
        HOURS,
        ("hour", "topic", "queue"),
        (
            HOUR,
            TOPIC,
            QUEUE,
            ResultColumn("messages", "BIGINT", "stored, exact"),
            ResultColumn("bytes", "BIGINT", ""),
            ResultColumn("queues", "INT", "of the topic that got any"),
            ResultColumn("share", "DOUBLE", "of the topic's messages"),
            ResultColumn("skew", "DOUBLE", "messages / mean of these queues: 1 is even"),
        ),
        sums=("messages", "bytes"),
    ),
    ResultTable(
        "transactions",
        TRACES_JOB,
        HOURS,
        ("hour", "topic", "group", "outcome", "detail"),
        (
            HOUR,
            ResultColumn("topic", "STRING", 'bound for; "" if the half message is not at hand'),
            ResultColumn("group", "STRING", "of producers"),
            ResultColumn("outcome", "STRING", "one of definitions.OUTCOMES"),
            ResultColumn("detail", "STRING", 'by whom, or whether anybody could be asked; ""'),
            ResultColumn("messages", "BIGINT", "exact: never sampled"),
        ),
        sums=("messages",),
    ),
    ResultTable(
        "lag_hours",
        LAG_JOB,
        HOURS,
        ("hour", "group", "topic"),
        (
            HOUR,
            ResultColumn("group", "STRING", ""),
            LAG_TOPIC,
            ResultColumn(
                "at_ms", "BIGINT", "of the hour's last evaluation, which the figures are of"
            ),
            ResultColumn("state", "STRING", "of the worst queue then"),
            ResultColumn("worst_state", "STRING", "in the whole hour"),
            ResultColumn("worst_queue", "INT", "the one whose state this is"),
            ResultColumn("queues", "INT", ""),
            *STATE_FIELDS,
            ResultColumn("lag_max", "BIGINT", "of all queues together, in the hour"),
            ResultColumn("time_lag_max_ms", "BIGINT", "in the hour"),
            ResultColumn(
                "hot_queue", "INT", "lag over 3 times the median and 20 % of all; NULL if none"
            ),
            ResultColumn("idle_members", "INT", "members beyond one a queue; NULL if unknown"),
            ResultColumn("lost", "BIGINT", "messages that retention took unread, in the hour"),
            ResultColumn("completeness", "DOUBLE", "samples there are of those expected, 0 to 1"),
            ResultColumn("evaluations", "INT", "in the hour"),
            ResultColumn("state_ms", "JSON", "{state: ms} of all queues together, in the hour"),
            ResultColumn(
                "evaluated", "JSON", "[[begin_ms, end_ms], ...] of which samples tell the state"
            ),
        ),
        sums=("lost",),
    ),
    ResultTable(
        "lag_bands",
        LAG_JOB,
        HOURS,
        ("hour", "group", "topic", "queue", "begin_ms"),
        (
            HOUR,
            ResultColumn("group", "STRING", ""),
            LAG_TOPIC,
            QUEUE,
            ResultColumn("begin_ms", "BIGINT", "first evaluation in this state, within the hour"),
            ResultColumn("end_ms", "BIGINT", "where the next begins; a step past the last one"),
            ResultColumn("state", "STRING", "never OK: what was evaluated, with no band, is"),
            ResultColumn("lag_max", "BIGINT", ""),
            ResultColumn("time_lag_max_ms", "BIGINT", ""),
        ),
    ),
    ResultTable(
        "lag_now",
        LAG_JOB,
        ALL,
        ("group", "topic", "queue"),
        (
            HOUR,
            ResultColumn("group", "STRING", ""),
            LAG_TOPIC,
            QUEUE,
            ResultColumn("at_ms", "BIGINT", "of the evaluation"),
            ResultColumn(
                "state", "STRING", "published: a change shows when it was found twice running"
            ),
            ResultColumn(
                "raw_state", "STRING", "as found; hand both to the next run as `previous`"
            ),
            *STATE_FIELDS,
            ResultColumn("slope_per_s", "DOUBLE", "of the lag, by regression over the window"),
            ResultColumn("committed", "BIGINT", "the offset that blocks a STALLED queue"),
            ResultColumn("lost", "BIGINT", "messages that retention took unread, in the window"),
            ResultColumn(
                "risk_s", "DOUBLE", "until retention overtakes the group; NULL if it never will"
            ),
            ResultColumn("completeness", "DOUBLE", "0 to 1"),
        ),
    ),
)
RESULTS_BY_NAME = {table.name: table for table in RESULTS}


def tables_of(job: str) -> list[ResultTable]:
    """What a job makes."""
    return [table for table in RESULTS if table.job == job]


def manifest(table: ResultTable) -> dict[str, object]:
    """The same for `result.json`."""
    return {
        "replaces": table.replaces,
        "key": list(table.key),
        "columns": [{"name": column.name, "kind": column.kind} for column in table.columns],
    }
