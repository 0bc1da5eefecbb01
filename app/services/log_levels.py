"""The server's own log: how much each part says, and what it said last.

Levels are changed for as long as the process lives; the next start begins with the setting
`log_level` again. Only the server's own loggers can be changed: those of libraries would write
frames and statements, and with them what people send.
"""

import logging
from collections import deque
from logging import Handler, LogRecord
from threading import Lock

from app.db.rows import Actor
from app.log_output import LineFormatter, LogLimit
from app.services.audit import Audit
from engine.errors import Invalid, NotFound
from kitemq.model.server import LoggerLevel

ROOT = "kitemq"
LEVELS = ("debug", "info", "warning", "error")
INHERITED = ""  # as the logger above
LINES_MAX = 2000
LINE_CHARS_MAX = 2000


class LogLevels:
    """Changes levels, and puts them back at the end."""

    def __init__(self, audit: Audit) -> None:
        self._audit = audit
        self._before: dict[str, int] = {}

    def list(self) -> list[LoggerLevel]:
        """The server's loggers by name; there is one for each part that has spoken or may."""
        loggers = logging.root.manager.loggerDict.items()
        names = {name for name, each in loggers if isinstance(each, logging.Logger)}
        return [self._level(name) for name in sorted(names) if _is_ours(name)]

    async def change(self, actor: Actor, name: str, level: str) -> LoggerLevel:
        """Let a logger write from `level` on, INHERITED for as its parent; NotFound, Invalid."""
        if level not in (INHERITED, *LEVELS):
            raise Invalid(
                f"{level[:40]!r} is no level",
                field="level",
                remedy=f"one of {', '.join(LEVELS)}, or nothing for as the logger above",
            )
        before = next((each for each in self.list() if each.name == name), None)
        if before is None:
            raise NotFound(f"there is no logger {name[:80]!r}", field="name", code="no_such_logger")
        async with self._audit.change(
            actor, "logger.level", name, before={"level": before.own}
        ) as change:
            logger = logging.getLogger(name)
            self._before.setdefault(name, logger.level)
            number = logging.getLevelName(level.upper()) if level else logging.NOTSET
            logger.setLevel(number)
            if self._before[name] == number:
                del self._before[name]
            change.after = {"level": level}
        return self._level(name)

    def restore(self) -> None:
        """Reset every level to that of the start."""
        for name, number in self._before.items():
            logging.getLogger(name).setLevel(number)
        self._before.clear()

    def _level(self, name: str) -> LoggerLevel:
        logger = logging.getLogger(name)
        effective = logging.getLevelName(logger.getEffectiveLevel()).lower()
        own = logging.getLevelName(logger.level).lower() if logger.level else INHERITED
        return LoggerLevel(name, effective, own, name in self._before)


def _is_ours(name: str) -> bool:
    return name == ROOT or name.startswith(f"{ROOT}.")


class LogRing(Handler):
    """Keeps the newest lines of the log, at most LINES_MAX, each with words of LINE_CHARS_MAX."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(LineFormatter())
        self._limit = LogLimit()
        self._lines: deque[str] = deque(maxlen=LINES_MAX)
        self._guard = Lock()
        self.count = 0  # since the start, those that are gone too

    def emit(self, record: LogRecord) -> None:
        """Called from whichever thread logs."""
        for each in self._limit.admitted(record):
            self._keep(each)

    def _keep(self, record: LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception:
            self.handleError(record)
            return
        if len(line) > LINE_CHARS_MAX:
            # Not amid a word: half a secret would not be known as one in the support bundle.
            begin = line[:LINE_CHARS_MAX].rpartition(" ")[0]
            line = f"{begin} … ({len(line)} characters)"
        with self._guard:
            self._lines.append(line)
            self.count += 1

    def lines(self) -> list[str]:
        """The newest lines, oldest first."""
        with self._guard:
            return list(self._lines)

    def attach(self) -> None:
        """Hear everything that is logged in this process."""
        logging.getLogger().addHandler(self)

    def detach(self) -> None:
        logging.getLogger().removeHandler(self)
