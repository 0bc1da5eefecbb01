"""The checkpoint: how far log, queues, index and progress are all on disk together.

RocketMQ's 4096-byte file of big-endian i64: stored ms of the last flushed record (log, queues,
index), flushed position, confirmed position. KiteMQ recovers from the confirmed position.
"""

import struct
from pathlib import Path

import msgspec

from engine.store.files import Files, read_whole, write_atomic

LAYOUT = struct.Struct(">qqqqq")
FILE_BYTES = 4096
assert LAYOUT.size == 40


class Checkpoint(msgspec.Struct, frozen=True):
    """Times in ms, positions in bytes of the log; all zero in a new store."""

    log_ms: int = 0
    queues_ms: int = 0
    index_ms: int = 0
    flushed: int = 0
    confirmed: int = 0


class QueueMark(msgspec.Struct, frozen=True, array_like=True):
    """Where a queue ended at a clean stop."""

    topic: str
    queue: int
    oldest: int
    end: int


class CleanMark(msgspec.Struct, frozen=True):
    """Written last at a clean stop: nothing needs to be scanned at the next start."""

    written: int
    queues: list[QueueMark]


def load_checkpoint(files: Files, path: Path) -> Checkpoint:
    """What was saved last; zeros when there is none or it is too short."""
    try:
        data = read_whole(files, path)
    except FileNotFoundError:
        return Checkpoint()
    return Checkpoint(*LAYOUT.unpack_from(data)) if len(data) >= LAYOUT.size else Checkpoint()


def save_checkpoint(files: Files, path: Path, checkpoint: Checkpoint) -> None:
    fields = (
        checkpoint.log_ms,
        checkpoint.queues_ms,
        checkpoint.index_ms,
        checkpoint.flushed,
        checkpoint.confirmed,
    )
    write_atomic(files, path, LAYOUT.pack(*fields).ljust(FILE_BYTES, b"\0"))
