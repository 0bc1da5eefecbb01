"""Reads and checks the entries of whole frames at a start, and sets aside the others.

The CRC of a frame says that its bytes are those that were written. An entry that cannot be read or
applied all the same was written by another version, or by a mistake of ours. It is copied to
`set-aside`, named in the start's list of damages, and left out; all others are applied.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple, Union
from zlib import crc32

import msgspec

from engine.errors import Illegal
from engine.store.damage import Damage, DamageLog

HEAD = struct.Struct(">II")  # of a frame: payload size, CRC-32
REASON_CHARS_MAX = 500
UNREADABLE = (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError)


class JournalEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One change; subclasses set their own `tag`, which is never reused for another meaning."""

    @property
    def follows(self) -> int:
        """The end of the record in the log that this follows from; 0 for none.

        Where the log has to be read again from before there, loading leaves the change out: a
        power loss may have taken the record, and if not, recovery finds it and makes the change.
        """
        return 0


class Predecessor(JournalEntry, frozen=True, tag="predecessor", array_like=True):
    """How long the file before this one was when this one began, which is no change.

    Where it is shorter a loss of power has taken its end: what this one has builds on that.
    """

    size_bytes: int


class JournalFrame(NamedTuple):
    """A whole frame: its file (relative to the data directory), its offset there, its payload."""

    file: str
    at: int
    payload: bytes

    @property
    def end(self) -> int:
        return self.at + HEAD.size + len(self.payload)


class RefusedFrame(NamedTuple):
    """A frame that cannot be applied, and why not."""

    frame: JournalFrame
    reason: str


def gaps_in(frames: Sequence[JournalFrame]) -> Iterator[int]:
    """The number of each frame that has none right before it in its file."""
    file, end = "", 0
    for number, each in enumerate(frames):
        if each.at != (end if each.file == file else 0):
            yield number
        file, end = each.file, each.end


class EntryReader:
    """Reads entries of the given types, each from the payload of one frame."""

    def __init__(self, kinds: Iterable[type[msgspec.Struct]]) -> None:
        kinds = tuple(kinds)
        self._decode = msgspec.msgpack.Decoder(Union[kinds]).decode  # noqa: UP007 (at run time)

    def read(self, payload: bytes) -> Any:
        """The entry; raises Illegal for what is none of these types."""
        try:
            return self._decode(payload)
        except UNREADABLE as error:
            raise Illegal(f"it is no entry that this version knows: {error}") from None


def reason_of(error: Illegal) -> str:
    """Why a frame is set aside, for a person, at most 500 characters."""
    return error.detail[:REASON_CHARS_MAX]


def set_aside(refused: Sequence[RefusedFrame], damage_log: DamageLog) -> bool:
    """Copy these frames to one file for each that they lie in, and add each to the damages.

    False where a copy could not be written: the caller must not remove the journal then.
    """
    by_file: dict[str, list[RefusedFrame]] = {}
    for each in refused:
        by_file.setdefault(each.frame.file, []).append(each)
    is_kept = True
    for file, members in by_file.items():
        data = b"".join([_bytes_of(each.frame) for each in members])
        try:
            copy = damage_log.keep_copy(f"{PurePath(file).name}-{members[0].frame.at}", data)
        except OSError:
            copy, is_kept = "", False
        for frame, reason in members:
            damage_log.add(Damage(frame.at, frame.end, f"set aside: {reason}", file, copy))
    return is_kept


def _bytes_of(frame: JournalFrame) -> bytes:
    return HEAD.pack(len(frame.payload), crc32(frame.payload)) + frame.payload
