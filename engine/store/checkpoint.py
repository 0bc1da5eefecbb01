"""The checkpoint: how far log, queues, index and progress are all on disk together.

RocketMQ's 4096-byte file of big-endian i64: stored ms of the last flushed record (log, queues,
index), flushed position, confirmed position. Behind them, in bytes that RocketMQ leaves alone,
stands a mark of our own; KiteMQ recovers from the position there and never from RocketMQ's.

| mark            | bytes | at   |                                            |
|-----------------|-------|------|--------------------------------------------|
| magic           | 8     | 2048 | "KITEMARK"                                 |
| position        | 8     | 2056 | everything below is on the disk            |
| journal         | 8     | 2064 | number of the progress journal (or -1) ... |
| journal bytes   | 8     | 2072 | ... and how much of it was on the disk     |
| entries         | 8     | 2080 | of all queues together; -1: not counted    |
| CRC-32          | 4     | 2088 | of bytes 2048 to 2087                      |
| magic           | 8     | 2092 | "KITECRC1"                                 |
| records' CRCs   | 8     | 2100 | from here on all records have one          |
| theirs          | 4     | 2108 | CRC-32 of RocketMQ's fields, bytes 0 to 39 |
| CRC-32          | 4     | 2112 | of bytes 2092 to 2111                      |
| magic           | 8     | 2116 | "KITEIDX1"                                 |
| index           | 8     | 2124 | name of the newest key index file; or -1   |
| CRC-32          | 4     | 2132 | of bytes 2116 to 2131                      |

Apache RocketMQ's broker writes records without a CRC. Where its fields are not those that KiteMQ
wrote, such a broker has used the directory since: then records have a CRC below the mark's
position only, and those behind it may have one.

The file `clean` is 8 bytes "KITECLN1", the CRC-32 of the rest, and a `CleanMark` as msgpack.
"""

import struct
from pathlib import Path
from zlib import crc32

import msgspec

from engine.store.files import Files, read_whole, write_atomic
from engine.store.journal_files import JournalPlace
from engine.store.record import NO_RANGE

LAYOUT = struct.Struct(">qqqqq")
FILE_BYTES = 4096
assert LAYOUT.size == 40
MARK = struct.Struct(">8sqqqq")
MARK_AT = 2048
MAGIC = b"KITEMARK"
CRC = struct.Struct(">I")
assert MARK.size == 40
CRC_MARK = struct.Struct(">8sqI")
CRC_MARK_AT = MARK_AT + MARK.size + CRC.size
CRC_MAGIC = b"KITECRC1"
INDEX_MARK = struct.Struct(">8sq")
INDEX_MARK_AT = CRC_MARK_AT + CRC_MARK.size + CRC.size
INDEX_MAGIC = b"KITEIDX1"
NEVER = (1 << 63) - 1
CLEAN_MAGIC = b"KITECLN1"
NO_JOURNAL = JournalPlace(-1, 0)


class Checkpoint(msgspec.Struct, frozen=True):
    """Times in ms, positions in bytes of the log; all zero in a new store.

    `journal` is how much of the progress journal was on the disk, `entries` how many all queues
    ended with, taken together; None where it is unknown.
    """

    log_ms: int = 0
    queues_ms: int = 0
    index_ms: int = 0
    flushed: int = 0
    confirmed: int = 0
    journal: JournalPlace | None = None
    entries: int | None = None
    crc_since: int | None = None  # all records from here on have a CRC; None: unknown
    index_file: int | None = None  # the newest with a mark of its own (`index_mark`), by its name


class Marked(msgspec.Struct, frozen=True):
    """What the file says. `fault` is why it is not believed; then all else is as in a new store."""

    checkpoint: Checkpoint = Checkpoint()
    fault: str = ""
    crc_range: range = NO_RANGE  # positions whose records have a CRC of their own
    is_foreign: bool = False  # another broker has used the directory since KiteMQ wrote it


class QueueMark(msgspec.Struct, frozen=True, array_like=True):
    """End of a queue at a clean stop."""

    topic: str
    queue: int
    oldest: int
    end: int


class CleanMark(msgspec.Struct, frozen=True):
    """Written last at a clean stop: nothing needs to be scanned at the next start."""

    written: int
    queues: list[QueueMark]
    journal: tuple[int, int] = (0, 0)


def load_checkpoint(files: Files, path: Path) -> Checkpoint:
    """What was saved last; zeros when there is none, or none that can be believed."""
    return read_checkpoint(files, path).checkpoint


def read_checkpoint(files: Files, path: Path) -> Marked:
    """What was saved last, and why it is not believed, if so."""
    try:
        data = read_whole(files, path)
    except FileNotFoundError:
        return Marked()
    if len(data) < LAYOUT.size:
        return Marked(fault=f"the file has {len(data)} bytes")
    theirs = Checkpoint(*LAYOUT.unpack_from(data))
    ours = data[MARK_AT : MARK_AT + MARK.size + CRC.size]
    if not ours.strip(b"\0"):
        return _before_marks(theirs)
    if len(ours) < MARK.size + CRC.size or CRC.unpack(ours[MARK.size :])[0] != crc32(
        ours[: MARK.size]
    ):
        return Marked(fault="the mark does not match its CRC")
    magic, position, number, size_bytes, entries = MARK.unpack(ours[: MARK.size])
    if magic != MAGIC or position < 0:
        return Marked(fault="the mark is not KiteMQ's")
    place = JournalPlace(number, size_bytes) if number >= 0 else None
    count = entries if entries >= 0 else None
    checkpoint = msgspec.structs.replace(theirs, confirmed=position, journal=place, entries=count)
    return _with_index_mark(data, _with_crc_mark(data, checkpoint))


