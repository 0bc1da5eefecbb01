"""The figures of the reports as people and programs read them: rows, sums, merged latencies.

Each answer says what its figures were made of (`Basis`). Ranges are UTC hours as "2026-11-21T03",
both ends in. Percentiles of several hours, topics or groups come from their histograms put
together: averages of percentiles would be wrong.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from app.capabilities import require
from app.db.report_rows import Moved, ResultFilter, Row
from app.db.worker import DatabaseAsker, DatabaseWorker, Work
from app.services.reports.cells import LatencyCell
from app.services.reports.files import ResultFiles
from app.services.reports.reports import Reports
from app.services.reports.standing import UNAVAILABLE, UNREADABLE
from app.settings import Settings
from engine.errors import Busy, Invalid, NotFound, Refused
from engine.report_hours import is_hour
from engine.report_tables import RESULTS_BY_NAME, ResultTable
from kitemq.model.numbers import is_whole
from kitemq.model.reports import Basis, Coarse

T = TypeVar("T")

PAGE_MAX = 5_000
TOTALS_MAX = 5_000
VALUES_MAX = 1_000
CELLS_MAX = 200_000  # latency rows that are put together for one answer
UNPACKED_MAX = 500_000  # rows of older hours that are added up for one answer
NAMES = ("topic", "group")
# The capability that a table, or rows of these metrics, come from.
SOURCES = {
    "transactions": "transaction_reports",
    "decision": "transaction_reports",
    **dict.fromkeys(("lateness_level", "lateness_timer"), "delay_reports"),
}
LATENCY = "latency"
LATENCY_BY = ("hour", "day", "metric", "topic", "group", "client")


@dataclass(frozen=True)
class RowPage:
    """Rows in the order of their key; `next_cursor` is "" on the last page."""

    table: ResultTable
    rows: list[Row]
    next_cursor: str
    basis: Basis


@dataclass(frozen=True)
class RowTotals:
    """Sums by some columns; `is_cut` where there are more than 5,000 of them."""

    table: ResultTable
    by: tuple[str, ...]
    rows: list[Row]
    is_cut: bool
    basis: Basis


@dataclass(frozen=True)
class Latency:
    """Latencies that have the values `by` in common.

    `within` is the share that does not exceed the given limit; None without a limit.
    """

    by: tuple[str, ...]
    cell: LatencyCell
    within: float | None


@dataclass(frozen=True)
class Latencies:
    """Latencies by `by`, in the order of these values."""

    by: tuple[str, ...]
    items: list[Latency]
    basis: Basis


class ReportResults:
    """Reads the figures; every method raises Busy where the database fails."""

    def __init__(self, reports: Reports, database: DatabaseWorker, settings: Settings) -> None:
        self._reports = reports
        self._ask = DatabaseAsker(database, UNREADABLE, code=UNAVAILABLE)
        self._files = ResultFiles(self, reports, settings)

    async def page(
        self, name: str, criteria: ResultFilter, *, limit: int = 500, cursor: str = ""
    ) -> RowPage:
        """Rows of a table, at most 5,000; raises NotFound, Invalid."""
        table = self._checked(name, criteria)
        after = _after(table, cursor)
        size = max(1, min(limit, PAGE_MAX))
        rows = await self.ask(lambda db: db.results.page(name, criteria, size + 1, after))
        is_more = len(rows) > size
        rows = rows[:size]
        following = _cursor(table, rows[-1]) if is_more else ""
        return RowPage(table, rows, following, await self.basis(table.job, criteria))

    async def totals(self, name: str, by: Sequence[str], criteria: ResultFilter) -> RowTotals:
        """Sums of a table by some of its dimensions, "day" among them."""
        table = self._checked(name, criteria)
        allowed = ("day", *table.dimensions)
        chosen = _checked_by(by, allowed)
        if not table.sums:
            raise Invalid(f"nothing of {name} can be added up", field="table", remedy=_SUMMED)
        amount = await self.ask(lambda db: db.results.packed_count(name, criteria))
        if amount > UNPACKED_MAX:
            raise Refused(
                f"{amount:,} older rows are more than the {UNPACKED_MAX:,} that are added up",
                remedy="ask for fewer hours, or one topic",
            )
        rows = await self.ask(lambda db: db.results.totals(name, chosen, criteria, TOTALS_MAX + 1))
        basis = await self.basis(table.job, criteria)
        return RowTotals(table, chosen, rows[:TOTALS_MAX], len(rows) > TOTALS_MAX, basis)

    async def latency(
        self, by: Sequence[str], criteria: ResultFilter, *, within_ms: float | None = None
    ) -> Latencies:
        """Latencies put together by these columns (LATENCY_BY); none of them for one of all.

        `within_ms` asks for the share of values that do not exceed it. Raises Refused where more
        than 200,000 cells would have to be read.
        """
        self._checked(LATENCY, criteria)
        chosen = _checked_by(by, LATENCY_BY)
        amount = await self.ask(lambda db: db.results.count(LATENCY, criteria))
        if amount > CELLS_MAX:
            raise Refused(
                f"{amount:,} cells are more than the {CELLS_MAX:,} that are put together at once",
                remedy="ask for fewer hours, or one topic, group or metric",
            )
        cells: dict[tuple[str, ...], LatencyCell] = {}
        async for rows in self.pages(LATENCY, criteria):
            await asyncio.to_thread(_merge, cells, rows, chosen)
        latencies = await asyncio.to_thread(_latencies, cells, within_ms)
        return Latencies(chosen, latencies, await self.basis("traces", criteria))

    async def values(self, name: str, column: str, criteria: ResultFilter) -> list[str]:
        """The different topics or groups, in order, at most 1,000: for choosing from."""
        table = self._checked(name, criteria)
        if column not in table.dimensions or column not in NAMES:
            raise Invalid(f"{name} has no {column!r} to choose from", field="column")
        return await self.ask(lambda db: db.results.values(name, column, criteria, VALUES_MAX))

    async def basis(self, job: str, criteria: ResultFilter) -> Basis:
        """The sources of an answer about this range."""
        hours = await self.ask(lambda db: db.results.hours_done(job, criteria.first, criteria.last))
        fresh_ms = await self._reports.fresh_ms(job)
        first, last = (hours[0], hours[-1]) if hours else ("", "")
        coarse = await self.coarse(job)
        return Basis(
            job=job,
            fresh_ms=fresh_ms,
            first=criteria.first,
            last=criteria.last,
            hours_done=len(hours),
            done_first=first,
            done_last=last,
            coarse=coarse,
        )

    async def coarse(self, job: str) -> list[Coarse]:
        """Up to where the figures of a job are by more than hours; the longest periods first."""
        return await self.ask(lambda db: db.results.coarse(job))

    async def csv(self, name: str, criteria: ResultFilter) -> AsyncIterator[bytes]:
        """A table as CSV, piece by piece; Refused over 100,000 rows, before the first piece."""
        return await self._files.csv(self._checked(name, criteria), criteria)

    async def parquet(self, name: str, criteria: ResultFilter) -> bytes:
        """A table as Parquet. Refused over 100,000 rows, and without Spark's Python packages."""
        return await self._files.parquet(self._checked(name, criteria), criteria)

    # -- helpers ----------------------------------------------------------------------------------

    def _checked(self, name: str, criteria: ResultFilter) -> ResultTable:
        """The table of that name; Refused too where the engine does not tell what is asked for."""
        table = checked(name, criteria)
        for field, value in (("table", name), *criteria.equal):
            if field in ("table", "metric") and value in SOURCES:
                require(self._reports.capabilities, SOURCES[value], field=field)
        return table

    async def pages(self, name: str, criteria: ResultFilter) -> AsyncIterator[list[Row]]:
        """All rows, 5,000 at a time."""
        table = RESULTS_BY_NAME[name]
        after: tuple[object, ...] = ()
        while True:
            rows = await self.ask(_page_of(name, criteria, after))
            if rows:
                yield rows
            if len(rows) < PAGE_MAX:
                return
            after = tuple(rows[-1][key] for key in table.key)

    async def ask(self, work: Work[T]) -> T:
        """Query the database; Busy if it fails, or if hours were deleted during the read."""
        try:
            return await self._ask(work)
        except Moved:
            raise Busy(
                "hours were put together as a day, or as four weeks, while they were read",
                remedy="read them from the beginning",
            ) from None


