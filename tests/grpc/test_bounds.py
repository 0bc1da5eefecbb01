"""Bounds by address and by bytes, work in bounded steps, and what a dead connection costs."""

import asyncio
import logging
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from app.grpc import clients, leases, telemetry
from app.grpc.connection import GrpcConnection
from app.grpc.connection_bytes import ConnectionBytes
from app.grpc.port import GrpcPort
from app.grpc.stream import OUTBOX_BYTES_MAX, OUTBOX_MAX, StreamBytesBudget, TelemetryStream
from app.main import create_app
from app.network.acceptor import SCARCE_MAX_S, SCARCE_S, AcceptLoop
from app.network.connection_limits import ConnectionRefusals
from app.settings import Settings
from engine.broker import GroupConfig
from protocol.rocketmq.messages import NotifyClientTerminationRequest, TelemetryCommand
from protocol.rocketmq.numbers import ClientLanguage, Code
from tests.grpc.endpoint import OPTIONS, ROOT, Running, Stub, listening, receive_of
from tests.grpc.test_endpoint import end_of
from tests.grpc.test_receiving import until
from tests.grpc.test_telemetry import consumer_settings, producer_settings, told

pytestmark = pytest.mark.anyio


def command_of(size_bytes: int) -> Any:
    command = TelemetryCommand()
    command.verify_message_command.message.body = bytes(size_bytes)
    return command


async def test_streams_and_polls_count_for_themselves_and_not_as_requests(
    open_endpoint: Any,
) -> None:
    async with open_endpoint(client_requests_max=1) as running:
        await told(running.stub, producer_settings("orders"))
        await running.stub.send("orders", b"1")
        await running.stub.receive("g", "orders")
        poll = running.stub.begin("ReceiveMessage", receive_of("g", "orders", wait_s=20))
        await running.until_parked()
        assert (await running.stub.send("orders", b"2", number=1)).status.code == Code.OK
        assert [each.message.body async for each in poll if each.message.body] == [b"2"]


async def test_overload_answers_that_the_client_shall_slow_down(open_endpoint: Any) -> None:
    async with open_endpoint(client_requests_max=1) as running:
        running.app.services.request_limits.enter(
            "127.0.0.1"
        )  # as a request of REST that is under way
        assert (await running.stub.send("orders", b"1")).status.code == Code.TOO_MANY_REQUESTS
        running.app.services.request_limits.leave("127.0.0.1")
        assert (await running.stub.send("orders", b"1")).status.code == Code.OK
        assert len(await running.stub.receive("g", "orders")) == 1


async def test_calls_beyond_the_most_of_one_connection_wait_in_the_client(
    open_endpoint: Any,
) -> None:
    async with open_endpoint(grpc_connection_calls_max=1) as running:
        await running.stub.send("orders", b"1")
        await running.stub.receive("g", "orders")
        poll = running.stub.begin("ReceiveMessage", receive_of("g", "orders", wait_s=20))
        await running.until_parked()
        waiting = asyncio.ensure_future(running.stub.route("orders"))
        async with grpc.aio.insecure_channel(running.port.address, options=OPTIONS) as channel:
            assert (await Stub(channel, "other").route("orders")).status.code == Code.OK
        assert not waiting.done()
        poll.cancel()
        assert (await waiting).status.code == Code.OK


async def test_a_connection_without_a_call_is_closed_after_a_while(open_endpoint: Any) -> None:
    async with open_endpoint(grpc_idle_s=3.0) as running:
        figures = running.grpc_server.backend.figures
        channel = grpc.aio.insecure_channel(running.port.address, options=OPTIONS)
        await told(Stub(channel, "busy"), producer_settings("orders"))
        await running.stub.route("orders")
        assert figures.connections == 2
        await until(lambda: figures.connections == 1)
        assert running.grpc_server.backend.clients.stream_count == 1, "the one with a call stays"
        assert (await running.stub.route("orders")).status.code == Code.OK  # it connects again
        await channel.close()


async def test_one_address_holds_so_many_polls_whatever_its_clients_call_themselves(
    open_endpoint: Any,
) -> None:
    async with open_endpoint(grpc_address_polls_max=1) as running:
        await running.stub.send("orders", b"1")
        await running.stub.receive("g", "orders")
        poll = running.stub.begin("ReceiveMessage", receive_of("g", "orders", wait_s=20))
        await running.until_parked()
        other = running.stub.named("other")
        (refused,) = await other.received("g", "orders", wait_s=20)
        assert refused.status.code == Code.TOO_MANY_REQUESTS
        poll.cancel()
        await until(lambda: running.grpc_server.backend.figures.polls == 0)
        assert (await other.received("g", "orders"))[0].status.code == Code.MESSAGE_NOT_FOUND


async def test_the_request_of_a_poll_is_small(running: Running) -> None:
    await running.stub.send("orders", b"1")
    (refused,) = await running.stub.received("g", "orders", tags="t" * 70_000)
    assert refused.status.code == Code.PAYLOAD_TOO_LARGE


