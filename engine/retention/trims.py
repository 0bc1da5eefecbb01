"""Begins of queues that a purge or a topic's age moved, kept in the journal.

A trim belongs to one life of a topic: it names the position from which on the topic's records
count, and means nothing for a later topic of the same name.
"""

from collections.abc import Iterable, Mapping

from engine.legality import check_number, check_queue
from engine.store.journal import JournalEntry
from engine.store.store import Store
from engine.topic.catalog import Catalog


class Trimmed(JournalEntry, frozen=True, tag="trimmed", array_like=True):
    """Queues of a topic (by number) begin at these offsets; 0: nothing is known of one any more.

    All in one entry, as a crash in the middle of a write keeps the entries before it. `since` is
    the topic's `since_position` when it was decided.
    """

    topic: str
    since: int
    begins: dict[int, int]


class Trims:
    """Built before the journal is loaded, started after recovery, before the first read."""

    def __init__(self, store: Store, catalog: Catalog) -> None:
        self._store = store
        self._catalog = catalog
        self._trims: dict[str, Trimmed] = {}
        store.journal.register((Trimmed,), self._apply, self._snapshot, _check)

    def start(self) -> None:
        """Let the queues begin where they should.

        After a power loss a queue may end before that: what comes anew there must be readable.
        """
        for topic, trim in sorted(self._trims.items()):
            if self._catalog.begin_of(topic) != trim.since:
                self._keep(Trimmed(topic, trim.since, dict.fromkeys(trim.begins, 0)))
                continue
            ends = {queue: self._store.bounds(topic, queue)[1] for queue in trim.begins}
            cut = {queue: end for queue, end in ends.items() if trim.begins[queue] > end}
            if cut:
                self._keep(Trimmed(topic, trim.since, cut))
        self.show()

    def show(self) -> None:
        """Let the queues begin where they should as far as they go; keeps nothing."""
        for topic, trim in self._trims.items():
            if self._catalog.begin_of(topic) == trim.since:
                for queue, offset in trim.begins.items():
                    self._store.trim(topic, queue, offset)  # never past its end

    def trim(self, topic: str, begins: Mapping[int, int], *, is_lasting: bool) -> None:
        """Let queues of a topic (number to first offset) begin later: all of them, or none.

        Raises DiskFull or Corrupt, and nothing has changed. One that is lasting is on disk before
        any message flushed after it.
        """
        since = self._catalog.get(topic).since_position
        self._keep(Trimmed(topic, since, dict(begins)), is_lasting=is_lasting)
        for queue, offset in begins.items():
            self._store.trim(topic, queue, offset)

    def begins_of(self, topic: str) -> Mapping[int, int]:
        """What was kept of a topic's queues: number to first offset."""
        trimmed = self._trims.get(topic)
        is_current = (
            trimmed is not None and trimmed.since == self._catalog.get(topic).since_position
        )
        return trimmed.begins if trimmed is not None and is_current else {}

    def _keep(self, trim: Trimmed, *, is_lasting: bool = False) -> None:
        self._store.journal.append(trim, is_lasting=is_lasting)
        self._apply(trim)

    def _apply(self, trim: Trimmed) -> None:
        before = self._trims.get(trim.topic)
        is_same = before is not None and before.since == trim.since
        begins = {**before.begins, **trim.begins} if before and is_same else trim.begins
        begins = {queue: offset for queue, offset in begins.items() if offset}
        if begins:
            self._trims[trim.topic] = Trimmed(trim.topic, trim.since, begins)
        else:
            self._trims.pop(trim.topic, None)

    def _snapshot(self) -> Iterable[JournalEntry]:
        current = self._catalog.begin_of
        return [trim for trim in self._trims.values() if current(trim.topic) == trim.since]


def _check(trim: Trimmed) -> None:
    """Raises Illegal for a trim of what cannot be a queue."""
    check_number("since", trim.since)
    for queue, offset in trim.begins.items():
        check_queue(queue)
        check_number("begin", offset)
