"""Repairs a damaged directory so that it starts; what it removes is kept in `set-aside`.

A snapshot that cannot be read, with nothing older to rebuild from, is replaced by one of its whole
entries. Queue entries that do not fit are mended from the log. Where the key index is damaged, or
a snapshot was, the next start reads the whole log again.
"""

from pathlib import Path

import msgspec

from engine.errors import Busy
from engine.store.damage import DamageLog
from engine.store.entry_codes import EntryCodes
from engine.store.files import Files, read_whole, write_atomic
from engine.store.journal_files import file_numbers, file_path, is_whole_snapshot, size_before
from engine.store.journal_frames import FRAME, JournalFrames, join_frames, read_frames
from engine.store.verify import INDEX_ITEMS, INDEX_SLOTS, TAGS_ALONE, Begins, verify_store

QUEUE_DIGITS_MAX = 4  # names of index and lag files are longer


class Repair(msgspec.Struct):
    """Result of a repair, in sentences. `kept` are the files that hold what was removed."""

    done: list[str] = []
    kept: list[str] = []
    missing: list[str] = []


def repair_store(
    files: Files, root: Path, *, begins_in: Begins, codes: EntryCodes = TAGS_ALONE, **shape: int
) -> Repair:
    """Mend what can be mended under `root`; Busy while a server uses it, NotFound without a store.

    Nothing is changed where nothing is damaged. Needs room for copies of what it replaces.
    """
    lock = files.lock(root / "lock")
    if lock is None:
        raise Busy(
            f"a server uses {root}", field="data", remedy="stop it first; verifying needs no stop"
        )
    try:
        return Repairer(files, root, begins_in, codes, shape).run()
    finally:
        lock.close()


class Repairer:
    """One repair."""

    def __init__(
        self,
        files: Files,
        root: Path,
        begins_in: Begins,
        codes: EntryCodes,
        shape: dict[str, int],
    ) -> None:
        self._files = files
        self._root = root
        self._directory = root / "config"
        self._begins_in = begins_in
        self._codes = codes
        self._shape = shape  # of index files, for `verify_store`
        self._damages = DamageLog(files, root)
        self._repair = Repair()

    def run(self) -> Repair:
        reread = self._mend_journal()
        report = verify_store(
            self._files,
            self._root,
            begins_in=self._begins_in,
            codes=self._codes,
            patience_s=(),
            index_slots=self._shape.get("index_slots", INDEX_SLOTS),
            index_items=self._shape.get("index_items", INDEX_ITEMS),
        )
        wheres = [fault.where for fault in report.faults]
        if any(where.startswith("index/") for where in wheres):
            self._set_aside("index", "the key index is made anew from the log")
            reread = True
        for topic, queue in sorted(set(filter(None, map(_queue_of, wheres)))):
            path = self._root / "consumequeue" / topic / queue
            if self._files.exists(path):
                copy = self._damages.move_aside(path, f"consumequeue-{topic}-{queue}")
                self._repair.kept.append(copy)
            self._repair.done.append(f"queue {queue} of {topic} is made anew from the log")
            reread = True
        if reread:
            for name in ("clean", "checkpoint"):
                if self._files.exists(self._root / name):
                    self._repair.kept.append(self._damages.move_aside(self._root / name))
            self._repair.done.append("the next start reads the log from its beginning")
        return self._repair

    def _mend_journal(self) -> bool:
        """Whether anything had to be replaced."""
        snapshots = file_numbers(self._files, self._directory, "snapshot")
        journals = file_numbers(self._files, self._directory, "journal")
        bad: list[tuple[int, JournalFrames, int]] = []
        base = 0
        for number in reversed(snapshots):
            data = read_whole(self._files, file_path(self._directory, "snapshot", number))
            frames = read_frames(data)
            if is_whole_snapshot(frames):
                base = number
                break
            bad.append((number, frames, len(data)))
        end = max([*journals, *(number for number, _, _ in bad)], default=base)
        missing = sorted(set(range(base, end + 1)) - set(journals))
        if not missing or not (journals or bad):
            return False
        if bad:
            self._salvage(*bad[0])
            base = bad[0][0]
        for number in (each for each in missing if each >= base):
            path = file_path(self._directory, "journal", number)
            write_atomic(self._files, path, b"")
            self._repair.missing.append(f"config/{path.name}, all of it")
            self._repair.done.append(f"config/{path.name} was missing; an empty one stands for it")
            self._forget_size(number + 1)
        return True

    def _forget_size(self, number: int) -> None:
        """Let a journal say no more how long the one before it was."""
        if size_before(self._files, self._directory, number):
            path = file_path(self._directory, "journal", number)
            data = read_whole(self._files, path)
            begin = FRAME.size + len(read_frames(data).payloads[0].data)
            write_atomic(self._files, path, data[begin:])

    def _salvage(self, number: int, frames: JournalFrames, size: int) -> None:
        """Write a snapshot of the whole frames of a damaged one, which is kept."""
        path = file_path(self._directory, "snapshot", number)
        copy = self._damages.move_aside(path)
        write_atomic(self._files, path, join_frames(each.data for each in frames.payloads))
        self._repair.kept.append(copy)
        self._repair.done.append(
            f"config/{path.name} was rewritten with its {len(frames.payloads)} whole entries"
        )
        stretches = [(gap.start, gap.end) for gap in frames.gaps]
        if not frames.is_ended or frames.end + 8 < size:
            stretches.append((frames.end, size))
        for start, end in stretches:
            self._repair.missing.append(
                f"config/{path.name} {start}..{end}: settings or progress of topics and groups"
            )

    def _set_aside(self, name: str, text: str) -> None:
        if self._files.exists(self._root / name):
            self._repair.kept.append(self._damages.move_aside(self._root / name))
        self._repair.done.append(text)


def _queue_of(where: str) -> tuple[str, str] | None:
    """Topic and queue of a fault that is a queue's: "topic/queue" or "topic/queue@offset"."""
    topic, separator, queue = where.partition("@")[0].rpartition("/")
    is_queue = bool(separator) and queue.isdigit() and len(queue) <= QUEUE_DIGITS_MAX
    return (topic, queue) if is_queue else None
