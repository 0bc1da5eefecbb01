"""What the process writes into its log: one line for one record, and no flood of one kind.

Some lines are written because of what a client did, also one that nobody knows. Of warnings and
errors of one kind (the same place in the code) LINES_MAX are written within WINDOW_S; the others
are counted, and one line says afterwards how many they were. Characters that would begin a new
line, or speak to a terminal, are written as escapes.
"""

import logging
import re
import time
from collections.abc import Callable, Iterator
from logging import Formatter, LogRecord, StreamHandler
from typing import TextIO

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
WINDOW_S = 60.0
LINES_MAX = 20  # of one kind within a window
MESSAGE_CHARS_MAX = 8_000
CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")

Kind = tuple[str, int, str]


class LineFormatter(Formatter):
    """Writes a record's message as one line; a stack follows on lines of its own."""

    def __init__(self) -> None:
        super().__init__(FORMAT)

    def formatMessage(self, record: LogRecord) -> str:
        line = super().formatMessage(record)
        if len(line) > MESSAGE_CHARS_MAX:
            line = f"{line[:MESSAGE_CHARS_MAX]} … ({len(line)} characters)"
        return CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), line)


class LogLimit:
    """Counts records by kind; its caller holds a lock, as every handler of `logging` does."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._window_ends_s = 0.0
        self._counts: dict[Kind, int] = {}

    def admitted(self, record: LogRecord) -> Iterator[LogRecord]:
        """The records to write for this one: what the last window left out, and perhaps itself."""
        now_s = self._clock_s()
        if now_s >= self._window_ends_s:
            yield from self.suppressed()
            self._window_ends_s = now_s + WINDOW_S
        if not logging.WARNING <= (record.levelno or logging.NOTSET) < logging.CRITICAL:
            yield record
            return
        kind = (record.name, record.levelno, str(record.msg)[:200])
        count = self._counts[kind] = self._counts.get(kind, 0) + 1
        if count <= LINES_MAX:
            yield record

    def suppressed(self) -> Iterator[LogRecord]:
        """One record for each kind of which there were too many; counting begins anew."""
        counts, self._counts = self._counts, {}
        for (name, level, text), count in counts.items():
            if count > LINES_MAX:
                template = "%d more lines like this were left out within a minute: %s"
                arguments = (count - LINES_MAX, text)
                yield LogRecord(
                    name, level, __file__, 0, msg=template, args=arguments, exc_info=None
                )


class LimitedHandler(StreamHandler[TextIO]):
    """Writes to the standard error stream, within the limit."""

    def __init__(self, stream: TextIO | None = None, limit: LogLimit | None = None) -> None:
        super().__init__(stream)
        self.setFormatter(LineFormatter())
        self._limit = limit or LogLimit()

    def emit(self, record: LogRecord) -> None:
        for each in self._limit.admitted(record):
            super().emit(each)

    def close(self) -> None:
        """Say what was left out last."""
        for each in self._limit.suppressed():
            super().emit(each)
        super().close()
