"""Outcomes of delivered messages: a row for each group and place in a queue."""

from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa

from analytics.jobs.definitions import ACKED, ALL, ATTEMPTED, DELIVERED, HOUR_MS, RETRY_PREFIX
from analytics.jobs.traces.blobs import (
    Ints,
    Mask,
    TextCodes,
    are_in,
    begins,
    keys,
    matches,
    numbers,
    repeated,
)

NEVER = np.iinfo(np.int64).min  # of a time that is not known
LATEST = np.iinfo(np.int64).max


@dataclass(frozen=True)
class TraceEvents:
    """Trace rows as numbers: texts by their codes, what is not known as NEVER, no place as -1."""

    at_ms: Ints
    kind: Ints
    group: Ints
    topic: Ints
    queue: Ints
    first: Ints
    count: Ints
    client: Ints
    attempt: Ints
    born_ms: Ints
    stored_ms: Ints
    detail: Ints
    sample: Ints

    def take(self, rows: Ints) -> "TraceEvents":
        """Some of them, by their indices."""
        return TraceEvents(*(getattr(self, each.name)[rows] for each in fields(self)))

    def where(self, mask: Mask) -> "TraceEvents":
        """Those that are wanted."""
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def each(self) -> "TraceEvents":
        """A row for each message of a run, in place of one for the run."""
        if (self.count == 1).all():
            return self
        rows, step = repeated(self.count)
        events = self.take(rows)
        np.add(events.first, step, out=events.first)
        events.count[:] = 1
        return events


def events_of(rows: "pa.Table", names: TextCodes) -> TraceEvents:
    """What `scatter` sent; what has no share of a sample stands for itself."""
    sample = numbers(rows["sample"])
    return TraceEvents(
        at_ms=numbers(rows["at_ms"]),
        kind=names.codes(rows["kind"]),
        group=names.codes(rows["group"]),
        topic=names.codes(rows["topic"]),
        queue=numbers(rows["queue"], -1),
        first=numbers(rows["first_offset"], -1),
        count=numbers(rows["message_count"]),
        client=names.codes(rows["client"]),
        attempt=numbers(rows["attempt"]),
        born_ms=numbers(rows["born_ms"], NEVER),
        stored_ms=numbers(rows["stored_ms"], NEVER),
        detail=names.codes(rows["detail"]),
        sample=np.where(sample > 0, sample, ALL),
    )


@dataclass(frozen=True)
class DeliveryAttempts:
    """One row for each group and place; times are NEVER where there was none.

    `opened_ms` first delivery of attempt 1, `delivered_ms` last delivery and `client` who got it
    (-1 without one), `acked_ms` first acknowledgement, `ended_ms` last end of an attempt. `origin`
    is the topic its producer sent it to, of a retry too if that is known.
    """

    group: Ints
    topic: Ints
    queue: Ints
    offset: Ints
    opened_ms: Ints
    delivered_ms: Ints
    acked_ms: Ints
    ended_ms: Ints
    born_ms: Ints
    stored_ms: Ints
    attempt: Ints
    client: Ints
    sample: Ints
    origin: Ints

    def take(self, rows: Ints) -> "DeliveryAttempts":
        """Some of them, by their indices."""
        return DeliveryAttempts(*(getattr(self, each.name)[rows] for each in fields(self)))


class Origins:
    """Where retries come from, by the place of the retry."""

    def __init__(self, records: "pa.Table", names: TextCodes) -> None:
        retries = records.filter(pa.array(are_in(records["role"], ("retry",))))
        retries = retries.filter(pa.array(~are_in(retries["origin_topic"], ("",))))
        self._names = names
        self._origin = names.codes(retries["origin_topic"])
        self._stored_ms = numbers(retries["stored_ms"])
        self._place = (
            names.codes(retries["topic"]),
            numbers(retries["queue"]),
            numbers(retries["offset"]),
        )

    def of(self, topic: Ints, queue: Ints, offset: Ints) -> Ints:
        """The topic that each was sent to; its own where that is not known, or for no retry."""
        topics = topic.copy()
        retries = np.flatnonzero(self._names.begin(RETRY_PREFIX)[topic])
        if len(retries) and len(self._origin):
            place = (topic[retries], queue[retries], offset[retries])
            places, known = keys(place, self._place)
            at = matches(places, known, self._stored_ms)
            topics[retries] = np.where(at >= 0, self._origin[at], topic[retries])
        return topics


def attempted(events: TraceEvents, names: TextCodes) -> TraceEvents:
    """Deliveries and ends of attempts, of messages with a place."""
    kinds = [names.code(kind) for kind in ATTEMPTED]
    return events.where(np.isin(events.kind, kinds) & (events.first >= 0))


def attempts_of(events: TraceEvents, origins: Origins, names: TextCodes) -> DeliveryAttempts:
    """All that is known of each message that was delivered, from what two hours `attempted`."""
    rows = events.each()
    (key,) = keys((rows.group, rows.topic, rows.queue, rows.first))
    order = np.argsort(key, kind="stable")
    key = key[order]
    begin = begins(key)

    def least(values: Ints) -> Ints:
        first = np.minimum.reduceat(values[order], begin) if len(begin) else values
        return np.where(first == LATEST, NEVER, first)

    def most(values: Ints) -> Ints:
        return np.maximum.reduceat(values[order], begin) if len(begin) else values

    is_delivered = rows.kind == names.code(DELIVERED)
    delivered = np.where(is_delivered, rows.at_ms, NEVER)
    delivered_ms = most(delivered)
    which = np.repeat(np.arange(len(begin)), np.diff(begin, append=len(key)))
    last = np.flatnonzero(is_delivered[order] & (rows.at_ms[order] == delivered_ms[which]))
    client = np.full(len(begin), -1, dtype=np.int64)
    client[which[last]] = rows.client[order[last]]
    one = order[begin]
    topic, queue, offset = rows.topic[one], rows.queue[one], rows.first[one]
    return DeliveryAttempts(
        group=rows.group[one],
        topic=topic,
        queue=queue,
        offset=offset,
        opened_ms=least(np.where(is_delivered & (rows.attempt == 1), rows.at_ms, LATEST)),
        delivered_ms=delivered_ms,
        acked_ms=least(np.where(rows.kind == names.code(ACKED), rows.at_ms, LATEST)),
        ended_ms=most(np.where(is_delivered, NEVER, rows.at_ms)),
        born_ms=most(rows.born_ms),
        stored_ms=most(rows.stored_ms),
        attempt=most(rows.attempt),
        client=client,
        sample=least(rows.sample),
        origin=origins.of(topic, queue, offset),
    )


def is_in(at_ms: Ints, hour: int) -> Mask:
    """By row whether it is a time of that hour; NEVER is none of any."""
    return (at_ms >= hour * HOUR_MS) & (at_ms < (hour + 1) * HOUR_MS)
