"""What the database hands out and takes in, and its one error; without SQLAlchemy, which is slow
to load and not needed to be ready."""

from dataclasses import dataclass


class DatabaseError(Exception):
    """The database cannot be opened, or did not do what was asked; the text says why."""


@dataclass(frozen=True, kw_only=True)
class AuditEntry:
    """One change: who, what, to which object, how it was before and after, how it ended."""

    id: int = 0
    at_ms: int
    actor: str
    action: str
    object_kind: str
    object_name: str
    before_json: str
    after_json: str
    result: str
    request_id: str
