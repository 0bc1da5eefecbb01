"""RocketMQ's files of waiting exact times: `config/timercheck` and `timerlog/<position>`.

| timercheck            | bytes | at   |   | unit of the timer log      | bytes | at |
|-----------------------|-------|------|---|----------------------------|-------|----|
| read up to, ms        | 8     | 0    |   | size of the unit, 52       | 4     | 0  |
| timer log flushed to  | 8     | 8    |   | unit before in its second  | 8     | 4  |
| timer queue offset    | 8     | 16   |   | 1, 2: moves on; 4: deletes | 4     | 12 |
| the same, master's    | 8     | 24   |   | written, ms                | 8     | 16 |
| version               | 24    | 32   |   | due so many ms later       | 4     | 24 |
| magic "KITETIM1"      | 8     | 2048 |   | position of the record     | 8     | 28 |
| CRC-32 of bytes 0..55 | 4     | 2056 |   | size of the record         | 4     | 36 |
                                          | hash of topic, reserved    | 12    | 40 |

The last two of `timercheck` are KiteMQ's: RocketMQ leaves them alone, so they show which broker
wrote the others. What was due before "read up to" was delivered; what lies in the queue before the
offset is in the timer log. RocketMQ rebuilds its wheel (the file `timerwheel`) from it.
"""

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from engine.store.files import Files, make_lasting_directory, read_whole, write_atomic

CHECK = struct.Struct(">qqqq24x")
CHECK_MARK = struct.Struct(">8sI")
CHECK_MARK_AT = 2048
CHECK_BYTES = 4096
CHECK_MAGIC = b"KITETIM1"
UNIT = struct.Struct(">iqiqiqiiq")
NAME = f"{0:020d}"
assert CHECK.size == 56
assert UNIT.size == 52

SECOND_MS = 1000
WINDOW_MS = 2 * 24 * 3600 * 1000  # RocketMQ's wheel reaches so far, and moves on what is later
NORMAL, ROLL = 1, 2
NONE = -1


class TimerCheck(NamedTuple):
    """How far RocketMQ is: due times before `read_ms` are delivered, offsets before `offset` known.

    `is_ours` where KiteMQ wrote it last, or no broker did.
    """

    read_ms: int = 0
    offset: int = 0
    is_ours: bool = True


class Unit(NamedTuple):
    """A waiting message: when it is due, and where its record lies."""

    due_ms: int
    position: int
    size_bytes: int


def read_check(files: Files, root: Path) -> TimerCheck:
    """What `timercheck` says; zeros for none, and for one that is too short."""
    try:
        data = read_whole(files, root / "config" / "timercheck")
    except FileNotFoundError:
        return TimerCheck()
    if len(data) < CHECK.size:
        return TimerCheck()
    read_ms, _, offset, _ = CHECK.unpack_from(data)
    mark = data[CHECK_MARK_AT : CHECK_MARK_AT + CHECK_MARK.size]
    is_ours = mark == CHECK_MARK.pack(CHECK_MAGIC, crc32(data[: CHECK.size]))
    return TimerCheck(max(0, read_ms), max(0, offset), is_ours)


def write_timers(
    files: Files,
    root: Path,
    *,
    log_bytes: int,
    now_ms: int,
    offset: int,
    units: Sequence[Unit],
    last: Unit | None = None,
) -> None:
    """Let RocketMQ go on with `units`, in the queue's order, and what lies from `offset` on.

    `last` is the record right before `offset` where that does not wait: RocketMQ goes on behind
    the last record in its timer log, a file of `log_bytes`. Each step leaves files with which
    nothing is lost.
    """
    read_ms = now_ms // SECOND_MS * SECOND_MS
    directory = root / "timerlog"
    log = timer_log(units, read_ms, last)
    if log:
        make_lasting_directory(files, directory)
        _replace_log(files, root, log, log_bytes)
    for name in files.names(directory):
        if name != NAME or not log:
            files.remove(directory / name)
    files.remove(root / "timerwheel")
    check = CHECK.pack(read_ms, 0, offset, offset)
    mark = CHECK_MARK.pack(CHECK_MAGIC, crc32(check))
    data = (check.ljust(CHECK_MARK_AT, b"\0") + mark).ljust(CHECK_BYTES, b"\0")
    write_atomic(files, root / "config" / "timercheck", data)


def units_max(log_bytes: int) -> int:
    """How many fit such a file, beside the last one and the mark of its end."""
    return max(0, log_bytes // UNIT.size - 2)


def timer_log(units: Sequence[Unit], read_ms: int, last: Unit | None) -> bytes:
    """The content of the timer log; empty where nothing waits."""
    if not units:
        return b""
    data = bytearray()
    before: dict[int, int] = {}
    for unit in units:
        due_ms, magic = max(unit.due_ms, read_ms), NORMAL
        if due_ms - read_ms >= WINDOW_MS:
            due_ms, magic = read_ms + WINDOW_MS, NORMAL | ROLL
        _add(data, before, due_ms, read_ms, magic, unit)
    if last is not None:  # in a second that RocketMQ has passed
        _add(data, before, read_ms - SECOND_MS, read_ms, NORMAL, last)
    return bytes(data)


def _add(
    data: bytearray, before: dict[int, int], due_ms: int, read_ms: int, magic: int, unit: Unit
) -> None:
    second, at = due_ms // SECOND_MS, len(data)
    head = (UNIT.size, before.get(second, NONE), magic, read_ms, due_ms - read_ms)
    data += UNIT.pack(*head, unit.position, unit.size_bytes, 0, 0)
    before[second] = at


def _replace_log(files: Files, root: Path, log: bytes, log_bytes: int) -> None:
    temporary = root / "config" / "timerlog.tmp"
    file = files.open(temporary, create=True)
    try:
        file.truncate(0)
        file.pwrite(log, 0)
        file.truncate(log_bytes)
        file.sync()
    finally:
        file.close()
    files.replace(temporary, root / "timerlog" / NAME)
    files.sync_directory(root / "timerlog")
