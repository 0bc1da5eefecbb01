"""Creates, changes and deletes topics, each with its audit entry.

A caller may pass the tag of the topic that it read (`config_tag`, `content_tag`): if the topic
differs by now, it is left alone.
"""

from hashlib import blake2b

import msgspec

from app.administration import Administration
from app.db.rows import Actor
from app.services.audit import Audit
from engine.broker import TopicConfig
from engine.errors import Conflict
from kitemq.model.conversion import changes
from kitemq.model.topics import DEFINITION_COLUMNS, TopicSettings


class Topics:
    """Changes topics on behalf of an actor, who is named in the trail."""

    def __init__(self, administration: Administration, audit: Audit) -> None:
        self._administration = administration
        self._audit = audit

    async def create(self, actor: Actor, config: TopicConfig) -> TopicConfig:
        """Create a topic; Conflict where its name is taken, Invalid where a value is wrong."""
        async with self._audit.change(actor, "topic.create", config.name) as change:
            created = await self._administration.create_topic(config)
            change.after = described(created)
        return created

    async def change(
        self, actor: Actor, name: str, settings: TopicSettings, *, seen: str = ""
    ) -> TopicConfig:
        """Change the fields of a patch; TopicNotFound if there is no such topic.

        Conflict if its `config_tag` is not `seen`.
        """
        verbs = self._administration
        before = described(await verbs.topic(name))
        async with self._audit.change(actor, "topic.change", name, before=before) as change:
            if seen and seen != config_tag(await verbs.topic(name)):
                raise changed_meanwhile(name)
            changed = await verbs.change_topic(name, **changes(await verbs.topic(name), settings))
            change.after = described(changed)
        return changed

    async def delete(self, actor: Actor, name: str, *, seen: str = "") -> None:
        """Delete a topic with its messages; TopicNotFound where there is no such topic.

        Conflict where it does not hold what its `content_tag` was `seen` of.
        """
        verbs = self._administration
        before = described(await verbs.topic(name))
        async with self._audit.change(actor, "topic.delete", name, before=before):
            if seen and seen != await content_tag(verbs, name):
                raise Conflict(
                    f"messages, groups or settings of {name!r} changed since it was looked at",
                    field="topic",
                    remedy="look again; what is in use is closed for sends first",
                )
            await verbs.delete_topic(name)


def config_tag(config: TopicConfig) -> str:
    """A tag of the topic and its configuration: 16 letters of a hash."""
    return _tag([config.created_ms, described(config)])


async def content_tag(verbs: Administration, name: str) -> str:
    """A tag that also covers queue ends and readers: what a deletion would lose."""
    ends = [queue.max_offset for queue in (await verbs.topic_stats(name)).queues]
    return _tag([config_tag(await verbs.topic(name)), ends, sorted(await verbs.groups_of(name))])


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
