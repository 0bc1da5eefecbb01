"""Compacts report figures as they age: from hours to days, then to four weeks.

Packed figures take a fraction of the room, so hours are packed soon after they are over. A period
is compacted when all of it is older than its setting says, in a transaction of its own, so that an
interruption never loses or duplicates an hour.
"""

import logging

from app.db.report_periods import DAY, HOUR, WEEKS
from app.db.worker import DatabaseWorker
from app.services.reports import inputs
from app.settings import Settings
from engine import report_hours
from engine.report_tables import HOURS, RESULTS

log = logging.getLogger("kitemq.reports")

ROWS_HOURS = 3  # that hours have rows of their own: they are still computed anew
PERIODS_MAX = 400  # that are put together at a time; the rest follows


class Keeping:
    """Puts older figures together and deletes the oldest, a piece at a time."""

    def __init__(self, database: DatabaseWorker, settings: Settings) -> None:
        self._database = database
        self._keep_days = settings.report_keep_days
        # The longest periods first: what is old enough is put together once.
        self._ages = (
            (WEEKS, settings.report_daily_days * DAY),
            (DAY, settings.report_hourly_days * DAY),
            (HOUR, ROWS_HOURS),
        )
        self._expired = ""

    async def look(self, now_ms: int) -> int:
        """Compact the due periods, at most 400, and return their number. Raises DatabaseError."""
        oldest = report_hours.hour_of(now_ms - self._keep_days * inputs.DAY_MS)
        if oldest[:10] != self._expired:
            await self._database.run(lambda db: db.results.expire(oldest))
            self._expired = oldest[:10]
        count = 0
        for hours, age_hours in self._ages:
            before = report_hours.hour_of(now_ms - age_hours * report_hours.HOUR_MS)
            for table in RESULTS:
                if table.replaces == HOURS:
                    count += await self._put_together(table.name, hours, before, count)
        return count

    async def _put_together(self, name: str, hours: int, before: str, count: int) -> int:
        """As many periods of a table as may still be; what cannot be packed stays as it is."""
        done = 0
        while count + done < PERIODS_MAX:
            try:
                result = await self._database.run(
                    lambda db: db.results.compact(name, hours, before)
                )
            except ValueError as error:
                log.error("figures are not put together: %s", error)
                break
            if not result:
                break
            done += 1
        return done
