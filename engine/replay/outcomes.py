"""The outcomes of a job's messages: one byte each, compressed in chunks."""

import re
import zlib
from collections.abc import Iterator, Sequence
from enum import IntEnum

CHUNK = 4096


class ReplayOutcome(IntEnum):
    """Outcome of a job's message. The number is in the journal, the lower-case name is API."""

    SENT = 1
    ELIGIBLE = 2  # a dry run: it would have been sent
    FILTERED = 3  # it does not meet the conditions
    SENT_BEFORE = 4  # another job has sent it, and only fresh ones were wanted
    EXPIRED = 5  # retention, or the deletion of its topic, took it
    UNREADABLE = 6  # its record is damaged
    NO_ORIGIN = 7  # it does not name the topic it came from
    TOPIC_GONE = 8  # the topic it would go to is no more
    GROUP_GONE = 9  # the group it would go to is no more
    NOT_WRITABLE = 10  # the topic it would go to is not open for writing
    REFUSED = 11  # the topic it would go to does not take it; the job's `last_error` says why

    @property
    def label(self) -> str:
        return self.name.lower()


PENDING = "pending"  # not looked at yet
STOPPED = "stopped"  # nor will it be
LABELS = (*(outcome.label for outcome in ReplayOutcome), PENDING, STOPPED)
DONE = frozenset((ReplayOutcome.SENT, ReplayOutcome.ELIGIBLE))
FAILED = frozenset(outcome for outcome in ReplayOutcome if outcome >= ReplayOutcome.EXPIRED)
_FAILED_RUN = re.compile(b"[" + re.escape(bytes(sorted(FAILED))) + b"]+")


class OutcomeLog:
    """Outcomes of the messages 0 to `count` - 1, and how many there are of each."""

    def __init__(self, chunks: Sequence[bytes] = (), tail: bytes = b"") -> None:
        self._chunks = list(chunks)
        self._tail = bytearray(tail)
        self._unpacked: tuple[int, bytes] = (-1, b"")
        self.totals = [0] * (max(ReplayOutcome) + 1)
        for code in ReplayOutcome:
            for number in range(len(self._chunks) + 1):
                self.totals[code] += self._chunk(number).count(code)

    @property
    def count(self) -> int:
        return len(self._chunks) * CHUNK + len(self._tail)

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self._chunks)) + len(self._tail)

    @property
    def packed(self) -> tuple[list[bytes], bytes]:
        """What to build it from again."""
        return list(self._chunks), bytes(self._tail)

    def add(self, codes: bytes) -> None:
        """The outcomes of the messages that follow."""
        for code in set(codes):
            self.totals[code] += codes.count(code)
        self._tail += codes
        while len(self._tail) >= CHUNK:
            self._chunks.append(zlib.compress(self._tail[:CHUNK], 6))
            del self._tail[:CHUNK]

    def between(self, start: int, end: int) -> bytes:
        """Codes of the messages `start` to `end` - 1, as far as there are any."""
        end = min(end, self.count)
        parts = []
        while start < end:
            number, at = divmod(start, CHUNK)
            part = self._chunk(number)[at : at + end - start]
            parts.append(part)
            start += len(part)
        return b"".join(parts)

    def find(self, code: int, start: int, end: int) -> Iterator[int]:
        """Indexes from `start` to `end` - 1 that ended so, ascending."""
        end = min(end, self.count)
        while start < end:
            number, at = divmod(start, CHUNK)
            base = number * CHUNK
            chunk = self._chunk(number)
            index = chunk.find(code, at, end - base)
            while index >= 0:
                yield base + index
                index = chunk.find(code, index + 1, end - base)
            start = base + CHUNK

    def failed(self, start: int, end: int) -> Iterator[range]:
        """Indexes from `start` to `end` - 1 of what should have been sent and could not be."""
        end = min(end, self.count)
        while start < end:
            number, at = divmod(start, CHUNK)
            base = number * CHUNK
            for match in _FAILED_RUN.finditer(self._chunk(number), at, end - base):
                yield range(base + match.start(), base + match.end())
            start = base + CHUNK

    def _chunk(self, number: int) -> bytes | bytearray:
        if number >= len(self._chunks):
            return self._tail
        if self._unpacked[0] != number:
            self._unpacked = (number, zlib.decompress(self._chunks[number]))
        return self._unpacked[1]
