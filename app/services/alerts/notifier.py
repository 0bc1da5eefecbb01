"""Sends the deliveries in the database to their receivers: in order, with bounded retries.

The rows are the queue, so a restart resumes where it stopped. A message whose answer was lost is
sent again with the same id; a permanent refusal (most of HTTP's 4xx, SMTP's 5xx) is not retried.
"""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from app.db.alert_rows import DeliveryRow, ReceiverRow
from app.db.rows import DatabaseError
from app.db.worker import DatabaseWorker
from app.services.alerts.events import DELIVERED, FAILED, TEST
from app.services.alerts.message_forms import AlertMessage, message_of
from app.services.alerts.quiet_hours import quiet_until_ms
from app.services.alerts.webhook import PostOutcome, WebhookPoster
from app.services.targets import Targets
from app.tasks import end_tasks
from engine.clock import Clock
from kitemq.model.alerts import ReceiverKind

if TYPE_CHECKING:
    from app.db.database import Database
    from app.services.alerts.mail import MailSender

log = logging.getLogger("kitemq.alerts")

BACKOFF_S = (5.0, 30.0, 120.0, 600.0)  # after the first, second … failure; then it is given up
DATABASE_WAIT_S = 5.0


class Notifier:
    """Between `start` and `stop` one task for each receiver; `wake` them when rows were added."""

    def __init__(
        self,
        database: DatabaseWorker,
        clock: Clock,
        receivers: Sequence[ReceiverRow],
        *,
        targets: Targets,
        backoff_s: Sequence[float] = BACKOFF_S,
    ) -> None:
        self._database = database
        self._clock = clock
        self._backoff_s = tuple(backoff_s)
        self._poster = WebhookPoster(targets)
        self._targets = targets
        self._mail: MailSender | None = None  # with the first mail
        self._receivers = {each.key: each for each in receivers}
        self._wakes: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._is_running = False

    def start(self) -> None:
        """Begin with what waits already."""
        self._is_running = True
        self._start_tasks()

    async def stop(self) -> None:
        """Cancel what is being sent; it is repeated after the next start."""
        self._is_running = False
        await end_tasks(*self._tasks.values())
        self._tasks.clear()
        await self._poster.close()
        if self._mail is not None:
            self._mail.close()

    async def change(self, receivers: Sequence[ReceiverRow]) -> None:
        """Send to these receivers from now on, and to no others."""
        self._receivers = {each.key: each for each in receivers}
        gone = self._tasks.keys() - self._receivers.keys()
        await end_tasks(*[self._tasks.pop(key) for key in gone])
        for key in gone:
            del self._wakes[key]
        if self._is_running:
            self._start_tasks()
        self.wake()

    def wake(self) -> None:
        """Look at once whether something waits."""
        for wake in self._wakes.values():
            wake.set()

    def _start_tasks(self) -> None:
        for key in self._receivers.keys() - self._tasks.keys():
            self._wakes[key] = asyncio.Event()
            self._tasks[key] = asyncio.create_task(self._run(key))

    async def _run(self, key: str) -> None:
        wake = self._wakes[key]
        while True:
            wake.clear()
            now_ms = self._clock.now_ms()
            try:
                rows = await self._database.run(partial(_next_message, key, now_ms))
            except DatabaseError:
                await asyncio.sleep(DATABASE_WAIT_S)
                continue
            wait_s = (rows[0].next_ms - now_ms) / 1000 if rows else None
            if wait_s is None or wait_s > 0:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(wake.wait(), wait_s)
                continue
            await self._deliver(self._receivers[key], rows)

    async def _deliver(self, receiver: ReceiverRow, rows: list[DeliveryRow]) -> None:
        now_ms = self._clock.now_ms()
        message = message_of(rows[0].message_id, [row.body_json for row in rows], now_ms)
        until_ms = quiet_until_ms(receiver, message.severity, now_ms)
        if until_ms and not rows[0].attempts and message.event != TEST:
            await self._settle([replace(row, next_ms=until_ms, last_ms=None) for row in rows])
            return
        outcome = await self._send(receiver, message, now_ms)
        now_ms = self._clock.now_ms()
        settled = [settle(row, outcome, now_ms, self._backoff_s) for row in rows]
        if settled[0].result == FAILED:
            log.error(
                "alert %s was not delivered to %s: %s", message.id, receiver.name, outcome.error
            )
        await self._settle(settled)

    async def _send(self, receiver: ReceiverRow, message: AlertMessage, now_ms: int) -> PostOutcome:
        if receiver.kind == ReceiverKind.EMAIL:
            if self._mail is None:
                from app.services.alerts.mail import MailSender  # few servers send any

                self._mail = MailSender(self._targets)
            return await self._mail.send(receiver, message)
        return await self._poster.post(receiver, message, now_ms)

    async def _settle(self, rows: list[DeliveryRow]) -> None:
        while True:  # sending it again would tell it twice
            try:
                await self._database.run(lambda db: db.alerts.settle(rows))
            except DatabaseError:
                await asyncio.sleep(DATABASE_WAIT_S)
            else:
                return


def _next_message(key: str, now_ms: int, database: "Database") -> list[DeliveryRow]:
    return database.alerts.next_message(key, now_ms)


def settle(
    row: DeliveryRow, outcome: PostOutcome, now_ms: int, backoff_s: Sequence[float]
) -> DeliveryRow:
    """The delivery after an attempt: delivered, given up, or waiting for the next. Pure."""
    attempts = row.attempts + 1
    tried = replace(
        row, attempts=attempts, status=outcome.status, error=outcome.error, last_ms=now_ms
    )
    if not outcome.error:
        return replace(tried, result=DELIVERED)
    if outcome.is_final or attempts > len(backoff_s):
        return replace(tried, result=FAILED)
    return replace(tried, next_ms=now_ms + round(backoff_s[attempts - 1] * 1000))
