"""Quiet hours of a receiver: until when nothing is sent to it. Pure; time is an argument."""

import re
from datetime import UTC, datetime, time, timedelta

from app.db.alert_rows import ReceiverRow
from app.zone_rules import zone_rules
from kitemq.model.alerts import Severity, Weekday

TIME_OF_DAY = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]\Z")
WEEKDAYS = tuple(day.value for day in Weekday)
LEAST_MS = 60_000  # in the hour that clocks repeat an end may lie in the past


def quiet_until_ms(receiver: ReceiverRow, severity: str, now_ms: int) -> int:
    """The end of the quiet hours that hold an alert now; 0 if none do.

    They begin on the days that the receiver names. An end that is not after the begin is on the
    next day.
    """
    if not receiver.quiet_days:
        return 0
    if severity == Severity.CRITICAL and receiver.critical_passes:
        return 0
    zone = zone_rules(receiver.quiet_zone) or UTC
    now = datetime.fromtimestamp(now_ms / 1000, zone)
    begin_time, end_time = _time(receiver.quiet_from), _time(receiver.quiet_to)
    for date in (now.date() - timedelta(days=1), now.date()):
        end_date = date if end_time > begin_time else date + timedelta(days=1)
        begin = datetime.combine(date, begin_time, zone)
        end = datetime.combine(end_date, end_time, zone)
        if WEEKDAYS[date.weekday()] in receiver.quiet_days and begin <= now < end:
            return max(round(end.timestamp() * 1000), now_ms + LEAST_MS)
    return 0


def _time(text: str) -> time:
    return time(int(text[:2]), int(text[3:]))
