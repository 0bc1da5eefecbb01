"""Refused attempts to change something, in the audit trail, without letting anybody fill it.

The same attempt of the same sender within `WINDOW_S` is one entry that counts. Within a window one
address makes at most `ADDRESS_ENTRIES_MAX` entries and all together `ENTRIES_MAX`; what is beyond
is counted in one further entry. So the trail grows by at most ENTRIES_MAX + 1 entries in a window,
whoever tries what.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from dataclasses import dataclass

import msgspec

from app.db.rows import AuditEntry, DatabaseError
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
    """What was refused: by whom and from where, what was tried, the error's code and sentence."""

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
    """An entry of the trail and how often what it tells of has happened."""

    attempt: RefusedAttempt
    first_ms: int
    last_ms: int
    count: int = 1
    entry_id: int = 0  # 0 until it is written
    written: int = 0


class RefusalAudit:
    """Takes note at once, writes a moment later; `flush` before somebody reads the trail."""

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
        """Remember a refused attempt; never waits."""
        now_s, now_ms = self._clock.monotonic_s(), self._clock.now_ms()
        if now_s >= self._window_ends_s:
            self._begin_window(now_s)
        key = _key(attempt)
        found = self._folded.get(key)
        if found is None and not self._has_room(attempt.address):
            attempt, key = OTHERS, _key(OTHERS)
            found = self._folded.get(key)
        if found is None:
            self._folded[key] = RefusalEntry(attempt, now_ms, now_ms)
            self._by_address[attempt.address] += 1
        else:
            found.count += 1
            found.last_ms = now_ms
        if self._task is None or self._task.done():
            # At once where it is new, so that the trail is in order; a count may wait.
            wait_s = FLUSH_S if found is not None else 0.0
            self._task = asyncio.get_running_loop().create_task(self._write_in(wait_s))

    async def flush(self) -> bool:
        """Write what was noted; whether more came meanwhile.

        While the database fails, what was noted is kept for the next time.
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
        """Write what is left."""
        if self._task is not None:
            async with self._flushing:  # amid a write it would be written twice
                self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self.flush()

    def _due(self) -> list[RefusalEntry]:
        return [each for each in (*self._ended, *self._folded.values()) if _is_due(each)]

    def _begin_window(self, now_s: float) -> None:
        # Bounded as the entries of one window are; what no flush took is let go with the next.
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

    async def _write(self, folded: RefusalEntry) -> None:
        attempt = folded.attempt
        document: dict[str, object] = {"count": folded.count}
        if folded.count > 1:
            document["last_ms"] = folded.last_ms
        if attempt.detail:
            document["detail"] = attempt.detail[:500]
        text = msgspec.json.encode(document).decode()
        if folded.entry_id:
            entry_id, code = folded.entry_id, attempt.code[:64]
            await self._database.run(lambda db: db.finish_audit(entry_id, text, code))
            return
        entry = AuditEntry(
            at_ms=folded.first_ms,
            actor=attempt.actor[:255],
            action=attempt.action[:64],
            object_kind=attempt.kind[:32],
            object_name=attempt.name[:512],
            before_json="",
            after_json=text,
            result=attempt.code[:64],
            request_id=attempt.request_id[:64],
            address=attempt.address[:64],
        )
        folded.entry_id = await self._database.run(lambda db: db.insert_audit(entry))


def _is_due(folded: RefusalEntry) -> bool:
    return folded.written < folded.count


def _key(attempt: RefusedAttempt) -> tuple[str, ...]:
    return attempt.actor, attempt.address, attempt.action, attempt.name, attempt.code
