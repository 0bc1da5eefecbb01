"""The reports' figures in SQL: replaced by whole hours in one transaction, read by range and name.

A run that dies before its transaction ends leaves the previous figures; repeating a run leaves the
same figures. Figures of older hours are packed (`report_packing.py`) and are read together with the
others, in the order of the key.
"""

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import islice
from typing import Any

import msgspec
from sqlalchemy import Connection, Select, Table, delete, func, insert, select, tuple_

from app.db import report_packing as packing
from app.db.report_periods import name_of
from app.db.report_rows import PACKED, Loaded, Moved, NotOurs, ResultFilter, Row, RunRow
from app.db.report_store import finish
from app.db.report_tables import RESULT_TABLES, report_partitions
from app.db.store import TableStore
from engine.histogram import pack
from engine.report_tables import ALL, HOURS, RESULTS_BY_NAME, ResultTable
from kitemq.model.reports import Coarse

CHUNK_ROWS = 5_000
KEYS_MAX = 500  # hours named in one statement
PAGE_MAX = 5_000
DAY, DAY_CHARS = "day", 10
QUEUE = "queue"  # the one column that rows are chosen by which is a number


class ResultStore(TableStore):
    """The part of the database that holds the reports' figures."""

    def replace(self, loaded: Loaded) -> None:
        """Take over a run's figures and its end, all or nothing.

        Raises NotOurs, ValueError; NotWhole (a ValueError) where hours are kept as one with others
        that the run did not compute.
        """
        run = loaded.run
        with self._transaction() as connection:
            for table, rows in loaded.tables:
                _replace(connection, table, run.hours, rows)
            _mark_done(connection, run, loaded.fingerprints)
            if not finish(connection, run):
                raise NotOurs

    def expire(self, oldest: str) -> int:
        """Delete the figures of hours before `oldest`; how many rows, or blocks of them."""
        deleted = 0
        with self._transaction() as connection:
            for name, table in RESULT_TABLES.items():
                if RESULTS_BY_NAME[name].replaces != ALL:
                    done = connection.execute(delete(table).where(table.c.hour < oldest))
                    deleted += done.rowcount
            deleted += packing.expire(connection, oldest)
            connection.execute(delete(report_partitions).where(report_partitions.c.hour < oldest))
        return deleted

    def compact(self, name: str, hours: int, before: str) -> bool:
        """Pack the oldest figures that end before an hour as one period of `hours` hours.

        In one transaction: what it is made of is deleted. False where there are none.
        """
        with self._transaction() as connection:
            return packing.compact(connection, RESULTS_BY_NAME[name], hours, before)

    def coarse(self, job: str) -> list[Coarse]:
        """The ends of the ranges that are packed by days or longer, the longest periods first."""
        with self._transaction() as connection:
            return packing.coarse(connection, job)

    def coarse_periods(self, job: str) -> list[tuple[str, int]]:
        """First hour and length of each period longer than an hour that there are figures of.

        The shortest first: where one lies within another, the longer one counts.
        """
        with self._transaction() as connection:
            return [(name_of(b), hours) for b, hours in packing.coarse_periods(connection, job)]

    def page(
        self, name: str, filter: ResultFilter, limit: int, after: Sequence[Any] = ()
    ) -> list[Row]:
        """Rows in the order of their key, at most 5,000; `after` is the key of the last one.

        A row belongs to the range that its (first) hour lies in. Histograms are as bytes
        (`engine.histogram`); rows of more than one hour say so in `hours`. Raises Moved where the
        last one's hour was put together with others since.
        """
        size = min(limit, PAGE_MAX)
        with self._transaction() as connection:
            return list(islice(_all_rows(connection, name, filter, size, after), size))

    def totals(self, name: str, by: Sequence[str], filter: ResultFilter, limit: int) -> list[Row]:
        """Sums of a table by these columns; "day" stands for the date of the hour."""
        table, sums = RESULT_TABLES[name], RESULTS_BY_NAME[name].sums
        groups = [
            func.substr(table.c.hour, 1, DAY_CHARS).label(DAY) if each == DAY else table.c[each]
            for each in by
        ]
        added = [func.sum(table.c[each]).label(each) for each in sums]
        statement = _where(select(*groups, *added), table, filter).group_by(*groups)
        with self._transaction() as connection:
            rows = connection.execute(statement.order_by(*groups).limit(limit)).mappings()
            # PostgreSQL adds whole numbers up to decimal ones.
            totals = [
                {key: int(each) if isinstance(each, Decimal) else each for key, each in row.items()}
                for row in rows
            ]
            packed = packing.rows(connection, RESULTS_BY_NAME[name], filter)
            return _added(totals, packed, by, sums, limit)

    def count(self, name: str, filter: ResultFilter) -> int:
        """The number of rows; for packed ones only the range and topic are checked."""
        table = RESULT_TABLES[name]
        statement = _where(select(func.count()).select_from(table), table, filter)
        with self._transaction() as connection:
            stored = int(connection.execute(statement).scalar_one())
            return stored + packing.count(connection, name, filter)

    def packed_count(self, name: str, filter: ResultFilter) -> int:
        """The number of rows that have to be unpacked for an answer."""
        with self._transaction() as connection:
            return packing.count(connection, name, filter)

    def values(self, name: str, column: str, filter: ResultFilter, limit: int) -> list[str]:
        """The different topics or groups, in their order."""
        table = RESULT_TABLES[name]
        chosen = table.c[column]
        statement = _where(select(chosen).distinct(), table, filter).order_by(chosen).limit(limit)
        with self._transaction() as connection:
            values = {str(value) for value in connection.execute(statement).scalars()}
            values |= packing.names(connection, name, column, filter)
        return sorted(values)[:limit]

    def hours_done(self, job: str, first: str, last: str) -> list[str]:
        """The hours of a range with results, at most 100,000."""
        column = report_partitions.c.hour
        statement = select(column).where(report_partitions.c.job == job).order_by(column)
        if first:
            statement = statement.where(column >= first)
        if last:
            statement = statement.where(column <= last)
        with self._transaction() as connection:
            return [str(hour) for hour in connection.execute(statement.limit(100_000)).scalars()]


