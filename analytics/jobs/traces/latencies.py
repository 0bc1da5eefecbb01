"""Latencies counted by bucket: what `gather` finds, to be summed up for the hour."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from analytics.hist import buckets_of
from analytics.jobs.definitions import (
    ALL,
    BROKER,
    DECIDED,
    DECISION,
    END_TO_END,
    LATENESS_LEVEL,
    LATENESS_TIMER,
    PROCESS,
    UNFINISHED,
    UNMATCHED,
    WAIT,
    Params,
)
from analytics.jobs.traces.attempts import NEVER, DeliveryAttempts, TraceEvents, is_in
from analytics.jobs.traces.blobs import (
    Ints,
    TextCodes,
    are_in,
    is_null,
    keys,
    matches,
    numbers,
    summed,
)
from analytics.jobs.traces.scatter import PLACE, SOURCE

CELL = ("metric", "topic", "group", "client")
COUNTS = {
    "n": "sum",
    "weight": "sum",
    "total": "sum",
    "skewed": "sum",
    "least": "min",
    "most": "max",
}


@dataclass(frozen=True)
class Values:
    """Measured ms by topic and group (codes), and by client where that is asked (else -1)."""

    metric: str
    ms: Ints
    topic: Ints
    group: Ints
    sample: Ints
    client: Ints | None = None


def of_attempts(attempts: DeliveryAttempts, target: int, params: Params) -> Iterator[Values]:
    """What each attempt tells."""
    born, stored = attempts.born_ms, attempts.stored_ms
    acked, delivered, opened = attempts.acked_ms, attempts.delivered_ms, attempts.opened_ms
    is_acked = is_in(acked, target)
    due = np.where(delivered == NEVER, NEVER, delivered + params.unfinished_s * 1000)
    is_due = is_in(due, target) & (due < params.at_ms) & (attempts.ended_ms < delivered)
    zero = np.zeros(len(acked), dtype=np.int64)
    values = {
        END_TO_END: (is_acked & (born != NEVER), acked - born),
        WAIT: (is_in(opened, target) & (stored != NEVER), opened - stored),
        PROCESS: (is_acked & (delivered != NEVER) & (delivered <= acked), acked - delivered),
        UNFINISHED: (is_due, zero),
        UNMATCHED: (is_acked & (delivered == NEVER), zero),
    }
    for metric, (rows, ms) in values.items():
        yield Values(
            metric,
            ms[rows],
            attempts.origin[rows],
            attempts.group[rows],
            attempts.sample[rows],
            attempts.client[rows] if metric == PROCESS else None,
        )


def of_records(records: "pa.Table", names: TextCodes) -> Iterator[Values]:
    """How fast the hour's own records were stored, and how late timed ones were released."""
    stored, born = numbers(records["stored_ms"]), numbers(records["born_ms"], NEVER)
    due = numbers(records["due_ms"], NEVER)
    is_message = are_in(records["role"], ("message",))
    is_timed = is_message & (due != NEVER) & is_null(records["delay_level"])
    is_new = numbers(records["is_new"]) > 0
    topic = names.codes(records["origin_topic"])
    for metric, rows, since in (
        (BROKER, is_new & ~is_timed & (born != NEVER), born),
        (LATENESS_TIMER, is_timed, due),
    ):
        yield _whole(metric, stored[rows] - since[rows], topic[rows], None, names)


def of_releases(releases: "pa.Table", records: "pa.Table", names: TextCodes) -> Values:
    """How late those with a delay level were released: due as the record says that they replace."""
    waiting = records.filter(pa.array(are_in(records["role"], ("delayed",))))
    due = numbers(waiting["due_ms"], NEVER)
    sources, known = keys(_places(releases, SOURCE, names), _places(waiting, PLACE, names))
    at = matches(sources, known, due)
    rows = (at >= 0) & (due[at] != NEVER) if len(due) else at >= 0
    waited = numbers(releases["stored_ms"])[rows] - due[at[rows]]
    topic, group = (names.codes(releases[name])[rows] for name in ("origin_topic", "group"))
    return _whole(LATENESS_LEVEL, waited, topic, group, names)


def of_decisions(
    events: TraceEvents, half_messages: "Halves", names: TextCodes, target: int
) -> Values:
    """How long half messages waited for their decision."""
    kinds = [names.code(kind) for kind in DECIDED]
    rows = events.where(np.isin(events.kind, kinds) & is_in(events.at_ms, target))
    at = half_messages.find(rows)
    rows, at = rows.where(at >= 0), at[at >= 0]
    waited = rows.at_ms - half_messages.stored_ms[at]
    return Values(DECISION, waited, half_messages.topic[at], rows.group, rows.sample)


class Halves:
    """The half messages at hand: `topic` is what they are bound for."""

    def __init__(self, records: "pa.Table", names: TextCodes) -> None:
        half_messages = records.filter(pa.array(are_in(records["role"], ("half",))))
        self.stored_ms = numbers(half_messages["stored_ms"])
        self.topic = names.codes(half_messages["target_topic"])
        self._place = (numbers(half_messages["queue"]), numbers(half_messages["offset"]))

    def find(self, events: TraceEvents) -> Ints:
        """For each event the index of its half message, or -1."""
        places, known = keys((events.queue, events.first), self._place)
        return matches(places, known, self.stored_ms)


def count_values(values: Values, names: TextCodes) -> "pa.Table":
    """By CELL and bucket; `client` is NULL where none is asked."""
    known = np.maximum(values.ms, 0)
    client = np.full(len(known), -1, dtype=np.int64) if values.client is None else values.client
    sums = summed(
        pa.table(
            {
                "topic": values.topic,
                "group": values.group,
                "client": client,
                "bucket": buckets_of(values.ms),
                "n": np.ones(len(known), dtype=np.int64),
                "weight": ALL / values.sample,
                "total": known,
                "skewed": (values.ms < 0).astype(np.int64),
                "least": known,
                "most": known,
            }
        ),
        ("topic", "group", "client", "bucket"),
        COUNTS,
    )
    texts = {name: names.texts(sums[name].to_numpy()) for name in ("topic", "group", "client")}
    metric = pa.array([values.metric] * sums.num_rows, pa.string())
    counts = {name: sums[name] for name in ("bucket", *COUNTS)}
    return pa.table({"metric": metric, **texts, **counts})


def _places(
    rows: "pa.Table", place: tuple[str, str, str], names: TextCodes
) -> tuple[Ints, Ints, Ints]:
    topic, queue, offset = place
    return names.codes(rows[topic]), numbers(rows[queue], -1), numbers(rows[offset], -1)


def _whole(metric: str, ms: Ints, topic: Ints, group: Ints | None, names: TextCodes) -> Values:
    """Of records, which are never sampled."""
    if group is None:
        group = np.full(len(ms), names.code(""), dtype=np.int64)
    return Values(metric, ms, topic, group, np.full(len(ms), ALL, dtype=np.int64))
