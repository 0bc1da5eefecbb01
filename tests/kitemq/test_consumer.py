"""Receiving: what comes again, what stays ours, what is put back."""

import asyncio
import threading
from typing import Any

import pytest

from kitemq import (
    AckResult,
    AsyncConsumer,
    Client,
    Consumer,
    Invalid,
    KiteError,
    Received,
    TimedOut,
    link,
)
from kitemq.model.progress import Lag
from tests.live import LiveServer

pytestmark = [pytest.mark.anyio, pytest.mark.makers]


def send(server: LiveServer, count: int, topic: str = "t", **fields: Any) -> None:
    with Client(server.url) as client:
        client.messages.send(
            server.named(topic), [{"body": f"{number}", **fields} for number in range(count)]
        )


def lag(server: LiveServer, group: str = "g") -> Lag:
    with Client(server.url) as client:
        return client.groups.lag(server.named(group))


async def settled(message: Received, verb: str = "ack", **given: Any) -> AckResult:
    """Settle a message; what the server said."""
    loop = asyncio.get_running_loop()
    told: asyncio.Future[AckResult] = loop.create_future()
    getattr(message, verb)(**given, on_settled=told.set_result)
    async with asyncio.timeout(10):
        return await told


async def test_what_is_acknowledged_does_not_come_again(server: LiveServer) -> None:
    send(server, 3, tag="a", keys=["k"], properties={"p": "v"})
    async with AsyncConsumer(server.named("g"), server.named("t"), server.url) as consumer:
        bodies = []
        for _ in range(3):
            message = await consumer.receive(10)
            assert message is not None
            bodies.append(message.text)
            assert (message.tag, message.keys, message.attempt) == ("a", ("k",), 1)
            assert (message.topic, message.properties) == (server.named("t"), {"p": "v"})
            assert await settled(message) is AckResult.DONE
        assert sorted(bodies) == ["0", "1", "2"]
        with pytest.raises(TimedOut):
            await consumer.receive(0.05)
    assert lag(server).count == 0


async def test_a_failed_message_comes_again_with_its_attempt_counted(server: LiveServer) -> None:
    send(server, 1)
    async with AsyncConsumer(server.named("g"), server.named("t"), server.url) as consumer:
        first = await consumer.receive(10)
        assert first is not None
        assert await settled(first, "nack", error="not now", delay_s=0) is AckResult.DONE
        again = await consumer.receive(10)
        assert again is not None
        assert (again.attempt, again.topic, again.text) == (2, server.named("t"), first.text)
        assert again.message_id == first.message_id
        again.ack()


@pytest.mark.apache
async def test_a_rejected_message_goes_to_the_dead_letters(server: LiveServer) -> None:
    send(server, 1)
    async with AsyncConsumer(server.named("g"), server.named("t"), server.url) as consumer:
        message = await consumer.receive(10)
        assert message is not None
        assert await settled(message, "reject", error="never") is AckResult.DONE
    assert lag(server).dead == 1


@pytest.mark.apache
async def test_a_handler_that_raises_fails_its_message_with_the_error(
    server: LiveServer, caplog: pytest.LogCaptureFixture
) -> None:
    send(server, 2)
    with Client(server.url) as client:
        client.groups.create(server.named("g"), retry_max=0)
    seen: list[str] = []
    async with AsyncConsumer(server.named("g"), server.named("t"), server.url) as consumer:

        async def handle(message: Received) -> None:
            seen.append(message.text)
            if message.text == "1":
                raise ValueError("odd one")

        running = asyncio.create_task(consumer.run(handle, concurrency=2))
        await until(lambda: lag(server).dead == 1)
        await consumer.stop()
        await running
    assert sorted(seen) == ["0", "1"]
    with Client(server.url) as client:
        letters = f"%DLQ%{server.named('g')}"
        queues = [each.queue for each in client.topics.get(letters).queues]
        pages = [client.messages.pull(letters, queue, 0).messages for queue in queues]
        (dead,) = [each for page in pages for each in page]
    assert dead.body == "1"
    assert "ValueError: odd one" in caplog.text


async def test_a_long_handler_keeps_its_message(server: LiveServer) -> None:
    send(server, 1)
    async with AsyncConsumer(
        server.named("g"), server.named("t"), server.url, invisible_s=1.0
    ) as consumer:
        message = await consumer.receive(10)
        assert message is not None
        await asyncio.sleep(1.6)  # one and a half invisible times
        assert await settled(message) is AckResult.DONE
    assert lag(server).count == 0


