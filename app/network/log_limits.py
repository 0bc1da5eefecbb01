"""Keeps what clients do from filling the log: a few lines of one kind a minute.

The libraries below us log a line, some with a stack, for what anybody can send without a login.
"""

import logging
import time

KINDS_MAX = 100
LINES_MAX = 5  # of one kind in each span
SPAN_S = 60.0
LOUD = ("uvicorn.error", "asyncio")


class RepeatFilter(logging.Filter):
    """Lets the first lines of each kind pass; the first of the next span says what was left out."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[str, tuple[float, int]] = {}  # by kind: since when, and how many

    def filter(self, record: logging.LogRecord) -> bool:
        kind = str(record.msg)[:100]
        since_s, count = self._seen.get(kind, (0.0, 0))
        now_s = time.monotonic()
        if now_s - since_s >= SPAN_S or kind not in self._seen:
            if len(self._seen) >= KINDS_MAX:
                self._seen.clear()
            self._seen[kind] = now_s, 1
            if count > LINES_MAX:
                record.msg = f"{record.msg} ({count - LINES_MAX} such lines were left out)"
            return True
        self._seen[kind] = since_s, count + 1
        return count < LINES_MAX


def limit_repeated_lines() -> None:
    """Limit the loggers that repeat what clients make them say; more often changes nothing."""
    for name in LOUD:
        logger = logging.getLogger(name)
        if not any(isinstance(each, RepeatFilter) for each in logger.filters):
            logger.addFilter(RepeatFilter())
