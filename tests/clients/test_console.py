"""The console's page of clients names the official ones, and says what they hold."""

import httpx

from tests.clients.official import Official
from tests.grpc.door import Served

NAMES = {"python": ("PYTHON", "5.1.2"), "node": ("NODE_JS", "1.0.8")}


def test_the_page_of_clients_shows_language_version_settings_and_what_is_held(
    official: Official, server: Served, topic: str
):
    language, version = NAMES[official.language]
    producer = official.producer(topic)
    for number in range(3):
        producer.send(topic, str(number))
    consumer = official.simple(topic, {topic: "*"})
    held: list[object] = []
    while len(held) < 3:
        held += consumer.receive()
    page = httpx.get(f"{server.url}/clients", params={"format": "json", "q": topic, "size": "200"})
    members = [each for each in page.json()["cut"]["rows"] if each["group"] == topic]
    (member,) = members
    assert (member["language"], member["version"]) == (language, version)
    assert (member["inflight"], member["topics"]) == (3, [topic])
    (connection,) = [
        each for each in page.json()["connections"] if each["client"] == member["client"]
    ]
    assert connection["door"] == "gRPC"
    assert connection["about"].startswith(f"{language} {version}, simple consumer, telemetry; ")
    assert "17 attempts" in connection["about"]
