# Made from kitemq/async_api/members.py by `python -m tools.synchronous`: change that file.
"""Pulling consumers of a group: heartbeats, whose queues are whose, and queue locks."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from kitemq.api.connection import Api
from kitemq.model.members import (
    GroupWarning,
    HeartbeatAnswer,
    LockedQueues,
    LockHolder,
    LockPage,
    LockRequest,
    MemberInfo,
    MemberPage,
    MemberQueues,
    MemberQueuesPage,
    NewHeartbeat,
    QueueAssignment,
    TopicQueue,
    UnlockedQueues,
)
from kitemq.rest import segment


class MembersApi(Api):
    """`client.members`: the members of a group, and locks of queues to consume in order."""

    def list(self, group: str) -> Iterator[MemberInfo]:
        """Every live member of a group by client, page by page."""
        return self._rest.pages(MemberPage, _path(group, "members"))

    def queues(self, group: str) -> Iterator[MemberQueues]:
        """The queues that every live member of a group reads, as it tells, page by page."""
        return self._rest.pages(MemberQueuesPage, _path(group, "members/queues"))

    def warnings(self, group: str) -> Sequence[GroupWarning]:
        """Problems among the members: different subscriptions, with their clients."""
        path = _path(group, "members")
        return (self._rest.fetch(MemberPage, "GET", path, params={"limit": 1})).warnings

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
        path = _path(group, "members/heartbeat")
        return self._rest.fetch(HeartbeatAnswer, "POST", path, body=body)

    def leave(self, group: str, client: str) -> None:
        """Leave the group: its queues and locks are others' at once."""
        self._rest.call("DELETE", _path(group, "members"), params={"client": client})

    def assignment(
        self, group: str, topic: str, client: str, *, strategy: str = ""
    ) -> Sequence[int]:
        """The queues of a topic that are a pulling consumer's, by the group's strategy or another.

        Empty for a consumer that sends no heartbeats. Ask again after each heartbeat.
        """
        params = {"topic": topic, "client": client, **({"strategy": strategy} if strategy else {})}
        path = _path(group, "assignment")
        return (self._rest.fetch(QueueAssignment, "GET", path, params=params)).queues

    def lock(self, group: str, client: str, topic: str, queues: Iterable[int]) -> Sequence[int]:
        """Lock queues for a consumer or keep them; those it has now, for half a minute's reading.

        Call it again every 20 s: the lease is 60 s unless the server's settings say other.
        """
        body = _request(client, topic, queues)
        answer = self._rest.fetch(LockedQueues, "POST", _path(group, "locks"), body=body)
        return [each.queue for each in answer.locked]

    def unlock(self, group: str, client: str, topic: str, queues: Iterable[int]) -> Sequence[int]:
        """Give locked queues up; those that were the consumer's."""
        body = _request(client, topic, queues)
        answer = self._rest.fetch(UnlockedQueues, "POST", _path(group, "unlocks"), body=body)
        return [each.queue for each in answer.unlocked]

    def locks(self, group: str, *, topic: str = "") -> Sequence[LockHolder]:
        """The locked queues with holder and expiry; at most 1,024."""
        params = {"topic": topic}
        return (self._rest.fetch(LockPage, "GET", _path(group, "locks"), params=params)).items


def _path(group: str, rest: str) -> str:
    return f"/groups/{segment(group)}/{rest}"


def _request(client: str, topic: str, queues: Iterable[int]) -> LockRequest:
    return LockRequest(client, [TopicQueue(topic, queue) for queue in queues])
