"""Named rows of users, as saved views and templates are: listing, caching for pages, deleting."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic

from app.db.rows import Actor, Owned
from app.db.worker import DatabaseWorker
from app.services.audited_store import AuditedStore
from app.services.ttl_cache import TtlCache
from engine.clock import Clock
from engine.errors import Invalid
from kitemq.model.views import NAME_CHARS_MAX

# A started server has not loaded SQLAlchemy.
if TYPE_CHECKING:
    from app.db.database import Database
    from app.db.owned_store import OwnedStore


class OwnedRows(Generic[Owned]):
    """Users see and change only their own. While there are no users, all share one set.

    `kind` begins the audit trail's actions, `store` is the part of the database. Every method
    raises Busy while the database does not answer.
    """

    def __init__(
        self,
        database: DatabaseWorker,
        clock: Clock,
        store: Callable[[Database], OwnedStore[Owned]],
        *,
        kind: str,
        what: str,
    ) -> None:
        self._clock = clock
        self._kind = kind
        self._part = store
        self._store = AuditedStore(database, clock, code=f"{kind}s_unavailable", what=what)
        self._cache: TtlCache[list[Owned]] = TtlCache(clock, self.of, [])

    async def of(self, owner: str) -> list[Owned]:
        """All of an owner, by name."""
        return await self._store.run(lambda database: self._part(database).of(owner))

    async def delete(self, actor: Actor, owner: str, row_id: int) -> Owned:
        """Forget one of the owner's, which is returned; NotFound."""
        entry = self._store.entry(actor, f"{self._kind}.delete", "")
        deleted = await self._store.run(
            lambda database: self._part(database).delete(owner, row_id, entry)
        )
        self._cache.forget(owner)
        return deleted


def checked_name(name: str, what: str) -> str:
    """A name with single blanks; Invalid where it is none."""
    name = " ".join(name.split())
    if not 1 <= len(name) <= NAME_CHARS_MAX or not name.isprintable():
        raise Invalid(
            f"a {what}'s name has 1 to {NAME_CHARS_MAX} characters, all of them printable",
            field="name",
            remedy="choose another name",
        )
    return name
