"""Consumers of the official clients: filters, order, failures, handles, several of them at once."""

import itertools
import time
from collections import Counter, defaultdict
from typing import Any

import httpx
import pytest

from protocol.rocketmq.numbers import Code
from tests.clients.conftest import Processes
from tests.clients.official import (
    DRIVERS,
    Client,
    ClientError,
    Event,
    Official,
    Way,
    bodies,
    body_of,
    clients,
)

RETRY_S = 1.0
SLOW_S = 0.5  # of a listener
SLOW_COUNT = 10
LANES = ("red", "green", "blue")


def made(
    api: httpx.Client, name: str, kind: str = "NORMAL", retry_max: int = 2, *, ordered: bool = False
) -> None:
    """A topic, and a group of the same name that tries again soon."""
    api.post("/topics", json={"name": name, "type": kind}).raise_for_status()
    waits_ms = [round(RETRY_S * 1000)] * retry_max
    policy = {"kind": "steps", "delays_ms": waits_ms}
    group = {"name": name, "retry_max": retry_max, "retry_policy": policy, "ordered": ordered}
    api.post("/groups", json=group).raise_for_status()


def dead_letters(api: httpx.Client, group: str) -> list[dict[str, Any]]:
    """A group's dead letters, once it has some."""
    until_s = time.monotonic() + 30
    while True:
        found: list[dict[str, Any]] = api.get(f"/groups/{group}/dead-letters").json()["items"]
        if found or time.monotonic() > until_s:
            return found
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("hot || cold", {"0", "1", "3", "4"}),
        ("warm", {"2", "5"}),
        ("SQL: amount >= 3 AND shop = 'north'", {"4"}),
        ("SQL: amount BETWEEN 1 AND 2 OR shop IS NULL", {"1", "2", "5"}),
    ],
)
def test_a_filter_lets_through_what_it_names(
    official: Official, topic: str, text: str, wanted: set[str]
):
    producer = official.producer(topic)
    for number, tag in enumerate(("hot", "cold", "warm") * 2):
        shop = {} if number == 5 else {"shop": ("south", "north")[number == 4]}
        properties = {"amount": str(number), **shop}
        producer.send(topic, str(number), tag=tag, properties=properties)
    taken = official.simple(topic, {topic: text}).take(len(wanted))
    assert set(bodies(taken)) == wanted
    if "push" in official.driver.lacks:
        return
    pushed = official.push(f"{topic}-push", {topic: text})
    assert set(bodies(pushed.heard(len(wanted)))) == wanted


@pytest.mark.needs("push")
def test_a_message_group_stays_in_order_though_one_message_fails_for_good(
    official: Official, api: httpx.Client, topic: str
):
    made(api, topic, "FIFO", retry_max=1, ordered=True)
    producer = official.producer(topic)
    for number in range(6):
        for lane in LANES:
            producer.send(topic, f"{lane} {number}", message_group=lane)
    consumer = official.push(topic, {topic: "*"}, fails={"red 2": 100})
    heard = consumer.heard(6 * len(LANES) + 1)  # "red 2" twice: it was tried again
    order: dict[str, list[str]] = defaultdict(list)
    for message in heard:
        order[message["message_group"]].append(body_of(message))
    assert order.pop("red") == ["red 0", "red 1", "red 2", "red 2", "red 3", "red 4", "red 5"]
    assert order == {lane: [f"{lane} {number}" for number in range(6)] for lane in LANES[1:]}
    (dead,) = dead_letters(api, topic)
    assert dead["message"]["body"] == "red 2"


@pytest.mark.needs("push")
def test_an_ordered_group_keeps_the_order_of_a_client_that_subscribes_to_more(
    official: Official, api: httpx.Client, topic: str
):
    """What fails comes back by the server's schedule, and its message group waits for it."""
    other = f"{topic}-other"
    made(api, topic, "FIFO", retry_max=1, ordered=True)
    made(api, other)
    producer = official.producer(topic, other)
    for number in range(4):
        for lane in LANES:
            producer.send(topic, f"{lane} {number}", message_group=lane)
    for number in range(SLOW_COUNT):
        producer.send(other, f"other {number}")
    fails = {"red 1": 1, "blue 2": 100}
    consumer = official.push(topic, {topic: "*", other: "*"}, fails=fails, slow_s=SLOW_S)
    official.wait_events(consumer.name, 4 * len(LANES) + 2 + SLOW_COUNT)
    heard: dict[str, list[Event]] = defaultdict(list)
    for event in official.events(consumer.name):
        heard[event.message["message_group"]].append(event)
    assert told(heard["red"]) == ["red 0", "red 1", "red 1", "red 2", "red 3"]
    assert told(heard["green"]) == [f"green {number}" for number in range(4)]
    assert told(heard["blue"]) == ["blue 0", "blue 1", "blue 2", "blue 2", "blue 3"]
    for lane in LANES:
        assert together(heard[lane]) == 1, f"{lane}: two at once"
    assert together(heard[""]) > 1, "messages of the other topic wait for each other"
    (dead,) = dead_letters(api, topic)
    assert dead["message"]["body"] == "blue 2"


