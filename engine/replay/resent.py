"""The dead letters that replay jobs sent again: a bit for each, kept in the journal.

The bits follow from the jobs' own entries, so that a copy and its mark are one change. A snapshot
has them apart from the jobs: a job that is forgotten leaves its marks.
"""

from collections.abc import Callable, Iterable

from engine.errors import Illegal
from engine.legality import NUMBER_MAX, check_number, unpacked
from engine.replay.offset_bits import CHUNK, CHUNK_BYTES, OffsetBits
from engine.store.journal import Journal, JournalEntry
from engine.topic.catalog import Catalog
from engine.topic.names import DEAD_LETTER_PREFIX

CHUNKS_MAX = NUMBER_MAX // CHUNK

BoundsOf = Callable[[str], tuple[int, int]]


class DeadResent(JournalEntry, frozen=True, tag="dead_resent"):
    """All dead letters of a topic that were sent again, in a snapshot: chunks of bits."""

    topic: str
    since_position: int
    chunks: dict[int, bytes]


class DeadResentCut(JournalEntry, frozen=True, tag="dead_resent_cut"):
    """A power loss took the dead letters of a topic from `offset` on."""

    topic: str
    offset: int


class ResentStore:
    """Register it before the jobs, `settle` it after recovery."""

    def __init__(self, journal: Journal, catalog: Catalog, bounds_of: BoundsOf) -> None:
        """`bounds_of` gives the first offset that a topic keeps, and the one after the last."""
        self._journal = journal
        self._catalog = catalog
        self._bounds_of = bounds_of
        self._topics: dict[str, tuple[int, OffsetBits]] = {}  # with the topic's since_position
        journal.register((DeadResent, DeadResentCut), self._apply, self._snapshot, _check)

    def bits_of(self, topic: str) -> OffsetBits:
        """What was sent again of a topic as it is now; not to be changed."""
        config = self._catalog.find(topic)
        since_position, bits = self._topics.get(topic, (0, OffsetBits()))
        is_same = config is not None and config.since_position <= since_position
        return bits if is_same else OffsetBits()

    def mark(self, topic: str, since_position: int, first: int, bits: int) -> None:
        """Offset `first` + i of a topic was sent again, for each bit i; for dead letters only."""
        if not topic.startswith(DEAD_LETTER_PREFIX):
            return
        since, known = self._topics.get(topic, (-1, OffsetBits()))
        if since_position > since:
            known = OffsetBits()
            self._topics[topic] = since_position, known
        if since_position >= since:
            known.add(first, bits)

    def cut(self, topic: str, offset: int) -> None:
        """What was marked from an offset on is lost."""
        if topic in self._topics:
            self._topics[topic][1].drop_from(offset)

    def settle(self) -> None:
        """After recovery: offsets that a power loss took are given anew, to others."""
        for topic in list(self._topics):
            end = self._bounds_of(topic)[1]
            if self.bits_of(topic).end > end:
                entry = DeadResentCut(topic, end)
                self._journal.append(entry, is_lasting=True)
                self._apply(entry)

    def _apply(self, entry: DeadResent | DeadResentCut) -> None:
        if isinstance(entry, DeadResent):
            bits = OffsetBits.unpacked(entry.chunks)
            self._topics[entry.topic] = entry.since_position, bits
        else:
            self.cut(entry.topic, entry.offset)

    def _snapshot(self) -> Iterable[JournalEntry]:
        for topic, (since_position, bits) in self._topics.items():
            if self._catalog.find(topic) is not None:
                bits.drop_before(self._bounds_of(topic)[0])
                yield DeadResent(topic, since_position, bits.packed())


def _check(entry: DeadResent | DeadResentCut) -> None:
    """Raises Illegal for bits that no topic can have."""
    if isinstance(entry, DeadResentCut):
        check_number("offset", entry.offset)
        return
    check_number("since_position", entry.since_position)
    for number, data in entry.chunks.items():
        check_number("chunk", number, CHUNKS_MAX)
        if len(unpacked("chunk", data, CHUNK_BYTES)) != CHUNK_BYTES:
            raise Illegal("a chunk of bits is not whole")
