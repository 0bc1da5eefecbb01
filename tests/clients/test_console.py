"""The console's page of clients names the official ones, and says what they hold."""

import httpx

from tests.clients.official import Official
from tests.grpc.door import Served

# To the question for its threads, and to process a message.
ANSWERS = {
    "python": ("no_answer", "", "no_answer"),
    "node": ("answered", "mock stack", "not_offered"),
}
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


def test_what_a_client_is_asked_ends_with_its_answer_or_says_that_none_came(
    official: Official, server: Served, topic: str
):
    consumer = official.push(topic, {topic: "*"})
    official.producer(topic).send(topic, "1")
    (event,) = official.wait_events(consumer.name, 1)
    with httpx.Client(base_url=f"{server.url}/api/v1", timeout=30) as api:
        (member,) = api.get(f"/groups/{topic}/members").json()["items"]
        client = {"client": member["client"]}
        stack = api.post("/clients/stack", json=client).json()
        (found,) = api.get(f"/messages/{event.message['message_id']}").json()["items"]
        place = {"topic": topic, "queue": found["queue"], "offset": found["offset"]}
        done = api.post(f"/groups/{topic}/members/verify", json=client | place).json()
        gone = api.post("/clients/disconnect", json=client).json()
    answers = (stack["answer"], stack["text"], done["verdict"])
    assert answers == ANSWERS[official.language]
    assert gone["groups"] == [topic]
    # It connects again, and consumes as before.
    official.producer(topic).send(topic, "2")
    assert len(official.wait_events(consumer.name, 2)) == 2