async def test_extension_ends_with_its_limit(server: LiveServer) -> None:
    send(server, 1)
    async with AsyncConsumer(
        server.named("g"), server.named("t"), server.url, invisible_s=0.2, extend_max_s=0.2
    ) as stuck:
        message = await stuck.receive(10)
        assert message is not None
        async with AsyncConsumer(server.named("g"), server.named("t"), server.url) as other:
            again = await first_of(stuck, other)
            assert again.attempt == 2
            assert await settled(message) is AckResult.STALE
            assert await settled(again) is AckResult.DONE


@pytest.mark.capabilities("uncounted_releases")
async def test_a_clean_stop_puts_back_what_nobody_began(server: LiveServer) -> None:
    send(server, 10)
    async with AsyncConsumer(server.named("g"), server.named("t"), server.url) as first:
        message = await first.receive(10)
        assert message is not None
        message.ack()
    async with AsyncConsumer(server.named("g"), server.named("t"), server.url) as second:
        rest = [await second.receive(10) for _ in range(9)]
        assert [each.attempt for each in rest if each] == [1] * 9
        for each in rest:
            assert each is not None
            each.ack()
    assert lag(server).count == 0


async def test_stop_lets_a_handler_finish(server: LiveServer) -> None:
    send(server, 1)
    consumer = AsyncConsumer(server.named("g"), server.named("t"), server.url)
    await consumer.start()
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def handle(message: Received) -> None:
        begun.set()
        await may_end.wait()

    running = asyncio.create_task(consumer.run(handle))
    await begun.wait()
    stopping = asyncio.create_task(consumer.stop(10))
    await asyncio.sleep(0.05)
    assert not stopping.done()
    may_end.set()
    await asyncio.gather(stopping, running)
    assert lag(server).count == 0


@pytest.mark.capabilities("inflight_figures")
async def test_stop_puts_back_what_a_handler_could_not_finish_in_time(
    server: LiveServer,
) -> None:
    send(server, 1)
    consumer = AsyncConsumer(server.named("g"), server.named("t"), server.url)
    await consumer.start()
    held = await consumer.receive(10)
    assert held is not None
    await consumer.stop(timeout_s=0.05)
    assert (lag(server).inflight, lag(server).count) == (0, 1)


async def test_a_message_stays_ours_over_a_restart_of_the_server(server: LiveServer) -> None:
    send(server, 2)
    async with AsyncConsumer(
        server.named("g"), server.named("t"), server.url, prefetch=1
    ) as consumer:
        held = await consumer.receive(10)
        assert held is not None
        await asyncio.to_thread(server.stop)
        await asyncio.to_thread(server.start)
        assert await settled(held) is AckResult.DONE
        following = await consumer.receive(10)
        assert following is not None
        assert (following.attempt, following.text) != (2, held.text)
        following.ack()
    assert lag(server).count == 0


async def test_an_ack_without_connection_is_delivered_by_the_next(server: LiveServer) -> None:
    send(server, 1)
    async with AsyncConsumer(server.named("g"), server.named("t"), server.url) as consumer:
        held = await consumer.receive(10)
        assert held is not None
        connection = consumer._core._link.connection
        assert connection is not None
        connection.abort()
        assert await settled(held) is AckResult.DONE
        with pytest.raises(TimedOut):
            await consumer.receive(0.1)


@pytest.mark.capabilities("member_shares")
async def test_what_a_crashed_client_held_is_released_when_it_comes_back(
    server: LiveServer,
) -> None:
    send(server, 1)
    crashed = AsyncConsumer(server.named("g"), server.named("t"), server.url, client="worker-1")
    await crashed.start()
    assert await crashed.receive(10) is not None
    link = crashed._core._link
    assert link._task is not None
    link._task.cancel()
    assert link.connection is not None
    link.connection.abort()
    async with AsyncConsumer(
        server.named("g"), server.named("t"), server.url, client="worker-1"
    ) as back:
        message = await back.receive(10)
        assert message is not None
        assert message.attempt == 1  # it was never worked on as far as anyone knows
        message.ack()


