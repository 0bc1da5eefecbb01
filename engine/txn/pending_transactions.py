"""Pending transactions and the times of their checks: kept in the journal, corrected by recovery.

A half message takes about 30 bytes of memory, from its queue entry alone; its record is read only
when it is needed. Half messages whose checks were given up are in a queue of their own and may
still be decided.
"""

import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

from engine.clock import Clock
from engine.finished_offsets import FinishedOffsets
from engine.message import StoredMessage
from engine.run_length import iter_runs, to_runs
from engine.store.consume_queue import QueueEntry
from engine.store.store import Store
from engine.topic.names import GIVEN_UP_TOPIC, HALF_TOPIC
from engine.txn.check_times import CheckTimes
from engine.txn.half_messages import IMMUNITY_MAX_S, QUEUE
from engine.txn.journal import (
    GIVEN_UP,
    HALVES,
    HalvesChecked,
    HalvesCut,
    HalvesFinished,
    HalvesKept,
    check_half_messages,
)
from engine.txn.recovery_evidence import RecoveryEvidence, evidence_of, left_behind

LOAD_ENTRIES = 4096
TOPICS = {HALVES: HALF_TOPIC, GIVEN_UP: GIVEN_UP_TOPIC}


class CheckAgenda(Protocol):
    """Pending things by time; `schedule` has one. Its entries have `due_ms` and `offset`."""

    def __len__(self) -> int: ...
    def first(self) -> Any: ...
    def add(self, pending: Any) -> None: ...
    def remove(self, pending: Any) -> bool: ...
    def due(self, now_ms: int, count_max: int) -> list[Any]: ...
    def load(self, dues: "array[int]", offsets: "array[int]") -> None: ...


