"""Purges topics, audited with the extent; a preview changes nothing and leaves no entry."""

from collections.abc import Mapping

import msgspec

from app.administration import Administration
from app.db.rows import Actor
from app.host import EngineHost
from app.messaging import VerbSet, verb
from app.services.audit import Audit
from engine.broker import Purge, RetentionService


class Extent(msgspec.Struct, frozen=True, omit_defaults=True):
    """The extent of a purge: exactly one field is given."""

    before_offset: Mapping[int, int] | None = None
    before_ms: int | None = None
    everything: bool = False


class Purges(VerbSet[RetentionService]):
    """Purges topics on behalf of an actor, who is named in the trail."""

    def __init__(self, host: EngineHost, administration: Administration, audit: Audit) -> None:
        self._host = host
        self._administration = administration
        self._audit = audit

    @property
    def _engine(self) -> RetentionService:
        return self._host.broker.retention

    status = verb(RetentionService.status)

    def preview(self, topic: str, extent: Extent) -> Purge:
        """Preview a purge; raises the errors of `purge`."""
        return self._purge(topic, extent, dry_run=True)

    async def purge(self, actor: Actor, topic: str, extent: Extent) -> Purge:
        """Take messages away for good; TopicNotFound, QueueNotFound, Invalid, Forbidden."""
        await self._administration.topic(topic)
        request = msgspec.to_builtins(extent, str_keys=True)
        async with self._audit.change(actor, "topic.purge", topic, before=request) as change:
            change.after = done = self._purge(topic, extent, dry_run=False)
        return done

    def _purge(self, topic: str, extent: Extent, *, dry_run: bool) -> Purge:
        fields = msgspec.structs.asdict(extent)
        return self._engine.purge(topic, **fields, dry_run=dry_run)
