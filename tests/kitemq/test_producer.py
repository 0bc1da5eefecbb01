"""Sending: what arrives, what is tried again, what never touches its neighbours."""

import asyncio
import gc
import threading
import time
from typing import Any

import pytest
from websockets.asyncio.server import serve

from kitemq import (
    AsyncProducer,
    BufferFull,
    Client,
    Durability,
    Invalid,
    KiteError,
    Message,
    NotFound,
    Producer,
    Stopped,
    TimedOut,
    Unreachable,
)
from kitemq.connection import ServerConnection
from kitemq.errors import ProtocolViolation
from kitemq.model.messages import Stored
from kitemq.protocol.frames import HelloFrame, WelcomeFrame, encode
from kitemq.protocol.sends import SendFrame, SentFrame
from kitemq.protocol.stream import CLIENT_FRAMES, iter_frames
from tests.live import LiveServer

pytestmark = [pytest.mark.anyio, pytest.mark.makers]


def stored(server: LiveServer, topic: str) -> list[Stored]:
    """Everything in a topic, queue by queue."""
    with Client(server.url) as client:
        queues = client.topics.get(topic).queues
        return [
            message
            for queue in queues
            for message in client.messages.pull(topic, queue.queue, 0, limit=160).messages
        ]


def waiting(server: LiveServer) -> dict[str, int]:
    """When each body is due."""
    with Client(server.url) as client:
        return {item.message.body: item.due_ms for item in client.scheduled.list()}


@pytest.mark.capabilities("scheduled_list")
async def test_a_message_waits_as_long_as_it_is_told(server: LiveServer) -> None:
    begun_ms = time.time_ns() // 1_000_000
    at_ms = begun_ms + 900_000
    async with AsyncProducer(server.url) as producer:
        await producer.send("t", "a", delay_ms=300_000)
        batch = [Message(body="b", deliver_at_ms=at_ms), Message(body="c", delay_ms=600_000)]
        await producer.send_batch("t", batch)
        await (await producer.submit("t", "d", deliver_at_ms=at_ms + 1))
        with pytest.raises(Invalid) as refused:
            await producer.send("t", "x", delay_ms=5, delay_level=1)
        assert refused.value.field.endswith("delay_ms")
        with pytest.raises(Invalid) as refused:
            await producer.send("t", "x", delay_ms=2**63)
        assert refused.value.code == "unwritable"
    due = waiting(server)
    assert (due["b"], due["d"]) == (at_ms, at_ms + 1)
    assert 300_000 <= due["a"] - begun_ms < 330_000
    assert 600_000 <= due["c"] - begun_ms < 630_000
    assert set(due) == {"a", "b", "c", "d"}


@pytest.mark.capabilities("timer_recalls")
def test_a_timed_message_that_was_recalled_waits_no_more(server: LiveServer) -> None:
    with Producer(server.url) as producer, Client(server.url) as client:
        gone, other = (producer.send("t", body, delay_ms=300_000) for body in ("gone", "other"))
        assert client.scheduled.recall(gone.message_id) == "recalled"
        assert [each.message_id for each in client.scheduled.list()] == [other.message_id]
        assert client.scheduled.recall(gone.message_id) == "recalled"
        with pytest.raises(NotFound):
            client.scheduled.recall("none")


@pytest.mark.capabilities("timer_changes")
def test_a_waiting_message_is_recalled_delivered_and_moved(server: LiveServer) -> None:
    with Producer(server.url) as producer, Client(server.url) as client:
        results = [producer.send("t", body, delay_ms=300_000) for body in ("a", "b", "c")]
        recalled, delivered, moved = (result.message_id for result in results)
        assert client.scheduled.recall(recalled) == "recalled"
        assert client.scheduled.deliver(delivered) == "delivered"
        assert client.scheduled.reschedule(moved, delay_ms=900_000) == "rescheduled"
        assert (
            client.scheduled.reschedule(moved, deliver_at_ms=results[2].offset + 1) == "delivered"
        )
        with pytest.raises(NotFound):
            client.scheduled.recall("none")
        for number in range(5):
            producer.send("t", str(number), delay_ms=300_000 + 1000 * number)
        assert [each.message.body for each in client.scheduled.list(limit=3)] == ["0", "1", "2"]
        assert list(client.scheduled.list(topic="u")) == []
    assert sorted(message.body for message in stored(server, "t")) == ["b", "c"]


