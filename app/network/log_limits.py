"""Limits log lines that clients can trigger: a few of one kind a minute.

uvicorn and asyncio log a line, some with a traceback, for input that needs no login.
"""

import logging
import time

KINDS_MAX = 100
LINES_MAX = 5  # of one kind in SPAN_S
SPAN_S = 60.0
LOUD = ("uvicorn.error", "asyncio")


class RepeatFilter(logging.Filter):
    """Passes the first lines of each kind; the first one of the next span counts the others."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[str, tuple[float, int]] = {}  # by kind: start and count of its span

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
    """Limit the loggers whose lines clients can trigger; calling it again changes nothing."""
    for name in LOUD:
        logger = logging.getLogger(name)
        if not any(isinstance(each, RepeatFilter) for each in logger.filters):
            logger.addFilter(RepeatFilter())
