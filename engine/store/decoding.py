"""Reads records of the log: whole ones by the kernel, all others by `record`, which says why."""

from collections.abc import Sequence

from engine.errors import Corrupt
from engine.host import unpack_host
from engine.message import StoredMessage
from engine.store import kernel, record
from engine.store.record import NO_RANGE


def decode(data: bytes, at: int = 0, crc_range: range = NO_RANGE) -> StoredMessage:
    """The record that starts at `at`; Corrupt when length, magic, CRC or a field is wrong.

    One whose position is in `crc_range` must have a CRC of its own.
    """
    result = decode_run(data, (at,), crc_range)[0]
    if isinstance(result, Corrupt):
        raise result
    return result


def decode_run(
    data: bytes, starts: Sequence[int], crc_range: range = NO_RANGE
) -> list[StoredMessage | Corrupt]:
    """The records that start at these places; a Corrupt stands for one that is damaged.

    Those whose positions are in `crc_range` must have a CRC of their own.
    """
    decoded = kernel.decode_records(data, starts, StoredMessage, unpack_host)
    if None not in decoded:
        return decoded  # type: ignore[return-value]
    others = [start for start, found in zip(starts, decoded, strict=True) if found is None]
    closer = iter(record.decode_run(data, others, crc_range))
    return [next(closer) if found is None else found for found in decoded]
