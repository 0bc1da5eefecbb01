"""Requests and replies before Apache's brokers: two server processes, a late reply, a lost broker.

And the SDK's own tests of requests, which the embedded engine passes, too.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest

from kitemq import (
    Client,
    Consumer,
    KiteError,
    NoReply,
    Producer,
    Received,
    Reply,
    ReplyResult,
)
from tests.kitemq import test_requests as suite
from tests.patience import until
from tests.rocketmq.cluster import ApacheCluster
from tests.rocketmq.test_serve import Gateway
from tests.rocketmq.test_verbs import pytestmark

__all__ = ["pytestmark"]

LIMIT_S = 60.0
Results = list[ReplyResult | KiteError]


@pytest.fixture(scope="module")
def gateways(
    cluster: ApacheCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Gateway, Gateway]]:
    """Two server processes before the cluster: one is asked, the other has the consumers."""
    root = tmp_path_factory.mktemp("gateways")
    with (
        Gateway(root / "asked", cluster.name_server) as first,
        Gateway(root / "answering", cluster.name_server) as second,
    ):
        yield first, second


@pytest.fixture
def topic(gateways: tuple[Gateway, Gateway]) -> str:
    name = f"prices-{uuid4().hex[:8]}"
    with Client(gateways[0].url) as client:
        client.topics.create(name)
    return name


@contextmanager
def answering(url: str, topic: str, handler: Callable[[Received], None]) -> Iterator[None]:
    """A consumer of the topic at this server."""
    with Consumer(f"shop-{topic}", topic, url) as consumer:
        thread = threading.Thread(target=consumer.run, args=(handler,), daemon=True)
        thread.start()
        yield
        consumer.stop()
        thread.join(LIMIT_S)


def test_a_request_at_one_server_is_answered_at_another(
    gateways: tuple[Gateway, Gateway], topic: str
) -> None:
    results: Results = []

    def upper(message: Received) -> None:
        message.reply(message.body.upper(), tag="t", on_replied=results.append)

    with answering(gateways[1].url, topic, upper), Producer(gateways[0].url) as producer:
        replies = [producer.request(topic, f"tea {n}", timeout_s=20) for n in range(8)]
        assert [each.text for each in replies] == [f"TEA {n}" for n in range(8)]
        until(lambda: len(results) == 8)
    assert set(results) == {ReplyResult.DELIVERED}
    for each in gateways:
        with Client(each.url) as client:
            reply = until(lambda: _kept(client, replies[0].correlation_id))
            assert reply is not None
            assert (reply.body, reply.tag, reply.late) == (b"TEA 0", "t", False)
            assert client.messages.reply("x", correlation_id=reply.correlation_id) == "already"


def test_a_reply_of_another_server_that_comes_too_late_is_kept(
    gateways: tuple[Gateway, Gateway], topic: str
) -> None:
    results: Results = []
    go = threading.Event()

    def slow(message: Received) -> None:
        go.wait(LIMIT_S)
        message.reply("late", on_replied=results.append)

    with answering(gateways[1].url, topic, slow), Producer(gateways[0].url) as producer:
        with pytest.raises(NoReply) as missed:
            producer.request(topic, "tea", timeout_s=1)
        go.set()
        until(lambda: bool(results))
    assert results == [ReplyResult.LATE]
    counts = gateways[0].api("GET", "/requests")
    assert (counts["expired"], counts["late"], counts["waiting"]) == (1, 1, 0)
    for each in gateways:
        with Client(each.url) as client:
            reply = until(lambda: _kept(client, missed.value.correlation_id))
            assert reply is not None
            assert (reply.text, reply.late) == ("late", True)


def test_a_request_that_is_retried_is_answered_by_its_receipt_at_another_server(
    gateways: tuple[Gateway, Gateway], topic: str
) -> None:
    replies: list[Reply] = []

    def ask() -> None:
        with Client(gateways[0].url) as client:
            replies.append(client.messages.request(topic, "tea", timeout_s=30))

    asking = threading.Thread(target=ask)
    asking.start()
    with Client(gateways[1].url) as client:
        (failed,) = client.deliveries.receive(f"shop-{topic}", topic, wait_s=20)
        client.deliveries.nack(f"shop-{topic}", [failed.receipt], delay_s=1)
        (again,) = client.deliveries.receive(f"shop-{topic}", topic, wait_s=20)
        assert again.attempt == 2
        assert client.messages.reply("3.50", receipt=again.receipt) == "delivered"
    asking.join(LIMIT_S)
    assert [each.text for each in replies] == ["3.50"]


def test_a_request_whose_broker_is_lost_names_it_and_others_go_on(
    gateways: tuple[Gateway, Gateway], cluster: ApacheCluster, topic: str
) -> None:
    first, second = gateways

    def ask(body: str, queue: int, timeout_ms: int) -> tuple[int, Any]:
        request = {"message": {"body": body, "queue": queue}, "timeout_ms": timeout_ms}
        return first.ask("POST", f"/api/v1/topics/{topic}/request", request)

    answers: list[tuple[int, Any]] = []
    asking = threading.Thread(target=lambda: answers.append(ask("tea", 1, 10_000)))
    asking.start()
    until(lambda: answers or first.api("GET", f"/topics/{topic}")["messages"] == 1)
    assert not answers
    cluster.kill("b")
    try:
        asking.join(LIMIT_S)
        ((status, problem),) = answers
        assert (status, problem["code"]) == (504, "timeout")
        assert "broker b, which has the request, is away; ask again" in problem["detail"]
        with answering(second.url, topic, lambda message: message.reply("there")):
            assert ask("tea", 0, 20_000)[1]["reply"]["body"] == "there"
    finally:
        cluster.restart("b")
    with answering(second.url, topic, lambda message: message.reply("back")):
        until(lambda: ask("tea", 1, 5000)[0] == 200, limit_s=LIMIT_S)


def _kept(client: Client, correlation_id: str) -> Reply | None:
    """The reply, once the brokers' index has it."""
    try:
        return client.messages.find_reply(correlation_id)
    except KiteError:
        return None


globals().update({name: test for name, test in vars(suite).items() if name.startswith("test_")})
