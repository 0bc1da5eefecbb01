"""The audit trail: an entry stands before its change is made, and says afterwards how it ended.

A change whose entry cannot be written is not made. An entry still saying "started" is one whose
process died in between, or whose ending could not be written.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from app.addresses import redacted_text
from app.db.rows import DONE, Actor, AuditEntry, AuditFilter, AuditTally, DatabaseError, json_text
from app.db.worker import DatabaseAsker, DatabaseWorker
from app.errors import AUDITED
from engine.clock import Clock
from engine.errors import Busy, EngineError

log = logging.getLogger("kitemq.audit")

STARTED = "started"
FAILED = "failed"
CALLBACKS = "transaction_callback"
UNWRITABLE = "the audit trail cannot be written, nothing was changed"


@dataclass
class Change:
    """A change under way; its maker sets the state of the object afterwards."""

    after: object = None


class Audit:
    """Writes entries, and lists them."""

    def __init__(
        self,
        database: DatabaseWorker,
        clock: Clock,
        before_reading: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        """`before_reading` writes what has happened and is not in the trail yet."""
        self._database = database
        code = "audit_unavailable"
        self._ask = DatabaseAsker(database, "the audit trail cannot be read", code=code)
        self._begin = DatabaseAsker(database, UNWRITABLE, code=code)
        self._clock = clock
        self._before_reading = before_reading

    @asynccontextmanager
    async def change(
        self, actor: Actor, action: str, name: str, *, kind: str = "", before: object = None
    ) -> AsyncIterator[Change]:
        """Audit the change made inside: its `after`, and the code of the error it raised.

        `kind` is that of the object, by default the first part of the action, as in "topic.create".
        Raises Busy (`audit_unavailable`) before anything is changed if no entry can be written.
        """
        entry_id = await self._start(actor, action, kind or kind_of(action), name, before)
        change = Change()
        try:
            yield change
        except EngineError as error:
            await self._finish(entry_id, json_text(change.after), error.code)
            vars(error)[AUDITED] = True
            raise
        except BaseException:
            await self._finish(entry_id, "", FAILED)
            raise
        await self._finish(entry_id, json_text(change.after), DONE)

    async def entries(
        self, *, limit: int, before_id: int | None = None, kind: str = "", name: str = ""
    ) -> list[AuditEntry]:
        """The newest entries, at most `limit`, optionally of one kind or object."""
        criteria = AuditFilter(object_kind=kind, object_name=name)
        return await self.find(criteria, limit=limit, before_id=before_id)

    async def find(
        self, criteria: AuditFilter, *, limit: int, before_id: int | None = None
    ) -> list[AuditEntry]:
        """The newest entries that match, at most `limit`, older than `before_id` if given.

        Raises Busy (`audit_unavailable`).
        """
        if self._before_reading is not None:
            await self._before_reading()
        rows = await self._ask(lambda db: db.audit.find(criteria, limit, before_id))
        return [_without_secrets(entry) for entry in rows]

    async def tally(self) -> AuditTally:
        """What the newest entries have in common. Raises Busy (`audit_unavailable`)."""
        return await self._ask(lambda db: db.audit.tally())

    async def _start(self, actor: Actor, action: str, kind: str, name: str, before: object) -> int:
        at_ms, before_json = self._clock.now_ms(), json_text(before)
        entry = AuditEntry.of(
            actor, action, kind, name, at_ms=at_ms, before_json=before_json, result=STARTED
        )
        try:
            return await self._begin(lambda db: db.audit.insert(entry))
        except Busy as error:
            log.error("no audit entry could be written, so nothing is changed: %s", error.__cause__)
            raise

    async def _finish(self, entry_id: int, after_json: str, result: str) -> None:
        try:
            await self._database.run(lambda db: db.audit.finish(entry_id, after_json, result))
        except DatabaseError as error:
            log.error("audit entry %d could not be completed (%s): %s", entry_id, result, error)


def kind_of(action: str) -> str:
    """The kind of object that an action is named after: "topic" of "topic.create"."""
    return action.partition(".")[0]


def _without_secrets(entry: AuditEntry) -> AuditEntry:
    """Redact secrets in addresses, which an earlier version wrote as they are."""
    if entry.object_kind != CALLBACKS:
        return entry
    before, after = redacted_text(entry.before_json), redacted_text(entry.after_json)
    return replace(entry, before_json=before, after_json=after)
