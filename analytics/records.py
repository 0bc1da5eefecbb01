"""Many records of the log at once, as columns: the fast twin of `engine.store.record.decode_run`.

Every field is gathered for all records together, strings by ragged copies into Arrow arrays. The
layout, its constants and what counts as damaged are `engine/store/record.py`'s; a test compares the
two record by record.
"""

from collections.abc import Iterable
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.host import PORT, unpack_host
from engine.store.record import (
    BORN_HOST_V6,
    BYTE,
    CRC_BYTES,
    CRC_MASK,
    CRC_NAME,
    HEAD,
    MAGIC_V2,
    RECORD_BYTES_MIN,
    SHORT,
    STORE_HOST_V6,
)

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]

# Where fields lie as long as no host before them is IPv6, as in the table of the record's module.
MAGIC_AT, CRC_AT, QUEUE_AT, OFFSET_AT, POSITION_AT, FLAGS_AT = 4, 8, 12, 20, 28, 36
BORN_AT, BORN_HOST_AT, STORED_AT, TIMES_AT, PREPARED_AT, BODY_LENGTH_AT = 40, 48, 56, 72, 76, 84
assert HEAD.size == BODY_LENGTH_AT + 4
HOST_EXTRA = 12  # an IPv6 host is so much longer
NAME_END, ITEM_END = 1, 2


class LogRecords:
    """Whole records only: `damaged` counts those that were left out. Columns are in log order."""

    def __init__(self, data: bytes, starts: Iterable[int], *, first_position: int | None) -> None:
        """`starts` are where records begin in `data`, as their lengths say.

        With `first_position` (of the first byte of `data`) each must state where it lies.
        """
        self._view = memoryview(data)
        self._data: Bytes = np.frombuffer(data, dtype=np.uint8)
        begins = np.fromiter(starts, dtype=np.int64)
        self._lay_out(begins)
        whole = self._is_whole(begins)
        if first_position is not None:
            whole &= self._ints(begins + POSITION_AT, 8) == begins + first_position
        self._keep(whole)
        self._keep(self._matches_crc())
        self.damaged = len(begins) - len(self.at)

    def __len__(self) -> int:
        return len(self.at)

    def keep(self, mask: Mask) -> None:
        """Leave the other records out; they are not damaged."""
        self._keep(mask)

    # -- numbers ----------------------------------------------------------------------------------

    def queue(self) -> Ints:
        return self._ints(self.at + QUEUE_AT, 4)

    def offset(self) -> Ints:
        return self._ints(self.at + OFFSET_AT, 8)

    def position(self) -> Ints:
        return self._ints(self.at + POSITION_AT, 8)

    def flags(self) -> Ints:
        return self._ints(self.at + FLAGS_AT, 4)

    def born_ms(self) -> Ints:
        return self._ints(self.at + BORN_AT, 8)

    def stored_ms(self) -> Ints:
        return self._ints(self.at + self._born_extra + STORED_AT, 8)

    def attempt(self) -> Ints:
        return self._ints(self.at + self._extra + TIMES_AT, 4) + 1

    def prepared(self) -> Ints:
        return self._ints(self.at + self._extra + PREPARED_AT, 8)

    # -- texts ------------------------------------------------------------------------------------

    def topic(self) -> "pa.StringArray":
        return self._texts(self._topic_at, self._topic_bytes)

    def body(self, index: int) -> bytes:
        at = int(self._body_at[index])
        return bytes(self._view[at : at + int(self.body_bytes[index])])

    def bodies(self) -> "pa.BinaryArray":
        offsets, data = ragged(self._data, self._body_at, self.body_bytes)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        return pa.Array.from_buffers(pa.binary(), len(self), buffers)

    def whole(self, index: int) -> bytes:
        """One record as it lies in the log, for `engine.store.record.decode`."""
        at = int(self.at[index])
        return bytes(self._view[at : at + int(self.size_bytes[index])])

    def property_block(self, index: int) -> bytes:
        """As stored, for `engine.message.split_properties`; without the record's CRC."""
        at = int(self._properties_at[index])
        block = bytes(self._view[at : at + int(self._property_bytes[index])])
        return block[:-CRC_BYTES] if block[-CRC_BYTES:].startswith(CRC_NAME) else block

    def born_address(self) -> "pa.StringArray":
        """Addresses of the producers, without their ports."""
        width = 4 + HOST_EXTRA
        at = self.at + BORN_HOST_AT
        packed = self._data[at[:, None] + np.arange(width)]
        packed[self._born_extra == 0, 4:] = 0  # what lies behind a shorter address
        keyed = np.concatenate([packed, (self._born_extra > 0)[:, None].astype(np.uint8)], axis=1)
        kinds, which = np.unique(keyed, axis=0, return_inverse=True)
        names = pa.array([_address(bytes(kind)) for kind in kinds], pa.string())
        return names.take(pa.array(which.ravel()))

    def properties(self, names: Iterable[str]) -> "dict[str, pa.StringArray]":
        """The values of these properties, "" where a record has none; names do not nest."""
        offsets, block = ragged(self._data, self._properties_at, self._property_bytes)
        items = _Items(block, offsets.astype(np.int64))
        return {name: text_array(block, *items.values(name.encode())) for name in names}

    # -- inside -----------------------------------------------------------------------------------

    def _lay_out(self, at: Ints) -> None:
        """Where the parts of each record begin; senseless for one that is not whole."""
        self.at = at
        flags = self._ints(at + FLAGS_AT, 4)
        self._born_extra = np.where(flags & BORN_HOST_V6, HOST_EXTRA, 0).astype(np.int64)
        self._extra = self._born_extra + np.where(flags & STORE_HOST_V6, HOST_EXTRA, 0)
        self.size_bytes = self._ints(at, 4)
        self.body_bytes = self._ints(at + self._extra + BODY_LENGTH_AT, 4)
        self._body_at = at + self._extra + HEAD.size
        topic_at = self._body_at + self.body_bytes
        is_long = self._ints(at + MAGIC_AT, 4) == MAGIC_V2
        long, short = self._ints(topic_at, SHORT.size), self._ints(topic_at, BYTE.size) & 0xFF
        self._topic_bytes = np.where(is_long, long, short)
        self._topic_at = topic_at + np.where(is_long, SHORT.size, BYTE.size)
        properties_at = self._topic_at + self._topic_bytes
        self._property_bytes = self._ints(properties_at, SHORT.size)
        self._properties_at = properties_at + SHORT.size

    def _is_whole(self, at: Ints) -> Mask:
        end = at + self.size_bytes
        mask: Mask = (
            (self.size_bytes >= RECORD_BYTES_MIN)
            & (end <= len(self._data))
            & (self.body_bytes >= 0)
            & (self._topic_bytes >= 1)
            & (self._property_bytes >= 0)
            & (self._properties_at + self._property_bytes == end)
        )
        return mask

    def _matches_crc(self) -> Mask:
        view = self._view
        columns = (self._body_at, self.body_bytes, self._ints(self.at + CRC_AT, 4))
        spans = zip(*(column.tolist() for column in columns), strict=True)
        mask: Mask = np.fromiter(
            (crc32(view[at : at + size]) & CRC_MASK == crc for at, size, crc in spans),
            dtype=np.bool_,
            count=len(self.at),
        )
        return mask

    def _keep(self, mask: Mask) -> None:
        if mask.all():
            return
        for name, column in vars(self).items():
            if isinstance(column, np.ndarray) and column is not self._data:
                setattr(self, name, column[mask])

    def _ints(self, at: Ints, width: int) -> Ints:
        """Big-endian signed numbers at these places; what lies outside reads as anything."""
        if not len(self._data):
            return np.zeros(len(at), dtype=np.int64)
        places = np.clip(at[:, None] + np.arange(width), 0, len(self._data) - 1)
        numbers: Ints = self._data[places].view(f">i{width}")[:, 0].astype(np.int64)
        return numbers

    def _texts(self, at: Ints, size: Ints) -> "pa.StringArray":
        return text_array(self._data, at, size)


