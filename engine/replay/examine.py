"""Examines the messages of a job and decides the outcome of each; sends nothing.

A dry run and the real one ask the same questions here, so the one foretells the other.
"""

from collections.abc import Callable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from engine.delivery.filter import parse_filter
from engine.message import Message, StoredMessage
from engine.replay.copy_planner import CopyPlanner, NotReplayable
from engine.replay.job import StoredJob
from engine.replay.marks import ReplayMarks
from engine.replay.outcomes import ReplayOutcome
from engine.replay.states import DeadLetterStates
from engine.store.consume_queue import QueueEntry
from engine.store.store import Store
from engine.topic.catalog import Catalog
from engine.topic.names import GROUP_QUEUE

READ_BYTES_MAX = 1024 * 1024


class CopyDecision(NamedTuple):
    """What is to become of the `nth` message (from 0); with `copy` it is to be sent."""

    nth: int
    queue: int
    offset: int
    outcome: ReplayOutcome
    message_id: str = ""
    copy: Message | None = None
    error: str = ""


class SelectedMessage(NamedTuple):
    """The `nth` message of a job (from 0) with its entry, where there still is one."""

    nth: int
    queue: int
    offset: int
    entry: QueueEntry | None


class Examiner:
    """Decides; at most 1 MiB of records is read at once, or one record."""

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        marks: ReplayMarks,
        states: DeadLetterStates,
        has_group: Callable[[str], bool],
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._marks = marks
        self._states = states
        self._copies = CopyPlanner(catalog, has_group)

    def examine(self, job: StoredJob, *, count_max: int, sends_max: int) -> list[CopyDecision]:
        """Decisions about the messages from the cursor on, of which `sends_max` may be sent."""
        selected = self.select(job, job.cursor, count_max)
        match = parse_filter(job.plan.filter)
        candidates = [
            (each.entry, each.queue)
            for each in selected
            if each.entry is not None
            and each.entry.has_record
            and each.nth not in job.ahead
            and match.may_match(each.entry.tag_code)
        ]
        read = self.read(job.plan.source, candidates)
        left = frozenset(entry for entry, _ in candidates[len(read) :])
        sent_before = self._copied_before(job, len(selected)) if job.plan.fresh_only else set()
        meets = self._matcher(job)
        decisions: list[CopyDecision] = []
        sends = 0
        for each in selected:
            if each.entry is not None and each.entry in read:
                stored = read[each.entry]
                is_meant = stored is None or meets(stored)
                is_sent = each.nth in sent_before
                decision = self._decide(job, each, stored, is_meant=is_meant, is_sent=is_sent)
            elif each.entry in left:
                break  # the next tick reads on here
            else:
                decision = self._unread(job, each)
            sends += decision.copy is not None
            if sends > sends_max:
                break
            decisions.append(decision)
        return decisions

    def select(self, job: StoredJob, index: int, count_max: int) -> list[SelectedMessage]:
        """The messages of a job from an index on, with their entries."""
        plan = job.plan
        topic = self._catalog.find(plan.source)
        is_there = topic is not None and topic.since_position <= plan.since_position
        selected: list[SelectedMessage] = []
        for first, queue, offsets in job.selection.stretches(index, count_max):
            entries: dict[int, QueueEntry] = {}
            if is_there:
                read = self._store.entries(plan.source, queue, offsets.start, len(offsets))
                entries = {entry.offset: entry for entry in read}
            for number, offset in enumerate(offsets):
                entry = None if job.is_lost(queue, offset) else entries.get(offset)
                selected.append(SelectedMessage(first + number, queue, offset, entry))
        return selected

    def read(
        self, topic: str, candidates: Sequence[tuple[QueueEntry, int]]
    ) -> dict[QueueEntry, StoredMessage | None]:
        """Records of entries and their queues, as many from the start on as the limit allows.

        At least one. A record of another topic, queue or offset is not taken for the one meant.
        """
        size_bytes = 0
        for number, (entry, _) in enumerate(candidates):
            size_bytes += entry.size_bytes
            if number and size_bytes > READ_BYTES_MAX:
                candidates = candidates[:number]
                break
        records: dict[QueueEntry, StoredMessage | None] = {}
        for queue, run in groupby(candidates, key=itemgetter(1)):
            entries = [entry for entry, _ in run]
            read = self._store.read_entries(entries, (topic, queue))
            records.update(zip(entries, read, strict=True))
        return records

    # -- deciding -----------------------------------------------------------------------------

    def _unread(self, job: StoredJob, each: SelectedMessage) -> CopyDecision:
        if each.nth in job.ahead:
            outcome = ReplayOutcome.SENT
        elif each.entry is None:
            outcome = ReplayOutcome.EXPIRED
        elif not each.entry.has_record:
            outcome = ReplayOutcome.UNREADABLE
        else:
            outcome = ReplayOutcome.FILTERED
        return CopyDecision(each.nth, each.queue, each.offset, outcome)

    def _decide(
        self,
        job: StoredJob,
        each: SelectedMessage,
        stored: StoredMessage | None,
        *,
        is_meant: bool,
        is_sent: bool,
    ) -> CopyDecision:
        place = (each.nth, each.queue, each.offset)
        if stored is None:
            assert each.entry is not None
            is_gone = each.entry.position < self._store.oldest
            return CopyDecision(
                *place, ReplayOutcome.EXPIRED if is_gone else ReplayOutcome.UNREADABLE
            )
        try:
            if not is_meant:
                raise NotReplayable(ReplayOutcome.FILTERED)
            if is_sent:
                raise NotReplayable(ReplayOutcome.SENT_BEFORE)
            copy = self._copies.copy(job.plan, stored)
        except NotReplayable as verdict:
            return CopyDecision(*place, verdict.outcome, stored.message_id, error=verdict.detail)
        outcome = ReplayOutcome.ELIGIBLE if job.dry_run else ReplayOutcome.SENT
        return CopyDecision(*place, outcome, stored.message_id, copy)

    def _matcher(self, job: StoredJob) -> Callable[[StoredMessage], bool]:
        """Whether a record meets the plan's conditions, and is in the state that it names."""
        plan, meets = job.plan, job.plan.conditions.matcher()
        if not plan.dead_letter_state:
            return meets
        states = self._states.of(plan.source, self._store.bounds(plan.source, GROUP_QUEUE))
        return lambda stored: states.of(stored.offset) == plan.dead_letter_state and meets(stored)

    def _copied_before(self, job: StoredJob, count: int) -> set[int]:
        """Which of the messages from the cursor on another job has sent."""
        indexes: set[int] = set()
        for first, queue, offsets in job.selection.stretches(job.cursor, count):
            marks = self._marks.within(job.plan.source, queue, offsets.start, offsets.stop)
            for offset, jobs in marks.items():
                if any(other != job.plan.id for other in jobs):
                    indexes.add(first + offset - offsets.start)
        return indexes
