"""Audits refused attempts to change something, with a bounded number of entries.

Repeated attempts of one sender within `WINDOW_S` are one entry with a count. In a window, one
address makes at most `ADDRESS_ENTRIES_MAX` entries and all together `ENTRIES_MAX`; further attempts
are counted in one more entry.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from dataclasses import dataclass, replace

from app.db.rows import Actor, AuditEntry, DatabaseError, json_text
from app.db.worker import DatabaseWorker
from engine.clock import Clock

log = logging.getLogger("kitemq.audit")

WINDOW_S = 600.0
ENTRIES_MAX = 200
ADDRESS_ENTRIES_MAX = 40
FLUSH_S = 2.0
ACTION = "refused"
KIND = "request"


@dataclass(frozen=True)
class RefusedAttempt:
    """A refused attempt: its actor and address, its target, the error's code and detail."""

    actor: str
    address: str
    action: str
    kind: str
    name: str
    code: str
    detail: str = ""
    request_id: str = ""


OTHERS = RefusedAttempt("", "", ACTION, KIND, "", "too_many")


@dataclass
class RefusalEntry:
    """An audit entry with the number of attempts that it stands for."""

    attempt: RefusedAttempt
    first_ms: int
    last_ms: int
    count: int = 1
    entry_id: int = 0  # 0 until it is written
    written: int = 0


class RefusalAudit:
    """Collects attempts and writes them soon; call `flush` before reading the audit trail."""

    def __init__(self, database: DatabaseWorker, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._folded: dict[tuple[str, ...], RefusalEntry] = {}
        self._by_address: Counter[str] = Counter()
        self._ended: list[RefusalEntry] = []
        self._window_ends_s = 0.0
        self._flushing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def note(self, attempt: RefusedAttempt) -> None:
        """Record a refused attempt; never waits."""
        now_s, now_ms = self._clock.monotonic_s(), self._clock.now_ms()
        if now_s >= self._window_ends_s:
            self._begin_window(now_s)
        key = _key(attempt)
        entry = self._folded.get(key)
        if entry is None and not self._has_room(attempt.address):
            attempt, key = OTHERS, _key(OTHERS)
            entry = self._folded.get(key)
        if entry is None:
            self._folded[key] = RefusalEntry(attempt, now_ms, now_ms)
            self._by_address[attempt.address] += 1
        else:
            entry.count += 1
            entry.last_ms = now_ms
        if self._task is None or self._task.done():
            # New entries are written at once, to keep the audit trail in order; counts may wait.
            wait_s = FLUSH_S if entry is not None else 0.0
            self._task = asyncio.get_running_loop().create_task(self._write_in(wait_s))

    async def flush(self) -> bool:
        """Write pending entries; True if there are new ones already.

        While the database fails, entries stay pending.
        """
        async with self._flushing:
            try:
                for each in self._due():
                    count = each.count
                    await self._write(each)
                    each.written = count
            except DatabaseError as error:
                log.error("refused attempts could not be audited: %s", error)
                return False
            self._ended = [each for each in self._ended if _is_due(each)]
            return bool(self._due())

    async def close(self) -> None:
        """Write pending entries and stop."""
        if self._task is not None:
            async with self._flushing:  # cancelled during a write, an entry would be written twice
                self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self.flush()

    def _due(self) -> list[RefusalEntry]:
        return [each for each in (*self._ended, *self._folded.values()) if _is_due(each)]

    def _begin_window(self, now_s: float) -> None:
        # Entries that are still pending after another window are dropped, so that they are bounded.
        self._ended = [each for each in self._folded.values() if _is_due(each)]
        self._folded.clear()
        self._by_address.clear()
        self._window_ends_s = now_s + WINDOW_S

    def _has_room(self, address: str) -> bool:
        return len(self._folded) < ENTRIES_MAX and self._by_address[address] < ADDRESS_ENTRIES_MAX

    async def _write_in(self, wait_s: float) -> None:
        is_more = True
        while is_more:
            await asyncio.sleep(wait_s)
            is_more = await self.flush()
            wait_s = FLUSH_S

    async def _write(self, refusal: RefusalEntry) -> None:
        attempt = refusal.attempt
        document: dict[str, object] = {"count": refusal.count}
        if refusal.count > 1:
            document["last_ms"] = refusal.last_ms
        if attempt.detail:
            document["detail"] = attempt.detail[:500]
        text = json_text(document)
        if refusal.entry_id:
            entry_id, code = refusal.entry_id, attempt.code[:64]
            await self._database.run(lambda db: db.audit.finish(entry_id, text, code))
            return
        entry = AuditEntry.of(
            Actor(attempt.actor, attempt.request_id),
            *(attempt.action, attempt.kind, attempt.name),
            at_ms=refusal.first_ms,
            after_json=text,
            result=attempt.code[:64],
        )
        entry = replace(entry, address=attempt.address[:64])
        refusal.entry_id = await self._database.run(lambda db: db.audit.insert(entry))


def _is_due(entry: RefusalEntry) -> bool:
    return entry.written < entry.count


def _key(attempt: RefusedAttempt) -> tuple[str, ...]:
    return attempt.actor, attempt.address, attempt.action, attempt.name, attempt.code
