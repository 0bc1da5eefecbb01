"""Finds the journal entries that a start would set aside, for `kitemq store verify`.

Builds every part of the engine in memory and applies the journal to them. Reads only.
"""

from collections.abc import Sequence
from pathlib import Path

from engine.clock import SystemClock
from engine.config import EngineConfig
from engine.container import Container
from engine.store.files import Files
from engine.store.journal_entries import JournalFrame, RefusedFrame
from engine.store.pool import InlinePool


def inapplicable(files: Files, root: Path, frames: Sequence[JournalFrame]) -> list[RefusedFrame]:
    """Of the whole frames that count, in order, those that no start can apply, and why not.

    `frames` are those of the newest snapshot and the journals after it.
    """
    segments = files.names(root / "commitlog")
    first = files.open(root / "commitlog" / segments[0]) if segments else None
    segment_bytes = EngineConfig.segment_bytes
    if first is not None:
        segment_bytes = first.size()
        first.close()
    config = EngineConfig(data=root, segment_bytes=segment_bytes)
    parts = Container(
        config, clock=SystemClock(), pool=InlinePool(), files=files, check_running=lambda: None
    )
    parts.store.look()
    try:
        return parts.store.journal.examine(frames)
    finally:
        parts.store.close()
