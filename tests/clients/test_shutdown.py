"""How long clients take to leave; `-s` prints a line of a table for each."""

import sys
import time

import pytest

from tests.clients.official import Client, Official

# The clients wait their polls out, which are of 5 s at most; waiting for one of 20 s is too long.
LEAVES_S = 15.0
TRIES = 2  # a busy machine may hold one up; what waits for a poll does so each time
POLLED_S = 6.0  # after it a push consumer has had an empty poll


@pytest.mark.needs("push")
@pytest.mark.parametrize("after_s", [0.0, POLLED_S])
def test_a_push_consumer_leaves_soon(official: Official, topic: str, after_s: float):
    producer, what = official.producer(topic), f"push, {after_s:g} s after a message"
    for _ in range(TRIES):
        producer.send(topic, "1")
        consumer = official.push(topic, {topic: "*"})
        consumer.heard(1)
        time.sleep(after_s)
        if left_s(official, consumer, what) < LEAVES_S:
            return
    pytest.fail(f"{what}: no shutdown of {TRIES} took less than {LEAVES_S:g} s")


@pytest.mark.parametrize("is_polling", [False, True])
def test_a_simple_consumer_leaves_soon(official: Official, topic: str, is_polling: bool):
    official.producer(topic).send(topic, "1")
    consumer = official.simple(topic, {topic: "*"})
    consumer.take(1)
    if is_polling:
        official.begin("receive", name=consumer.name, max=16, invisible_s=30)
        time.sleep(0.5)
    which = "simple, in a poll of 3 s" if is_polling else "simple"
    assert left_s(official, consumer, which) < LEAVES_S


def test_a_producer_leaves_soon(official: Official, topic: str):
    producer = official.producer(topic)
    producer.send(topic, "1")
    assert left_s(official, producer, "producer") < LEAVES_S


def left_s(official: Official, client: Client, which: str) -> float:
    """How long a client takes to shut down."""
    begun_s = time.monotonic()
    client.shutdown()
    took_s = time.monotonic() - begun_s
    driver = official.driver
    sys.stdout.write(f"\n| {driver.language} {driver.version} | {which} | {took_s:.1f} s |")
    return took_s
