"""What official clients send is what REST shows, and the other way round, field by field."""

import base64
from typing import Any

import httpx

from tests.clients.official import Official

BODY = bytes(range(256)) + "茶 ☕".encode()
PROPERTIES = {"shop": "north", "size": "ß ☕"}


def by_rest(api: httpx.Client, topic: str) -> dict[str, Any]:
    """The message that a group of its own is handed out by REST, its keys in order of names.

    The Python client keeps keys as a set, and so sends them in any order.
    """
    answer = api.post(
        "/groups/rest/receive",
        params={"encoding": "base64"},
        json={"topic": topic, "wait_ms": 5000},
    )
    (found,) = answer.raise_for_status().json()["deliveries"]
    return found | {"keys": sorted(found["keys"])}


def compare(official: Official, message: dict[str, Any], rest: dict[str, Any]) -> None:
    """All that the client shows of a message is as REST has it."""
    unit_ms = official.driver.born_unit_ms
    rest = rest | {"born_ms": rest["born_ms"] // unit_ms * unit_ms}
    assert base64.b64decode(message["body"]) == BODY
    assert message["message_id"] == rest["message_id"]
    assert message["topic"] == rest["origin_topic"]
    same = ("body", "tag", "keys", "message_group", "attempt", "born_host", "born_ms")
    assert {name: message[name] for name in same} == {name: rest[name] for name in same}
    for properties in (message["properties"], rest["properties"]):
        assert properties.items() >= PROPERTIES.items()
    assert not message["corrupted"]


def test_what_a_client_sends_is_shown_by_rest(official: Official, api: httpx.Client, topic: str):
    producer = official.producer(topic)
    fields = {"tag": "hot", "keys": ["k1", "k2"], "properties": PROPERTIES, "message_group": "lane"}
    sent = producer.send(topic, BODY, **fields)
    rest = by_rest(api, topic)
    assert {**fields, "properties": rest["properties"]}.items() <= rest.items()
    assert rest["message_id"] == sent["message_id"]
    if "offset" not in official.driver.lacks:
        assert rest["offset"] == str(sent["offset"])
    (message,) = official.simple(topic, {topic: "*"}).take(1)
    compare(official, message, rest)


def test_what_rest_sends_reaches_a_client(official: Official, api: httpx.Client, topic: str):
    sent = {
        "body": base64.b64encode(BODY).decode(),
        "encoding": "base64",
        "tag": "hot",
        "keys": ["k1", "k2"],
        "properties": PROPERTIES | {"KITE_PRIORITY": "3"},
        "message_group": "lane",
        "born_ms": 1_700_000_000_123,
    }
    stored = api.post(f"/topics/{topic}/messages", json=sent).raise_for_status().json()
    (message,) = official.simple(topic, {topic: "*"}).take(1)
    assert message["message_id"] == stored["messages"][0]["message_id"]
    assert (message["tag"], message["keys"]) == ("hot", ["k1", "k2"])
    assert message["message_group"] == "lane"
    if "priority" not in official.driver.lacks:
        assert message["priority"] == 3
    compare(official, message, by_rest(api, topic))
