"""The periods of stored figures: hours, later days, later four weeks. Pure.

An hour is named as in "2026-11-21T03" (UTC) and counted in hours since 1970. A longer period has
the name of its first hour. Days begin at midnight UTC, four weeks on a Monday.
"""

from datetime import UTC, datetime

HOUR_S = 3600
FORM = "%Y-%m-%dT%H"
HOUR, DAY, WEEKS = 1, 24, 672
GRAINS = (HOUR, DAY, WEEKS)  # in hours, each a multiple of those before
MONDAY = 96  # the first Monday's first hour since 1970


def number_of(hour: str) -> int:
    """The hours since 1970 of a named hour; raises ValueError."""
    return int(datetime.strptime(hour, FORM).replace(tzinfo=UTC).timestamp()) // HOUR_S


def name_of(number: int) -> str:
    """The name of an hour by its number."""
    return datetime.fromtimestamp(number * HOUR_S, UTC).strftime(FORM)


def begin_of(number: int, hours: int) -> int:
    """The first hour of the period of `hours` hours around an hour."""
    return number - (number - MONDAY) % hours
