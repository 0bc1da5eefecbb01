"""Converts events to trace rows; one table says which events are traced.

A row is one thing that happened to a run of neighbouring messages of one queue. What the log itself
proves (a message was produced, moved, released) is not repeated here: a journey reads it there.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import count as counting
from itertools import groupby
from operator import sub
from typing import Any, NamedTuple

from engine.events import (
    Acked,
    Checked,
    CheckGivenUp,
    CheckResumed,
    DeadLettered,
    EngineEvent,
    MessagesDelivered,
    MessagesPulled,
    Recalled,
    Replayed,
    Replied,
    Requested,
    RequestExpired,
    Rescheduled,
    Retried,
    Returned,
    SendRefused,
    TransactionCommitted,
    TransactionEvent,
    TransactionRolledBack,
)
from engine.topic.names import HALF_TOPIC, is_system_topic

ALL = 10_000  # of a row's `sample`
DETAIL_CHARS_MAX = 200  # the record of the retry or the dead letter has the whole text
NO_PLACE = -1
HALF_QUEUE = 0
DRY_RUN = "eligible"  # what a replay job says of what it would have sent


class RowKind(IntEnum):
    """Kinds of trace rows. The numbers are on disk and never used again for others."""

    DELIVERED = 1
    ACKED = 2
    FAILED = 3  # by its consumer's word; it comes back after `wait_ms`
    EXPIRED = 4  # its time ran out; it comes back
    DEAD = 5  # given up; `detail` is the reason
    RETURNED = 6  # put back unused
    PULLED = 7  # read by a group that keeps its own place, or passed over by that group's filter
    REFUSED = 8  # a send, by `message_id`; `detail` is the code
    RECALLED = 9
    RESCHEDULED = 10  # to `wait_ms` from then on
    COMMITTED = 11  # a transaction, at its half message; `detail` says by whom
    ROLLED_BACK = 12  # the same
    CHECKED = 13  # check number `attempt`; `detail` is "asked" or "nobody to ask"
    CHECK_GIVEN_UP = 14  # after `attempt` checks
    CHECK_RESUMED = 15
    REPLAYED = 16  # by a job, which `client` names; `detail` is the outcome
    REQUESTED = 17  # by its correlation id; `client` waits up to `wait_ms`, `detail` is the message
    REPLIED = 18  # the same; `client` replied with the message `detail`
    REPLIED_LATE = 19  # the same when it came too late
    REQUEST_EXPIRED = 20  # by its correlation id: nothing came in time


# Only these are sampled: what fails or is decided is why one looks, and is rare.
SAMPLED = frozenset({RowKind.DELIVERED, RowKind.ACKED, RowKind.RETURNED, RowKind.PULLED})


class Row(NamedTuple):
    """`kind` happened at `at_ms` to the messages `first` to `first + message_count - 1` of a
    queue.

    What does not apply is empty or 0; `queue` and `first` are -1 where there is no place, and then
    `message_id` (of requests: the correlation id) says what it is about. Times are ms since 1970
    UTC. `sample` is the share of messages traced there, in ten-thousandths, so that a
    count is scaled by ALL / sample.
    """

    kind: int
    at_ms: int
    group: str
    topic: str
    queue: int
    first: int
    message_count: int
    client: str = ""
    attempt: int = 0
    wait_ms: int = 0
    born_ms: int = 0
    stored_ms: int = 0
    detail: str = ""
    message_id: str = ""
    sample: int = ALL


class Recipe(NamedTuple):
    """How to make rows of one class of events, and how many messages one of them speaks of."""

    weigh: Callable[[Any], int]
    rows: Callable[[Any], Iterable[Row]]


def is_never_sampled_out(row: Row) -> bool:
    """Whether a sample leaves it in: decisions, and all that happens to what failed before."""
    return row.kind not in SAMPLED or is_system_topic(row.topic)


def _delivered(event: MessagesDelivered) -> list[Row]:
    offsets, count = event.offsets, len(event.offsets)
    ones, zeros = ((1,), (0,)) if count == 1 else ((1,) * count, (0,) * count)
    attempts = event.attempts if len(event.attempts) == count else ones
    born = event.born_ms if len(event.born_ms) == count else zeros
    stored = event.stored_ms if len(event.stored_ms) == count else zeros
    if count == 1:  # as often as messages go one by one
        return [_delivered_run(event, offsets[0], 1, attempts[0], born[0], stored[0])]
    rows, start = [], 0
    gaps = map(sub, offsets, counting())
    for (gap, *fields), members in groupby(zip(gaps, attempts, born, stored, strict=False)):
        size = len(list(members))
        rows.append(_delivered_run(event, gap + start, size, *fields))
        start += size
    return rows


def _delivered_run(
    event: MessagesDelivered, first: int, count: int, attempt: int, born_ms: int, stored_ms: int
) -> Row:
    place = (event.group, event.topic, event.queue, first, count, event.client)
    return Row(RowKind.DELIVERED, event.at_ms, *place, attempt, 0, born_ms, stored_ms)


def _settled(kind: RowKind) -> Callable[[Acked | Returned], list[Row]]:
    def rows(event: Acked | Returned) -> list[Row]:
        place = (event.group, event.topic, event.queue)
        return [Row(kind, event.at_ms, *place, *run) for run in runs(event.offsets)]

    return rows


def _retried(event: Retried) -> Iterator[Row]:
    yield Row(
        RowKind.EXPIRED if event.is_expired else RowKind.FAILED,
        event.at_ms,
        event.group,
        event.topic,
        event.queue,
        event.offset,
        1,
        event.client,
        event.attempt - 1,
        event.delay_ms,
        detail="" if event.is_expired else event.error[:DETAIL_CHARS_MAX],
    )


def _dead(event: DeadLettered) -> Iterator[Row]:
    place = (event.group, event.topic, event.queue, event.offset)
    yield Row(RowKind.DEAD, event.at_ms, *place, 1, event.client, detail=event.reason)


def _pulled(event: MessagesPulled) -> Iterator[Row]:
    place = (event.group, event.topic, event.queue, event.offset)
    yield Row(RowKind.PULLED, event.at_ms, *place, event.next_offset - event.offset)


def _refused(event: SendRefused) -> Iterator[Row]:
    for message_id in event.message_ids:
        if not (message_id.isascii() and message_id.isalnum()):
            continue  # what it was refused for: no such id can be looked for
        yield Row(
            RowKind.REFUSED,
            event.at_ms,
            "",
            event.topic[:255],
            NO_PLACE,
            NO_PLACE,
            1,
            event.client,
            detail=event.code,
            message_id=message_id[:DETAIL_CHARS_MAX],
        )


def _recalled(event: Recalled) -> Iterator[Row]:
    yield Row(RowKind.RECALLED, event.at_ms, "", event.topic, event.queue, event.offset, 1)


def _rescheduled(event: Rescheduled) -> Iterator[Row]:
    place = ("", event.topic, event.queue, event.offset, 1)
    wait_ms = max(0, event.due_ms - event.at_ms)
    yield Row(RowKind.RESCHEDULED, event.at_ms, *place, wait_ms=wait_ms)


def _decided(
    kind: RowKind,
) -> Callable[[TransactionCommitted | TransactionRolledBack], Iterator[Row]]:
    def rows(event: TransactionCommitted | TransactionRolledBack) -> Iterator[Row]:
        yield _of_half(kind, event, detail=event.by)

    return rows


def _checked(event: Checked) -> Iterator[Row]:
    detail = "asked" if event.is_asked else "nobody to ask"
    yield _of_half(RowKind.CHECKED, event, event.number, detail)


def _given_up(event: CheckGivenUp) -> Iterator[Row]:
    yield _of_half(RowKind.CHECK_GIVEN_UP, event, event.checks)


def _resumed(event: CheckResumed) -> Iterator[Row]:
    yield _of_half(RowKind.CHECK_RESUMED, event)


def _of_half(kind: RowKind, event: TransactionEvent, attempt: int = 0, detail: str = "") -> Row:
    place = (event.producer_group, HALF_TOPIC, HALF_QUEUE, event.half_offset, 1)
    row = Row(kind, event.at_ms, *place, attempt=attempt, detail=detail)
    return row._replace(message_id=event.message_id)


def _replayed(event: Replayed) -> Iterator[Row]:
    if event.outcome == DRY_RUN:
        return  # nothing happened
    place = ("", event.topic, event.queue, event.offset, 1)
    row = Row(RowKind.REPLAYED, event.at_ms, *place, event.job, detail=event.outcome)
    yield row._replace(message_id=event.message_id)


def _requested(event: Requested) -> Iterable[Row]:
    yield _of_request(RowKind.REQUESTED, event, wait_ms=event.timeout_ms)


def _replied(event: Replied) -> Iterable[Row]:
    yield _of_request(RowKind.REPLIED_LATE if event.is_late else RowKind.REPLIED, event)


def _request_expired(event: RequestExpired) -> Iterable[Row]:
    yield _of_request(RowKind.REQUEST_EXPIRED, event)


def _of_request(
    kind: RowKind, event: Requested | Replied | RequestExpired, wait_ms: int = 0
) -> Row:
    """By the correlation id, which the request and its reply both carry."""
    place = ("", event.topic, NO_PLACE, NO_PLACE, 1)
    row = Row(kind, event.at_ms, *place, event.client, wait_ms=wait_ms, detail=event.message_id)
    return row._replace(message_id=event.correlation_id)


def runs(offsets: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Stretches without a gap, as first offset and count."""
    if len(offsets) == 1:
        yield offsets[0], 1
        return
    start = 0
    for place, members in groupby(map(sub, offsets, counting())):
        size = len(list(members))
        yield place + start, size
        start += size


