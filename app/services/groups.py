"""Creating, changing and deleting consumer groups, all audited; `resets.py` moves them."""

from app.db.rows import Actor
from app.host import EngineHost
from app.services.audit import Audit
from engine.broker import GroupConfig
from kitemq.model.conversion import changes
from kitemq.model.groups import GroupSettings


class Groups:
    """Changes consumer groups on behalf of an actor, who is named in the trail."""

    def __init__(self, host: EngineHost, audit: Audit) -> None:
        self._host = host
        self._audit = audit

    async def create(self, actor: Actor, config: GroupConfig) -> GroupConfig:
        """Create a group; Conflict where its name is taken, Invalid where a value is wrong."""
        async with self._audit.change(actor, "group.create", config.name) as change:
            change.after = created = self._host.broker.create_group(config)
        return created

    async def change(self, actor: Actor, name: str, settings: GroupSettings) -> GroupConfig:
        """Change the fields of a patch; GroupNotFound if there is no such group."""
        before = self._host.broker.group(name)
        async with self._audit.change(actor, "group.change", name, before=before) as change:
            change.after = changed = self._host.broker.change_group(
                name, **changes(before, settings)
            )
        return changed

    async def pause(self, actor: Actor, name: str, topic: str = "") -> GroupConfig:
        """Hand out nothing more, or nothing of one topic; GroupNotFound, TopicNotFound."""
        before = self._host.broker.group(name)
        async with self._audit.change(actor, "group.pause", name, before=before) as change:
            change.after = paused = self._host.broker.pause_group(name, topic)
        return paused

    async def resume(self, actor: Actor, name: str, topic: str = "") -> GroupConfig:
        """End a pause of the group, or of one topic; GroupNotFound."""
        before = self._host.broker.group(name)
        async with self._audit.change(actor, "group.resume", name, before=before) as change:
            change.after = resumed = self._host.broker.resume_group(name, topic)
        return resumed

    async def leave(self, actor: Actor, name: str, client: str) -> bool:
        """Take a member out, as if it had said goodbye; whether it was one. GroupNotFound."""
        members = self._host.broker.members
        before = {"client": client, "members": members.count(name)}
        async with self._audit.change(actor, "group.leave", name, before=before) as change:
            was_member = members.leave(name, client)
            change.after = {"members": members.count(name), "was_member": was_member}
        return was_member

    async def delete(self, actor: Actor, name: str) -> None:
        """Delete a group with its progress; GroupNotFound where there is no such group."""
        before = self._host.broker.group(name)
        async with self._audit.change(actor, "group.delete", name, before=before):
            self._host.broker.delete_group(name)
