"""The client of clusters against KiteMQ's own port for classic clients, and against bad company.

`tests/rocketmq/test_cluster.py` has the same verbs against Apache's name server and brokers.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from app.cluster.client import ClusterClient
from app.cluster.connection import FRAME_BYTES_MAX, connect
from app.cluster.connections import ConnectionPool
from app.cluster.errors import ClusterError, ClusterNoAnswer, ClusterRefused, ClusterUnreachable
from app.cluster.faults import FAILED_MS, FaultTable
from app.cluster.groups import ClusterGroup
from app.cluster.messages import NewClusterMessage
from protocol.remoting.codes import Flag, RequestCode, ResponseCode
from protocol.remoting.frames import LENGTHS, Command, decode, encode
from tests.grpc.test_endpoint import PASSWORD, key_for
from tests.remoting.port import Running, opened

pytestmark = pytest.mark.anyio


@pytest.fixture
async def client(running: Running) -> AsyncIterator[ClusterClient]:
    async with ClusterClient(running.port.address) as client:
        await client.topics.create("orders", 2)
        yield client


@asynccontextmanager
async def listening(
    answer: Callable[[Command], bytes],
) -> AsyncIterator[str]:
    """The address of a server that writes what `answer` makes of each request."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while size := int.from_bytes(await reader.read(4), "big"):
                writer.write(answer(decode(await reader.readexactly(size))))
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1")
    async with server:
        yield "{}:{}".format(*server.sockets[0].getsockname())


def request() -> Command:
    return Command(RequestCode.GET_BROKER_CLUSTER_INFO, fields={})


async def test_messages_come_back_as_they_were_sent(client: ClusterClient) -> None:
    new = NewClusterMessage(
        b"body", "paid", ("k1", "k2"), {"colour": "red"}, "ID1", born_ms=1_700_000_000_000
    )
    sent = await client.sends.send("orders", new)
    (message,) = (await client.reads.pull(sent.queue, sent.offset)).messages
    assert (message.body, message.tag, message.keys) == (b"body", "paid", ("k1", "k2"))
    assert (message.message_id, message.born_ms) == ("ID1", 1_700_000_000_000)
    assert (message.place, message.offset) == (sent.queue, sent.offset)
    assert message.properties["colour"] == "red"
    assert message.offset_id == sent.offset_ids[0]
    assert await client.reads.by_offset_id(message.offset_id) == message
    assert await client.reads.by_key("orders", "k2") == [message]
    assert await client.reads.by_key("orders", "ID1", is_id=True) == [message]
    assert await client.reads.by_key("orders", "k3") == []


async def test_a_batch_lies_together_in_its_order(client: ClusterClient) -> None:
    queue = (await client.topics.route("orders")).writable("orders")[1]
    await client.sends.send("orders", NewClusterMessage(b"before"), queue=queue)
    batch = [NewClusterMessage(str(each).encode()) for each in range(100)]
    sent = await client.sends.send_batch("orders", batch, queue=queue)
    assert (sent.queue, sent.offset, len(sent.offset_ids)) == (queue, 1, 100)
    page = await client.reads.pull(queue, 1, count_max=100)
    assert [each.body for each in page.messages] == [each.body for each in batch]
    assert (page.next_offset, page.max_offset) == (101, 101)
    assert (await client.topics.offsets("orders"))[queue] == (0, 101)
    assert await client.reads.offset_at(queue, page.messages[-1].stored_ms + 60_000) == 101


async def test_a_group_has_offsets_and_lag(client: ClusterClient) -> None:
    queue = (await client.topics.route("orders")).readable("orders")[0]
    await client.sends.send_batch("orders", [NewClusterMessage(b"x")] * 5, queue=queue)
    await client.groups.create(ClusterGroup("billing", retry_max_times=3))
    assert [(each.group_name, each.retry_max_times) for each in await client.groups.all()] == [
        ("billing", 3)
    ]
    assert await client.groups.committed("billing", queue) is None
    await client.groups.commit("billing", queue, 3)
    assert await client.groups.committed("billing", queue) == 3
    assert (await client.groups.progress("billing"))[queue].lag == 2
    assert await client.groups.consumers("billing") == []
    await client.groups.delete("billing")
    assert await client.groups.all() == []


async def test_what_is_acknowledged_is_done_and_the_rest_comes_again(
    running: Running, client: ClusterClient
) -> None:
    await client.groups.create(ClusterGroup("billing"))
    for body in (b"a", b"b", b"c"):
        await client.sends.send("orders", NewClusterMessage(body))
    deliveries = {
        each.message.body: each
        for each in await client.deliveries.receive(
            "billing", "orders", count_max=32, invisible_s=30
        )
    }
    assert sorted(deliveries) == [b"a", b"b", b"c"]
    await client.deliveries.ack("billing", "orders", deliveries[b"a"].receipt)
    later = await client.deliveries.change_invisible(
        "billing", "orders", deliveries[b"b"].receipt, 300
    )
    running.advance(40)
    again = await client.deliveries.receive("billing", "orders", count_max=32, invisible_s=30)
    assert [(each.message.body, each.attempt) for each in again] == [(b"c", 2)]
    await client.deliveries.ack("billing", "orders", later)
    await client.deliveries.ack("billing", "orders", again[0].receipt)
    running.advance(600)
    assert await client.deliveries.receive("billing", "orders", count_max=32) == []