class _Items:
    """The names and values of all property strings, found by their separators."""

    def __init__(self, block: Bytes, offsets: Ints) -> None:
        self._block = block
        self._count = len(offsets) - 1
        # Ends of items: a separator, or the end of its string, which comes before a separator at
        # the same place, as that one belongs to the next string.
        marks = np.sort(
            np.concatenate([2 * offsets[1:], 2 * np.flatnonzero(block == ITEM_END) + 1])
        )
        ends, is_mark = marks >> 1, marks & 1
        begins = np.concatenate([np.zeros(1, np.int64), (ends + is_mark)[:-1]])
        name_ends = np.concatenate([np.flatnonzero(block == NAME_END), [len(block)]])
        middle = name_ends[np.searchsorted(name_ends, begins)]
        is_item = (middle > begins) & (middle + 1 < ends)
        self._begins, self._middle, self._ends = begins[is_item], middle[is_item], ends[is_item]
        self._sizes = self._middle - self._begins
        self._row = np.searchsorted(offsets, self._begins, side="right") - 1

    def values(self, name: bytes) -> tuple[Ints, Ints]:
        """Where the value of this property begins for each string, and its size; 0 if none."""
        at = np.zeros(self._count, dtype=np.int64)
        size = np.zeros(self._count, dtype=np.int64)
        items = np.flatnonzero(self._sizes == len(name))
        places = self._begins[items][:, None] + np.arange(len(name))
        pattern = np.frombuffer(name, dtype=np.uint8)
        items = items[(self._block[places] == pattern).all(axis=1)] if len(items) else items
        # Of a name that is there twice the last one counts, as it does for the engine.
        rows = self._row[items]
        at[rows] = self._middle[items] + 1
        size[rows] = self._ends[items] - self._middle[items] - 1
        return at, size


def ragged(data: Bytes, at: Ints, size: Ints) -> tuple[npt.NDArray[np.int32], Bytes]:
    """Pieces of `data` one behind the other, and where each begins (and the last one ends)."""
    offsets = np.zeros(len(at) + 1, dtype=np.int64)
    np.cumsum(size, out=offsets[1:])
    places = np.repeat(at - offsets[:-1], size) + np.arange(offsets[-1])
    return offsets.astype(np.int32), data[places]


def text_array(data: Bytes, at: Ints, size: Ints) -> "pa.StringArray":
    """Pieces of `data` as texts; what is no UTF-8 is replaced by its mark."""
    offsets, joined = ragged(data, at, size)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(joined)]
    texts = pa.Array.from_buffers(pa.string(), len(at), buffers)
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        raw = joined.tobytes()
        pairs = zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
        return pa.array([raw[a:b].decode(errors="replace") for a, b in pairs], pa.string())
    return texts


def _address(keyed: bytes) -> str:
    """16 bytes of address and whether all of them count."""
    packed = keyed[:16] if keyed[16] else keyed[:4]
    return unpack_host(packed + PORT.pack(0)).rpartition(":")[0]
