"""Tables as values: what the steps of the job hand to each other, and how they name things."""

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
# A row: which task is next, the hour it is for, what the blob holds, and its place among others.
BLOB = pa.schema(
    [
        ("task", pa.int32()),
        ("target", pa.int64()),
        ("name", pa.string()),
        ("number", pa.int64()),
        ("blob", pa.binary()),
    ]
)
OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")
INDEX_MAX = 2**62
COUNTERS = "counters"  # the name of a blob of counters, beside those of tables


def pack(table: "pa.Table") -> bytes:
    """A table as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=OPTIONS) as writer:
        writer.write_table(table)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def unpack(blob: bytes) -> "pa.Table":
    """The table again."""
    return pa.ipc.open_stream(blob).read_all()


def row(task: int, target: int, name: str, number: int, table: "pa.Table") -> "pa.RecordBatch":
    """One row of BLOB."""
    columns = [[task], [target], [name], [number], [pack(table)]]
    return pa.RecordBatch.from_arrays(
        [pa.array(column, each.type) for column, each in zip(columns, BLOB, strict=True)],
        schema=BLOB,
    )


def tables(rows: Iterable["pa.RecordBatch"]) -> "dict[int, dict[str, pa.Table]]":
    """By target and name what the blobs hold, in an order that does not depend on how they came."""
    by_target: dict[int, dict[str, list[tuple[int, int, pa.Table]]]] = {}
    for batch in rows:
        for each in batch.to_pylist():
            one = (each["number"], zlib.crc32(each["blob"]), unpack(each["blob"]))
            by_target.setdefault(each["target"], {}).setdefault(each["name"], []).append(one)
    return {
        target: {
            name: pa.concat_tables(part[-1] for part in sorted(parts, key=lambda part: part[:2]))
            for name, parts in by_name.items()
        }
        for target, by_name in by_target.items()
    }


class TextCodes:
    """Numbers for texts, the same in every table of a task."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._codes)

    def code(self, text: str) -> int:
        """The number of one text."""
        return self._codes.setdefault(text, len(self._codes))

    def codes(self, column: "pa.ChunkedArray") -> Ints:
        """The numbers of a column of texts, which has no NULL."""
        return mapped(column, self.code)

    def listed(self) -> list[str]:
        """The texts by their numbers."""
        return list(self._codes)

    def texts(self, codes: Ints) -> "pa.Array":
        """The texts of numbers; NULL for what is below 0."""
        return pa.array(list(self._codes), pa.string()).take(pa.array(codes, mask=codes < 0))

    def begin(self, prefix: str) -> Mask:
        """By number whether the text begins so."""
        return np.array([text.startswith(prefix) for text in self._codes], dtype=np.bool_)

    def ranks(self) -> Ints:
        """By number the text's place in the order of the alphabet."""
        order = np.argsort(np.array(list(self._codes), dtype=object), kind="stable")
        ranks = np.empty(len(order), dtype=np.int64)
        ranks[order] = np.arange(len(order))
        return ranks


def mapped(column: "pa.ChunkedArray", value: Callable[[str], int]) -> Ints:
    """A value for each row, of its text: computed once for each different one."""
    parts = []
    for chunk in column.chunks:
        encoded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        known = np.array([value(text) for text in encoded.dictionary.to_pylist()], dtype=np.int64)
        parts.append(known[encoded.indices.to_numpy()])
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def are_in(column: "pa.ChunkedArray", texts: Sequence[str]) -> Mask:
    """By row whether it is one of these texts."""
    return mapped(column, lambda text: text in texts) > 0


def is_null(column: "pa.ChunkedArray") -> Mask:
    """By row whether it has no value."""
    mask: Mask = column.is_null().to_numpy()
    return mask


def numbers(column: "pa.ChunkedArray", unknown: int = 0) -> Ints:
    """A column of whole numbers; NULL as `unknown`."""
    values: Ints = column.cast(pa.int64()).fill_null(unknown).to_numpy()
    return values


def keys(*sides: Sequence[Ints]) -> list[Ints]:
    """One number for each row of each side: rows are equal in all columns if theirs is.

    The sides have the same columns; the last one may be anything, the others take few values.
    """
    lengths = [len(side[0]) for side in sides]
    columns = [np.concatenate([side[at] for side in sides]) for at in range(len(sides[0]))]
    codes = np.zeros(sum(lengths), dtype=np.int64)
    if len(codes):
        for column in columns:
            digit = column - column.min()
            if (int(codes.max()) + 1) * (int(digit.max()) + 1) >= INDEX_MAX:
                codes, digit = _ranks(codes), _ranks(digit)
            codes = codes * (int(digit.max()) + 1) + digit
    return np.split(codes, np.cumsum(lengths)[:-1])


def _ranks(values: Ints) -> Ints:
    """The same order in numbers from 0 on without gaps."""
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def begins(ordered: Ints) -> Ints:
    """Where each stretch of equal numbers begins."""
    indexes: Ints = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]][: len(ordered)])
    return indexes


def repeated(counts: Ints) -> tuple[Ints, Ints]:
    """Each index as often as its count says, and beside it 0, 1, 2 … of that index."""
    rows = np.repeat(np.arange(len(counts)), counts)
    return rows, np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)


def matches(places: Ints, known: Ints, order_by: Ints) -> Ints:
    """For each wanted key the index of the known one that is last by `order_by`, or -1."""
    if not len(known):
        return np.full(len(places), -1, dtype=np.int64)
    order = np.lexsort((order_by, known))
    ordered = known[order]
    at = np.searchsorted(ordered, places, side="right") - 1
    is_found = (at >= 0) & (ordered[at] == places)
    return np.where(is_found, order[at], -1)


def summed(table: "pa.Table", by: Sequence[str], counts: Mapping[str, str]) -> "pa.Table":
    """One row for each different `by`, and what `counts` says of it: sum, min or max by column."""
    sums = table.group_by(list(by), use_threads=False).aggregate(list(counts.items()))
    return sums.rename_columns([*by, *counts])
