"""A queue's records straight from the store's files: consume queue entries, then the log.

Only what the server confirmed to be readable is asked for. Files that retention has deleted
meanwhile read as gone; a record that is damaged is left out, as it is for every consumer.
"""

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from analytics.log import LogView
from analytics.records import Ints, LogRecords, Mask
from engine.store.consume_queue import ENTRY, FILLER_BYTES
from engine.store.record import HEAD_BYTES_MAX, stored_ms_in

ENTRIES_MAX = 65_536  # read at once
BYTES_MAX = 8 * 1024 * 1024  # of records in one batch, but for a single larger one
GAP_MAX = 64 * 1024  # between two records that are still read together
NAME_DIGITS = 20
FIELDS = np.dtype([("position", ">i8"), ("size", ">i4"), ("tag", ">i8")])
assert FIELDS.itemsize == ENTRY.size


class Entries(NamedTuple):
    """Places of neighbouring messages, by column; those without a record are left out."""

    offset: Ints
    position: Ints
    size: Ints
    tag: Ints

    def where(self, mask: Mask) -> "Entries":
        return Entries(*(column[mask] for column in self))


class QueueView:
    """One queue of the store under `data`."""

    def __init__(self, data: Path, topic: str, queue: int) -> None:
        self._data = data
        self._topic = topic
        self._queue = queue
        self._directory = data / "consumequeue" / topic / str(queue)
        self.missing = 0  # messages asked for whose files are no more

    def batches(self, start: int, end: int, tag_code: int | None) -> Iterator[LogRecords]:
        """Records of the offsets `start` to `end` - 1, those with another tag hash left out."""
        for at in range(start, end, ENTRIES_MAX):
            entries = self._entries(at, min(at + ENTRIES_MAX, end))
            self.missing += min(at + ENTRIES_MAX, end) - at - len(entries.offset)
            entries = entries.where(entries.size != FILLER_BYTES)
            if tag_code is not None:
                entries = entries.where(entries.tag == tag_code)
            for part in _parts(entries):
                yield self._records(part)

    def first_since(self, at_ms: int, start: int, end: int) -> int:
        """The first offset stored at or after a time, if times ascend; `end` without one."""
        while start < end:
            middle = (start + end) // 2
            stored_ms = self._stored_ms(middle)
            if stored_ms is not None and stored_ms >= at_ms:
                end = middle
            else:
                start = middle + 1
        return start

    def _stored_ms(self, offset: int) -> int | None:
        entries = self._entries(offset, offset + 1)
        if not len(entries.offset):
            return None
        position = int(entries.position[0])
        with LogView(self._data, position + int(entries.size[0])) as log:
            return stored_ms_in(log.read(position, HEAD_BYTES_MAX), position)

    def _entries(self, start: int, end: int) -> Entries:
        """What there is of these offsets; files that are gone leave a gap."""
        entries = np.zeros(0, dtype=FIELDS)
        offsets = np.zeros(0, dtype=np.int64)
        for path, first, file_entries in self._files():
            begin, stop = max(start, first), min(end, first + file_entries)
            if begin >= stop:
                continue
            data = _pread(path, (begin - first) * ENTRY.size, (stop - begin) * ENTRY.size)
            part = np.frombuffer(data[: len(data) // ENTRY.size * ENTRY.size], dtype=FIELDS)
            entries = np.concatenate([entries, part])
            offsets = np.concatenate([offsets, np.arange(begin, begin + len(part))])
        columns = (entries[name].astype(np.int64) for name in ("position", "size", "tag"))
        return Entries(offsets, *columns)

    def _files(self) -> Iterator[tuple[Path, int, int]]:
        """Each file with its first offset and the number of its entries."""
        try:
            names = sorted(os.listdir(self._directory))  # noqa: PTH208 (names, not paths)
        except FileNotFoundError:
            return
        for name in names:
            if len(name) == NAME_DIGITS and name.isdigit():
                path = self._directory / name
                try:
                    size_bytes = path.stat().st_size
                except FileNotFoundError:
                    continue
                yield path, int(name) // ENTRY.size, size_bytes // ENTRY.size

    def _records(self, entries: Entries) -> LogRecords:
        """The records of these entries, those of them that are there and whole."""
        pieces, starts, size_bytes = [], [], 0
        end = int((entries.position + entries.size).max())
        with LogView(self._data, end) as log:
            for first, last in _spans(entries, log.bases()):
                begin = int(entries.position[first])
                span = int(entries.position[last] + entries.size[last]) - begin
                piece = log.read(begin, span)
                if len(piece) < span:
                    self.missing += last + 1 - first
                    continue
                starts += (entries.position[first : last + 1] - begin + size_bytes).tolist()
                pieces.append(piece)
                size_bytes += span
        records = LogRecords(b"".join(pieces), starts, first_position=None)
        # What lies where an entry points may be another record by now, or was never this one.
        is_wanted = np.isin(records.offset(), entries.offset) & (records.queue() == self._queue)
        topic = np.array(records.topic().to_pylist(), dtype=object) == self._topic
        records.keep(is_wanted & topic)
        return records


def _parts(entries: Entries) -> Iterator[Entries]:
    """Pieces whose records together are not too large."""
    ends = np.cumsum(entries.size)
    start = 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + BYTES_MAX, side="right")))
        yield Entries(*(column[start:stop] for column in entries))
        start = stop


def _spans(entries: Entries, bases: list[int]) -> Iterator[tuple[int, int]]:
    """First and last index of neighbours that are read with one call: in one segment, and near."""
    ends = entries.position + entries.size
    gaps = entries.position[1:] - ends[:-1]
    segments = np.searchsorted(np.array(bases, dtype=np.int64), entries.position, side="right")
    breaks = np.flatnonzero((gaps < 0) | (gaps > GAP_MAX) | (np.diff(segments) != 0))
    bounds = [-1, *breaks.tolist(), len(entries.position) - 1]
    for before, last in pairwise(bounds):
        yield before + 1, last


def _pread(path: Path, at: int, size_bytes: int) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    try:
        return os.pread(fd, size_bytes, at)
    finally:
        os.close(fd)
