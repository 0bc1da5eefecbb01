"""The figures of the reports as people and programs read them: rows, sums, merged latencies, files.

Each answer says what its figures were made of (`Basis`). Ranges are UTC hours as "2026-11-21T03",
both ends in. Percentiles of several hours, topics or groups come from their histograms put
together: averages of percentiles would be wrong.
"""

import asyncio
import csv
import io
import shutil
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from app.db.report_rows import RESULTS_BY_NAME, ResultFilter, ResultTable, Row
from app.db.rows import DatabaseError
from app.db.worker import DatabaseWorker
from app.services.reports import child, inputs
from app.services.reports.leftovers import mark_of
from app.services.reports.reports import INSTALL, NOT_INSTALLED, Reports, unavailable
from app.settings import Settings
from engine.errors import Busy, Invalid, NotFound, Refused
from engine.histogram import Histogram, percentile, share_within

if TYPE_CHECKING:
    from app.db.database import Database

T = TypeVar("T")

PAGE_MAX = 5_000
TOTALS_MAX = 5_000
VALUES_MAX = 1_000
CELLS_MAX = 200_000  # latency rows that are put together for one answer
FILE_ROWS_MAX = 100_000
FILE_LIMIT_S = 120.0
LATENCY = "latency"
LATENCY_BY = ("hour", "day", "metric", "topic", "group", "client")
UNSAFE = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet takes what begins so for a formula


@dataclass(frozen=True)
class Basis:
    """What an answer was made of.

    Everything stored before `fresh_ms` is in (None: there are no figures yet). Of the range
    `first` to `last` there are figures of `hours_done` hours, from `done_first` to `done_last`.
    """

    job: str
    fresh_ms: int | None
    first: str
    last: str
    hours_done: int
    done_first: str
    done_last: str


@dataclass(frozen=True)
class Page:
    """Rows in the order of their key; `next_cursor` is "" on the last page."""

    table: ResultTable
    rows: list[Row]
    next_cursor: str
    basis: Basis


@dataclass(frozen=True)
class Totals:
    """Sums by some columns; `is_cut` where there are more than 5,000 of them."""

    table: ResultTable
    by: tuple[str, ...]
    rows: list[Row]
    is_cut: bool
    basis: Basis


@dataclass(frozen=True)
class Latency:
    """Latencies of some cells put together, in ms; percentiles are at most 2.5 % off.

    `by` are the values that they were put together by, in that order; `skewed` of the `n` values
    were negative by clock skew and count as 0.
    """

    by: tuple[str, ...]
    n: int
    messages: int
    total: int
    least: int
    most: int
    skewed: int
    p50: float
    p95: float
    p99: float
    within: float | None
    buckets: Histogram

    @property
    def mean(self) -> float:
        return self.total / self.n


@dataclass(frozen=True)
class Latencies:
    """Latencies by `by`, in the order of these values."""

    by: tuple[str, ...]
    items: list[Latency]
    basis: Basis


class _Cell:
    """Latencies as they are put together."""

    def __init__(self) -> None:
        self.n = self.messages = self.total = self.most = self.skewed = 0
        self.least: int | None = None
        self.buckets: Histogram = {}

    def add(self, row: Row) -> None:
        self.n += row["n"]
        self.messages += row["messages"] or 0
        self.total += row["total"] or 0
        self.skewed += row["skewed"] or 0
        self.most = max(self.most, row["most"] or 0)
        if row["least"] is not None:
            self.least = row["least"] if self.least is None else min(self.least, row["least"])
        found: dict[str, int] = msgspec.json.decode(row["buckets"])
        for bucket, amount in found.items():
            number = int(bucket)
            self.buckets[number] = self.buckets.get(number, 0) + amount

    def latency(self, by: tuple[str, ...], within_ms: float | None) -> Latency:
        p50, p95, p99 = map(self._percentile, (0.5, 0.95, 0.99))
        within = None if within_ms is None else share_within(self.buckets, within_ms)
        return Latency(
            by,
            self.n,
            self.messages,
            self.total,
            self.least or 0,
            self.most,
            self.skewed,
            p50,
            p95,
            p99,
            within,
            self.buckets,
        )

    def _percentile(self, share: float) -> float:
        """The middle of its bucket, yet no value that did not occur: within least and most."""
        value = percentile(self.buckets, share) or 0.0
        return min(max(value, float(self.least or 0)), float(self.most))


