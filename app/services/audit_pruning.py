"""Prunes the audit trail by age and count, in small steps.

Each step is a transaction of its own with a pause behind it, so that no other use of the database
waits for long. Settings give the age and the count.
"""

import asyncio
import logging

from app.access_settings import AccessSettings
from app.db.rows import DatabaseError
from app.db.worker import DatabaseWorker, Work
from app.tasks import end_tasks
from engine.clock import Clock

log = logging.getLogger("kitemq.audit")

FIRST_S = 60.0  # after the start, which has other things to do
EVERY_S = 3600.0
PAUSE_S = 0.05  # after each step
DAY_MS = 86_400_000


class AuditPruner:
    """Prunes the trail now and then between `start` and `stop`."""

    def __init__(self, database: DatabaseWorker, clock: Clock, settings: AccessSettings) -> None:
        self._database = database
        self._clock = clock
        self._days = settings.audit_days
        self._entries_max = settings.audit_entries_max
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._days or self._entries_max:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        await end_tasks(self._task)

    async def prune(self) -> int:
        """Delete surplus and old entries and return their number. Raises DatabaseError."""
        deleted = 0
        if self._days:
            before_ms = self._clock.now_ms() - self._days * DAY_MS
            deleted += await self._until_none(lambda db: db.audit.delete_old(before_ms))
        if self._entries_max:
            entries_max = self._entries_max
            deleted += await self._until_none(lambda db: db.audit.delete_surplus(entries_max))
        return deleted

    async def _until_none(self, step: Work[int]) -> int:
        total = 0
        while deleted := await self._database.run(step):
            total += deleted
            await asyncio.sleep(PAUSE_S)
        return total

    async def _run(self) -> None:
        wait_s = FIRST_S
        while True:
            await asyncio.sleep(wait_s)
            wait_s = EVERY_S
            try:
                deleted = await self.prune()
            except DatabaseError as error:
                log.warning("old entries of the audit trail could not be deleted: %s", error)
            else:
                if deleted:
                    log.info("%d old entries of the audit trail were deleted", deleted)