def checked(name: str, criteria: ResultFilter) -> ResultTable:
    """The table of that name; NotFound, or Invalid where the filter does not fit it."""
    table = RESULTS_BY_NAME.get(name)
    if table is None:
        raise NotFound(
            f"there is no table {name[:40]!r}",
            field="table",
            remedy="one of " + ", ".join(RESULTS_BY_NAME),
        )
    for field, hour in (("first", criteria.first), ("last", criteria.last)):
        if hour and not is_hour(hour):
            raise Invalid(
                f"{hour[:40]!r} is no hour", field=field, remedy="in UTC, as in 2026-11-21T03"
            )
    for column, value in criteria.equal:
        if column not in table.dimensions:
            raise Invalid(
                f"{name} has no column {column[:40]!r} to choose by",
                field=column[:40],
                remedy="one of " + ", ".join(table.dimensions),
            )
        if column == "queue" and not is_whole(value, 5):
            raise Invalid(f"{value[:40]!r} is no queue", field="queue", remedy="give its number")
    return table


_SUMMED = "one of " + ", ".join(name for name, table in RESULTS_BY_NAME.items() if table.sums)


def _page_of(name: str, criteria: ResultFilter, after: tuple[object, ...]) -> Work[list[Row]]:
    return lambda db: db.results.page(name, criteria, PAGE_MAX, after)


