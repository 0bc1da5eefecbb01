"""Consumer groups at work, over REST: a part of `kitemq.Client`.

Pausing, membership of pulling consumers, whose queues are whose, and queue locks for those that
consume in order.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from kitemq.model.groups import Group
from kitemq.rest import Json, RestConnection

PAGE = 200


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
    ) -> Json:
        """Say that a pulling consumer is alive; every 30 s. The answer's `warnings` want a look."""
        document = {
            "client": client,
            "topics": dict(topics or {}),
            "version": version,
            "language": language,
        }
        return self._call("POST", _path(group, "members/heartbeat"), json=document)

    def leave(self, group: str, client: str) -> None:
        """Say goodbye: its queues and locks are others' at once."""
        self._call("DELETE", _path(group, "members"), params={"client": client})

    def members(self, group: str) -> Iterator[Json]:
        """Every live member of a group by client, page by page."""
        cursor: str | None = ""
        while cursor is not None:
            page = self._members(group, limit=PAGE, cursor=cursor)
            yield from page["items"]
            cursor = page["next_cursor"]

    def member_warnings(self, group: str) -> list[Json]:
        """What is wrong among the members: subscriptions that differ, and whose they are."""
        found: list[Json] = self._members(group, limit=1)["warnings"]
        return found

    def assignment(self, group: str, topic: str, client: str, *, strategy: str = "") -> list[int]:
        """The queues of a topic that are a pulling consumer's, by the group's strategy or another.

        Empty for who sends no heartbeats. Ask again after each heartbeat.
        """
        given = {"topic": topic, "client": client, **({"strategy": strategy} if strategy else {})}
        found: list[int] = self._call("GET", _path(group, "assignment"), params=given)["queues"]
        return found

    def lock(self, group: str, client: str, topic: str, queues: Iterable[int]) -> list[int]:
        """Lock queues for a consumer or keep them; those it has now, for half a minute's reading.

        Call it again every 20 s: the lease is 60 s unless the server's settings say other.
        """
        answer = self._call("POST", _path(group, "locks"), json=_queues(client, topic, queues))
        return [each["queue"] for each in answer["locked"]]

    def unlock(self, group: str, client: str, topic: str, queues: Iterable[int]) -> list[int]:
        """Give locked queues up; those that were the consumer's."""
        answer = self._call("POST", _path(group, "unlocks"), json=_queues(client, topic, queues))
        return [each["queue"] for each in answer["unlocked"]]

    def locks(self, group: str, *, topic: str = "") -> list[Json]:
        """Who has which queue locked until when; at most 1,024."""
        found: list[Json] = self._call("GET", _path(group, "locks"), params={"topic": topic})[
            "items"
        ]
        return found

    def _members(self, group: str, **params: Any) -> Json:
        return self._call("GET", _path(group, "members"), params=params)


def _path(group: str, rest: str) -> str:
    return f"/groups/{quote(group, safe='')}/{rest}"


def _queues(client: str, topic: str, queues: Iterable[int]) -> Json:
    return {"client": client, "queues": [{"topic": topic, "queue": queue} for queue in queues]}
