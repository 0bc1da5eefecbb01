"""Templates of messages: the texts of the Produce form, under a name that their owner chose.

Users see and change only their own templates. While there are no users, all share one set.
"""

from collections.abc import Mapping

import msgspec

from app.db.rows import Actor, TemplateRow
from app.db.worker import DatabaseWorker
from app.services.audited_store import AuditedStore
from app.services.ttl_cache import CacheEntry, TtlCache
from engine.clock import Clock
from engine.errors import Invalid, NotFound
from kitemq.model.views import NAME_CHARS_MAX

FIELDS_CHARS_MAX = 64 * 1024


class ProduceTemplates:
    """Stores templates, and caches them for pages. Raises Busy (`templates_unavailable`)."""

    def __init__(self, database: DatabaseWorker, clock: Clock) -> None:
        self._clock = clock
        self._store = AuditedStore(
            database, clock, code="templates_unavailable", what="the templates"
        )
        self._cache: TtlCache[list[TemplateRow]] = TtlCache(clock, self.of, [])

    async def of(self, owner: str) -> list[TemplateRow]:
        """An owner's templates by name, at most 50."""
        return await self._store.run(lambda database: database.templates.of(owner))

    async def glance(self, owner: str, people_version: int = 0) -> CacheEntry[list[TemplateRow]]:
        """The same for a page, which must not fail or wait for them; see `TtlCache.of`."""
        return await self._cache.of(owner, people_version)

    async def fields(self, owner: str, template_id: int) -> dict[str, str]:
        """The texts of one of the owner's templates by field; NotFound."""
        own = (each for each in await self.of(owner) if each.id == template_id)
        template = next(own, None)
        if template is None:
            raise NotFound(f"you have no template {template_id}", field="template")
        return msgspec.json.decode(template.fields_json, type=dict[str, str])

    async def save(
        self, actor: Actor, owner: str, name: str, topic: str, fields: Mapping[str, str]
    ) -> TemplateRow:
        """Keep texts under a name, in place of those before; Invalid, Conflict for one too many."""
        name = " ".join(name.split())
        if not 1 <= len(name) <= NAME_CHARS_MAX or not name.isprintable():
            raise Invalid(
                f"a template's name has 1 to {NAME_CHARS_MAX} characters, all of them printable",
                field="name",
                remedy="choose another name",
            )
        fields_json = msgspec.json.encode(fields).decode()
        if len(fields_json) > FIELDS_CHARS_MAX:
            raise Invalid(
                f"a template has at most {FIELDS_CHARS_MAX:,} characters",
                field="name",
                remedy="shorten the body",
            )
        row = TemplateRow(
            owner=owner,
            name=name,
            topic=topic,
            fields_json=fields_json,
            created_ms=self._clock.now_ms(),
        )
        entry = self._store.entry(actor, "template.save", name)
        saved = await self._store.run(lambda database: database.templates.save(row, entry))
        self._cache.forget(owner)
        return saved

    async def delete(self, actor: Actor, owner: str, template_id: int) -> TemplateRow:
        """Forget one of the owner's templates, which is returned; NotFound."""
        entry = self._store.entry(actor, "template.delete", "")
        deleted = await self._store.run(
            lambda database: database.templates.delete(owner, template_id, entry)
        )
        self._cache.forget(owner)
        return deleted