def _checked_by(by: Sequence[str], allowed: Sequence[str]) -> tuple[str, ...]:
    chosen = tuple(dict.fromkeys(each for each in by if each))
    for each in chosen:
        if each not in allowed:
            raise Invalid(
                f"figures cannot be put together by {each[:40]!r}",
                field="by",
                remedy="some of " + ", ".join(allowed),
            )
    return chosen


def _cursor(table: ResultTable, row: Row) -> str:
    return msgspec.json.encode([row[key] for key in table.key]).hex()


def _after(table: ResultTable, cursor: str) -> tuple[object, ...]:
    """The key of the last row of the page before."""
    if not cursor:
        return ()
    kinds = {column.name: column.kind for column in table.columns}
    try:
        values = msgspec.json.decode(bytes.fromhex(cursor), type=list[str | int])
    except (ValueError, msgspec.DecodeError):
        values = []
    key_kinds = [kinds[key] for key in table.key]
    is_whole = len(values) == len(key_kinds) and all(map(_fits, key_kinds, values))
    if not is_whole or (table.key[0] == "hour" and not is_hour(str(values[0]))):
        raise Invalid("this is no cursor", field="cursor", remedy="begin without a cursor")
    return tuple(values)


def _fits(kind: str, value: str | int) -> bool:
    """Whether any database can store a value in a column."""
    if isinstance(value, str):
        return kind == "STRING" and "\0" not in value
    return abs(value) < (2**31 if kind == "INT" else 2**63) and kind in ("INT", "BIGINT")


def _merge(
    cells: dict[tuple[str, ...], LatencyCell], rows: Iterable[Row], by: tuple[str, ...]
) -> None:
    for row in rows:
        place = tuple(row["hour"][:10] if each == "day" else row[each] for each in by)
        cell = cells.get(place)
        if cell is None:
            cell = cells[place] = LatencyCell()
        cell.add(row)


def _latencies(
    cells: Mapping[tuple[str, ...], LatencyCell], within_ms: float | None
) -> list[Latency]:
    return [
        Latency(place, cells[place], cells[place].share_within(within_ms))
        for place in sorted(cells)
        if cells[place].n
    ]