async def test_a_stream_that_nobody_reads_holds_so_many_commands_and_bytes() -> None:
    room = StreamBytesBudget(3 * OUTBOX_BYTES_MAX)
    first, second = TelemetryStream({}, room), TelemetryStream({}, room)
    size_bytes = OUTBOX_BYTES_MAX // 2 - 1000
    assert [first.offer(command_of(size_bytes)) for _ in range(3)] == [True, True, False]
    assert [second.offer(command_of(10)) for _ in range(OUTBOX_MAX + 1)][-2:] == [True, False]
    await first.next()
    assert not first.offer(command_of(size_bytes)), "what is being written counts"
    await first.next()
    assert first.offer(command_of(size_bytes))


async def test_all_streams_together_hold_so_many_bytes_which_come_back_at_their_end() -> None:
    room = StreamBytesBudget(1000)
    first, second = TelemetryStream({}, room), TelemetryStream({}, room)
    assert first.offer(command_of(900))
    assert not second.offer(command_of(900))
    first.is_over()
    assert second.offer(command_of(900))
    assert not first.offer(command_of(1))


async def test_settings_beyond_the_room_for_them_are_answered_and_not_kept(
    open_endpoint: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "SUBSCRIPTION_BYTES_MAX", 40)
    async with open_endpoint() as running:
        asked = consumer_settings("g", "orders", ClientLanguage.GOLANG)
        asked.client_properties["x"] = "y" * 100
        _, answer = await told(running.stub, asked)
        assert answer.subscription.receive_batch_size == 32
        (client,) = running.grpc_server.backend.clients.all()
        assert client.speaks is ClientLanguage.GOLANG
        assert not client.settings.client_properties
        assert "too many bytes to be kept" in client.about


async def test_what_is_known_of_a_client_is_counted_once_however_often_it_changes(
    open_endpoint: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "SUBSCRIPTION_BYTES_MAX", 100)
    async with open_endpoint(auto_create_groups=False) as running:
        running.broker.create_group(GroupConfig("g"))
        await running.stub.send("orders", b"1")
        for number in range(30):
            missing = await running.stub.received("none", "orders", auto_renew=True)
            assert missing[0].status.code == Code.CONSUMER_GROUP_NOT_FOUND
            await running.stub.received("g", "orders", auto_renew=True, tags=f"tag-{number}")
        (client,) = running.grpc_server.backend.clients.all()
        assert client.groups == {"g": {"orders": "tag-29"}}
        too_long = await running.stub.received("g", "orders", auto_renew=True, tags="t" * 101)
        assert too_long[0].status.code == Code.MESSAGE_NOT_FOUND
        assert client.groups == {"g": {"orders": "tag-29"}}


@pytest.mark.parametrize("is_late", [False, True])
async def test_what_a_dead_connection_carried_last_comes_back_though_its_client_lives(
    running: Running, is_late: bool
) -> None:
    """Late: it answered pings for long after, so the client has what it was handed."""
    await running.stub.send("orders", b"1")
    channel = grpc.aio.insecure_channel(running.port.address, options=OPTIONS)
    assert len(await Stub(channel).receive("g", "orders", auto_renew=True)) == 1
    await told(running.stub, producer_settings())  # over another connection: the client lives
    if is_late:
        for _ in range(5):
            running.advance(25)
    await channel.close()
    await until(lambda: running.grpc_server.backend.figures.connections == 1)
    for _ in range(3):
        running.advance(25)
    assert running.grpc_server.backend.leases.count == is_late
    got = await running.stub.receive("g", "orders", auto_renew=True)
    attempts = [message.system_properties.delivery_attempt for message in got]
    assert attempts == ([] if is_late else [2])


async def test_leases_are_renewed_and_given_back_in_bounded_steps(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "STEP_MAX", 2)
    await running.stub.send("orders", *[b"%d" % number for number in range(5)])
    assert len(await running.stub.receive("g", "orders", auto_renew=True)) == 5
    assert len([None async for _ in running.grpc_server.backend.leases.steps()]) == 0
    running.clock.advance(31)
    assert len([None async for _ in running.grpc_server.backend.leases.steps()]) == 3
    assert len([None async for _ in running.grpc_server.backend.leases.steps()]) == 0
    await running.stub.ok("NotifyClientTermination", NotifyClientTerminationRequest())
    other = running.stub.named("other")
    assert len(await other.receive("g", "orders")) == 2
    running.grpc_server.tick()
    got = await other.receive("g", "orders")
    assert [message.system_properties.delivery_attempt for message in got] == [1, 1, 1]