async def test_a_message_ends_the_wait_for_it(running: Running, client: ClusterClient) -> None:
    await client.groups.create(ClusterGroup("billing"))
    receiving = asyncio.create_task(client.deliveries.receive("billing", "orders", wait_s=30))
    await running.until_parked()
    await client.sends.send("orders", NewClusterMessage(b"late"))
    assert [each.message.body for each in await receiving] == [b"late"]


async def test_refusals_say_what_helps(client: ClusterClient) -> None:
    with pytest.raises(ClusterRefused, match="No topic route") as error:
        await client.topics.route("nothing")
    assert error.value.answer == ResponseCode.TOPIC_NOT_EXIST
    with pytest.raises(ClusterError, match="receipt: 'x' is none"):
        await client.deliveries.ack("billing", "orders", "x")
    with pytest.raises(ClusterError, match="offset_id: 'x' is none"):
        await client.reads.by_offset_id("x")
    with pytest.raises(ClusterError, match="byte 1 or 2"):
        await client.sends.send("orders", NewClusterMessage(b"x", properties={"a": "\x02"}))
    with pytest.raises(ClusterError, match="cannot be delayed"):
        await client.sends.send_batch("orders", [NewClusterMessage(b"x", delay_level=1)] * 2)
    with pytest.raises(ClusterError, match="no name server"):
        ClusterClient(" ; ")


async def test_a_deleted_topic_has_no_route(client: ClusterClient) -> None:
    assert await client.topics.exists("orders")
    await client.topics.delete("orders")
    assert not await client.topics.exists("orders")


async def test_requests_are_signed_with_the_access_key(tmp_path: Path) -> None:
    async with opened(tmp_path / "data", admin_password=PASSWORD) as running:
        made: dict[str, Any] = await key_for(running, "admin")  # type: ignore[arg-type]
        keys = {"access_key": made["access_key"], "secret_key": made["secret_key"]}
        async with ClusterClient(running.port.address, **keys) as client:
            await client.topics.create("orders", 1)
            await client.sends.send("orders", NewClusterMessage(b"x"))
        async with ClusterClient(running.port.address) as stranger:
            with pytest.raises(ClusterRefused) as error:
                await stranger.topics.route("orders")
            assert error.value.answer == ResponseCode.NO_PERMISSION


async def test_another_name_server_answers_for_one_that_is_gone(running: Running) -> None:
    async with ClusterClient(f"127.0.0.1:1; {running.port.address}") as client:
        assert await client.masters() == [running.app.services.settings.broker_name]


async def test_an_answer_that_never_comes_is_told_from_nobody_there() -> None:
    async with listening(lambda _: b"") as address:
        connection = await connect(address)
        with pytest.raises(ClusterNoAnswer, match=r"within 0.05 s"):
            await connection.ask(request(), 0.05)
        connection.close()
        with pytest.raises(ClusterUnreachable, match="closed") as error:
            await connection.ask(request(), 1)
    assert not isinstance(error.value, ClusterNoAnswer)
    with pytest.raises(ClusterUnreachable, match=r"127.0.0.1:1: "):
        await connect("127.0.0.1:1")
    with pytest.raises(ClusterUnreachable, match="'nowhere' is no address"):
        await connect("nowhere")


async def test_who_sends_no_frames_is_left_and_asked_again_later() -> None:
    answers = [LENGTHS.pack(FRAME_BYTES_MAX + 1, 0), b""]

    def answer(command: Command) -> bytes:
        return answers.pop() or encode(
            Command(0, command.opaque, Flag.RESPONSE, remark=str(len(answers)))
        )

    answers.reverse()
    async with listening(answer) as address:
        pool = ConnectionPool()
        with pytest.raises(ClusterNoAnswer, match="a frame of"):
            await pool.ask(address, request(), 5)
        assert (await pool.ask(address, request(), 5)).remark == "0"
        await pool.close()


async def test_answers_find_their_requests_in_any_order() -> None:
    first: list[Command] = []

    def answer(command: Command) -> bytes:
        if not first:
            first.append(command)
            return b""
        both = (command, first[0])
        return b"".join(
            encode(Command(0, each.opaque, Flag.RESPONSE, body=each.body)) for each in both
        )

    async with listening(answer) as address:
        connection = await connect(address)
        asking = [connection.ask(Command(34, fields={}, body=body), 5) for body in (b"one", b"two")]
        assert [each.body for each in await asyncio.gather(*asking)] == [b"one", b"two"]
        connection.close()


async def test_after_a_failure_an_address_is_left_alone_for_a_while() -> None:
    pool = ConnectionPool()
    async with listening(lambda command: encode(Command(0, command.opaque, 1))) as address:
        pass
    with pytest.raises(ClusterUnreachable):
        await pool.ask(address, request(), 1)
    port = int(address.partition(":")[2])
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", port)
    async with server:
        with pytest.raises(ClusterUnreachable) as error:
            await pool.ask(address, request(), 1)
    assert not isinstance(error.value, ClusterNoAnswer)  # it was not even called
    await pool.close()


def test_a_slow_or_failing_broker_is_avoided_for_a_while() -> None:
    now_s = 0.0
    faults = FaultTable(lambda: now_s)
    faults.record("a", 549)
    assert faults.is_available("a")
    faults.record("a", 550)
    faults.record("b", FAILED_MS)
    assert not faults.is_available("a")
    now_s = 2.0
    assert faults.is_available("a")
    assert not faults.is_available("b")
    now_s = 10.0
    assert faults.is_available("b")
    faults.record("b", FAILED_MS)
    faults.record("b", 5)
    assert faults.is_available("b")