@pytest.mark.needs("push")
def test_an_unordered_group_gets_one_message_group_side_by_side(
    official: Official, api: httpx.Client, topic: str
):
    """The group creates itself."""
    api.post("/topics", json={"name": topic, "type": "FIFO"}).raise_for_status()
    producer = official.producer(topic)
    for number in range(SLOW_COUNT):
        producer.send(topic, str(number), message_group="red")
    consumer = official.push(topic, {topic: "*"}, slow_s=SLOW_S)
    official.wait_events(consumer.name, SLOW_COUNT)
    assert together(official.events(consumer.name)) > 1
    assert api.get(f"/groups/{topic}").json()["ordered"] is False


def told(events: list[Event]) -> list[str]:
    return [body_of(event.message) for event in events]


def together(events: list[Event]) -> int:
    """How many messages a listener that takes SLOW_S for each had in hand at the same time."""
    begins = sorted(event.at_s for event in events)
    return max(
        sum(begin <= later < begin + SLOW_S * 0.9 for later in begins)  # the two clocks' steps
        for begin in begins
    )


@pytest.mark.needs("push")
def test_a_message_that_fails_is_tried_again_on_schedule_and_then_dead(
    official: Official, api: httpx.Client, topic: str
):
    made(api, topic)
    producer = official.producer(topic)
    sent = producer.send(topic, "poison")
    producer.send(topic, "once")
    consumer = official.push(topic, {topic: "*"}, fails={"poison": 100, "once": 1})
    official.wait_events(consumer.name, 5)
    (dead,) = dead_letters(api, topic)
    heard: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for event in official.events(consumer.name):
        heard[body_of(event.message)].append((event.message["attempt"], event.at_s))
    assert [attempt for attempt, _ in heard["poison"]] == [1, 2, 3]
    assert [attempt for attempt, _ in heard["once"]] == [1, 2]
    times_s = [at_s for _, at_s in heard["poison"]]
    waits_s = [later - earlier for earlier, later in itertools.pairwise(times_s)]
    assert min(waits_s) >= RETRY_S * 0.9  # the two clocks' steps; one client would not wait at all
    assert dead["message"]["message_id"] == sent["message_id"]
    assert (dead["reason"], dead["failures"]) == ("attempts_exhausted", 3)


@pytest.mark.needs("change")
def test_a_changed_time_counts_and_the_handle_before_it_is_worth_nothing(
    official: Official, api: httpx.Client, topic: str
):
    official.producer(topic).send(topic, "later")
    consumer = official.simple(topic, {topic: "*"})
    (first,) = received(consumer)
    handle = consumer.change(first, 2)
    assert handle != first["handle"]
    (again,) = received(consumer)
    assert (again["message_id"], again["attempt"]) == (first["message_id"], 2)
    for worthless in (first["handle"], handle):
        if "refusal" in official.driver.lacks:
            consumer.ack({"handle": worthless})
            continue
        with pytest.raises(ClientError) as refused:
            consumer.ack({"handle": worthless})
        assert refused.value.code == Code.INVALID_RECEIPT_HANDLE
    assert lag(api, topic) == 1
    consumer.ack(again)
    assert lag(api, topic) == 0
    assert consumer.receive() == []


def received(consumer: Any) -> list[dict[str, Any]]:
    """What comes next, whenever it does."""
    until_s = time.monotonic() + 30
    while not (found := consumer.receive()):
        assert time.monotonic() < until_s, "nothing came"
    return list(found)


def test_an_invisible_time_that_is_too_short_is_refused_by_name(official: Official, topic: str):
    official.producer(topic).send(topic, "x")
    consumer = official.simple(topic, {topic: "*"})
    with pytest.raises(ClientError, match="invisible") as refused:
        consumer.receive(invisible_s=1)
    assert refused.value.code == Code.ILLEGAL_INVISIBLE_TIME


def test_all_languages_share_one_group(processes: Processes, api: httpx.Client, topic: str):
    made(api, topic)
    officials = {
        client: processes(Way(client, "plain" in DRIVERS[client].lacks))
        for client in clients(needs=("push",))
    }
    consumers = {
        client: official.push(topic, {topic: "*"}, slow_s=0.05)
        for client, official in officials.items()
    }
    producers = [official.producer(topic) for official in officials.values()]
    sent = 0
    until_s = time.monotonic() + 120
    while not all(officials[client].events(each.name) for client, each in consumers.items()):
        assert time.monotonic() < until_s, "one of them gets nothing"
        for producer in producers:
            producer.send(topic, str(sent))
            sent += 1
    while lag(api, topic):
        assert time.monotonic() < until_s, "not all of it is settled"
        time.sleep(0.1)
    while (heard := counts(officials, consumers)).total() < sent:
        assert time.monotonic() < until_s, "not all of it was heard"
        time.sleep(0.1)
    assert heard == Counter(map(str, range(sent)))
    members = api.get(f"/groups/{topic}/members").json()["items"]
    assert {each["language"] for each in members} == {
        DRIVERS[client].language for client in officials
    }
    for consumer in (*consumers.values(), *producers):
        consumer.shutdown()
    assert api.get(f"/groups/{topic}/members").json()["items"] == []


def counts(officials: dict[str, Official], consumers: dict[str, Client]) -> Counter[str]:
    """How often each body was heard, over all consumers."""
    return Counter(
        body_of(event.message)
        for client, consumer in consumers.items()
        for event in officials[client].events(consumer.name)
    )


def lag(api: httpx.Client, group: str) -> int:
    found: int = api.get(f"/groups/{group}/lag").json()["count"]
    return found
