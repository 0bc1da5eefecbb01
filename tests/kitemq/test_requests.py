"""Asking over a topic and replying, with the SDK, against a real server."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator

import pytest

from kitemq import (
    AsyncConsumer,
    AsyncProducer,
    Client,
    Consumer,
    Invalid,
    KiteError,
    Message,
    NoReply,
    NotFound,
    Producer,
    Received,
    Reply,
    ReplyResult,
    Unreachable,
)
from tests.live import LiveServer
from tests.patience import until

pytestmark = [pytest.mark.anyio, pytest.mark.makers]
WAIT_S = 10.0


def upper(message: Received) -> None:
    message.reply(message.body.upper(), tag="t", properties={"asked": message.tag or "none"})


@contextlib.contextmanager
def answering(server: LiveServer, handler: Callable[[Received], None]) -> Iterator[None]:
    """A consumer of `prices` that runs `handler`."""
    with Client(server.url) as client, contextlib.suppress(KiteError):
        client.topics.create(server.named("prices"))
    with Consumer(server.named("shop"), server.named("prices"), server.url) as consumer:
        thread = threading.Thread(target=consumer.run, args=(handler,), daemon=True)
        thread.start()
        yield
        consumer.stop()
        thread.join(WAIT_S)


def waiting(server: LiveServer) -> int:
    assert server.app is not None
    return int(server.app.services.messaging.requests.counts.waiting)


def test_a_request_gets_the_reply_of_a_consumer(server: LiveServer) -> None:
    with answering(server, upper), Producer(server.url) as producer:
        reply = producer.request(
            server.named("prices"), Message(body=b"tea \xff", tag="green"), timeout_s=5
        )
        assert isinstance(reply, Reply)
        assert (reply.body, reply.tag, reply.properties["asked"]) == (b"TEA \xff", "t", "green")
        assert producer.request(server.named("prices"), "milk").text == "MILK"
    with Client(server.url) as client:
        assert client.messages.find_reply(reply.correlation_id).body == b"TEA \xff"
        assert client.groups.lag(server.named("shop")).count == 0


async def test_many_requests_at_once_get_each_their_own(server: LiveServer) -> None:
    async def handler(message: Received) -> None:
        message.reply(b"re " + message.body)

    async with AsyncProducer(server.url) as producer:
        await producer.send(server.named("prices"), "begin")  # the topic
        async with AsyncConsumer(
            server.named("shop"), server.named("prices"), server.url
        ) as consumer:
            begin = await consumer.receive(5)
            assert begin is not None
            begin.ack()
            running = asyncio.create_task(consumer.run(handler, concurrency=8))
            asked = (
                producer.request(server.named("prices"), str(n), timeout_s=30) for n in range(300)
            )
            replies = await asyncio.gather(*asked)
            assert [reply.text for reply in replies] == [f"re {n}" for n in range(300)]
            await consumer.stop()
            await running


def test_a_late_reply_is_found_by_the_id_that_the_error_names(server: LiveServer) -> None:
    results: list[ReplyResult | KiteError] = []
    go = threading.Event()

    def slow(message: Received) -> None:
        go.wait(WAIT_S)
        message.reply("late", on_replied=results.append)

    with answering(server, slow), Producer(server.url) as producer, Client(server.url) as client:
        with pytest.raises(NoReply) as missed:
            producer.request(server.named("prices"), "tea", timeout_s=0.2)
        correlation_id = missed.value.correlation_id
        assert missed.value.code == "timeout"
        with pytest.raises(NotFound):
            client.messages.find_reply(correlation_id)
        go.set()
        until(lambda: bool(results))
        assert results == [ReplyResult.LATE]
        found = client.messages.find_reply(correlation_id)
        assert (found.text, found.late) == ("late", True)


def test_the_second_reply_is_told_that_there_was_one(server: LiveServer) -> None:
    results: list[ReplyResult | KiteError] = []

    def twice(message: Received) -> None:
        message.reply("1", on_replied=results.append)
        until(lambda: bool(results))
        message.reply("2", on_replied=results.append)

    with answering(server, twice), Producer(server.url) as producer:
        assert producer.request(server.named("prices"), "tea").text == "1"
        until(lambda: len(results) == 2)
    assert results == [ReplyResult.DELIVERED, ReplyResult.ALREADY]


@pytest.mark.apache  # knows at once that a requester has gone
def test_a_reply_waits_for_a_server_that_restarts(server: LiveServer) -> None:
    results: list[ReplyResult | KiteError] = []
    taken, go = threading.Event(), threading.Event()

    def slow(message: Received) -> None:
        taken.set()
        go.wait(WAIT_S)
        message.reply("after", on_replied=results.append)

    failures: list[Exception] = []

    def ask() -> None:
        try:
            producer.request(server.named("prices"), "tea", timeout_s=20)
        except KiteError as error:
            failures.append(error)

    with answering(server, slow), Producer(server.url) as producer:
        asking = threading.Thread(target=ask)
        asking.start()
        assert taken.wait(WAIT_S)
        server.stop()
        asking.join(WAIT_S)
        go.set()
        server.start()
        until(lambda: bool(results))
    assert results == [ReplyResult.LATE]
    assert failures


def test_a_reply_that_is_lost_on_the_way_is_sent_again(server: LiveServer) -> None:
    results: list[ReplyResult | KiteError] = []
    consumers: list[Consumer] = []

    def handler(message: Received) -> None:
        consumer = consumers[0]
        connection = consumer._core._link.connection
        assert connection is not None
        message.reply("again", on_replied=results.append)
        consumer._background.loop.call_soon_threadsafe(connection.abort)

    with Client(server.url) as client:
        client.topics.create(server.named("prices"))
    with (
        Consumer(server.named("shop"), server.named("prices"), server.url) as consumer,
        Producer(server.url) as producer,
    ):
        consumers.append(consumer)
        thread = threading.Thread(target=consumer.run, args=(handler,), daemon=True)
        thread.start()
        assert producer.request(server.named("prices"), "tea").text == "again"
        until(lambda: bool(results))
        consumer.stop()
        thread.join(WAIT_S)
    assert results[0] in (ReplyResult.DELIVERED, ReplyResult.ALREADY)


def test_over_rest_a_request_is_answered_by_its_receipt(server: LiveServer) -> None:
    with Client(server.url) as client:
        client.topics.create(server.named("prices"))
        got: list[Reply] = []
        asking = threading.Thread(
            target=lambda: got.append(
                client.messages.request(server.named("prices"), "tea", correlation_id="p-1")
            )
        )
        asking.start()
        (received,) = client.deliveries.receive(
            server.named("shop"), server.named("prices"), wait_s=5
        )
        assert client.messages.reply("3.50", receipt=received.receipt) == "delivered"
        asking.join(WAIT_S)
        assert (got[0].text, got[0].correlation_id) == ("3.50", "p-1")
        assert client.messages.reply("4.50", correlation_id="p-1") == "already"
        with pytest.raises(NoReply) as missed:
            client.messages.request(server.named("prices"), "milk", timeout_s=0.05)
        assert client.messages.reply("1.50", correlation_id=missed.value.correlation_id) == "late"


def test_a_requester_whose_connection_is_lost_is_told_the_id(server: LiveServer) -> None:
    with Client(server.url) as client:
        client.topics.create(server.named("prices"))
    failures: list[Exception] = []

    def ask() -> None:
        try:
            producer.request(server.named("prices"), "tea", timeout_s=20)
        except KiteError as error:
            failures.append(error)

    with Producer(server.url) as producer:
        asking = threading.Thread(target=ask)
        asking.start()
        until(lambda: waiting(server) == 1)
        connection = producer._core.connection
        assert connection is not None
        producer._background.loop.call_soon_threadsafe(connection.abort)
        asking.join(WAIT_S)
    until(lambda: waiting(server) == 0)
    assert isinstance(failures[0], NoReply)
    with Client(server.url) as client:
        assert client.messages.reply("x", correlation_id=failures[0].correlation_id) == "late"


async def test_what_cannot_be_asked_or_answered_is_refused_here(server: LiveServer) -> None:
    producer = AsyncProducer(server.url)
    with pytest.raises(Unreachable):
        await producer.request(server.named("prices"), "x")
    async with producer:
        for wrong in (0, -1, 31):
            with pytest.raises(Invalid) as refused:
                await producer.request(server.named("prices"), "x", timeout_s=wrong)
            assert refused.value.field == "timeout_s"
        with pytest.raises(Invalid) as refused:
            await producer.request(
                server.named("prices"), Message(body="x", properties={"TTL": "1"})
            )
        assert refused.value.field == "message.properties.TTL"
        await producer.send(server.named("plain"), "x")
    async with AsyncConsumer(server.named("shop"), server.named("plain"), server.url) as consumer:
        message = await consumer.receive(5)
        assert message is not None
        with pytest.raises(Invalid):
            message.reply("nobody waits")
        message.ack()
