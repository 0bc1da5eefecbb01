"""Creating, changing and deleting topics, each with its audit entry."""

import msgspec

from app.host import EngineHost
from app.services.audit import Actor, Audit
from engine.broker import TopicConfig
from engine.message import Promise

KIND = "topic"


class TopicChanges(msgspec.Struct, frozen=True, omit_defaults=True):
    """What may be changed of a topic; what is left out stays; null: the broker's default."""

    read_queues: int | msgspec.UnsetType = msgspec.UNSET
    write_queues: int | msgspec.UnsetType = msgspec.UNSET
    permission: int | msgspec.UnsetType = msgspec.UNSET
    promise: Promise | msgspec.UnsetType | None = msgspec.UNSET
    retention_ms: int | msgspec.UnsetType | None = msgspec.UNSET
    trace_sample: float | msgspec.UnsetType | None = msgspec.UNSET


class Topics:
    """Changes topics for a person or a program, who is named in the trail."""

    def __init__(self, host: EngineHost, audit: Audit) -> None:
        self._host = host
        self._audit = audit

    async def create(self, actor: Actor, config: TopicConfig) -> TopicConfig:
        """Create a topic; Conflict where its name is taken, Invalid where a value is wrong."""
        async with self._audit.change(actor, "topic.create", KIND, config.name) as change:
            created = self._host.broker.create_topic(config)
            change.after = described(created)
        return created

    async def change(self, actor: Actor, name: str, changes: TopicChanges) -> TopicConfig:
        """Change what is given; TopicNotFound where there is no such topic."""
        before = described(self._host.broker.topic(name))
        given = {
            field: value
            for field in changes.__struct_fields__
            if (value := getattr(changes, field)) is not msgspec.UNSET
        }
        async with self._audit.change(actor, "topic.change", KIND, name, before=before) as change:
            changed = self._host.broker.change_topic(name, **given)
            change.after = described(changed)
        return changed

    async def delete(self, actor: Actor, name: str) -> None:
        """Delete a topic with its messages; TopicNotFound where there is no such topic."""
        before = described(self._host.broker.topic(name))
        async with self._audit.change(actor, "topic.delete", KIND, name, before=before):
            self._host.broker.delete_topic(name)


def described(config: TopicConfig) -> dict[str, object]:
    """A topic's configuration with its names, as the trail keeps it."""
    return {
        "name": config.name,
        "type": config.type,
        "read_queues": config.read_queues,
        "write_queues": config.write_queues,
        "permission": config.permission,
        "promise": config.promise,
        "retention_ms": config.retention_ms,
        "trace_sample": config.trace_sample,
    }
