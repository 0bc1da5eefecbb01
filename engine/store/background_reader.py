"""Reads log records on a worker thread, so that page-cache misses never block the event loop.

The owner says which records to read and from which files. The job opens the files itself, so that
a descriptor which the owner closes meanwhile cannot be mistaken for one of them. Records that
retention removed in between are not found.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from engine.message import StoredMessage
from engine.store.decoding import decode_run
from engine.store.files import File, Files
from engine.store.record import NO_RANGE

SIZE_BYTES = 4  # a record begins with its size


class RecordBatch(NamedTuple):
    """Records at `positions` of one file, whose first byte has the position `base`.

    `size_bytes` covers them all from the first on; 0 means that there is one, whose size is not
    known. `size_max` is the largest that it can have.
    """

    path: Path
    base: int
    positions: Sequence[int]
    size_bytes: int
    size_max: int = 0


class BackgroundReader:
    """A job for the pool: the messages of all pieces in order, None for what is not there."""

    def __init__(
        self, files: Files, pieces: Sequence[RecordBatch | None], crc_range: range = NO_RANGE
    ) -> None:
        """A piece of None stands for one record that is known to be gone.

        Records at positions in `crc_range` must have a CRC of their own.
        """
        self._crc_range = crc_range
        self._files = files
        self._pieces = pieces

    def __call__(self) -> list[StoredMessage | None]:
        opened: dict[Path, File | None] = {}
        try:
            return [message for piece in self._pieces for message in self._read(piece, opened)]
        finally:
            for file in opened.values():
                if file is not None:
                    file.close()

    def _read(
        self, piece: RecordBatch | None, opened: dict[Path, File | None]
    ) -> Sequence[StoredMessage | None]:
        if piece is None:
            return (None,)
        if piece.path not in opened:
            opened[piece.path] = self._open(piece.path)
        file = opened[piece.path]
        if file is None:
            return [None] * len(piece.positions)
        start = piece.positions[0] - piece.base
        size_bytes = piece.size_bytes or int.from_bytes(file.pread(SIZE_BYTES, start), "big")
        if not piece.size_bytes and size_bytes > piece.size_max:
            return (None,)
        data = file.pread(size_bytes, start)
        starts = [each - piece.positions[0] for each in piece.positions]
        records = decode_run(data, starts, self._crc_range)
        return [
            message if isinstance(message, StoredMessage) and message.position == position else None
            for message, position in zip(records, piece.positions, strict=True)
        ]

    def _open(self, path: Path) -> File | None:
        try:
            return self._files.open(path)
        except FileNotFoundError:
            return None
