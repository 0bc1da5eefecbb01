"""Creates, changes and deletes topics, each with its audit entry.

A caller may pass the tag of the topic that it read (`config_tag`, `content_tag`): if the topic
differs by now, it is left alone.
"""

from hashlib import blake2b

import msgspec

from app.db.rows import Actor
from app.host import EngineHost
from app.services.audit import Audit
from engine.broker import Broker, TopicConfig
from engine.errors import Conflict
from kitemq.model.conversion import changes
from kitemq.model.topics import DEFINITION_COLUMNS, TopicSettings


class Topics:
    """Changes topics on behalf of an actor, who is named in the trail."""

    def __init__(self, host: EngineHost, audit: Audit) -> None:
        self._host = host
        self._audit = audit

    async def create(self, actor: Actor, config: TopicConfig) -> TopicConfig:
        """Create a topic; Conflict where its name is taken, Invalid where a value is wrong."""
        async with self._audit.change(actor, "topic.create", config.name) as change:
            created = self._host.broker.create_topic(config)
            change.after = described(created)
        return created

    async def change(
        self, actor: Actor, name: str, settings: TopicSettings, *, seen: str = ""
    ) -> TopicConfig:
        """Change the fields of a patch; TopicNotFound if there is no such topic.

        Conflict if its `config_tag` is not `seen`.
        """
        broker = self._host.broker
        before = described(broker.topic(name))
        async with self._audit.change(actor, "topic.change", name, before=before) as change:
            if seen and seen != config_tag(broker.topic(name)):
                raise changed_meanwhile(name)
            changed = broker.change_topic(name, **changes(broker.topic(name), settings))
            change.after = described(changed)
        return changed

    async def delete(self, actor: Actor, name: str, *, seen: str = "") -> None:
        """Delete a topic with its messages; TopicNotFound where there is no such topic.

        Conflict where it does not hold what its `content_tag` was `seen` of.
        """
        broker = self._host.broker
        before = described(broker.topic(name))
        async with self._audit.change(actor, "topic.delete", name, before=before):
            if seen and seen != content_tag(broker, name):
                raise Conflict(
                    f"messages, groups or settings of {name!r} changed since it was looked at",
                    field="topic",
                    remedy="look again; what is in use is closed for sends first",
                )
            broker.delete_topic(name)


def config_tag(config: TopicConfig) -> str:
    """A tag of the topic and its configuration: 16 letters of a hash."""
    return _tag([config.created_ms, described(config)])


def content_tag(broker: Broker, name: str) -> str:
    """A tag that also covers queue ends and readers: what a deletion would lose."""
    ends = [queue.max_offset for queue in broker.topic_stats(name).queues]
    return _tag([config_tag(broker.topic(name)), ends, sorted(broker.groups_of(name))])


def changed_meanwhile(name: str) -> Conflict:
    """The error for a topic that changed since the caller read it."""
    return Conflict(
        f"the topic {name!r} changed since it was looked at", field="topic", remedy="look again"
    )


def _tag(value: object) -> str:
    return blake2b(msgspec.json.encode(value), digest_size=8).hexdigest()


def described(config: TopicConfig) -> dict[str, object]:
    """A topic's configuration with its names, as the trail keeps it."""
    return {name: getattr(config, name) for name in DEFINITION_COLUMNS}