class Results:
    """Reads the figures; every method raises Busy where the database fails."""

    def __init__(self, reports: Reports, database: DatabaseWorker, settings: Settings) -> None:
        self._reports = reports
        self._database = database
        self._mark = mark_of(settings.data)
        self._folder = (settings.data / "spark" / "files").absolute()
        self._numbers = count(1)

    async def page(
        self, name: str, wanted: ResultFilter, *, limit: int = 500, cursor: str = ""
    ) -> Page:
        """Rows of a table, at most 5,000; raises NotFound, Invalid."""
        table = checked(name, wanted)
        after = _after(table, cursor)
        size = max(1, min(limit, PAGE_MAX))
        rows = await self._ask(lambda db: db.results.page(name, wanted, size + 1, after))
        is_more = len(rows) > size
        rows = rows[:size]
        following = _cursor(table, rows[-1]) if is_more else ""
        return Page(table, rows, following, await self.basis(table.job, wanted))

    async def totals(self, name: str, by: Sequence[str], wanted: ResultFilter) -> Totals:
        """Sums of a table by some of its dimensions, "day" among them."""
        table = checked(name, wanted)
        allowed = ("day", *table.dimensions)
        chosen = _checked_by(by, allowed)
        if not table.sums:
            raise Invalid(f"nothing of {name} can be added up", field="table", remedy=_SUMMED)
        rows = await self._ask(lambda db: db.results.totals(name, chosen, wanted, TOTALS_MAX + 1))
        basis = await self.basis(table.job, wanted)
        return Totals(table, chosen, rows[:TOTALS_MAX], len(rows) > TOTALS_MAX, basis)

    async def latency(
        self, by: Sequence[str], wanted: ResultFilter, *, within_ms: float | None = None
    ) -> Latencies:
        """Latencies put together by these columns (LATENCY_BY); none of them for one of all.

        `within_ms` asks for the share of values that do not exceed it. Raises Refused where more
        than 200,000 cells would have to be read.
        """
        checked(LATENCY, wanted)
        chosen = _checked_by(by, LATENCY_BY)
        amount = await self._ask(lambda db: db.results.count(LATENCY, wanted))
        if amount > CELLS_MAX:
            raise Refused(
                f"{amount:,} cells are more than the {CELLS_MAX:,} that are put together at once",
                remedy="ask for fewer hours, or one topic, group or metric",
            )
        cells: dict[tuple[str, ...], _Cell] = {}
        async for rows in self._pages(LATENCY, wanted):
            await asyncio.to_thread(_merge, cells, rows, chosen)
        found = await asyncio.to_thread(_latencies, cells, within_ms)
        return Latencies(chosen, found, await self.basis("traces", wanted))

    async def values(self, name: str, column: str, wanted: ResultFilter) -> list[str]:
        """The different values of a text column, in order, at most 1,000: for choosing from."""
        table = checked(name, wanted)
        if column not in table.dimensions or column == "queue":
            raise Invalid(f"{name} has no texts {column!r}", field="column")
        return await self._ask(lambda db: db.results.values(name, column, wanted, VALUES_MAX))

    async def basis(self, job: str, wanted: ResultFilter) -> Basis:
        """What answers about this range are made of."""
        hours = await self._ask(lambda db: db.results.hours_done(job, wanted.first, wanted.last))
        fresh_ms = await self._reports.fresh_ms(job)
        first, last = (hours[0], hours[-1]) if hours else ("", "")
        return Basis(job, fresh_ms, wanted.first, wanted.last, len(hours), first, last)

    # -- files ------------------------------------------------------------------------------------

    async def csv(self, name: str, wanted: ResultFilter) -> AsyncIterator[bytes]:
        """A table as CSV, piece by piece, with its column names; cells are no formulas.

        Raises Refused over 100,000 rows, before the first piece.
        """
        table = checked(name, wanted)
        await self._check_size(name, wanted)

        async def pieces() -> AsyncIterator[bytes]:
            yield _csv([dict(zip(table.names, table.names, strict=True))], table)
            async for rows in self._pages(name, wanted):
                yield await asyncio.to_thread(_csv, rows, table)

        return pieces()

    async def parquet(self, name: str, wanted: ResultFilter) -> bytes:
        """A table as Parquet, made by a process of its own. Refused over 100,000 rows, and where
        Spark's Python packages are not installed."""
        table = checked(name, wanted)
        if self._reports.missing():
            raise Refused(NOT_INSTALLED, remedy=INSTALL, code="analytics_missing")
        await self._check_size(name, wanted)
        folder = self._folder / f"file-{next(self._numbers)}"
        try:
            await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
            async for rows in self._pages(name, wanted):
                await asyncio.to_thread(_append, folder / "rows.ndjson", rows)
            return await self._converted(table, folder)
        finally:
            await asyncio.shield(asyncio.to_thread(shutil.rmtree, folder, True))

    async def _converted(self, table: ResultTable, folder: Path) -> bytes:
        words = ["analytics.parquet", str(folder / "rows.ndjson"), str(folder / "rows.parquet")]
        words += [f"{column.name}:{column.kind}" for column in table.columns]
        log = folder / "stderr.log"
        try:
            code = await child.run(
                words,
                mark=f"{self._mark}-{folder.name}",
                output=log,
                log=log,
                limit_s=FILE_LIMIT_S,
                beat=_nothing,
            )
        except child.TimedOut:
            code = -1
        if code:
            said = await asyncio.to_thread(child.tail_of, log)
            raise Busy(f"the file could not be made: {said[-500:] or 'it took too long'}")
        return await asyncio.to_thread((folder / "rows.parquet").read_bytes)

    async def _check_size(self, name: str, wanted: ResultFilter) -> None:
        amount = await self._ask(lambda db: db.results.count(name, wanted))
        if amount > FILE_ROWS_MAX:
            raise Refused(
                f"{amount:,} rows are more than the {FILE_ROWS_MAX:,} of one file",
                remedy="ask for fewer hours, or one topic or group",
            )

    # -- helpers ----------------------------------------------------------------------------------

    async def _pages(self, name: str, wanted: ResultFilter) -> AsyncIterator[list[Row]]:
        """All rows, 5,000 at a time."""
        table = RESULTS_BY_NAME[name]
        after: tuple[object, ...] = ()
        while True:
            rows = await self._ask(_page_of(name, wanted, after))
            if rows:
                yield rows
            if len(rows) < PAGE_MAX:
                return
            after = tuple(rows[-1][key] for key in table.key)

    async def _ask(self, work: "Callable[[Database], T]") -> T:
        try:
            return await self._database.run(work)
        except DatabaseError as error:
            raise unavailable(error) from error