def _with_index_mark(data: bytes, marked: Marked) -> Marked:
    """The same with what the third mark says, if there is one."""
    ours = data[INDEX_MARK_AT : INDEX_MARK_AT + INDEX_MARK.size + CRC.size]
    if marked.fault or not ours.strip(b"\0"):
        return marked
    mark, crc = ours[: INDEX_MARK.size], ours[INDEX_MARK.size :]
    magic, name = INDEX_MARK.unpack(mark.ljust(INDEX_MARK.size, b"\0"))
    if len(crc) < CRC.size or CRC.unpack(crc)[0] != crc32(mark) or magic != INDEX_MAGIC:
        return Marked(fault="the mark of the key index does not match its CRC")
    checkpoint = msgspec.structs.replace(marked.checkpoint, index_file=name if name >= 0 else None)
    return msgspec.structs.replace(marked, checkpoint=checkpoint)


def _with_crc_mark(data: bytes, checkpoint: Checkpoint) -> Marked:
    """The same with what the second mark says, if there is one."""
    ours = data[CRC_MARK_AT : CRC_MARK_AT + CRC_MARK.size + CRC.size]
    if not ours.strip(b"\0"):
        return Marked(checkpoint)
    mark, crc = ours[: CRC_MARK.size], ours[CRC_MARK.size :]
    if len(crc) < CRC.size or CRC.unpack(crc)[0] != crc32(mark):
        return Marked(fault="the mark of the records' CRCs does not match its own")
    magic, since, theirs = CRC_MARK.unpack(mark)
    if magic != CRC_MAGIC or since < 0:
        return Marked(fault="the mark of the records' CRCs is not KiteMQ's")
    is_untouched = theirs == crc32(data[: LAYOUT.size])
    until = NEVER if is_untouched else checkpoint.confirmed
    checkpoint = msgspec.structs.replace(checkpoint, crc_since=since)
    records = range(since, max(since, until))
    return Marked(checkpoint, crc_range=records, is_foreign=not is_untouched)


def _before_marks(theirs: Checkpoint) -> Marked:
    """A file without our mark, as earlier versions wrote it: each of its two values several times.

    RocketMQ's own, whose confirmed position means something else, and a damaged one do not agree
    with themselves.
    """
    is_ours = theirs.flushed == theirs.confirmed >= 0
    if is_ours and theirs.log_ms == theirs.queues_ms == theirs.index_ms:
        return Marked(theirs)
    return Marked(fault="it has no mark of KiteMQ's, and its fields do not agree", is_foreign=True)


def save_checkpoint(files: Files, path: Path, checkpoint: Checkpoint) -> None:
    """Write the file whole."""
    fields = (
        checkpoint.log_ms,
        checkpoint.queues_ms,
        checkpoint.index_ms,
        checkpoint.flushed,
        checkpoint.confirmed,
    )
    journal = checkpoint.journal or NO_JOURNAL
    entries = -1 if checkpoint.entries is None else checkpoint.entries
    mark = MARK.pack(MAGIC, checkpoint.confirmed, *journal, entries)
    theirs = LAYOUT.pack(*fields)
    data = theirs.ljust(MARK_AT, b"\0") + mark + CRC.pack(crc32(mark))
    if checkpoint.crc_since is not None:
        crc_mark = CRC_MARK.pack(CRC_MAGIC, checkpoint.crc_since, crc32(theirs))
        data += crc_mark + CRC.pack(crc32(crc_mark))
    name = -1 if checkpoint.index_file is None else checkpoint.index_file
    index_mark = INDEX_MARK.pack(INDEX_MAGIC, name)
    data = data.ljust(INDEX_MARK_AT, b"\0") + index_mark + CRC.pack(crc32(index_mark))
    write_atomic(files, path, data.ljust(FILE_BYTES, b"\0"))


def read_clean(files: Files, path: Path) -> tuple[CleanMark | None, str]:
    """The mark of a clean stop, or why there is none to believe; "" where that is no wonder.

    One without a CRC, of an earlier version, is not believed: the checkpoint says the same.
    """
    try:
        data = read_whole(files, path)
    except FileNotFoundError:
        return None, ""
    head = len(CLEAN_MAGIC) + CRC.size
    content = data[head:]
    if not data.startswith(CLEAN_MAGIC):
        try:
            msgspec.msgpack.decode(data, type=CleanMark)
        except msgspec.DecodeError as error:
            return None, f"it cannot be read: {error}"
        return None, ""
    if len(data) < head or CRC.unpack_from(data, len(CLEAN_MAGIC))[0] != crc32(content):
        return None, "it does not match its CRC"
    try:
        return msgspec.msgpack.decode(content, type=CleanMark), ""
    except msgspec.DecodeError as error:
        return None, f"it cannot be read: {error}"


def save_clean(files: Files, path: Path, clean: CleanMark) -> None:
    """Write the file whole."""
    content = msgspec.msgpack.encode(clean)
    write_atomic(files, path, CLEAN_MAGIC + CRC.pack(crc32(content)) + content)
