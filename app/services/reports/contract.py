"""What is agreed with the processes that compute: their request, progress, result and figures.

The server imports nothing of theirs. What a result says of its tables is compared with our own
before a row of it is taken.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from app.db.report_rows import Row
from engine.report_tables import FORMAT, RESULTS, RESULTS_BY_NAME, ResultColumn, ResultTable

ROWS_MAX = 2_000_000  # of one result; more is no aggregate
PROGRESS, RESULT = "progress.json", "result.json"
PLAIN = {"STRING": str, "JSON": str, "INT": int, "BIGINT": int, "DOUBLE": float}


class Request(msgspec.Struct):
    """What a job is asked for; `previous` is a file of JSON lines."""

    job: str
    hours: tuple[str, ...]
    root: str
    is_shared: bool
    output: str
    folder: str
    master: str
    java_home: str
    driver_memory: str
    log: str
    spark_rows: int
    previous: str = ""


class Progress(msgspec.Struct, frozen=True):
    """How far a run is. `tasks` are Spark's, 0 where it does not tell."""

    stage: str
    percent: int
    at_ms: int = 0
    tasks_done: int = 0
    tasks: int = 0


class ColumnDeclaration(msgspec.Struct, frozen=True):
    """A column as the result has it."""

    name: str
    kind: str


class TableDeclaration(msgspec.Struct, frozen=True):
    """A table as the result has it."""

    rows: int
    file: str
    replaces: str
    key: list[str]
    columns: list[ColumnDeclaration]


class InputCounts(msgspec.Struct, frozen=True):
    """What was read of one frame."""

    hours: list[str] = []
    rows: int = 0
    late_rows: int = 0


class Result(msgspec.Struct):
    """How a job ended; without `tables` where it failed."""

    format: int
    job: str
    state: str
    error_class: str = ""
    error: str = ""
    is_transient: bool = False
    hours: list[str] = []
    fingerprints: dict[str, str] = {}
    input: dict[str, InputCounts] = {}
    rows_in: int | None = None
    rows_out: int | None = None
    input_at_ms: int | None = None
    counters: dict[str, int] = {}
    spark: str = ""
    java: str = ""
    master: str = ""
    peak_kib: int | None = None
    tables: dict[str, TableDeclaration] = {}


class BadResult(Exception):
    """The result does not say what we understand; nothing of it is taken."""


def read_result(folder: Path) -> Result | None:
    """What the job left; None where it ended without. Raises BadResult."""
    try:
        data = (folder / RESULT).read_bytes()
    except FileNotFoundError:
        return None
    try:
        result = msgspec.json.decode(data, type=Result)
    except ValueError as error:  # also of bytes that are no UTF-8
        raise BadResult(f"the result cannot be read: {error}") from None
    if result.format != FORMAT:
        raise BadResult(f"the result has format {result.format}, not {FORMAT}")
    return result


def read_progress(folder: Path) -> Progress | None:
    """How far the job is; None before it has said so."""
    try:
        data = (folder / PROGRESS).read_bytes()
        return msgspec.json.decode(data, type=Progress, strict=False)
    except (OSError, ValueError):
        return None


def tables_of(result: Result, folder: Path) -> list[tuple[ResultTable, Iterator[Row]]]:
    """The figures, read as they are taken; BadResult where they are not those that we know.

    What a job makes has to be there, but for tables that are replaced as a whole.
    """
    rows = sum(table.rows for table in result.tables.values())
    if rows > ROWS_MAX:
        raise BadResult(f"{rows:,} rows are more than the {ROWS_MAX:,} that are taken at once")
    for expected in RESULTS:
        if (
            expected.job == result.job
            and expected.replaces != "all"
            and expected.name not in result.tables
        ):
            raise BadResult(f"the result has no table {expected.name}")
    tables = []
    for name, declaration in result.tables.items():
        table = RESULTS_BY_NAME.get(name)
        if table is None or table.job != result.job:
            raise BadResult(f"the result has a table {name} that is not known here")
        _compare(table, declaration)
        tables.append((table, _rows(table, declaration, folder)))
    return tables


def _compare(table: ResultTable, declaration: TableDeclaration) -> None:
    columns = [(column.name, column.kind) for column in declaration.columns]
    if (declaration.replaces, tuple(declaration.key), columns) != (
        table.replaces,
        table.key,
        [(column.name, column.kind) for column in table.columns],
    ):
        raise BadResult(f"the result's table {table.name} has other columns than are known here")
    if Path(declaration.file).name != declaration.file:
        raise BadResult(f"{declaration.file!r} is no file of the result")


def _rows(table: ResultTable, declaration: TableDeclaration, folder: Path) -> Iterator[Row]:
    """Row by row; ValueError where one is not as its table says, or some are missing."""
    decoder = msgspec.json.Decoder(dict[str, Any])
    names, count = set(table.names), 0
    with (folder / declaration.file).open("rb") as file:
        for line in file:
            row = decoder.decode(line)
            if row.keys() != names:
                raise ValueError(f"a row of {table.name} has other columns than its table")
            for column in table.columns:
                row[column.name] = _value(table, column, row[column.name])
            count += 1
            yield row
    if count != declaration.rows:
        raise ValueError(f"{table.name} has {count:,} rows instead of {declaration.rows:,}")


def _value(table: ResultTable, column: ResultColumn, value: Any) -> Any:
    name, kind = column.name, column.kind
    if value is None and (name in table.key or kind in ("STRING", "JSON")):
        raise ValueError(f"{table.name}.{name} is NULL")
    if value is None:
        return None
    plain_type = PLAIN[kind]
    if isinstance(value, bool) or not isinstance(value, plain_type):
        if plain_type is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        raise ValueError(f"{table.name}.{name} is no {kind}")
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value
