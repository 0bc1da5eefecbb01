"""Stores and reads packed figures of older hours, within the caller's transaction.

A period is an hour, a day or four weeks (`report_periods.py`). The figures of an hour are in rows
of their own or in one period, never in two: packing deletes its sources in the same transaction,
and writing an hour again deletes its period first.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Select, delete, func, insert, select

from app.db.report_merge import merged
from app.db.report_pack import pack_names, pack_rows, unpack_names, unpack_rows
from app.db.report_periods import DAY, GRAINS, HOUR, WEEKS, begin_of, name_of, number_of
from app.db.report_rows import NotWhole, ResultFilter, Row
from app.db.report_tables import RESULT_TABLES, report_packed, report_partitions
from engine.report_tables import HOURS, RESULTS, ResultTable
from kitemq.model.reports import Coarse

QUEUE = "queue"
packed = report_packed
PERIOD_NAMES = {DAY: "day", WEEKS: "four weeks"}


# -- writing --------------------------------------------------------------------------------------


def compact(connection: Connection, table: ResultTable, hours: int, before: str) -> bool:
    """Pack the oldest period of `hours` hours that still has shorter periods.

    False if there is none that ends before the given hour.
    """
    assert hours in GRAINS
    oldest = _oldest(connection, table, hours)
    if oldest is None:
        return False
    begin = begin_of(oldest, hours)
    if begin + hours > number_of(before):
        return False
    blocks = []
    for topic in _topics(connection, table, begin, hours):
        sources = _sources(connection, table, begin, hours, topic)
        rows = merged(table, sources, name_of(begin), hours)
        blocks.append(_block(table, rows, begin, hours, topic))
    stored = RESULT_TABLES[table.name]
    connection.execute(delete(stored).where(_hours_of(stored, begin, hours)))
    connection.execute(delete(packed).where(_within(table.name, begin, hours)))
    connection.execute(insert(packed), blocks)
    return True


def delete_periods(connection: Connection, table: ResultTable, hours: Sequence[str]) -> None:
    """Delete the periods of these hours before they are written again.

    Raises NotWhole if one has figures of other hours too.
    """
    numbers = {number_of(hour) for hour in hours}
    if not numbers:
        return
    statement = (
        select(packed.c.begin, packed.c.hours)
        .where(packed.c.name == table.name, packed.c.begin <= max(numbers))
        .where(packed.c.begin + packed.c.hours > min(numbers))
        .distinct()
    )
    for begin, length in connection.execute(statement).all():
        own = set(range(begin, begin + length))
        if not own & numbers:
            continue
        if length > HOUR and not _done(connection, table.job, begin, length) <= numbers:
            raise NotWhole(
                f"the figures of {name_of(begin)} are kept as one with those of the same "
                f"{PERIOD_NAMES[length]}: compute all hours of it"
            )
        connection.execute(
            delete(packed).where(packed.c.name == table.name, packed.c.begin == begin)
        )


def expire(connection: Connection, oldest: str) -> int:
    """Delete the periods that end before an hour; returns the number of blocks."""
    is_old = packed.c.begin + packed.c.hours <= number_of(oldest)
    return connection.execute(delete(packed).where(is_old)).rowcount


def _block(
    table: ResultTable, rows: Sequence[Row], begin: int, hours: int, topic: str
) -> dict[str, Any]:
    groups = {row["group"] for row in rows} if "group" in table.names else set()
    return {
        "name": table.name,
        "begin": begin,
        "topic": topic,
        "hours": hours,
        "rows": len(rows),
        "groups": pack_names(groups),
        "data": pack_rows(table, rows, begin),
    }


def _oldest(connection: Connection, table: ResultTable, hours: int) -> int | None:
    """The first hour with figures in periods shorter than `hours` hours."""
    stored = RESULT_TABLES[table.name]
    named = connection.execute(select(func.min(stored.c.hour))).scalar()
    shorter = (packed.c.name == table.name) & (packed.c.hours < hours)
    begin = connection.execute(select(func.min(packed.c.begin)).where(shorter)).scalar()
    candidates = [] if named is None else [number_of(named)]
    return min([*candidates, *([] if begin is None else [begin])], default=None)


def _topics(connection: Connection, table: ResultTable, begin: int, hours: int) -> list[str]:
    stored = RESULT_TABLES[table.name]
    named = select(stored.c.topic).where(_hours_of(stored, begin, hours)).distinct()
    others = select(packed.c.topic).where(_within(table.name, begin, hours)).distinct()
    return sorted({*connection.execute(named).scalars(), *connection.execute(others).scalars()})


def _sources(
    connection: Connection, table: ResultTable, begin: int, hours: int, topic: str
) -> Iterator[Row]:
    stored = RESULT_TABLES[table.name]
    statement = select(stored).where(_hours_of(stored, begin, hours), stored.c.topic == topic)
    for row in connection.execute(statement).mappings():
        yield dict(row)
    blocks = select(packed).where(_within(table.name, begin, hours), packed.c.topic == topic)
    yield from _unpacked(connection, table, blocks)


def _hours_of(stored: Any, begin: int, hours: int) -> Any:
    return (stored.c.hour >= name_of(begin)) & (stored.c.hour < name_of(begin + hours))


def _within(name: str, begin: int, hours: int) -> Any:
    return (packed.c.name == name) & (packed.c.begin >= begin) & (packed.c.begin < begin + hours)


def _done(connection: Connection, job: str, begin: int, hours: int) -> set[int]:
    """The hours of a period that have results."""
    done = report_partitions
    statement = select(done.c.hour).where(done.c.job == job, _hours_of(done, begin, hours))
    return {number_of(hour) for hour in connection.execute(statement).scalars()}


# -- reading --------------------------------------------------------------------------------------


def begins(
    connection: Connection, table: ResultTable, filter: ResultFilter, since: str = ""
) -> list[int]:
    """The first hours of the periods of a range, in order."""
    statement = _where(select(packed.c.begin).distinct(), table.name, filter)
    if since:
        statement = statement.where(packed.c.begin >= number_of(since))
    return list(connection.execute(statement.order_by(packed.c.begin)).scalars())


def has_within(connection: Connection, table: ResultTable, hour: str) -> bool:
    """Whether an hour lies in a period that began before it."""
    number = number_of(hour)
    statement = select(packed.c.begin).where(packed.c.name == table.name, packed.c.begin < number)
    statement = statement.where(packed.c.begin + packed.c.hours > number).limit(1)
    return connection.execute(statement).first() is not None


def rows_of(
    connection: Connection, table: ResultTable, begin: int, filter: ResultFilter
) -> list[Row]:
    """The rows of one period, in no order."""
    statement = _where(select(packed), table.name, filter).where(packed.c.begin == begin)
    return _matching(_unpacked(connection, table, statement), filter)


def rows(connection: Connection, table: ResultTable, filter: ResultFilter) -> Iterator[Row]:
    """All rows of a range, period by period."""
    for begin in begins(connection, table, filter):
        yield from rows_of(connection, table, begin, filter)


def count(connection: Connection, name: str, filter: ResultFilter) -> int:
    """The number of rows of a range and topic; other conditions are ignored."""
    statement = _where(select(func.sum(packed.c.rows)), name, filter)
    return int(connection.execute(statement).scalar() or 0)


def names(connection: Connection, name: str, column: str, filter: ResultFilter) -> set[str]:
    """The topics or groups of a range."""
    if column == "topic":
        statement = _where(select(packed.c.topic).distinct(), name, filter)
        return set(connection.execute(statement).scalars())
    assert column == "group", "blocks tell their topic and groups"
    statement = _where(select(packed.c.groups).distinct(), name, filter)
    blocks = connection.execute(statement).scalars()
    return {each for data in blocks for each in unpack_names(bytes(data))}


def coarse(connection: Connection, job: str) -> list[Coarse]:
    """The ends of the ranges with periods longer than an hour, the longest periods first."""
    statement = (
        select(packed.c.hours, func.max(packed.c.begin + packed.c.hours))
        .where(packed.c.hours > HOUR, packed.c.name.in_(_tables(job)))
        .group_by(packed.c.hours)
        .order_by(packed.c.hours.desc())
    )
    return [Coarse(hours, name_of(end)) for hours, end in connection.execute(statement)]


def coarse_periods(connection: Connection, job: str) -> list[tuple[int, int]]:
    """First hour and length of each period that is longer than an hour, the shortest first.

    While they are put together, one table of a job has days where another has four weeks.
    """
    statement = (
        select(packed.c.begin, packed.c.hours)
        .where(packed.c.hours > HOUR, packed.c.name.in_(_tables(job)))
        .distinct()
        .order_by(packed.c.hours, packed.c.begin)
    )
    return [(begin, hours) for begin, hours in connection.execute(statement)]


def _tables(job: str) -> list[str]:
    return [table.name for table in RESULTS if table.job == job and table.replaces == HOURS]


def _unpacked(connection: Connection, table: ResultTable, statement: Select[Any]) -> Iterator[Row]:
    for block in connection.execute(statement).mappings():
        yield from unpack_rows(
            table, bytes(block["data"]), block["begin"], block["hours"], block["topic"]
        )


def _where(statement: Select[Any], name: str, filter: ResultFilter) -> Select[Any]:
    """A period belongs to the range that its first hour lies in."""
    statement = statement.where(packed.c.name == name)
    if filter.first:
        statement = statement.where(packed.c.begin >= number_of(filter.first))
    if filter.last:
        statement = statement.where(packed.c.begin <= number_of(filter.last))
    for column, value in filter.equal:
        if column == "topic":
            statement = statement.where(packed.c.topic == value.replace("\0", "\ufffd"))
    return statement


def _matching(rows: Iterator[Row], filter: ResultFilter) -> list[Row]:
    equal = [
        (column, int(value) if column == QUEUE else value.replace("\0", "\ufffd"))
        for column, value in filter.equal
    ]
    return [row for row in rows if all(row[column] == value for column, value in equal)]
