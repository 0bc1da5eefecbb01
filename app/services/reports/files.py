"""The figures of the reports as files: CSV piece by piece, Parquet by a process of its own.

Each file has the columns of its table, histograms as JSON objects by bucket, and where rows are by
hours a last column `hours`: of how many hours from `hour` on a row is. At most 100,000 rows.
"""

import asyncio
import csv
import io
import shutil
from collections.abc import AsyncIterator, Iterable
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from app.db.report_rows import PACKED, ResultFilter, Row
from app.services.reports import child
from app.services.reports.leftovers import mark_of
from app.services.reports.reports import Reports
from app.services.reports.standing import INSTALL, NOT_INSTALLED
from app.settings import Settings
from engine.errors import Busy, Refused
from engine.histogram import unpack
from engine.report_tables import HOURS, ResultColumn, ResultTable
from kitemq.model.spreadsheet_cells import guarded

if TYPE_CHECKING:
    from app.services.reports.results import ReportResults

ROWS_MAX = 100_000
LIMIT_S = 120.0
LENGTH = ResultColumn("hours", "INT")


class ResultFiles:
    """Makes the files; every method raises Busy where the database fails."""

    def __init__(self, results: "ReportResults", reports: Reports, settings: Settings) -> None:
        self._results = results
        self._reports = reports
        self._mark = mark_of(settings.data)
        self._folder = (settings.data / "spark" / "files").absolute()
        self._numbers = count(1)

    async def csv(self, table: ResultTable, criteria: ResultFilter) -> AsyncIterator[bytes]:
        """A table as CSV, piece by piece, with its column names; cells are no formulas.

        Raises Refused over 100,000 rows, before the first piece.
        """
        await self._check_size(table, criteria)

        async def pieces() -> AsyncIterator[bytes]:
            names = [column.name for column in columns_of(table)]
            yield _csv([dict(zip(names, names, strict=True))], table)
            async for rows in self._results.pages(table.name, criteria):
                yield await asyncio.to_thread(_csv, [plain(table, row) for row in rows], table)

        return pieces()

    async def parquet(self, table: ResultTable, criteria: ResultFilter) -> bytes:
        """A table as Parquet. Refused over 100,000 rows, and where Spark's Python packages are
        not installed."""
        if self._reports.missing():
            raise Refused(NOT_INSTALLED, remedy=INSTALL, code="analytics_missing")
        await self._check_size(table, criteria)
        folder = self._folder / f"file-{next(self._numbers)}"
        try:
            await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
            async for rows in self._results.pages(table.name, criteria):
                await asyncio.to_thread(_append, folder / "rows.ndjson", rows, table)
            return await self._converted(table, folder)
        finally:
            await asyncio.shield(asyncio.to_thread(shutil.rmtree, folder, True))

    async def _converted(self, table: ResultTable, folder: Path) -> bytes:
        words = ["analytics.parquet", str(folder / "rows.ndjson"), str(folder / "rows.parquet")]
        words += [f"{column.name}:{column.kind}" for column in columns_of(table)]
        log = folder / "stderr.log"
        try:
            code = await child.run(
                words, mark=f"{self._mark}-{folder.name}", output=log, log=log, limit_s=LIMIT_S
            )
        except child.ChildTimeout:
            code = -1
        if code:
            output = await asyncio.to_thread(child.tail_of, log)
            raise Busy(f"the file could not be made: {output[-500:] or 'it took too long'}")
        return await asyncio.to_thread((folder / "rows.parquet").read_bytes)

    async def _check_size(self, table: ResultTable, criteria: ResultFilter) -> None:
        amount = await self._results.ask(lambda db: db.results.count(table.name, criteria))
        if amount > ROWS_MAX:
            raise Refused(
                f"{amount:,} rows are more than the {ROWS_MAX:,} of one file",
                remedy="ask for fewer hours, or one topic or group",
            )


def columns_of(table: ResultTable) -> tuple[ResultColumn, ...]:
    """The columns of a file."""
    return (*table.columns, LENGTH) if table.replaces == HOURS else table.columns


def plain(table: ResultTable, row: Row) -> Row:
    """A row as a file has it: histograms as texts, and its length."""
    values = dict(row)
    for name in PACKED & values.keys():
        values[name] = histogram_text(values[name])
    if table.replaces == HOURS:
        values.setdefault(LENGTH.name, 1)
    return values


def histogram_text(packed: bytes) -> str:
    """A histogram as JSON, {bucket: count}."""
    return msgspec.json.encode(unpack(packed)).decode()


def _csv(rows: Iterable[Row], table: ResultTable) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    for row in rows:
        writer.writerow([guarded(row[column.name]) for column in columns_of(table)])
    return text.getvalue().encode()


def _append(path: Path, rows: Iterable[Row], table: ResultTable) -> None:
    with path.open("ab") as file:
        file.write(msgspec.json.Encoder().encode_lines([plain(table, row) for row in rows]))