@pytest.mark.capabilities("topic_overrides")
async def test_a_message_arrives_with_everything_it_was_given(server: LiveServer) -> None:
    async with AsyncProducer(server.url) as producer:
        result = await producer.send(
            "orders",
            b"\x00\xff",
            tag="paid",
            keys=["k1", "k2"],
            properties={"colour": "red"},
            message_group="order-1",
            event_ms=1_700_000_000_000,
            durability="flushed",
        )
    assert result.durability is Durability.FLUSHED
    (found,) = stored(server, "orders")
    assert (found.message_id, found.tag) == (result.message_id, "paid")
    assert (found.keys, found.message_group) == (("k1", "k2"), "order-1")
    assert found.properties == {"colour": "red", "KITE_EVENT_MS": "1700000000000"}
    assert (found.queue, found.offset) == (result.queue, str(result.offset))
    assert (found.encoding, found.body) == ("base64", "AP8=")


@pytest.fixture
def frames(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many messages each SEND frame has that producers send meanwhile."""
    frames: list[int] = []
    ask = ServerConnection.ask

    def counted(self: ServerConnection, frame: Any, on_answer: Any) -> int:
        if isinstance(frame, SendFrame):
            frames.append(len(frame.bodies))
        return ask(self, frame, on_answer)

    monkeypatch.setattr(ServerConnection, "ask", counted)
    return frames


async def test_messages_submitted_together_travel_together(
    server: LiveServer, frames: list[int]
) -> None:
    async with AsyncProducer(server.url, batch_count_max=400) as producer:
        results = await producer.send_batch("t", [Message(body=b"%d" % i) for i in range(1000)])
    assert sum(frames) == 1000
    assert len(frames) == 3
    assert len({result.message_id for result in results}) == 1000


@pytest.mark.parametrize(("count", "expected"), [(99, [198]), (100, [100, 100])])
async def test_a_hundred_messages_wait_for_no_others(
    server: LiveServer, frames: list[int], count: int, expected: list[int]
) -> None:
    messages = [Message(body=b"%d" % i) for i in range(count)]
    async with AsyncProducer(server.url) as producer:
        sent = [producer.send_batch("t", messages) for _ in range(2)]
        first, second = await asyncio.gather(*sent)
    assert frames == expected
    assert len({result.message_id for result in first + second}) == 2 * count


@pytest.mark.parametrize(("group", "on_the_road"), [("account-1", 1), ("", 4)])
async def test_batches_with_a_message_group_go_one_after_the_other(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch, group: str, on_the_road: int
) -> None:
    ask = ServerConnection.ask
    waiting = [0]
    most = [0]

    def counted(self: ServerConnection, frame: Any, on_answer: Any) -> int:
        def answered(answer: Any) -> None:
            waiting[0] -= 1
            on_answer(answer)

        waiting[0] += 1
        most[0] = max(most[0], waiting[0])
        return ask(self, frame, answered)

    monkeypatch.setattr(ServerConnection, "ask", counted)
    async with AsyncProducer(server.url, batch_count_max=5) as producer:
        messages = [Message(body=b"%d" % i, message_group=group) for i in range(50)]
        await producer.send_batch("t", messages)
    assert most[0] == on_the_road


async def test_a_batch_raises_its_first_error_and_the_others_are_stored(server: LiveServer) -> None:
    async with AsyncProducer(server.url) as producer:
        assert await producer.send_batch("t", []) == []
        messages = [
            Message(body=b"%d" % i, tag="no | tag" if i in {3, 5} else "") for i in range(8)
        ]
        with pytest.raises(Invalid) as refused:
            await producer.send_batch("t", messages)
        assert refused.value.field == "tag"
        await producer.flush(10)
    assert sorted(each.body for each in stored(server, "t")) == ["0", "1", "2", "4", "6", "7"]


async def test_batches_that_travel_with_a_faulty_one_get_their_own_results(
    server: LiveServer,
) -> None:
    async with AsyncProducer(server.url) as producer:
        batches = [[Message(body=f"{name}{i}") for i in range(3)] for name in "abc"]
        batches[1][1].tag = "no | tag"
        sent = [producer.send_batch("t", batch, queue=0) for batch in batches]
        first, refused, last = await asyncio.gather(*sent, return_exceptions=True)
    assert isinstance(refused, Invalid)
    bodies = {int(each.offset): each.body for each in stored(server, "t")}
    for results, name in ((first, "a"), (last, "c")):
        assert not isinstance(results, BaseException)
        assert [bodies[result.offset] for result in results] == [f"{name}{i}" for i in range(3)]
    assert sorted(bodies.values()) == ["a0", "a1", "a2", "b0", "b2", "c0", "c1", "c2"]


async def test_a_long_batch_holds_no_more_than_the_buffer(server: LiveServer) -> None:
    messages = [Message(body=b"x" * 1000) for _ in range(300)]
    held: list[int] = []
    async with AsyncProducer(server.url, buffer_bytes_max=20_000, batch_count_max=7) as producer:
        freed = producer.freed

        def counted(size_bytes: int) -> None:
            held.append(producer.buffered_bytes)
            freed(size_bytes)

        producer.freed = counted  # type: ignore[method-assign]
        results = await producer.send_batch("t", messages, queue=1)
    assert [result.offset for result in results] == list(range(300))
    assert max(held) <= 20_000 + 1096


async def test_a_batch_whose_sender_is_cancelled_is_stored_nevertheless(server: LiveServer) -> None:
    async with AsyncProducer(server.url) as producer:
        sending = asyncio.create_task(producer.send_batch("t", [Message(body=b"1")] * 3))
        await asyncio.sleep(0)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        results = await producer.send_batch("t", [Message(body=b"2"), Message(body=b"3")])
    assert len({result.position for result in results}) == 2
    assert len(stored(server, "t")) == 5


async def test_a_refused_message_does_not_touch_those_sent_with_it(server: LiveServer) -> None:
    async with AsyncProducer(server.url) as producer:
        futures = [
            await producer.submit("t", b"%d" % i, tag="no | tag" if i == 3 else "fine")
            for i in range(8)
        ]
        results = await asyncio.gather(*futures, return_exceptions=True)
    refused = results.pop(3)
    assert isinstance(refused, Invalid)
    assert refused.field == "tag"
    assert not any(isinstance(result, BaseException) for result in results)
    assert sorted(message.body for message in stored(server, "t")) == list("0124567")


async def test_what_fits_into_no_frame_is_refused_alone(server: LiveServer) -> None:
    async with AsyncProducer(server.url) as producer:
        futures = [
            await producer.submit("t", b"x", properties={"a": "\ud800"} if i == 2 else None)
            for i in range(5)
        ]
        results = await asyncio.gather(*futures, return_exceptions=True)
    assert [isinstance(result, Invalid) for result in results] == [i == 2 for i in range(5)]


@pytest.mark.parametrize(
    ("fields", "field"),
    [({"keys": "a b"}, "keys"), ({"properties": {"n": 1}}, "properties.n")],
)
async def test_what_cannot_be_sent_is_refused_before_it_is_queued(
    server: LiveServer, fields: dict[str, Any], field: str
) -> None:
    async with AsyncProducer(server.url) as producer:
        with pytest.raises(Invalid) as refused:
            await producer.submit("t", b"x", **fields)
        assert refused.value.field == field
        assert producer.buffered_bytes == 0


async def test_a_closed_topic_refuses_with_the_reason(server: LiveServer) -> None:
    with Client(server.url) as client:
        client.topics.create("readonly", permission=4)
    async with AsyncProducer(server.url) as producer:
        with pytest.raises(KiteError, match="not open for writing"):
            await producer.send("readonly", b"x")


async def test_without_a_server_start_says_so_and_what_to_do() -> None:
    with pytest.raises(Unreachable, match="kitemq serve"):
        await AsyncProducer("http://127.0.0.1:9", connect_timeout_s=2).start()


async def test_what_is_sent_while_the_server_is_away_goes_when_it_is_back(
    server: LiveServer,
) -> None:
    async with AsyncProducer(server.url) as producer:
        await producer.send("t", b"before", message_group="g")
        await asyncio.to_thread(server.stop)
        futures = [await producer.submit("t", b"%02d" % i, message_group="g") for i in range(20)]
        await asyncio.to_thread(server.start)
        results = await asyncio.gather(*futures)
    offsets = [result.offset for result in results]
    assert offsets == sorted(offsets)
    bodies = [message.body for message in stored(server, "t")]
    assert bodies == ["before", *(f"{i:02d}" for i in range(20))]


async def test_a_server_that_stays_away_fails_the_send_in_time(server: LiveServer) -> None:
    async with AsyncProducer(server.url, timeout_s=2) as producer:
        await producer.send("t", b"before")
        await asyncio.to_thread(server.stop)
        with pytest.raises(Unreachable):
            async with asyncio.timeout(20):
                await producer.send("t", b"lost")
        assert producer.buffered_bytes == 0


async def test_a_batch_whose_answer_was_lost_is_repeated_under_the_same_ids(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_frame = ServerConnection._on_frame
    lost: list[int] = []

    def losing(self: ServerConnection, number: int, frame: Any) -> None:
        if isinstance(frame, SentFrame) and not lost:
            lost.append(number)
            self.abort()
            return
        on_frame(self, number, frame)

    monkeypatch.setattr(ServerConnection, "_on_frame", losing)
    async with AsyncProducer(server.url) as producer:
        result = await producer.send("t", b"x")
    assert lost
    ids = [message.message_id for message in stored(server, "t")]
    assert ids == [result.message_id] * 2


async def test_a_full_buffer_makes_submit_wait_and_submit_nowait_raise(
    server: LiveServer,
) -> None:
    async with AsyncProducer(server.url, buffer_bytes_max=1000) as producer:
        await producer.send("t", b"x")
        await asyncio.to_thread(server.stop)
        first = await producer.submit("t", bytes(2000))
        with pytest.raises(BufferFull):
            producer.submit_nowait("t", Message(body=b"y"))
        waiting = asyncio.create_task(producer.send("t", b"y"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not waiting.done()
        await asyncio.to_thread(server.start)
        await first
        assert (await waiting).offset >= 0


async def test_flush_waits_for_all_and_says_when_it_took_too_long(server: LiveServer) -> None:
    async with AsyncProducer(server.url, timeout_s=2) as producer:
        future = await producer.submit("t", b"x")
        await producer.flush(10)
        assert future.done()
        await asyncio.to_thread(server.stop)
        late = await producer.submit("t", b"y")
        with pytest.raises(TimedOut):
            await producer.flush(0.05)
        with pytest.raises(Unreachable):
            await late


async def test_a_stopped_producer_fails_what_it_could_not_send(server: LiveServer) -> None:
    producer = AsyncProducer(server.url)
    await producer.start()
    await producer.send("t", b"x")
    await asyncio.to_thread(server.stop)
    future = await producer.submit("t", b"y")
    await producer.stop(timeout_s=0.05)
    with pytest.raises(Stopped):
        await future
    with pytest.raises(Stopped):
        await producer.submit("t", b"z")


async def test_linger_gathers_what_comes_meanwhile(server: LiveServer) -> None:
    async with AsyncProducer(server.url, linger_ms=1000) as producer:
        first = await producer.submit("t", b"1")
        await asyncio.sleep(0.005)
        second = await producer.submit("t", b"2")
        results = await asyncio.gather(first, second)
    assert results[1].position - results[0].position < 1000
    assert results[0].queue == results[1].queue  # one batch stays together


def test_threads_share_a_synchronous_producer(server: LiveServer) -> None:
    with Producer(server.url) as producer:
        results: list[Any] = []

        def work(number: int) -> None:
            futures = [producer.submit("t", f"{number}-{i}") for i in range(50)]
            results.extend(future.result(10) for future in futures)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert producer.send("t", b"last").topic == "t"
    assert len({result.message_id for result in results}) == 200
    with pytest.raises(Stopped):
        producer.submit("t", b"too late")


def test_a_synchronous_producer_waits_for_room_and_stops_cleanly(server: LiveServer) -> None:
    with Producer(server.url, buffer_bytes_max=20_000) as producer:
        futures = [producer.submit("t", bytes(range(1, 201))) for _ in range(500)]
        producer.flush(20)
        assert all(future.done() for future in futures)


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"linger_ms": -1}, "linger_ms"),
        ({"batch_count_max": 0}, "batch_count_max"),
        ({"batch_bytes_max": 5 * 1024 * 1024}, "batch_bytes_max"),
        ({"inflight_max": 65}, "inflight_max"),
        ({"timeout_s": 0}, "timeout_s"),
    ],
)
def test_a_setting_out_of_its_range_is_named(settings: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        Producer("http://127.0.0.1:9", **settings)
    assert refused.value.field == field


@pytest.mark.parametrize("sent", [SentFrame(1, [0], [0], [0], []), SentFrame(9, [0], [0], [0], [])])
async def test_an_answer_that_fits_no_batch_fails_it(sent: SentFrame) -> None:
    count = 2 if sent.durability == 1 else 1

    async def answer(socket: Any) -> None:
        async for data in socket:
            for request, frame in iter_frames(data, CLIENT_FRAMES):
                welcome = WelcomeFrame("c", "s", 1 << 20, 4096, 1 << 20, 64)
                await socket.send(
                    encode(request, welcome if isinstance(frame, HelloFrame) else sent)
                )

    async with serve(answer, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        async with AsyncProducer(f"http://127.0.0.1:{port}", timeout_s=5) as producer:
            with pytest.raises(ProtocolViolation):
                await asyncio.wait_for(producer.send_batch("t", [Message(body="x")] * count), 10)
            assert producer.buffered_bytes == 0


async def test_a_batch_that_is_left_half_way_leaves_no_error_behind(server: LiveServer) -> None:
    unheard: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
    async with AsyncProducer(server.url, batch_count_max=1) as producer:
        wrong = [Message(body="x", tag="no | tag"), Message(body="x", delay_ms=1, delay_level=1)]
        with pytest.raises(Invalid):
            await producer.send_batch("t", [*wrong, Message(body=3)])  # type: ignore[arg-type]
        await producer.flush(10)
    gc.collect()
    await asyncio.sleep(0)
    assert unheard == []