def _one(_: EngineEvent) -> int:
    return 1


def _many(event: MessagesDelivered | Acked | Returned) -> int:
    return len(event.offsets)


RECIPES: dict[type[EngineEvent], Recipe] = {
    MessagesDelivered: Recipe(_many, _delivered),
    Acked: Recipe(_many, _settled(RowKind.ACKED)),
    Returned: Recipe(_many, _settled(RowKind.RETURNED)),
    Retried: Recipe(_one, _retried),
    DeadLettered: Recipe(_one, _dead),
    MessagesPulled: Recipe(lambda event: event.next_offset - event.offset, _pulled),
    SendRefused: Recipe(lambda event: len(event.message_ids), _refused),
    Recalled: Recipe(_one, _recalled),
    Rescheduled: Recipe(_one, _rescheduled),
    TransactionCommitted: Recipe(_one, _decided(RowKind.COMMITTED)),
    TransactionRolledBack: Recipe(_one, _decided(RowKind.ROLLED_BACK)),
    Checked: Recipe(_one, _checked),
    CheckGivenUp: Recipe(_one, _given_up),
    CheckResumed: Recipe(_one, _resumed),
    Replayed: Recipe(_one, _replayed),
    Requested: Recipe(_one, _requested),
    Replied: Recipe(_one, _replied),
    RequestExpired: Recipe(_one, _request_expired),
}
