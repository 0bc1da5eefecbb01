"""Reading single messages of a queue by their offsets."""

from collections.abc import Sequence

from engine.message import StoredMessage
from engine.run_length import iter_runs, to_runs
from engine.store.consume_queue import QueueEntry
from engine.store.store import Store


def find_entries(store: Store, topic: str, queue: int, offsets: Sequence[int]) -> list[QueueEntry]:
    """The entries of these ascending offsets, without those that retention took."""
    matches: list[QueueEntry] = []
    for run in iter_runs(to_runs(offsets)):
        entries = store.entries(topic, queue, run.start, len(run))
        matches += entries if entries and entries[0].offset == run.start else _within(entries, run)
    return matches


def read_offsets(
    store: Store, topic: str, queue: int, offsets: Sequence[int]
) -> dict[int, StoredMessage]:
    """The messages at these ascending offsets; what is gone or damaged is left out."""
    entries = find_entries(store, topic, queue, offsets)
    return {
        entry.offset: message
        for entry, message in zip(entries, store.read_entries(entries, (topic, queue)), strict=True)
        if message is not None
    }


def fit(entries: Sequence[QueueEntry], bytes_max: int, *, is_first: bool) -> Sequence[QueueEntry]:
    """As many from the start as `bytes_max` allows; with `is_first` at least one."""
    size_bytes = 0
    for index, entry in enumerate(entries):
        size_bytes += entry.size_bytes
        if size_bytes > bytes_max and not (is_first and index == 0):
            return entries[:index]
    return entries


def _within(entries: list[QueueEntry], run: range) -> list[QueueEntry]:
    return [entry for entry in entries if entry.offset in run]
