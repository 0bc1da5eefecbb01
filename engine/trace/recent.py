"""What was traced last: where to begin for whoever has no message id at hand."""

from collections.abc import Iterator, Sequence

from engine.errors import Corrupt, MessageNotFound
from engine.store.store import Store
from engine.topic.names import TRACE_TOPIC
from engine.trace.journey import Outcome, Recent
from engine.trace.record import Columns
from engine.trace.rows import RowKind

OUTCOMES = {
    RowKind.DELIVERED: Outcome.INFLIGHT,
    RowKind.ACKED: Outcome.ACKED,
    RowKind.FAILED: Outcome.FAILED,
    RowKind.EXPIRED: Outcome.EXPIRED,
    RowKind.DEAD: Outcome.DEAD,
}
FAILURES = frozenset({RowKind.FAILED, RowKind.EXPIRED, RowKind.DEAD})


def find_recent(store: Store, positions: Sequence[int], count_max: int) -> list[Recent]:
    """The newest `count_max` failures and as many of the others, each kind newest first.

    `positions` are those of trace records, oldest first. A place is named once.
    """
    failures: dict[tuple[str, int, int], Recent] = {}
    others: dict[tuple[str, int, int], Recent] = {}
    for each in _iter_newest(store, positions):
        place = (each.topic, each.queue, each.offset)
        kept = failures if each.is_failure else others
        if place not in failures and place not in others and len(kept) < count_max:
            kept[place] = each
        if len(failures) == len(others) == count_max:
            break
    return [*failures.values(), *others.values()]


def _iter_newest(store: Store, positions: Sequence[int]) -> Iterator[Recent]:
    for position in reversed(positions):
        columns = _columns(store, position)
        if columns is None:
            continue
        kinds, firsts = columns.raw("kind"), columns.raw("first")
        for index in range(columns.count - 1, -1, -1):
            if kinds[index] not in OUTCOMES or firsts[index] < 0:
                continue
            row = columns.row(index)
            kind = RowKind(row.kind)
            offset = row.first + row.message_count - 1
            yield Recent(
                row.at_ms, OUTCOMES[kind], kind in FAILURES, row.group, row.topic, row.queue, offset
            )


def _columns(store: Store, position: int) -> Columns | None:
    try:
        message = store.read_at(position)
        return Columns(message.body) if message.topic == TRACE_TOPIC else None
    except (MessageNotFound, Corrupt):
        return None
