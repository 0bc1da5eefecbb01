"""Posts the notifications in the database to their webhooks: in order, with bounded retries.

The rows are the queue, so a restart resumes where it stopped. An event whose answer was lost is
posted again with the same id; a permanent refusal (most of 4xx) is not retried.
"""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from app.addresses import redacted_text
from app.db.alert_rows import DeliveryRow
from app.db.rows import DatabaseError
from app.db.worker import DatabaseWorker
from app.services.alerts.events import DELIVERED, FAILED, signature
from app.services.targets import TargetClient, TargetRefused, Targets
from app.tasks import end_tasks
from engine.clock import Clock

log = logging.getLogger("kitemq.alerts")

BACKOFF_S = (5.0, 30.0, 120.0, 600.0)  # after the first, second … failure; then it is given up
TIMEOUT_S = 10.0
CONNECTIONS_MAX = 16
DATABASE_WAIT_S = 5.0
ERROR_CHARS_MAX = 300
TRY_AGAIN = frozenset({408, 425, 429})


@dataclass(frozen=True)
class PostOutcome:
    """The result of an attempt; `error` is empty after a success."""

    status: int | None
    error: str = ""

    @property
    def is_final(self) -> bool:
        """Whether a retry would be refused again."""
        status = self.status
        return status is not None and 300 <= status < 500 and status not in TRY_AGAIN


class Webhooks:
    """Between `start` and `stop` one task for each address; `wake` them when rows were added."""

    def __init__(
        self,
        database: DatabaseWorker,
        clock: Clock,
        *,
        urls: Sequence[str],
        secret: str,
        targets: Targets,
        backoff_s: Sequence[float] = BACKOFF_S,
    ) -> None:
        self._database = database
        self._clock = clock
        self._secret = secret
        self._backoff_s = tuple(backoff_s)
        self._wakes = {url: asyncio.Event() for url in urls}
        self._tasks: list[asyncio.Task[None]] = []
        self._client = TargetClient(targets, connections_max=CONNECTIONS_MAX)

    def start(self) -> None:
        """Begin with what waits already."""
        self._tasks = [asyncio.create_task(self._run(url)) for url in self._wakes]

    async def stop(self) -> None:
        """Cancel the posts under way; they are repeated after the next start."""
        await end_tasks(*self._tasks)
        await self._client.close()

    def wake(self) -> None:
        """Look at once whether something waits."""
        for wake in self._wakes.values():
            wake.set()

    async def _run(self, url: str) -> None:
        wake = self._wakes[url]
        while True:
            wake.clear()
            try:
                row = await self._database.run(lambda db: db.alerts.next_waiting(url))
            except DatabaseError:
                await asyncio.sleep(DATABASE_WAIT_S)
                continue
            wait_s = None if row is None else (row.next_ms - self._clock.now_ms()) / 1000
            if row is None or (wait_s is not None and wait_s > 0):
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(wake.wait(), wait_s)
                continue
            await self._deliver(row)

    async def _deliver(self, row: DeliveryRow) -> None:
        outcome = await self._post(row)
        settled = settle(row, outcome, self._clock.now_ms(), self._backoff_s)
        if settled.result == FAILED:
            log.error(
                "alert %s was not delivered to %s: %s",
                row.event_id,
                host_of(row.url),
                settled.error,
            )
        while True:  # posting it again would tell it twice
            try:
                await self._database.run(lambda db: db.alerts.settle(settled))
            except DatabaseError:
                await asyncio.sleep(DATABASE_WAIT_S)
            else:
                return

    async def _post(self, row: DeliveryRow) -> PostOutcome:
        client = await self._client.opened()
        import httpx  # loaded by now

        body = row.body_json.encode()
        timestamp = str(self._clock.now_ms() // 1000)
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "KiteMQ",
            "KiteMQ-Event": row.event,
            "KiteMQ-Delivery": row.event_id,
            "KiteMQ-Timestamp": timestamp,
        }
        if self._secret:
            headers["KiteMQ-Signature"] = signature(self._secret, timestamp, body)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                # Only the status matters: the body may be as long as it likes.
                async with client.stream("POST", row.url, content=body, headers=headers) as answer:
                    status = answer.status_code
        except TimeoutError:
            return PostOutcome(None, f"no answer within {TIMEOUT_S:.0f} s")
        except TargetRefused as error:
            return PostOutcome(None, f"the address is not called: {error}"[:ERROR_CHARS_MAX])
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            reason = redacted_text(f"{type(error).__name__}: {error}")
            return PostOutcome(None, reason[:ERROR_CHARS_MAX])
        return PostOutcome(status, "" if 200 <= status < 300 else f"the answer was {status}")


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


def host_of(url: str) -> str:
    """An address without its path and query, which often hold a secret."""
    try:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")
    except ValueError:
        return "an address that cannot be read"