async def test_clients_that_vanish_together_are_let_go_of_one_in_each_step(
    running: Running,
) -> None:
    await running.stub.send("orders", *[b"%d" % number for number in range(6)])
    for number in range(3):
        stub = running.stub.named(f"c{number}")
        assert len(await stub.receive("g", "orders", auto_renew=True, count=2)) == 2
    running.clock.advance(31)
    grpc_server = running.grpc_server
    assert [
        (len(grpc_server.backend.clients), grpc_server.backend.leases.count)
        for _ in grpc_server.backend.clients.steps()
    ] == [
        (3, 6),  # who sent them held nothing
        (2, 4),
        (1, 2),
        (0, 0),
    ]


async def test_a_failure_behind_a_stream_is_logged_once_with_its_client(
    running: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def settle(*_: Any) -> Any:
        raise RuntimeError("broken")

    monkeypatch.setattr(telemetry, "settle", settle)
    stream = running.stub.begin("Telemetry")
    await stream.write(TelemetryCommand(settings=producer_settings("orders")))
    assert (await stream.read()).status.code == Code.INTERNAL_SERVER_ERROR
    with pytest.raises(grpc.aio.AioRpcError):
        await stream.read()
    assert await stream.code() is grpc.StatusCode.INTERNAL
    (record,) = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert "test@1@0@x" in record.getMessage()
    assert record.exc_info is not None


async def test_a_client_that_hangs_up_leaves_no_error_in_the_log(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    channel = grpc.aio.insecure_channel(running.port.address, options=OPTIONS)
    cancelled, _ = await told(running.stub, producer_settings("orders"))
    await told(Stub(channel, "other"), producer_settings("orders"))
    cancelled.cancel()
    await channel.close()
    await until(lambda: running.grpc_server.backend.clients.stream_count == 0)
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]


@contextmanager
def few_files(count: int) -> Iterator[None]:
    """At most so many more can be opened meanwhile, by this process."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = sum(1 for _ in Path("/dev/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (opened + count, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


class Taking(AcceptLoop):
    """Takes connections and closes them."""

    taken = 0

    def _take(self, accepted: socket.socket, address: str) -> None:
        accepted.close()
        self.taken += 1


async def test_without_room_for_a_connection_the_log_gets_a_line_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    listener = listening()
    taking = Taking(listener, ConnectionRefusals(time.monotonic))
    waits_s: list[float] = []
    spare: list[socket.socket] = []
    with listener, socket.create_connection(listener.getsockname()):
        with few_files(0):
            with suppress(OSError):
                while True:
                    spare.append(listener.dup())
            for _ in range(10):
                waits_s.append(taking._scarce_s)
                taking._accept()
        assert (waits_s[:3], taking.taken) == ([SCARCE_S, 2 * SCARCE_S, 4 * SCARCE_S], 0)
        assert waits_s[-1] == SCARCE_MAX_S
        assert [record.getMessage() for record in caplog.records] == [
            "1 connections were refused or closed (no_file_left), the last one from nobody: "
            "Too many open files"
        ]
        for each in spare:
            each.close()
        await until(lambda: taking.taken == 1)
        assert taking._scarce_s == SCARCE_S
        await taking.stop()


async def test_without_files_for_grpc_a_connection_is_closed_and_a_later_one_served(
    tmp_path: Path,
) -> None:
    """Its library would end the whole process."""
    app = create_app(Settings(data=tmp_path / "data", disk_free_min_bytes=0, grpc_tls=False))
    async with app.router.lifespan_context(app):
        port = GrpcPort(app.services, listening())
        await port.start()
        host, _, number = port.address.rpartition(":")
        with few_files(30):
            reader, writer = await asyncio.open_connection(host, int(number))
            writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            assert await end_of(reader) == b""
            writer.close()
        async with grpc.aio.insecure_channel(port.address, options=OPTIONS) as channel:
            assert (await Stub(channel).send("orders", b"1")).status.code == Code.OK
        await port.stop()


async def test_the_library_of_grpc_is_loaded_for_the_first_connection_only() -> None:
    code = (
        "import sys, app.serve, app.main, app.grpc.port\n"
        "print([name for name in ('grpc', 'google.protobuf') if name in sys.modules])"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, cwd=ROOT, stdout=subprocess.PIPE
    )
    said, _ = await process.communicate()
    assert (process.returncode, said) == (0, b"[]\n")


async def test_an_answer_that_was_read_slowly_is_doubtful_from_when_it_left(
    running: Running,
) -> None:
    backend, clock = running.grpc_server.backend, running.clock
    await running.stub.send("orders", b"1")
    (delivery,) = running.broker.receive("g", {"orders": "*"}, client="slow", invisible_s=600)
    counted = ConnectionBytes(
        running.app.services.request_limits.budget, "127.0.0.1", set_reading=bool, end=bool
    )
    origin = GrpcConnection("127.0.0.1:9", "127.0.0.1:8081", is_tls=False, bytes=counted)
    backend.leases.add("g", "slow", origin, [delivery.receipt])
    clock.advance(50)
    backend.leases.written("g", [delivery.receipt])
    clock.advance(50)
    origin.ended_s = clock.monotonic_s()
    async for _ in backend.leases.steps():
        pass
    assert backend.leases.count == 0
