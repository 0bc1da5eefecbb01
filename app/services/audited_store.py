"""Audited database access for user-owned objects."""

from app.db.rows import Actor, AuditEntry
from app.db.worker import DatabaseAsker, DatabaseWorker
from app.services.audit import kind_of
from engine.clock import Clock


class AuditedStore:
    """Asks the database about objects of users, and makes the audit entries of its changes.

    A failing database raises Busy with this `code`; its text names the objects as `what`.
    """

    def __init__(self, database: DatabaseWorker, clock: Clock, *, code: str, what: str) -> None:
        self._clock = clock
        self.run = DatabaseAsker(database, f"{what} cannot be read or written", code=code)

    def entry(self, actor: Actor, action: str, name: str) -> AuditEntry:
        """Make the audit entry that is written in the same transaction as the change."""
        return AuditEntry.of(actor, action, kind_of(action), name, at_ms=self._clock.now_ms())
