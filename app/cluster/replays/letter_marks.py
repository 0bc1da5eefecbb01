"""What was resent and dismissed of a cluster's dead letters, by their numbers; SQL has it.

A read is at most KEPT_S old. Numbers stay what they are, so marks need no message.
"""

import time
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from app.db.rows import LetterMarksRow
from app.db.worker import DatabaseAsker, DatabaseWorker
from engine.broker import DismissalPlan, DismissNote
from engine.errors import Refused
from engine.replay.dismissals import DISMISSALS_MAX, SPANS_MAX, note_of
from engine.replay.dismissed_offsets import DismissedOffsets, PackedDismissals
from engine.replay.offset_bits import OffsetBits

KEPT_S = 1.0
TOPICS_MAX = 1000  # that are kept in memory
UNAVAILABLE = "the marks of dead letters cannot be read: {error}"


class Marks(NamedTuple):
    """The marks of one topic; version 0 is none at all."""

    version: int
    resent: OffsetBits
    dismissed: DismissedOffsets


class LetterMarks:
    """The marks of all topics."""

    def __init__(self, database: DatabaseWorker) -> None:
        self._ask = DatabaseAsker(database, UNAVAILABLE, code="marks_unavailable")
        self._topics: dict[str, tuple[Marks, float]] = {}
        self._newest = 0

    async def of(self, topic: str, *, first: int = 0) -> Marks:
        """The marks of a topic, without most of those before `first`; Busy."""
        marks, until_s = self._topics.get(topic, (None, 0.0))
        if marks is None or time.monotonic() >= until_s:
            row = await self._ask(lambda database: database.cluster_jobs.marks(topic))
            if marks is None or marks.version != (0 if row is None else row.version):
                marks = _marks_of(row)
            self._keep(topic, marks)
        marks.resent.drop_before(first)
        return marks

    def with_resent(self, topic: str, marks: Marks, runs: Iterable[range]) -> LetterMarksRow:
        """The next version of the marks, in which these were resent as well."""
        resent = marks.resent.copy()
        resent.add_ranges((run.start, run.stop) for run in runs)
        return _row_of(topic, marks._replace(version=marks.version + 1, resent=resent))

    def forget(self, topic: str) -> None:
        """Read the marks of a topic anew."""
        marks, _ = self._topics.get(topic, (None, 0.0))
        if marks is not None:
            self._topics[topic] = marks, 0.0

    def new_note(self, note: str, by: str, now_ms: int) -> DismissNote:
        """A note for a dismissal to come; Invalid."""
        self._newest = max(now_ms, self._newest + 1)
        return note_of(note, by, now_ms, self._newest)

    async def commit(self, plan: DismissalPlan) -> bool:
        """Carry a plan out; False where the dismissals have changed since. Refused, Busy."""
        topic = plan.entry.topic
        marks = await self.of(topic)
        if not marks.dismissed.is_same(plan.before):
            return False
        if not plan.count:
            return True
        if plan.is_larger and (
            len(plan.after) > SPANS_MAX or plan.after.note_count > DISMISSALS_MAX
        ):
            raise Refused(
                f"at most {DISMISSALS_MAX:,} dismissals and {SPANS_MAX:,} stretches of dead letters"
                " of a group are kept",
                field="offsets",
                remedy="restore some, or choose neighbours together: all, or by time",
            )
        after = marks._replace(version=marks.version + 1, dismissed=plan.after)
        row = _row_of(topic, after)
        is_done = await self._ask(lambda database: database.cluster_jobs.write_marks(row))
        if is_done:
            self._keep(topic, after)
        else:
            self.forget(topic)
        return is_done

    def _keep(self, topic: str, marks: Marks) -> None:
        if len(self._topics) >= TOPICS_MAX:
            self._topics.clear()
        self._topics[topic] = marks, time.monotonic() + KEPT_S


def _marks_of(row: LetterMarksRow | None) -> Marks:
    if row is None:
        return Marks(0, OffsetBits(), DismissedOffsets(0))
    resent = msgspec.msgpack.decode(row.resent, type=dict[int, bytes])
    dismissed = msgspec.msgpack.decode(row.dismissed, type=PackedDismissals)
    return Marks(row.version, OffsetBits.unpacked(resent), DismissedOffsets.unpacked(0, dismissed))


def _row_of(topic: str, marks: Marks) -> LetterMarksRow:
    return LetterMarksRow(
        topic=topic,
        version=marks.version,
        resent=msgspec.msgpack.encode(marks.resent.packed()),
        dismissed=msgspec.msgpack.encode(marks.dismissed.packed()),
    )
