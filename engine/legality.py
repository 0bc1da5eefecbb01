"""Checks the values of journal entries: numbers within bounds, runs of offsets in order.

Each part of the journal checks a change before a byte of it is written, and a start checks it
again before it is applied. A check raises Illegal, and what passes cannot fail when it is applied.
"""

import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from engine.errors import EngineError, Illegal
from engine.run_length import Runs, from_runs, iter_runs

NUMBER_MAX = (1 << 63) - 1
QUEUE_MAX = (1 << 31) - 1
CURSOR_MAX = (1 << 64) - 1  # the largest that an entry can hold
OFFSETS_MAX = 1 << 20  # that one change may name one by one


def check_number(name: str, value: int, most: int = NUMBER_MAX, *, least: int = 0) -> None:
    """`value` is from `least` to `most`."""
    if not least <= value <= most:
        raise Illegal(f"{name} is {_short(value)}, it must be {least} to {most}")


def check_queue(queue: int) -> None:
    """`queue` can be the number of a queue."""
    if not 0 <= queue <= QUEUE_MAX:
        raise Illegal(f"queue is {_short(queue)}, it must be 0 to {QUEUE_MAX}")


def check_text(name: str, value: str) -> None:
    """`value` has none of the characters that would end a property in a record."""
    if "\0" in value or "\x01" in value or "\x02" in value:
        raise Illegal(f"{name} has a character that no name can have")


def check_runs(runs: Runs, end_max: int = NUMBER_MAX, name: str = "runs") -> None:
    """`runs` ascend, none is empty or over another, and none goes past `end_max`."""
    if len(runs) % 2:
        raise Illegal(f"{name} end in the middle of a run")
    end = 0
    for first, count in zip(runs[::2], runs[1::2], strict=True):
        if first < end or count < 1 or first + count > end_max:
            raise Illegal(
                f"{name} have {_short(count)} offsets from {_short(first)} on,"
                f" they must ascend and lie between {end} and {end_max}"
            )
        end = first + count


def offsets_of(runs: Runs) -> Sequence[int]:
    """The offsets that `runs` name, ascending; Illegal unless they do, for more than 2**20 too."""
    if not runs:
        return ()
    if len(runs) == 2:
        first, count = runs
        if first >= 0 and 0 < count <= OFFSETS_MAX and first + count <= NUMBER_MAX:
            return range(first, first + count)
    check_runs(runs)
    total = sum(map(len, iter_runs(runs)))
    if total > OFFSETS_MAX:
        raise Illegal(f"runs name {total} offsets, {OFFSETS_MAX} is the most")
    return from_runs(runs)


def check_columns(width: int, **columns: bytes) -> None:
    """`columns` hold numbers of `width` bytes, as many in each."""
    sizes = {len(column) for column in columns.values()}
    if len(sizes) > 1 or any(size % width for size in sizes):
        raise Illegal(f"{', '.join(columns)} do not hold the same count of {width}-byte numbers")


def unpacked(name: str, data: bytes, most: int) -> bytes:
    """What zlib made `data` of; Illegal for anything else, and for more than `most` bytes."""
    unpacker = zlib.decompressobj()
    try:
        plain = unpacker.decompress(data, most + 1)
    except (zlib.error, TypeError) as error:
        raise Illegal(f"{name} cannot be unpacked: {error}") from None
    if len(plain) > most or not unpacker.eof or unpacker.unused_data:
        raise Illegal(f"{name} are not whole, or more than {most} bytes")
    return plain


def check_by(check: Callable[..., Any], *arguments: object) -> None:
    """Illegal where a check of users' input finds fault."""
    try:
        check(*arguments)
    except EngineError as error:
        raise Illegal(error.detail) from None


def check_all(name: str, values: Iterable[int], most: int = NUMBER_MAX) -> None:
    """Each of `values` is from 0 to `most`."""
    for value in values:
        if not 0 <= value <= most:
            raise Illegal(f"{name} has {_short(value)}, it must be 0 to {most}")


def _short(value: int) -> str:
    """A number for an error's text: one of thousands of digits has no text."""
    return str(value) if abs(value) < 1 << 128 else "beyond all bounds"