def checked(name: str, wanted: ResultFilter) -> ResultTable:
    """The table of that name; NotFound, or Invalid where the filter does not fit it."""
    table = RESULTS_BY_NAME.get(name)
    if table is None:
        raise NotFound(
            f"there is no table {name[:40]!r}",
            field="table",
            remedy="one of " + ", ".join(RESULTS_BY_NAME),
        )
    for field, hour in (("first", wanted.first), ("last", wanted.last)):
        if hour and not _is_hour(hour):
            raise Invalid(
                f"{hour[:40]!r} is no hour", field=field, remedy="in UTC, as in 2026-11-21T03"
            )
    for column, value in wanted.equal:
        if column not in table.dimensions:
            raise Invalid(
                f"{name} has no column {column[:40]!r} to choose by",
                field=column[:40],
                remedy="one of " + ", ".join(table.dimensions),
            )
        if column == "queue" and not (value.isascii() and value.isdecimal() and len(value) < 6):
            raise Invalid(f"{value[:40]!r} is no queue", field="queue", remedy="give its number")
    return table


def csv_cell(value: object) -> object:
    """A cell that no spreadsheet takes for a formula; NULL is empty."""
    if value is None:
        return ""
    if isinstance(value, str) and value.startswith(UNSAFE):
        return f"'{value}"
    return value


_SUMMED = "one of " + ", ".join(name for name, table in RESULTS_BY_NAME.items() if table.sums)


async def _nothing() -> None:
    return


def _page_of(
    name: str, wanted: ResultFilter, after: tuple[object, ...]
) -> "Callable[[Database], list[Row]]":
    return lambda db: db.results.page(name, wanted, PAGE_MAX, after)


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


def _is_hour(text: str) -> bool:
    with suppress(ValueError):
        return inputs.hour_of(inputs.begin_ms(text)) == text
    return False


def _cursor(table: ResultTable, row: Row) -> str:
    return msgspec.json.encode([row[key] for key in table.key]).hex()


def _after(table: ResultTable, cursor: str) -> tuple[object, ...]:
    """The key of the last row of the page before."""
    if not cursor:
        return ()
    kinds = {column.name: column.kind for column in table.columns}
    try:
        found = msgspec.json.decode(bytes.fromhex(cursor), type=list[str | int])
    except (ValueError, msgspec.DecodeError):
        found = []
    wanted = [kinds[key] for key in table.key]
    if len(found) != len(wanted) or not all(map(_fits, wanted, found)):
        raise Invalid("this is no cursor", field="cursor", remedy="begin without a cursor")
    return tuple(found)


def _fits(kind: str, value: str | int) -> bool:
    """Whether a value may stand in a column, in any database."""
    if isinstance(value, str):
        return kind == "STRING" and "\0" not in value
    return abs(value) < (2**31 if kind == "INT" else 2**63) and kind in ("INT", "BIGINT")


def _merge(cells: dict[tuple[str, ...], _Cell], rows: Iterable[Row], by: tuple[str, ...]) -> None:
    for row in rows:
        place = tuple(row["hour"][:10] if each == "day" else row[each] for each in by)
        cell = cells.get(place)
        if cell is None:
            cell = cells[place] = _Cell()
        cell.add(row)


def _latencies(cells: Mapping[tuple[str, ...], _Cell], within_ms: float | None) -> list[Latency]:
    return [cells[place].latency(place, within_ms) for place in sorted(cells) if cells[place].n]


def _csv(rows: Iterable[Row], table: ResultTable) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    for row in rows:
        writer.writerow([csv_cell(row[name]) for name in table.names])
    return text.getvalue().encode()


def _append(path: Path, rows: Iterable[Row]) -> None:
    with path.open("ab") as file:
        file.write(msgspec.json.Encoder().encode_lines(list(rows)))
