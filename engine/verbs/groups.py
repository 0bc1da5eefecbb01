"""Consumer groups and their lag."""

from typing import Any

import msgspec

from engine.delivery.group import GroupConfig, Mode
from engine.delivery.values import GroupLag
from engine.topic.names import retry_topic
from engine.verbs.topics import TopicVerbs


class GroupVerbs(TopicVerbs):
    """Creates, changes, pauses and deletes groups; a group has a topic for its retries."""

    def create_group(self, config: GroupConfig) -> GroupConfig:
        """Add a consumer group. Raises Invalid, Conflict when the name is taken."""
        return self._delivery.groups.create(config)

    def change_group(self, name: str, /, **changes: Any) -> GroupConfig:
        """Change settings of a group. Raises GroupNotFound, Invalid."""
        return self._delivery.change_group(name, **changes)

    def pause_group(self, name: str, topic: str = "") -> GroupConfig:
        """Deliver nothing more to a group, or nothing of one topic; what is in flight stays."""
        return self._delivery.pause(name, topic)

    def resume_group(self, name: str, topic: str = "") -> GroupConfig:
        """End a pause; raises GroupNotFound."""
        return self._delivery.resume(name, topic)

    def is_broadcast(self, group: str) -> bool:
        """Whether each client of a group has progress of its own; False where there is none."""
        config = self._delivery.groups.find(group)
        return config is not None and config.mode is Mode.BROADCAST

    def broadcast_clients(self, group: str) -> list[str]:
        """The clients of a broadcast group whose progress is kept, by name; GroupNotFound."""
        self._delivery.groups.get(group)
        return self._delivery.broadcasts.clients(group)

    def delete_group(self, name: str) -> None:
        """Delete a group, its progress and its retries; its dead letters stay."""
        self._delivery.delete_group(name)
        self.statistics.forget_group(name)
        if self._catalog.find(retry_topic(name)) is not None:
            self.delete_topic(retry_topic(name))

    def group(self, name: str) -> GroupConfig:
        """Settings of a group; GroupNotFound."""
        return self._delivery.groups.get(name)

    def groups(self) -> list[GroupConfig]:
        """All groups by name."""
        return self._delivery.groups.all()

    def lag(self, group: str) -> GroupLag:
        """The lag of a group; GroupNotFound."""
        lag = self._delivery.offsets.lag(group)
        if not lag.dead:
            return lag
        counts = self.dead_letters.state_counts(group)
        return msgspec.structs.replace(lag, dismissed=counts.dismissed, resent=counts.resent)
