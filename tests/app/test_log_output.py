"""The log: one line for one record, and no flood of one kind."""

import io
import logging
from collections.abc import Iterator

import pytest

from app.log_output import LINES_MAX, MESSAGE_CHARS_MAX, WINDOW_S, LimitedHandler, LogLimit
from app.services.log_levels import LogRing
from engine.clock import ManualClock


class Log:
    """A logger that writes into a text, by a clock by hand."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.stream = io.StringIO()
        self.handler = LimitedHandler(self.stream, LogLimit(self.clock.monotonic_s))
        self.logger = logging.getLogger("kitemq.test-output")
        self.logger.propagate = False
        self.logger.addHandler(self.handler)

    def lines(self) -> list[str]:
        return self.stream.getvalue().splitlines()


@pytest.fixture
def log() -> Iterator[Log]:
    made = Log()
    yield made
    made.logger.removeHandler(made.handler)


def test_repeated_warnings_of_one_kind_are_counted_and_summed_up(log: Log) -> None:
    for number in range(1_000):
        log.logger.warning("a client did %d", number)
    assert len(log.lines()) == LINES_MAX
    log.clock.advance(WINDOW_S)
    log.logger.warning("a client did %d", 1_000)
    *__, summary, last = log.lines()
    assert f"{1_000 - LINES_MAX} more lines like this were left out" in summary
    assert summary.endswith("a client did %d")
    assert last.endswith("a client did 1000")


def test_a_flood_of_one_kind_hides_no_other(log: Log) -> None:
    for number in range(1_000):
        log.logger.warning("a client did %d", number)
    log.logger.warning("the disk is full")
    log.logger.critical("it ends")
    said = [line.rpartition(": ")[2] for line in log.lines()[LINES_MAX:]]
    assert said == ["the disk is full", "it ends"]


def test_what_was_left_out_last_is_said_at_the_end(log: Log) -> None:
    for __ in range(LINES_MAX + 3):
        log.logger.error("failed")
    log.handler.close()
    assert "3 more lines like this" in log.lines()[-1]


def test_what_a_client_sent_begins_no_line_and_speaks_to_no_terminal(log: Log) -> None:
    log.logger.warning("path %s", "/a\n2026-01-01 CRITICAL forged\r\x1b[2J\u2028\x85")
    (line,) = log.lines()
    assert line.endswith(r"path /a\n2026-01-01 CRITICAL forged\r\x1b[2J\u2028\x85")


def test_a_long_message_is_cut_and_says_so(log: Log) -> None:
    log.logger.warning("x" * 100_000)
    (line,) = log.lines()
    assert len(line) < MESSAGE_CHARS_MAX + 100
    assert line.endswith("characters)")


def test_a_stack_keeps_its_lines(log: Log) -> None:
    try:
        raise ValueError("why")
    except ValueError:
        log.logger.exception("failed")
    assert log.lines()[-1] == "ValueError: why"
    assert len(log.lines()) > 3


def test_the_lines_that_the_console_shows_are_limited_as_well() -> None:
    ring = LogRing()
    record = logging.LogRecord("kitemq.x", logging.WARNING, "", 0, "again", (), None)
    for __ in range(LINES_MAX * 3):
        ring.handle(record)
    assert len(ring.lines()) == LINES_MAX
