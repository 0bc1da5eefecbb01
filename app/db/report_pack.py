"""Packs the rows of a table, topic and period into one block of bytes, by column. Pure.

    zlib of the MessagePack array [format, [column, …]]

The columns are the table's in its order but for those that the block's place tells (`hour`,
`topic`) and those that follow from others (`report_merge.derived_columns`). A text that is there
many times is what zlib is for. Moments are kept as ms since the period began.
"""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from app.db.report_evaluated import UNTOLD
from app.db.report_merge import completed, derived_columns
from app.db.report_periods import HOUR, HOUR_S, name_of
from app.db.report_rows import Row
from engine.report_tables import ResultTable

FORMAT = 1
LEVEL = 9
BYTES_MAX = 64 * 1024 * 1024  # of one block, unpacked
MOMENTS = frozenset(
    "born_ms stored_ms delivered_ms acked_ms at_ms begin_ms end_ms".split()
)  # since 1970
BLOCK_COLUMNS = ("hour", "topic")
# The last columns of tables that blocks of earlier versions lack, with what stands for them.
ADDED: Mapping[str, tuple[Any, ...]] = {"lag_hours": (UNTOLD,)}


def pack_rows(table: ResultTable, rows: Sequence[Row], begin: int) -> bytes:
    """The block of one topic's rows; `begin` is the first hour of their period.

    Raises ValueError if the block would be too large to unpack.
    """
    columns = [_moved(name, [row[name] for row in rows], -begin) for name in _names(table)]
    data = msgspec.msgpack.encode([FORMAT, columns])
    if len(data) > BYTES_MAX:
        raise ValueError(f"a block of {table.name} would be larger than {BYTES_MAX:,} bytes")
    return zlib.compress(data, LEVEL)


def unpack_rows(table: ResultTable, data: bytes, begin: int, hours: int, topic: str) -> list[Row]:
    """The rows of a block; rows of several hours have their number in `hours`.

    Raises ValueError if it is no block of this table.
    """
    names = _names(table)
    form, columns = msgspec.msgpack.decode(_inflated(data), type=tuple[int, list[list[Any]]])
    added = ADDED.get(table.name, ())
    if added and len(columns) == len(names) - len(added):
        columns += [[value] * len(columns[0]) for value in added]
    if form != FORMAT or len(columns) != len(names) or len({len(each) for each in columns}) > 1:
        raise ValueError(f"a block of {table.name} has another form than is known here")
    place: Row = {"hour": name_of(begin), "topic": topic}
    if hours > HOUR:
        place["hours"] = hours
    back = [_moved(name, values, begin) for name, values in zip(names, columns, strict=True)]
    rows = [{**place, **dict(zip(names, each, strict=True))} for each in zip(*back, strict=True)]
    return completed(table, rows)


def pack_names(names: Iterable[str]) -> bytes:
    """Names as packed bytes; the same names give the same bytes."""
    return zlib.compress("\n".join(sorted(names)).encode(), LEVEL)


def unpack_names(data: bytes) -> list[str]:
    """The names in the bytes of `pack_names`."""
    return _inflated(data).decode().split("\n")


def _names(table: ResultTable) -> list[str]:
    left_out = {*BLOCK_COLUMNS, *derived_columns(table)}
    return [name for name in table.names if name not in left_out]


def _moved(name: str, values: list[Any], hours: int) -> list[Any]:
    """The values of a column, moments so many hours later."""
    if name not in MOMENTS:
        return values
    by_ms = hours * HOUR_S * 1000
    return [None if value is None else value + by_ms for value in values]


def _inflated(data: bytes) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        inflated = unpacker.decompress(data, BYTES_MAX)
    except zlib.error as error:
        raise ValueError(f"a block of figures is damaged: {error}") from None
    if not unpacker.eof:
        raise ValueError("a block of figures is cut, or larger than any that was made")
    return inflated
