"""The console's page of clients names the official ones, and says what they hold."""

import html
import json
import re

import httpx
import pytest

from tests.clients.official import Official, body_of
from tests.grpc.endpoint import Served
from tests.patience import until

# To the question for its threads, how its text begins, and to process a message.
ANSWERS = {
    "python": ("no_answer", "", "no_answer"),
    "node": ("answered", "mock stack", "not_offered"),
    "java": ("answered", "", "consumed"),
    "java-5.0.4": ("answered", "", "consumed"),
    "go": ("answered", "", "not_offered"),
}


def test_the_page_of_clients_shows_language_version_settings_and_what_is_held(
    official: Official, server: Served, topic: str
):
    language, version = official.driver.language, official.driver.version
    producer = official.producer(topic)
    for number in range(3):
        producer.send(topic, str(number))
    consumer = official.simple(topic, {topic: "*"})
    held: list[object] = []
    while len(held) < 3:
        held += consumer.receive()
    listed = httpx.get(f"{server.url}/clients", params={"format": "ndjson", "q": topic})
    members = [json.loads(line) for line in listed.text.splitlines()]
    (member,) = [each for each in members if each["group"] == topic]
    assert (member["language"], member["version"]) == (language, version)
    subscribed = [] if "subscription" in official.driver.lacks else [topic]
    assert (member["in_flight"], member["topics"]) == (3, " ".join(subscribed))
    page = html.unescape(httpx.get(f"{server.url}/clients", params={"size": "200"}).text)
    rows = re.findall(r"<tr.*?</tr>", page, re.DOTALL)
    (connection,) = [row for row in rows if member["client"] in row and "telemetry" in row]
    assert "gRPC" in connection
    assert f"{language} {version}, simple consumer, telemetry; " in connection
    assert "17 attempts" in connection


@pytest.mark.needs("push")
def test_what_a_client_is_asked_ends_with_its_answer_or_says_that_none_came(
    official: Official, server: Served, topic: str
):
    consumer = official.push(topic, {topic: "*"})
    official.producer(topic).send(topic, "1")
    (event,) = official.wait_events(consumer.name, 1)
    with httpx.Client(base_url=f"{server.url}/api/v1", timeout=30) as api:
        # Until it is acknowledged, a disconnected client would get it again.
        until(lambda: api.get(f"/groups/{topic}/lag").json()["count"] == 0)
        (member,) = api.get(f"/groups/{topic}/members").json()["items"]
        client = {"client": member["client"]}
        stack = api.post("/clients/stack", json=client).json()
        (found,) = api.get(f"/messages/{event.message['message_id']}").json()["items"]
        place = {"topic": topic, "queue": found["queue"], "offset": found["offset"]}
        done = api.post(f"/groups/{topic}/members/verify", json=client | place).json()
        gone = api.post("/clients/disconnect", json=client).json()
    answer, text, verdict = ANSWERS[official.client]
    assert (stack["answer"], done["verdict"]) == (answer, verdict)
    assert stack["text"].startswith(text)
    assert gone["groups"] == [topic]
    # It connects again, and consumes as before.
    official.producer(topic).send(topic, "2")
    wanted = ["1", "1", "2"] if verdict == "consumed" else ["1", "2"]
    events = official.wait_events(consumer.name, len(wanted))
    assert [body_of(each.message) for each in events] == wanted
