"""Creating, changing and deleting consumer groups, all audited; `resets.py` moves them."""

from app.administration import Administration
from app.db.rows import Actor
from app.messaging import MemberVerbs
from app.services.audit import Audit
from engine.broker import GroupConfig
from kitemq.model.conversion import changes
from kitemq.model.groups import GroupSettings


class Groups:
    """Changes consumer groups on behalf of an actor, who is named in the trail."""

    def __init__(self, administration: Administration, members: MemberVerbs, audit: Audit) -> None:
        self._administration = administration
        self._members = members
        self._audit = audit

    async def create(self, actor: Actor, config: GroupConfig) -> GroupConfig:
        """Create a group; Conflict where its name is taken, Invalid where a value is wrong."""
        async with self._audit.change(actor, "group.create", config.name) as change:
            change.after = created = await self._administration.create_group(config)
        return created

    async def change(self, actor: Actor, name: str, settings: GroupSettings) -> GroupConfig:
        """Change the fields of a patch; GroupNotFound if there is no such group."""
        before = await self._administration.group(name)
        async with self._audit.change(actor, "group.change", name, before=before) as change:
            change.after = changed = await self._administration.change_group(
                name, **changes(before, settings)
            )
        return changed

    async def pause(self, actor: Actor, name: str, topic: str = "") -> GroupConfig:
        """Hand out nothing more, or nothing of one topic; GroupNotFound, TopicNotFound."""
        before = await self._administration.group(name)
        async with self._audit.change(actor, "group.pause", name, before=before) as change:
            change.after = paused = await self._administration.pause_group(name, topic)
        return paused

    async def resume(self, actor: Actor, name: str, topic: str = "") -> GroupConfig:
        """End a pause of the group, or of one topic; GroupNotFound."""
        before = await self._administration.group(name)
        async with self._audit.change(actor, "group.resume", name, before=before) as change:
            change.after = resumed = await self._administration.resume_group(name, topic)
        return resumed

    async def leave(self, actor: Actor, name: str, client: str) -> bool:
        """Take a member out, as if it had said goodbye; whether it was one. GroupNotFound."""
        members = self._administration.members
        before = {"client": client, "members": await members.count(name)}
        async with self._audit.change(actor, "group.leave", name, before=before) as change:
            was_member = await self._members.leave(name, client)
            change.after = {"members": await members.count(name), "was_member": was_member}
        return was_member

    async def delete(self, actor: Actor, name: str) -> None:
        """Delete a group with its progress; GroupNotFound where there is no such group."""
        before = await self._administration.group(name)
        async with self._audit.change(actor, "group.delete", name, before=before):
            await self._administration.delete_group(name)
