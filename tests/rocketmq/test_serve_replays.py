"""Dead letters of a cluster are sent again, and dismissed, by servers that share a database.

The real processes before Apache's name server and two masters; one is killed while it sends.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.patience import until
from tests.postgres import Cluster as Postgres
from tests.postgres import running_postgres
from tests.rocketmq.cluster import ApacheCluster
from tests.rocketmq.test_serve import LIMIT_S, Gateway, group, pytestmark, server, topic

__all__ = ["group", "pytestmark", "server", "topic"]


class Sharing(Gateway):
    """A server whose database others have as well."""

    def __init__(self, data: Path, name_server: str, database: str) -> None:
        super().__init__(data, name_server)
        self._database = database

    def command(self) -> Sequence[str]:
        return [*super().command(), "--database-url", self._database]


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    yield from running_postgres()


@pytest.fixture
def pair(
    cluster: ApacheCluster, postgres: Postgres, tmp_path: Path
) -> Iterator[tuple[Sharing, Sharing]]:
    with (
        postgres.database() as database,
        Sharing(tmp_path / "one", cluster.name_server, database) as one,
        Sharing(tmp_path / "two", cluster.name_server, database) as two,
    ):
        yield one, two


def bury(server: Gateway, topic: str, group: str, bodies: Sequence[str], tag: str = "") -> None:
    """Let a group give up these messages, and wait until they are listed."""
    before = counts(server, group)["total"] if groups(server, group) else 0
    if not groups(server, group):
        server.api("POST", "/groups", {"name": group, "retry_max": 0})
    for at in range(0, len(bodies), 100):
        new = [{"body": body, "tag": tag} for body in bodies[at : at + 100]]
        server.api("POST", f"/topics/{topic}/messages", {"messages": new})
    left = len(bodies)
    asking = {"topic": topic, "max": 32, "wait_ms": 5000}
    while left:
        got = server.api("POST", f"/groups/{group}/receive", asking)["deliveries"]
        failed = [{"receipt": each["receipt"], "error": "Oops: no"} for each in got]
        if failed:
            server.api("POST", f"/groups/{group}/nack", {"nacks": failed})
        left -= len(got)
    total = before + len(bodies)
    until(lambda: counts(server, group)["total"] == total, limit_s=LIMIT_S)


def groups(server: Gateway, group: str) -> bool:
    return server.ask("GET", f"/api/v1/groups/{group}")[0] == 200


def counts(server: Gateway, group: str) -> dict[str, int]:
    path = f"/groups/{group}/dead-letters/counts"
    answer: dict[str, Any] = server.api("GET", path)
    return answer["states"] | {"total": answer["total"]}


def ended(server: Gateway, job_id: str) -> dict[str, Any]:
    """The job once it is over."""
    found: dict[str, Any] = {}

    def is_over() -> bool:
        found.update(server.api("GET", f"/replays/{job_id}"))
        return found["state"] in ("finished", "stopped")

    until(is_over, limit_s=LIMIT_S)
    return found


def received(server: Gateway, topic: str, group: str, count: int) -> list[dict[str, Any]]:
    """Deliveries, acknowledged, once there are so many, and what comes in two seconds more."""
    messages: list[dict[str, Any]] = []
    while True:
        wait_ms = 5000 if len(messages) < count else 2000
        asking = {"topic": topic, "max": 32, "wait_ms": wait_ms}
        got = server.api("POST", f"/groups/{group}/receive", asking)["deliveries"]
        if not got and len(messages) >= count:
            return messages
        if got:
            receipts = {"receipts": [each["receipt"] for each in got]}
            server.api("POST", f"/groups/{group}/ack", receipts)
        messages += got


def test_a_group_gets_the_dead_letters_that_match_again(
    server: Gateway, topic: str, group: str
) -> None:
    bury(server, topic, group, [f"a{n}" for n in range(30)], tag="a")
    bury(server, topic, group, [f"b{n}" for n in range(5)], tag="b")
    letters = f"/groups/{group}/dead-letters"
    dry = server.api("POST", f"{letters}/redrive", {"filter": "a", "dry_run": True})
    assert ended(server, dry["id"])["totals"] == {"eligible": 30, "filtered": 5}
    server.api("POST", f"/replays/{dry['id']}/begin")
    job = ended(server, dry["id"])
    assert job["totals"] == {"sent": 30, "filtered": 5}
    again = received(server, topic, group, 30)
    assert Counter(each["body"] for each in again) == {f"a{n}": 1 for n in range(30)}
    until(lambda: counts(server, group)["resent"] == 30, limit_s=LIMIT_S)
    assert counts(server, group)["open"] == 5
    resent = server.api("GET", f"{letters}?state=resent&limit=100")["items"]
    assert {each["message"]["body"] for each in resent} == {f"a{n}" for n in range(30)}
    assert {each["redriven_by"][0] for each in resent} == {dry["id"]}
    rows = server.api("GET", f"/replays/{dry['id']}/outcomes?outcome=sent&limit=100")["items"]
    assert len(rows) == 30

    one = server.api("GET", f"{letters}?state=open")["items"][0]
    some = {"offsets": [one["offset"]], "to": "origin"}
    last = ended(server, server.api("POST", f"{letters}/redrive", some)["id"])
    assert last["totals"] == {"sent": 1}
    assert [each["body"] for each in received(server, topic, group, 1)] == [one["message"]["body"]]


def test_dismissed_dead_letters_have_a_note_and_are_left_out(
    server: Gateway, topic: str, group: str
) -> None:
    bury(server, topic, group, [f"m{n}" for n in range(6)])
    letters = f"/groups/{group}/dead-letters"
    some = [each["offset"] for each in server.api("GET", letters)["items"][:2]]
    answer = server.api("POST", f"{letters}/dismiss", {"offsets": some, "note": "test orders"})
    assert answer["count"] == 2
    items = server.api("GET", f"{letters}?state=dismissed")["items"]
    assert [each["offset"] for each in items] == some
    assert {each["dismissed"]["note"] for each in items} == {"test orders"}
    job = server.api("POST", f"{letters}/redrive", {"dry_run": True})
    assert ended(server, job["id"])["totals"] == {"eligible": 4}
    restored = server.api("POST", f"{letters}/restore", {"dismissal": answer["id"]})
    assert restored["count"] == 2
    until(lambda: counts(server, group)["open"] == 6, limit_s=LIMIT_S)


def test_two_servers_have_the_same_users_and_the_same_trail(pair: tuple[Sharing, Sharing]) -> None:
    one, two = pair
    one.api("POST", "/topics", {"name": f"topic-{uuid4().hex[:10]}"})
    assert [each["action"] for each in two.api("GET", "/audit")["items"]] == ["topic.create"]
    one.api("POST", "/users", {"name": "ann", "password": "long enough 1", "role": "admin"})
    until(lambda: two.ask("GET", "/api/v1/topics")[0] == 401, limit_s=LIMIT_S)


def test_two_servers_send_once_though_one_is_killed(
    pair: tuple[Sharing, Sharing], cluster: ApacheCluster, topic: str, group: str
) -> None:
    one, two = pair
    bodies = [f"m{n}" for n in range(400)]
    bury(one, topic, group, bodies)
    new = {"to": "group", "rate": 60}
    job = one.api("POST", f"/groups/{group}/dead-letters/redrive", new)

    def examined() -> int:
        answer: int = two.api("GET", f"/replays/{job['id']}")["examined"]
        return answer

    until(lambda: examined() > 60, limit_s=LIMIT_S)
    one.kill()
    at = examined()
    assert at < 400
    until(lambda: examined() > at + 20, limit_s=LIMIT_S)
    two.api("PATCH", f"/replays/{job['id']}", {"rate": 0})
    assert ended(two, job["id"])["totals"] == {"sent": 400}
    again = Counter(each["body"] for each in received(two, topic, group, 400))
    assert again == dict.fromkeys(bodies, 1)
    assert counts(two, group)["resent"] == 400