class PendingTransactions:
    """A change is in force, and kept, once its verb returned."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        agenda: CheckAgenda,
        pending: Callable[[int, int], Any],
        interval_s: float,
    ) -> None:
        """`pending` makes an entry of the agenda from a time and an offset."""
        self._store = store
        self._clock = clock
        self._agenda = agenda
        self._pending = pending
        self._interval_ms = round(interval_s * 1000)
        self._stretches = {HALVES: FinishedOffsets(), GIVEN_UP: FinishedOffsets()}
        self._checks = CheckTimes()
        self._proofs: list[RecoveryEvidence] = []  # what recovery found
        # Times go on at the steady clock's pace from here, whatever becomes of the calendar.
        self._ahead_ms = clock.now_ms() - clock.monotonic_s() * 1000
        self.on_earlier: Callable[[], None] = lambda: None  # another half message is due first
        store.journal.register(
            (HalvesFinished, HalvesCut, HalvesChecked, HalvesKept),
            self._apply,
            self._snapshot,
            lambda entry: check_half_messages(entry, self._store.offset_max),
        )

    # -- life ------------------------------------------------------------------------------------

    def start(self) -> None:
        """After recovery: correct what a crash left, find out what is undecided, and listen."""
        for kind in TOPICS:
            self._settle(kind)
        self._settle_proofs()
        dues, offsets, lost = array("q"), array("q"), []
        now_ms = self.now_ms()
        soon_ms, latest_ms = now_ms + self._interval_ms, now_ms + IMMUNITY_MAX_S * 1000
        is_finished = self._stretches[HALVES].is_finished
        self._checks.reserve(self._store.bounds(HALF_TOPIC, QUEUE)[1])
        for entry in self._all_entries(HALVES):
            if is_finished(entry.offset):
                continue
            if not entry.has_record:
                lost.append(entry.offset)
                continue
            dues.append(self._checks.settle(entry.offset, entry.tag_code, soon_ms, latest_ms))
            offsets.append(entry.offset)
        self._agenda.load(dues, offsets)
        missing = [each.offset for each in self._all_entries(GIVEN_UP) if not each.has_record]
        missing = [offset for offset in missing if not self.is_finished(GIVEN_UP, offset)]
        if lost or missing:  # a power loss took them
            self.finish(half_offsets=lost, given_up=missing)
        self._store.on_visible_in[HALF_TOPIC] = self._arrived

    def replayed(self, message: StoredMessage) -> None:
        """Recovery found this record: it may prove that others are finished."""
        proof = evidence_of(message)
        if proof is not None:
            self._proofs.append(proof)

    # -- looking ---------------------------------------------------------------------------------

    def now_ms(self) -> int:
        """The board's time: the calendar at the start, then at the steady clock's pace."""
        return round(self._ahead_ms + self._clock.monotonic_s() * 1000)

    @property
    def count(self) -> int:
        """Number of undecided half messages."""
        return len(self._agenda)

    def given_up_count(self) -> int:
        """Number of those given up and not decided."""
        end = self._store.bounds(GIVEN_UP_TOPIC, QUEUE)[1]
        return self._stretches[GIVEN_UP].count_unfinished(end)

    def is_finished(self, kind: int, offset: int) -> bool:
        """Whether a place needs no decision any more."""
        return self._stretches[kind].is_finished(offset)

    def undecided(self, kind: int, start: int, count_max: int) -> list[int]:
        """Offsets from `start` on that wait for a decision, at most `count_max`."""
        end = self._store.bounds(TOPICS[kind], QUEUE)[1]
        return self._stretches[kind].unfinished(start, count_max, end)

    def entries(self, kind: int, offsets: Sequence[int]) -> list[QueueEntry]:
        """Entries of these offsets, ascending, without those that retention took."""
        queue_entries: list[QueueEntry] = []
        for run in iter_runs(to_runs(sorted(set(offsets)))):
            entries = self._store.entries(TOPICS[kind], QUEUE, run.start, len(run))
            queue_entries += [entry for entry in entries if entry.offset in run]
        return queue_entries

    def checks(self, offset: int) -> int:
        """Number of checks that a half message had."""
        return self._checks.count(offset)

    def due_ms(self, offset: int) -> int:
        """Time of its next check, by the calendar."""
        return self._checks.due_ms(offset) - self.now_ms() + self._clock.now_ms()

    def due(self, count_max: int) -> list[int]:
        """Half messages whose check is due, first things first."""
        return [each.offset for each in self._agenda.due(self.now_ms(), count_max)]

    def wait_s(self) -> float | None:
        """Seconds until the next check is due; None when nothing is undecided."""
        first = self._agenda.first()
        return None if first is None else max(0.0, (first.due_ms - self.now_ms()) / 1000)

    def waits(self, offset: int) -> bool:
        """Whether it is undecided, and no producer has been asked for its last check yet."""
        return self._checks.waits(offset) and not self.is_finished(HALVES, offset)

    def set_waits(self, offset: int, waits: bool) -> None:
        self._checks.set_waits(offset, waits)

    # -- changing --------------------------------------------------------------------------------

    def finish(
        self, *, half_offsets: Sequence[int] = (), given_up: Sequence[int] = (), record_end: int = 0
    ) -> None:
        """These need no decision any more; `record_end` as in HalvesFinished.

        With a record it cannot be refused. Else DiskFull or Corrupt, and nothing has changed.
        """
        entry = HalvesFinished(
            to_runs(sorted(set(half_offsets))), to_runs(sorted(set(given_up))), record_end
        )
        self._store.journal.append(entry, is_owed=record_end > 0)
        for offset in half_offsets:
            self._agenda.remove(self._pending(self._checks.due_ms(offset), offset))
        self._apply(entry)

    def begin_checks(self, entries: Sequence[QueueEntry], counts: Sequence[int]) -> None:
        """A check of these begins, number `counts`; the next is due an interval from now.

        DiskFull or Corrupt, and nothing has changed.
        """
        due_ms = self.now_ms() + self._interval_ms
        offsets = [each.offset for each in entries]
        record_end = max(each.position + each.size_bytes for each in entries)
        entry = HalvesChecked(offsets, list(counts), due_ms, record_end)
        self._store.journal.append(entry)
        for offset in offsets:
            self._agenda.remove(self._pending(self._checks.due_ms(offset), offset))
            self._agenda.add(self._pending(due_ms, offset))
        self._apply(entry)

    def _arrived(self, _: str, queue: int, first_offset: int, tag_codes: list[int]) -> None:
        """For the store's `on_visible_in`; a tag code is when a message is first checked."""
        if queue != QUEUE:
            return
        before = self._agenda.first()
        ahead_ms = self.now_ms() - self._clock.now_ms()
        for offset, due_ms in enumerate(tag_codes, first_offset):
            if self.is_finished(HALVES, offset):  # decided before it could be read
                continue
            self._checks.set(offset, due_ms + ahead_ms, 0)
            self._agenda.add(self._pending(due_ms + ahead_ms, offset))
        if before != self._agenda.first():
            self.on_earlier()

    # -- recovery --------------------------------------------------------------------------------

    def _settle(self, kind: int) -> None:
        """The queue holds what the store says, nothing before and nothing after."""
        first, end = self._store.bounds(TOPICS[kind], QUEUE)
        stretch = self._stretches[kind]
        if stretch.end > end:
            cut = HalvesCut(kind, end)
            self._store.journal.append(cut)
            self._apply(cut)
        if stretch.floor < first:
            run = [stretch.floor, first - stretch.floor]
            entry = HalvesFinished(*((run, []) if kind == HALVES else ([], run)))
            self._store.journal.append(entry)
            self._apply(entry)

    def _settle_proofs(self) -> None:
        half_offsets, given_up = left_behind(self._proofs, self._position_of)
        half_offsets = {each for each in half_offsets if not self.is_finished(HALVES, each)}
        given_up = {each for each in given_up if not self.is_finished(GIVEN_UP, each)}
        if half_offsets or given_up:
            end = max(proof.end for proof in self._proofs)
            self.finish(half_offsets=list(half_offsets), given_up=list(given_up), record_end=end)
        self._proofs = []

    def _all_entries(self, kind: int) -> Iterator[QueueEntry]:
        """Entries of a queue from the floor to the end."""
        topic, offset = TOPICS[kind], self._stretches[kind].floor
        end = self._store.bounds(topic, QUEUE)[1]
        while offset < end:
            entries = self._store.entries(topic, QUEUE, offset, LOAD_ENTRIES)
            yield from entries
            offset = entries[-1].offset + 1 if entries else end

    def _position_of(self, kind: int, offset: int) -> int:
        entries = self.entries(kind, [offset]) if offset >= 0 else []
        return entries[0].position if entries and entries[0].has_record else -1

    # -- the journal -----------------------------------------------------------------------------

    def _apply(self, entry: HalvesFinished | HalvesCut | HalvesChecked | HalvesKept) -> None:
        if isinstance(entry, HalvesChecked):
            for offset, count in zip(entry.offsets, entry.counts, strict=True):
                self._checks.set(offset, entry.due_ms, count)
        elif isinstance(entry, HalvesFinished):
            for kind, runs in ((HALVES, entry.half_offsets), (GIVEN_UP, entry.given_up)):
                for run in iter_runs(runs):
                    self._stretches[kind].mark(run.start, len(run))
            self._checks.trim(self._stretches[HALVES].floor)
        elif isinstance(entry, HalvesCut):
            self._stretches[entry.kind].cut(entry.offset)
            if entry.kind == HALVES:
                self._checks.cut(entry.offset)
        else:
            self._stretches[entry.kind] = FinishedOffsets(entry.floor, zlib.decompress(entry.marks))
            if entry.kind == HALVES:
                self._checks = CheckTimes(entry.base, entry.dues, entry.counts)

    def _snapshot(self) -> Iterable[HalvesKept]:
        for kind, stretch in self._stretches.items():
            checks = self._checks.snapshot(stretch.floor) if kind == HALVES else (0, b"", b"")
            yield HalvesKept(kind, stretch.floor, zlib.compress(stretch.marks, 1), *checks)