async def test_a_replaced_consumer_comes_back_once_its_name_is_free(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(link, "REPLACED_FIRST_S", 0.2)
    monkeypatch.setattr(link, "REPLACED_MAX_S", 0.2)
    send(server, 1, "t2")
    first = AsyncConsumer(server.named("g"), server.named("t2"), server.url, client="same")
    await first.start()
    message = await first.receive(10)
    assert message is not None
    message.ack()
    async with AsyncConsumer(server.named("g"), server.named("t2"), server.url, client="same"):
        await until(lambda: first._core._link.connection is None)
    assert "took over the client name 'same'" in caplog.text
    send(server, 1, "t2")
    message = await first.receive(10)
    assert message is not None
    assert await settled(message) is AckResult.DONE
    await first.stop()


async def test_two_consumers_of_one_name_replace_each_other_ever_more_slowly(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: dict[link.ServerLink, list[float]] = {}

    async def noted(self: link.ServerLink, wait_s: float) -> None:
        waits.setdefault(self, []).append(wait_s)

    monkeypatch.setattr(link.ServerLink, "_stay_away", noted)
    with Client(server.url) as client:
        client.topics.create(server.named("t2"))
    async with (
        AsyncConsumer(server.named("g"), server.named("t2"), server.url, client="same") as first,
        AsyncConsumer(server.named("g"), server.named("t2"), server.url, client="same"),
    ):
        await until(lambda: len(waits.get(first._core._link, ())) >= 10)
    for told in waits.values():
        whole = [min(link.REPLACED_FIRST_S * 2.0**n, link.REPLACED_MAX_S) for n in range(len(told))]
        assert all(half / 2 <= s <= half for half, s in zip(whole, told, strict=True)), told


@pytest.mark.capabilities("inflight_figures")
async def test_no_more_than_prefetch_is_handed_out(server: LiveServer) -> None:
    send(server, 50)
    async with AsyncConsumer(
        server.named("g"), server.named("t"), server.url, prefetch=7
    ) as consumer:
        message = await consumer.receive(10)
        assert message is not None
        await until(lambda: lag(server).inflight == 7)
        for _ in range(49):
            message.ack()
            message = await consumer.receive(10)
            assert message is not None
            assert (lag(server).inflight or 0) <= 7
        message.ack()
    assert lag(server).count == 0


async def test_only_matching_tags_arrive(server: LiveServer) -> None:
    send(server, 2, tag="no")
    send(server, 2, tag="yes")
    async with AsyncConsumer(
        server.named("g"), {server.named("t"): "yes || maybe"}, server.url
    ) as consumer:
        for _ in range(2):
            message = await consumer.receive(10)
            assert message is not None
            assert message.tag == "yes"
            message.ack()
        with pytest.raises(TimedOut):
            await consumer.receive(0.05)


async def test_a_wrong_filter_is_refused_at_the_start(server: LiveServer) -> None:
    send(server, 1)
    with pytest.raises(Invalid) as refused:
        await AsyncConsumer(server.named("g"), {server.named("t"): "||"}, server.url).start()
    assert refused.value.field


async def test_a_subscription_that_cannot_go_on_tells_whoever_waits(server: LiveServer) -> None:
    send(server, 1)
    async with AsyncConsumer(server.named("g"), server.named("t"), server.url) as consumer:
        message = await consumer.receive(10)
        assert message is not None
        await settled(message)
        with Client(server.url) as client:
            client.topics.delete(server.named("t"))
        with pytest.raises(KiteError):
            await consumer.receive(10)


def test_threads_share_the_work_of_a_synchronous_consumer(server: LiveServer) -> None:
    send(server, 40)
    seen: list[str] = []
    names: set[str] = set()
    enough = threading.Event()
    with Consumer(server.named("g"), server.named("t"), server.url) as consumer:

        def handle(message: Received) -> None:
            names.add(threading.current_thread().name)
            seen.append(message.text)
            if len(seen) == 40:
                enough.set()

        worker = threading.Thread(target=consumer.run, args=(handle,), kwargs={"concurrency": 4})
        worker.start()
        assert enough.wait(20)
        consumer.stop()
        worker.join(10)
    assert sorted(seen, key=int) == [str(number) for number in range(40)]
    assert lag(server).count == 0


def test_a_synchronous_consumer_can_be_iterated(server: LiveServer) -> None:
    send(server, 5)
    seen = []
    with Consumer(server.named("g"), server.named("t"), server.url) as consumer:
        for message in consumer:
            seen.append(message.text)
            message.ack()
            if len(seen) == 5:
                break
    assert lag(server).count == 0


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"group": ""}, "group"),
        ({"topics": {}}, "topics"),
        ({"prefetch": 0}, "prefetch"),
        ({"invisible_s": 0.001}, "invisible_s"),
        ({"extend_max_s": -1}, "extend_max_s"),
    ],
)
def test_a_setting_out_of_its_range_is_named(given: dict[str, Any], field: str) -> None:
    settings = {"group": "g", "topics": "t", **given}
    with pytest.raises(Invalid) as refused:
        AsyncConsumer(server="http://127.0.0.1:9", **settings)
    assert refused.value.field == field


async def until(is_true: Any) -> None:
    """Wait, for a bounded time, until something is so."""
    async with asyncio.timeout(30):
        while not await asyncio.to_thread(is_true):
            await asyncio.sleep(0.01)


async def first_of(*consumers: AsyncConsumer) -> Received:
    """The next message that any of them gets."""
    tasks = [asyncio.create_task(consumer.receive(10)) for consumer in consumers]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    message = done.pop().result()
    assert message is not None
    return message
