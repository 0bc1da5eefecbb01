"""The most recent trace rows, a start for users without a message id."""

from collections.abc import Iterator, Sequence

from engine.errors import Corrupt, MessageNotFound
from engine.store.store import Store
from engine.topic.names import TRACE_TOPIC
from engine.trace.journey import Recent, StageOutcome
from engine.trace.record import TraceColumns
from engine.trace.rows import Row, RowKind

OUTCOMES = {
    RowKind.DELIVERED: StageOutcome.INFLIGHT,
    RowKind.ACKED: StageOutcome.ACKED,
    RowKind.FAILED: StageOutcome.FAILED,
    RowKind.EXPIRED: StageOutcome.EXPIRED,
    RowKind.DEAD: StageOutcome.DEAD,
}
ROWS_MAX = 200  # unpacked

Place = tuple[str, int, int]  # topic, queue, offset
FAILURES = frozenset({RowKind.FAILED, RowKind.EXPIRED, RowKind.DEAD})


def find_recent(store: Store, positions: Sequence[int], count_max: int) -> list[Recent]:
    """The newest `count_max` failures and as many of the others, each kind newest first.

    `positions` are those of trace records, oldest first. A place is named once.
    """
    failures: dict[Place, Recent] = {}
    others: dict[Place, Recent] = {}
    unpacked = 0
    for columns, index, kind in _newest(store, positions):
        recent = failures if kind in FAILURES else others
        if len(recent) >= count_max:
            continue
        if unpacked >= ROWS_MAX:
            break
        unpacked += 1
        each = _recent(columns.row(index))
        place = (each.topic, each.queue, each.offset)
        if place not in failures and place not in others:
            recent[place] = each
    return [*failures.values(), *others.values()]


def _newest(store: Store, positions: Sequence[int]) -> Iterator[tuple[TraceColumns, int, RowKind]]:
    """Rows of deliveries, by their number and kind only: most are never unpacked."""
    for position in reversed(positions):
        columns = _columns(store, position)
        if columns is None:
            continue
        kinds = columns.raw("kind")
        for index in range(columns.count - 1, -1, -1):
            if kinds[index] in OUTCOMES:
                yield columns, index, RowKind(kinds[index])


def _recent(row: Row) -> Recent:
    kind = RowKind(row.kind)
    offset = row.first + row.message_count - 1
    return Recent(
        at_ms=row.at_ms,
        outcome=OUTCOMES[kind],
        is_failure=kind in FAILURES,
        group=row.group,
        topic=row.topic,
        queue=row.queue,
        offset=offset,
    )


def _columns(store: Store, position: int) -> TraceColumns | None:
    try:
        message = store.read_at(position)
        return TraceColumns(message.body) if message.topic == TRACE_TOPIC else None
    except (MessageNotFound, Corrupt):
        return None
