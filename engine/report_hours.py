"""UTC hours as reports name them ("2026-11-21T03"), and what tells that one is due again.

The jobs (`analytics/`) and the server, which do not import each other, share this.
"""

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime

from engine.report_tables import LAG_JOB, TRACES_JOB

FORM = "%Y-%m-%dT%H"
HOUR_MS = 3_600_000
INPUTS = {TRACES_JOB: ("messages", "trace"), LAG_JOB: ("lag",)}  # frames that a job reads
# Hours before the wanted one that a job reads too. Of messages as many as the longest delay level
# takes, and one; of traces as long as one attempt may last.
LOOKBACK_HOURS = {"messages": 3, "trace": 1, "lag": 1}


def hour_of(at_ms: int) -> str:
    """The UTC hour of a time."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime(FORM)


def begin_ms(hour: str) -> int:
    """When an hour begins; ValueError for what is none."""
    return int(datetime.strptime(hour, FORM).replace(tzinfo=UTC).timestamp()) * 1000


def is_hour(text: str) -> bool:
    """Whether a text names an hour in just this form."""
    with suppress(ValueError):
        return hour_of(begin_ms(text)) == text
    return False


def moved(hour: str, hours: int) -> str:
    """The hour so many later; ValueError for one that no calendar has."""
    return hour_of(begin_ms(hour) + hours * HOUR_MS)


def span(first: str, last: str) -> list[str]:
    """All hours from one to another, both in."""
    count = (begin_ms(last) - begin_ms(first)) // HOUR_MS
    return [moved(first, n) for n in range(count + 1)]


def hours_before(hour: str, count: int) -> list[str]:
    """An hour and so many before it, oldest first; ValueError for what is no hour."""
    return span(moved(hour, -count), hour)


def partition_fingerprint(rows: int, last: int) -> str:
    """What an hour of a frame holds: changes with its rows, and only then."""
    return f"{rows}-{last}"


def fingerprint(job: str, hour: str, known: Mapping[str, Mapping[str, str]]) -> str:
    """What a result of an hour was made of: the hour is due again when this changes.

    `known` is by frame and hour (`partition_fingerprint`). It is made of a line "frame hour
    fingerprint" for each partition that exists of INPUTS, of the hour and LOOKBACK_HOURS before
    it, frames and then hours in order of the alphabet, each ended by a newline: the first 16
    hexadecimal digits of their SHA-256.
    """
    lines = [
        f"{frame} {each} {known[frame][each]}\n"
        for frame in INPUTS[job]
        for each in hours_before(hour, LOOKBACK_HOURS[frame])
        if each in known.get(frame, {})
    ]
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:16]