def _replace(
    connection: Connection, table: ResultTable, hours: Sequence[str], rows: Iterable[Row]
) -> None:
    stored = RESULT_TABLES[table.name]
    if table.replaces == ALL:
        connection.execute(delete(stored))
    else:
        packing.delete_periods(connection, table, hours)
        for some in _chunks(iter(hours), KEYS_MAX):
            connection.execute(delete(stored).where(stored.c.hour.in_(some)))
    packed = [name for name in table.names if name in PACKED]
    for chunk in _chunks(iter(rows), CHUNK_ROWS):
        for name in packed:
            for row in chunk:
                row[name] = _packed(row[name])
        connection.execute(insert(stored), chunk)


def _packed(text: str) -> bytes:
    """A job's histogram, packed; raises ValueError if it is none."""
    return pack(msgspec.json.decode(text, type=dict[int, int], strict=False))


def _mark_done(connection: Connection, run: RunRow, fingerprints: dict[str, str]) -> None:
    table = report_partitions
    for some in _chunks(iter(fingerprints), KEYS_MAX):
        connection.execute(delete(table).where(table.c.job == run.job, table.c.hour.in_(some)))
        rows = [
            {
                "job": run.job,
                "hour": hour,
                "fingerprint": fingerprints[hour],
                "done_ms": run.ended_ms,
                "run_id": run.id,
            }
            for hour in some
        ]
        connection.execute(insert(table), rows)


def _all_rows(
    connection: Connection, name: str, filter: ResultFilter, size: int, after: Sequence[Any]
) -> Iterator[Row]:
    """Packed and unpacked rows in order; an hour has only one of both."""
    table = RESULTS_BY_NAME[name]
    stored = _stored_rows(connection, table, filter, size, after)
    if table.replaces != HOURS:
        yield from stored
        return
    if after and packing.has_within(connection, table, after[0]):
        raise Moved
    waiting = next(stored, None)
    for begin in packing.begins(connection, table, filter, after[0] if after else ""):
        hour = name_of(begin)
        while waiting is not None and waiting["hour"] < hour:
            yield waiting
            waiting = next(stored, None)
        rows = packing.rows_of(connection, table, begin, filter)
        keyed = sorted((tuple(row[key] for key in table.key), n) for n, row in enumerate(rows))
        yield from (rows[n] for key, n in keyed if not after or key > tuple(after))
    if waiting is not None:
        yield waiting
    yield from stored


def _stored_rows(
    connection: Connection,
    table: ResultTable,
    filter: ResultFilter,
    size: int,
    after: Sequence[Any],
) -> Iterator[Row]:
    stored = RESULT_TABLES[table.name]
    keys = [stored.c[key] for key in table.key]
    statement = _where(select(stored), stored, filter).order_by(*keys).limit(size)
    while True:
        following = statement.where(tuple_(*keys) > tuple_(*after)) if after else statement
        rows = [dict(row) for row in connection.execute(following).mappings()]
        yield from rows
        if len(rows) < size:
            return
        after = tuple(rows[-1][key] for key in table.key)


def _added(
    stored: list[Row], packed: Iterable[Row], by: Sequence[str], sums: Sequence[str], limit: int
) -> list[Row]:
    """The sums of stored and packed rows, in the order of `by`."""
    places = {tuple(row[name] for name in by): row for row in stored}
    is_cut = len(stored) >= limit  # what comes after is not whole, and not told
    is_changed = False
    for row in packed:
        place = tuple(row["hour"][:DAY_CHARS] if name == DAY else row[name] for name in by)
        total = places.get(place)
        if total is None:
            if is_cut:
                continue
            total = places[place] = {**dict(zip(by, place, strict=True)), **dict.fromkeys(sums)}
        is_changed = True
        for name in sums:
            if row[name] is not None:
                total[name] = (total[name] or 0) + row[name]
    if not is_changed:
        return stored
    return [places[place] for place in sorted(places)][:limit]


def _where(statement: Select[Any], table: Table, filter: ResultFilter) -> Select[Any]:
    if filter.first:
        statement = statement.where(table.c.hour >= filter.first)
    if filter.last:
        statement = statement.where(table.c.hour <= filter.last)
    for column, value in filter.equal:
        text = value.replace("\0", "\ufffd")
        statement = statement.where(table.c[column] == (int(text) if column == QUEUE else text))
    return statement


def _chunks(items: Iterator[Any], size: int) -> Iterator[list[Any]]:
    while chunk := list(islice(items, size)):
        yield chunk
