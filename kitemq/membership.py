"""Consumer groups at work, over REST: a part of `kitemq.Client`.

Pausing, membership of pulling consumers, whose queues are whose, and queue locks for those that
consume in order.
"""

from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote

from kitemq.model.groups import Group
from kitemq.model.members import (
    GroupWarning,
    HeartbeatAnswer,
    LockedQueues,
    LockHolder,
    LockPage,
    LockRequest,
    MemberInfo,
    MemberPage,
    NewHeartbeat,
    QueueAssignment,
    TopicQueue,
    UnlockedQueues,
)
from kitemq.rest import RestConnection


class Membership(RestConnection):
    """What a client can do with a group beside its settings."""

    def pause(self, group: str, *, topic: str = "") -> Group:
        """Hand out nothing more to a group, or nothing of one topic; the group as it is then."""
        return self._typed(Group, "POST", _path(group, "pause"), params={"topic": topic})

    def resume(self, group: str, *, topic: str = "") -> Group:
        """End a pause of the group, or of one topic."""
        return self._typed(Group, "POST", _path(group, "resume"), params={"topic": topic})

    def heartbeat(
        self,
        group: str,
        client: str,
        *,
        topics: Mapping[str, str] | None = None,
        version: str = "",
        language: str = "PYTHON",
    ) -> HeartbeatAnswer:
        """Say that a pulling consumer is alive; every 30 s. The answer's `warnings` want a look."""
        body = NewHeartbeat(client, dict(topics or {}), version, language)
        return self._typed(HeartbeatAnswer, "POST", _path(group, "members/heartbeat"), body=body)

    def leave(self, group: str, client: str) -> None:
        """Say goodbye: its queues and locks are others' at once."""
        self._call("DELETE", _path(group, "members"), params={"client": client})

    def members(self, group: str) -> Iterator[MemberInfo]:
        """Every live member of a group by client, page by page."""
        return self._listed(MemberPage, _path(group, "members"))

    def member_warnings(self, group: str) -> list[GroupWarning]:
        """What is wrong among the members: subscriptions that differ, and whose they are."""
        params = {"limit": 1}
        return self._typed(MemberPage, "GET", _path(group, "members"), params=params).warnings

    def assignment(self, group: str, topic: str, client: str, *, strategy: str = "") -> list[int]:
        """The queues of a topic that are a pulling consumer's, by the group's strategy or another.

        Empty for who sends no heartbeats. Ask again after each heartbeat.
        """
        params = {"topic": topic, "client": client, **({"strategy": strategy} if strategy else {})}
        path = _path(group, "assignment")
        return self._typed(QueueAssignment, "GET", path, params=params).queues

    def lock(self, group: str, client: str, topic: str, queues: Iterable[int]) -> list[int]:
        """Lock queues for a consumer or keep them; those it has now, for half a minute's reading.

        Call it again every 20 s: the lease is 60 s unless the server's settings say other.
        """
        body = _request(client, topic, queues)
        answer = self._typed(LockedQueues, "POST", _path(group, "locks"), body=body)
        return [each.queue for each in answer.locked]

    def unlock(self, group: str, client: str, topic: str, queues: Iterable[int]) -> list[int]:
        """Give locked queues up; those that were the consumer's."""
        body = _request(client, topic, queues)
        answer = self._typed(UnlockedQueues, "POST", _path(group, "unlocks"), body=body)
        return [each.queue for each in answer.unlocked]

    def locks(self, group: str, *, topic: str = "") -> list[LockHolder]:
        """Who has which queue locked until when; at most 1,024."""
        return self._typed(LockPage, "GET", _path(group, "locks"), params={"topic": topic}).items


def _path(group: str, rest: str) -> str:
    return f"/groups/{quote(group, safe='')}/{rest}"


def _request(client: str, topic: str, queues: Iterable[int]) -> LockRequest:
    return LockRequest(client, [TopicQueue(topic, queue) for queue in queues])
