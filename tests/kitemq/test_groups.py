"""Groups from Python and from the command line: pause, members, shares of queues, locks."""

import pytest

from kitemq import Client, Consumer, Message, Producer
from kitemq.errors import Invalid, Refused
from kitemq.model.groups import GroupStatus
from tests.kitemq.test_cli import OK, REFUSED, documents, inside
from tests.live import LiveServer

pytestmark = pytest.mark.makers


@pytest.mark.capabilities("group_policies")
def test_a_group_is_set_up_paused_and_resumed_by_command(
    server: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with Client(server.url) as client:
        client.topics.create("orders")
    given = ["--retry", "exponential:1s,10m,1.5", "--strategy", "circle", "--mode", "clustering"]
    given.append("--ordered")
    code, out, _ = inside(server, capsys, "groups", "create", "g", "--start-at", "5", *given)
    assert code == OK
    [group] = documents(out)
    assert (group["start"], group["start_at_ms"], group["strategy"]) == ("time", 5, "circle")
    assert group["ordered"] is True
    assert group["retry_policy"] == {
        "kind": "exponential",
        "initial_ms": 1000,
        "max_ms": 600_000,
        "multiplier": 1.5,
    }
    given = [
        "--retry",
        "steps:250ms,1m",
        "--strategy",
        "machine_room",
        "--room",
        "a",
        "--room",
        "b",
    ]
    _, out, _ = inside(server, capsys, "groups", "change", "g", *given)
    assert documents(out)[0]["retry_policy"] == {"kind": "steps", "delays_ms": [250, 60_000]}
    assert documents(out)[0]["rooms"] == ["a", "b"]
    assert documents(out)[0]["ordered"] is True
    _, out, _ = inside(server, capsys, "groups", "change", "g", "--no-ordered")
    assert documents(out)[0]["ordered"] is False
    _, out, _ = inside(server, capsys, "groups", "list")
    assert documents(out)[0]["ordered"] is False
    _, out, _ = inside(server, capsys, "groups", "pause", "g")
    assert documents(out)[0]["paused"]
    _, out, _ = inside(server, capsys, "groups", "pause", "g", "--topic", "orders")
    assert documents(out)[0]["paused_topics"] == ["orders"]
    inside(server, capsys, "groups", "resume", "g")
    _, out, _ = inside(server, capsys, "groups", "resume", "g", "--topic", "orders")
    assert (documents(out)[0]["paused"], documents(out)[0]["paused_topics"]) == (False, [])


@pytest.mark.parametrize(
    "policy",
    ["random", "steps", "steps:soon", "exponential:1s", "exponential:1s,2s,x", "ladder:1s"],
)
def test_a_policy_that_is_none_is_refused_with_an_example(
    server: LiveServer, capsys: pytest.CaptureFixture[str], policy: str
) -> None:
    code, _, error = inside(server, capsys, "groups", "create", "g", "--retry", policy)
    assert code == REFUSED
    assert "--retry" in error
    with Client(server.url) as client:
        assert list(client.groups.list()) == []


def test_groups_are_listed_by_their_status(
    server: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with Client(server.url) as client:
        client.groups.create("quiet")
        client.groups.create("stopped")
        client.groups.pause("stopped")
        assert client.groups.get("quiet").status is GroupStatus.IDLE
        paused = list(client.groups.list(status=GroupStatus.PAUSED))
        assert [(each.name, each.status_reason) for each in paused] == [("stopped", "paused")]
        with pytest.raises(Invalid):
            list(client.groups.list(status="asleep"))
    code, out, _ = inside(server, capsys, "groups", "list", "--status", "idle")
    assert code == OK
    assert [(row["name"], row["status"]) for row in documents(out)] == [("quiet", "idle")]


@pytest.mark.capabilities("member_shares")
def test_members_and_locks_are_listed_and_a_difference_is_noted(
    server: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with Client(server.url) as client:
        client.topics.create("orders")
        client.members.heartbeat("g", "w1", topics={"orders": "a"}, version="1.2")
        client.members.heartbeat("g", "w2", topics={"orders": "b"})
        client.members.lock("g", "w1", "orders", [0, 1])
    code, out, error = inside(server, capsys, "groups", "members", "g")
    assert code == OK
    assert [(row["client"], row["language"], row["version"]) for row in documents(out)] == [
        ("w1", "PYTHON", "1.2"),
        ("w2", "PYTHON", ""),
    ]
    assert "subscriptions_differ" in error
    assert "w1 to orders (a); w2 to orders (b)" in error
    _, out, _ = inside(server, capsys, "groups", "locks", "g", "--topic", "orders")
    assert [(row["queue"], row["client"]) for row in documents(out)] == [(0, "w1"), (1, "w1")]


@pytest.mark.capabilities("member_shares")
def test_pulling_consumers_share_queues_lock_them_and_leave(server: LiveServer) -> None:
    with Client(server.url) as client:
        client.topics.create("orders", read_queues=4, write_queues=4)
        for name in ("w1", "w2"):
            client.members.heartbeat("g", name, topics={"orders": "*"})
        assert client.members.warnings("g") == []
        assert client.members.assignment("g", "orders", "w1") == [0, 1]
        assert client.members.assignment("g", "orders", "w2", strategy="circle") == [1, 3]
        assert client.members.assignment("g", "orders", "w3") == []
        assert client.members.lock("g", "w1", "orders", [0, 1]) == [0, 1]
        assert client.members.lock("g", "w2", "orders", [1, 2]) == [2]
        assert client.members.unlock("g", "w1", "orders", [0, 2]) == [0]
        client.members.leave("g", "w1")
        assert [each.client for each in client.members.list("g")] == ["w2"]
        assert [each.queue for each in client.members.locks("g")] == [2]
        assert client.members.assignment("g", "orders", "w2") == [0, 1, 2, 3]
        [reading] = client.members.queues("g")
        assert [each.queue for each in reading.queues or ()] == [0, 1, 2, 3]


@pytest.mark.capabilities("group_policies")
def test_a_broadcast_client_commits_and_reads_its_own_offsets(server: LiveServer) -> None:
    with Client(server.url) as client:
        client.topics.create("orders", read_queues=1, write_queues=1)
        client.messages.send("orders", [Message(body="a")])
        client.groups.create("g", mode="broadcast")
        client.groups.commit_offset("g", "orders", 0, 1, client="w1")
        assert client.groups.offsets("g", "orders", client="w1").queues[0].offset == "1"
        assert client.groups.offsets("g", "orders", client="w2").queues[0].offset is None
        with pytest.raises(Invalid):
            client.groups.commit_offset("g", "orders", 0, 1)


def test_a_consumer_lives_through_a_pause(server: LiveServer) -> None:
    with Client(server.url) as client, Producer(server.url) as producer:
        client.topics.create("orders")
        client.groups.create("g")
        client.groups.pause("g")
        with pytest.raises(Refused):
            client.deliveries.receive("g", "orders")
        with Consumer("g", "orders", server=server.url) as consumer:
            producer.send("orders", "a")
            client.groups.resume("g")
            message = next(iter(consumer))
            assert message.text == "a"
            message.ack()
