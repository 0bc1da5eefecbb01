"""Each version of Java's client that Apache has published starts on every type of topic."""

from typing import Any

import httpx
import pytest

from tests.clients.conftest import Starter
from tests.clients.official import OLDER_JAVA, bodies
from tests.grpc.endpoint import Served

# What a message needs that is sent to a topic of the type; nobody creates the automatic one.
FIELDS: dict[str, dict[str, Any]] = {
    "AUTOMATIC": {},
    "NORMAL": {},
    "FIFO": {"message_group": "one"},
    "DELAY": {"deliver_at_ms": 1},
    "TRANSACTION": {"transaction": "commit"},
}


@pytest.mark.parametrize("version", OLDER_JAVA)
def test_a_version_of_java_sends_and_receives_on_topics_of_every_type(
    version: str, server: Served, api: httpx.Client, topic: str, start: Starter
):
    topics = {f"{topic}-{kind}": kind for kind in FIELDS}
    for name, kind in topics.items():
        if kind != "AUTOMATIC":
            api.post("/topics", json={"name": name, "type": kind}).raise_for_status()
    official = start(version, server.address, tls=True)
    # One topic for each client: Java 5.0.0 starts with several only now and then, as it writes
    # their settings to its stream from several threads at once.
    for name, kind in topics.items():
        producer = official.producer(name, checks={"TRANSACTION": "commit"})
        producer.send(name, kind, **FIELDS[kind])
        assert bodies(official.simple(name, {name: "*"}).take(1)) == [kind]
    listener = official.push(f"{topic}-push", {topic + "-NORMAL": "*"})
    assert [each["topic"] for each in listener.heard(1)] == [f"{topic}-NORMAL"]
