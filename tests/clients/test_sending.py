"""Producers of the official clients: what they send arrives, what is wrong is told to them."""

import time

import httpx
import pytest

from tests.clients.official import Client, ClientError, Official, bodies, body_of

BODY_BYTES_MAX = 4 * 1024 * 1024
HEADROOM_BYTES = 64 * 1024  # for clients whose own channel receives 4 MiB and no more


def made(api: httpx.Client, name: str, kind: str) -> str:
    """A topic of a type, made by hand, so that the type is checked."""
    api.post("/topics", json={"name": name, "type": kind}).raise_for_status()
    return name


def test_whatever_is_sent_is_received_and_settled(
    official: Official, api: httpx.Client, topic: str
):
    producer = official.producer(topic)
    sent = {producer.send(topic, f"{number}")["message_id"]: f"{number}" for number in range(20)}
    consumer = official.simple(topic, {topic: "*"})
    taken = consumer.take(20)
    assert {each["message_id"]: body_of(each) for each in taken} == sent
    assert {each["attempt"] for each in taken} == {1}
    assert not any(each["corrupted"] for each in taken)
    assert lag(api, topic) == 0


def lag(api: httpx.Client, group: str) -> int:
    """What a group has still to do."""
    found: int = api.get(f"/groups/{group}/lag").json()["count"]
    return found


@pytest.mark.needs("recall")
def test_a_message_that_waits_comes_when_it_is_due_and_not_once_it_was_recalled(
    official: Official, api: httpx.Client, topic: str
):
    made(api, topic, "DELAY")
    producer = official.producer(topic)
    due_ms = (int(time.time()) + 6) * 1000  # after both sends, however slow they are
    sent = producer.send(topic, "soon", deliver_at_ms=due_ms)
    recalled = producer.send(topic, "never", deliver_at_ms=due_ms + 3_600_000)
    assert producer.recall(topic, recalled["recall_handle"]) == recalled["message_id"]
    waiting = api.get("/scheduled", params={"topic": topic}).json()["items"]
    assert recalled["message_id"] not in {each["message_id"] for each in waiting}
    (message,) = official.simple(topic, {topic: "*"}).take(1)
    assert time.time() * 1000 >= due_ms
    assert (body_of(message), message["message_id"]) == ("soon", sent["message_id"])
    assert message["deliver_at_ms"] == due_ms
    with pytest.raises(ClientError):
        producer.recall(topic, sent["recall_handle"])


def test_a_transaction_is_delivered_once_it_was_committed_and_never_once_rolled_back(
    official: Official, api: httpx.Client, topic: str
):
    made(api, topic, "TRANSACTION")
    checks = {"left, then yes": "commit", "left, then no": "rollback"}
    producer = official.producer(topic, name=topic, checks=checks)
    receipts = {
        body: producer.send(topic, body, transaction=transaction)
        for body, transaction in {
            "yes": "commit",
            "no": "rollback",
            "left, then yes": "leave",
            "left, then no": "leave",
        }.items()
    }
    taken = official.simple(topic, {topic: "*"}).take(2)
    assert sorted(bodies(taken)) == ["left, then yes", "yes"]
    assert {body_of(each): each["message_id"] for each in taken} == {
        body: receipts[body]["message_id"] for body in ("yes", "left, then yes")
    }
    asked = official.wait_events(topic, 2, "check")
    while {body_of(each.message) for each in asked} != set(checks):  # one of them twice
        asked = official.wait_events(topic, len(asked) + 1, "check")
    states = {body: decided(api, receipt["transaction_id"]) for body, receipt in receipts.items()}
    assert states == {
        "yes": "committed",
        "no": "rolled_back",
        "left, then yes": "committed",
        "left, then no": "rolled_back",
    }


def decided(api: httpx.Client, transaction: str) -> str:
    """What became of a transaction, once it is decided."""
    until_s = time.monotonic() + 30
    while True:
        state = str(api.get(f"/transactions/{transaction}").json()["state"])
        if state in ("committed", "rolled_back") or time.monotonic() > until_s:
            return state
        time.sleep(0.1)


def test_the_largest_body_that_clients_are_told_of_goes_through_and_no_larger_one(
    official: Official, topic: str
):
    producer = official.producer(topic)
    headroom_bytes = HEADROOM_BYTES if "4 MiB" in official.driver.lacks else 0
    told_bytes = BODY_BYTES_MAX - headroom_bytes
    unheard_bytes = headroom_bytes if official.client == "rust" else 0  # it asks the server alone
    body = bytes(range(256)) * (told_bytes // 256)
    producer.send(topic, body)
    (message,) = official.simple(topic, {topic: "*"}).take(1)
    assert len(message["body"]) == -(-told_bytes // 3) * 4
    assert not message["corrupted"]
    with pytest.raises(ClientError, match=r"(?i)exceed|too.large"):
        producer.send(topic, body + b"x" * (1 + unheard_bytes))


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("NORMAL", {"message_group": "g"}),
        ("NORMAL", {"deliver_at_ms": 4_000_000_000_000}),
        ("NORMAL", {"transaction": "commit"}),
        ("FIFO", {}),
        ("DELAY", {}),
        ("TRANSACTION", {}),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value) or "plain",
)
def test_a_topic_takes_messages_of_its_own_type_only(
    official: Official, api: httpx.Client, topic: str, kind: str, fields: dict[str, object]
):
    made(api, topic, kind)
    producer = official.producer(topic, checks={})
    # Most clients look into the route; Rust leaves it to the server.
    with pytest.raises(ClientError, match=r"(?i)type not match|is an? [A-Z]+ topic and takes no"):
        producer.send(topic, "wrong", **fields)
    assert api.get(f"/topics/{topic}").json()["messages"] == 0


@pytest.mark.needs("priority")
def test_a_priority_reaches_the_consumer(official: Official, topic: str):
    producer: Client = official.producer(topic)
    producer.send(topic, "urgent", priority=7)
    (message,) = official.simple(topic, {topic: "*"}).take(1)
    assert (body_of(message), message["priority"]) == ("urgent", 7)
