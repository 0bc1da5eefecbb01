"""Templates of messages: the texts of the Produce form, under a name that their owner chose."""

from collections.abc import Mapping

import msgspec

from app.db.rows import Actor, TemplateRow
from app.db.worker import DatabaseWorker
from app.services.owned_rows import OwnedRows, checked_name
from app.services.ttl_cache import CacheEntry
from engine.clock import Clock
from engine.errors import Invalid, NotFound

FIELDS_CHARS_MAX = 64 * 1024


class ProduceTemplates(OwnedRows[TemplateRow]):
    """Stores templates, at most 50 of an owner, and caches them for pages."""

    def __init__(self, database: DatabaseWorker, clock: Clock) -> None:
        super().__init__(
            database, clock, lambda db: db.templates, kind="template", what="the templates"
        )

    async def glance(self, owner: str, people_version: int = 0) -> CacheEntry[list[TemplateRow]]:
        """Those of an owner for a page, which must not fail or wait; see `TtlCache.of`."""
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
        name = checked_name(name, "template")
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
