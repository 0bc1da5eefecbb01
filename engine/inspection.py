"""Checks and repairs a whole data directory: `kitemq store verify` and `repair`.

What the store cannot know of is put in here: which topics the journal names, what trace records,
waiting messages and lag files hold. Reads only, but for `repair`, which needs the server stopped.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from engine.config import EngineConfig
from engine.container import CODE_CHECKS, tag_codes
from engine.errors import Corrupt
from engine.journal_legality import inapplicable
from engine.message import StoredMessage
from engine.schedule.levels import DelayLevels
from engine.statistics import lag_block
from engine.store.entry_codes import EntryCodes
from engine.store.files import Files, read_whole
from engine.store.journal_entries import JournalFrame
from engine.store.repair import Repair, repair_store
from engine.store.verify import PATIENCE_S, VerifyReport, verify_store
from engine.topic.catalog import TopicDeleted, TopicSet
from engine.topic.names import TRACE_TOPIC
from engine.trace.record import decode as decode_trace

CODES = EntryCodes(tag_codes(EngineConfig(data=Path()), DelayLevels()), CODE_CHECKS)
_TOPICS: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(TopicSet | TopicDeleted)


def inspect(
    files: Files,
    root: Path,
    *,
    progress: Callable[[int], None] | None = None,
    patience_s: Sequence[float] = PATIENCE_S,
    **shape: int,
) -> VerifyReport:
    """Check everything under `root`, beside a running server too; NotFound when there is no store.

    `shape` is that of index files (`index_slots`, `index_items`) where it is not the default.
    """
    faults: list[tuple[str, str]] = []

    def begins_in(frames: Sequence[JournalFrame]) -> dict[str, int]:
        for frame, reason in inapplicable(files, root, frames):
            faults.append((f"{frame.file} at {frame.at}", f"no start can apply it: {reason}"))
        return begins(frames)

    report = verify_store(
        files,
        root,
        progress=progress,
        begins_in=begins_in,
        look_at=_look_at,
        codes=CODES,
        patience_s=patience_s,
        **shape,
    )
    for where, detail in faults:
        report.add(where, detail)
    _check_lag(files, root / "lag", report)
    return report


def repair(files: Files, root: Path, **shape: int) -> Repair:
    """Make a stopped server's directory one that starts; see `engine.store.repair`."""
    return repair_store(files, root, begins_in=begins, codes=CODES, **shape)


def begins(frames: Sequence[JournalFrame]) -> dict[str, int]:
    """The topics that the journal's entries leave, and from which position on each counts."""
    offsets: dict[str, int] = {}
    for frame in frames:
        if b"topic-" not in frame.payload[:24]:
            continue
        try:
            entry = _TOPICS.decode(frame.payload)
        except msgspec.DecodeError:
            continue
        if isinstance(entry, TopicSet):
            offsets[entry.config.name] = entry.config.since_position
        else:
            offsets.pop(entry.name, None)
    return offsets


def _look_at(message: StoredMessage, report: VerifyReport) -> None:
    if message.topic != TRACE_TOPIC:
        return
    try:
        decode_trace(message.body)
    except Corrupt as error:
        report.add(f"log {message.position}", error.detail)


def _check_lag(files: Files, directory: Path, report: VerifyReport) -> None:
    for name in files.names(directory):
        if not name.endswith(".lag"):
            continue
        try:
            data = read_whole(files, directory / name)
        except FileNotFoundError:
            continue
        report.files += 1
        position = 0
        while position < len(data):
            block = lag_block.block_at(data, position)
            if block is None:
                report.add(f"lag/{name} at {position}", "samples of lag that cannot be read")
                position = lag_block.find_magic(data, position + 1)
            else:
                position += block.head.size_bytes
