"""Audited database access for user-owned objects."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from app.db.rows import Actor, AuditEntry
from app.db.worker import DatabaseWorker
from engine.clock import Clock

if TYPE_CHECKING:
    from app.db.database import Database

T = TypeVar("T")


class AuditedStore:
    """Runs database work on objects of one `kind`, and makes the audit entries of its changes.

    A failing database raises Busy with this `code`; its text names the objects as `what`.
    """

    def __init__(
        self, database: DatabaseWorker, clock: Clock, *, kind: str, code: str, what: str
    ) -> None:
        self._database = database
        self._clock = clock
        self._kind = kind
        self._code = code
        self._what = what

    def entry(self, actor: Actor, action: str, name: str) -> AuditEntry:
        """Make the audit entry that is written in the same transaction as the change."""
        return AuditEntry.of(actor, action, self._kind, name, at_ms=self._clock.now_ms())

    async def run(self, work: "Callable[[Database], T]") -> T:
        """Run `work` on the database thread and return its result; raises Busy."""
        detail = f"{self._what} cannot be read or written"
        return await self._database.ask(work, detail, code=self._code)
