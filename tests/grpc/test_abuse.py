"""What a client can do wrong on purpose: nothing of it may cost others their messages or memory."""

import asyncio
import gzip
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio
import pytest

from app.connection_settings import ConnectionSettings
from app.grpc import clients, service, tls_mux
from app.grpc.quotas import ConnectionQuota
from app.grpc.tls_mux import RelayEnd, TlsMux
from app.network.connection_limits import ConnectionLimits
from app.network.open_files import FileShares
from app.security.byte_budget import ByteBudget, ByteLimits
from app.services import receive_attempts
from app.services.rpc_figures import RpcFigures
from engine.message import BODY_BYTES_MAX
from protocol.rocketmq.messages import (
    NotifyClientTerminationRequest,
    SendMessageRequest,
    TelemetryCommand,
)
from protocol.rocketmq.numbers import BodyEncoding, Code
from tests.grpc.endpoint import LIMIT_S, Running, listening, message_of, receive_of
from tests.grpc.test_endpoint import PASSWORD, key_for, signed
from tests.grpc.test_receiving import until

pytestmark = pytest.mark.anyio
UNREAD = b"x" * 20_000_000  # more than all buffers on the way


@pytest.mark.parametrize("is_bound_by_all", [False, True])
async def test_a_client_that_is_one_too_many_is_refused_before_anything_is_stored(
    open_endpoint: Any, monkeypatch: pytest.MonkeyPatch, is_bound_by_all: bool
) -> None:
    """It sends again when it is told to: what was stored would be there twice."""
    if is_bound_by_all:
        monkeypatch.setattr(clients, "CLIENTS_MAX", 1)
    changes = {} if is_bound_by_all else {"grpc_address_clients_max": 1}
    async with open_endpoint(**changes) as running:
        await running.stub.send("orders", b"1")
        answer = await running.stub.named("second").send("orders", b"2", number=1)
        assert answer.status.code == Code.TOO_MANY_REQUESTS
        assert [each.body for each in await running.stub.receive("g", "orders")] == [b"1"]
        running.advance(31)  # the first one is silent: there is room again
        answer = await running.stub.named("second").send("orders", b"2", number=1)
        assert answer.status.code == Code.OK


async def test_a_batch_is_inflated_no_further_than_a_batch_may_be(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    inflated: list[int] = []
    whole = gzip.decompress

    def inflate(body: bytes) -> bytes:
        inflated.append(len(body))
        return whole(body)

    monkeypatch.setattr("app.grpc.sending.inflated", inflate)
    body = gzip.compress(bytes(BODY_BYTES_MAX))
    messages = [
        message_of("orders", body, number=number, body_encoding=BodyEncoding.GZIP)
        for number in range(50)
    ]
    answer = await running.stub.ask("SendMessage", SendMessageRequest(messages=messages))
    assert answer.status.code == Code.PAYLOAD_TOO_LARGE
    assert len(inflated) == 2
    alone = await running.stub.ask("SendMessage", SendMessageRequest(messages=messages[:1]))
    assert alone.status.code == Code.OK


async def test_attempts_are_remembered_up_to_so_many_receipts(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receive_attempts, "REMEMBERED_MAX", 3)
    await running.stub.send("orders", b"1", b"2", b"3", b"4")
    for attempt in ("a", "b"):
        await running.stub.receive("g", "orders", count=2, attempt=attempt)
    assert await running.stub.receive("g", "orders", attempt="a") == []  # the older is forgotten
    again = await running.stub.receive("g", "orders", attempt="b")
    assert len(again) == 2


async def test_a_poll_of_a_client_that_said_goodbye_takes_nothing_with_it(running: Running) -> None:
    await running.stub.send("orders", b"1")
    (first,) = await running.stub.receive("g", "orders")
    await running.stub.ack("g", "orders", first.system_properties.receipt_handle)
    call = running.stub.begin(
        "ReceiveMessage", receive_of("g", "orders", wait_s=20, auto_renew=True)
    )
    await running.until_parked()
    await running.stub.ok("NotifyClientTermination", NotifyClientTerminationRequest())
    other = running.stub.named("other")
    await other.send("orders", b"2", number=1)
    answers = [each async for each in call]
    assert answers[0].status.code == Code.MESSAGE_NOT_FOUND
    assert running.grpc_server.backend.leases.count == 0
    (got,) = await other.receive("g", "orders")
    assert (got.body, got.system_properties.delivery_attempt) == (b"2", 1)


async def test_nobody_speaks_under_the_name_of_another_users_client(open_endpoint: Any) -> None:
    async with open_endpoint(admin_password=PASSWORD) as running:
        owner = signed(running, await key_for(running, "admin"))
        stream = owner.begin("Telemetry")
        assert (await owner.send("orders", b"1")).status.code == Code.OK
        body = {"name": "eve", "password": PASSWORD, "role": "viewer"}
        assert (await running.http.post("/api/v1/users", json=body)).status_code == 201
        made = await running.http.post("/api/v1/tokens", json={"name": "k", "owner": "eve"})
        assert made.status_code == 201, made.text
        eve = signed(running, made.json())
        goodbye = NotifyClientTerminationRequest()
        assert await eve.code("NotifyClientTermination", goodbye) == Code.FORBIDDEN
        stolen = eve.begin("Telemetry")
        assert (await stolen.read()).status.code == Code.FORBIDDEN
        assert running.grpc_server.backend.clients.stream_count == 1
        assert await owner.code("NotifyClientTermination", goodbye) == Code.OK
        assert await stream.read() is grpc.aio.EOF


async def test_a_refused_stream_ends_with_its_reason_after_its_clients_first_words(
    open_endpoint: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java writes its settings once the stream is open, and loses the reason where it has ended."""
    monkeypatch.setattr(service, "FIRST_S", LIMIT_S)
    async with open_endpoint(admin_password=PASSWORD) as running:
        owner = signed(running, await key_for(running, "admin"))
        assert (await owner.send("orders", b"1")).status.code == Code.OK
        body = {"name": "eve", "password": PASSWORD, "role": "viewer"}
        assert (await running.http.post("/api/v1/users", json=body)).status_code == 201
        made = await running.http.post("/api/v1/tokens", json={"name": "k", "owner": "eve"})
        stolen = signed(running, made.json()).begin("Telemetry")
        reading = asyncio.ensure_future(stolen.read())
        assert (await owner.send("orders", b"2", number=1)).status.code == Code.OK
        assert not reading.done()
        await stolen.write(TelemetryCommand())
        assert "in use by another user" in (await reading).status.message
        assert await stolen.code() is grpc.StatusCode.PERMISSION_DENIED
        assert "in use by another user" in await stolen.details()


async def test_a_stream_ends_when_the_access_key_behind_it_is_deleted(open_endpoint: Any) -> None:
    async with open_endpoint(admin_password=PASSWORD) as running:
        made = await key_for(running, "admin")
        own = signed(running, made)
        header = {name: own.metadata[name] for name in ("authorization", "x-mq-date-time")}
        streams = [own.named(name, **header).begin("Telemetry") for name in ("a", "b")]
        await until(lambda: running.grpc_server.backend.clients.stream_count == len(streams))
        running.grpc_server.tick()
        assert running.grpc_server.backend.clients.stream_count == len(streams)
        assert (await running.http.delete(f"/api/v1/tokens/{made['id']}")).status_code == 204
        running.grpc_server.tick()
        for stream in streams:
            assert (await stream.read()).status.code == Code.UNAUTHORIZED
        await until(lambda: running.grpc_server.backend.clients.stream_count == 0)


@asynccontextmanager
async def splitting() -> AsyncIterator[tuple[socket.socket, RpcFigures]]:
    """A client that reads nothing, on a splitter before a server that says much and hangs up."""
    served: set[asyncio.StreamWriter] = set()

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.add(writer)
        writer.write(UNREAD)
        writer.close()

    inner = await asyncio.start_server(serve, tls_mux.LOOPBACK, 0)
    figures, listener = RpcFigures(), listening()

    async def inner_port() -> int:
        return int(inner.sockets[0].getsockname()[1])

    limits = ConnectionLimits(ConnectionSettings(), FileShares(1000, 500), time.monotonic)
    shares = ConnectionQuota(limits, each_max=10, all_max=10)
    limit = 64 * 1024 * 1024
    budget = ByteBudget(
        ByteLimits(all_max=limit, address_max=limit, caller_max=limit, connection_max=limit)
    )
    relay = TlsMux(
        listener,
        inner_port,
        context=None,
        figures=figures,
        shares=shares,
        clock_s=time.monotonic,
        budget=budget,
    )
    relay.start()
    client = socket.create_connection(listener.getsockname())
    try:
        yield client, figures
    finally:
        client.close()
        for writer in served:
            writer.transport.abort()
        await relay.stop()
        listener.close()
        inner.close()


@pytest.mark.parametrize(("bound", "half_closes"), [("STALL_S", False), ("CLOSE_S", True)])
async def test_a_client_that_reads_nothing_does_not_keep_its_connection(
    monkeypatch: pytest.MonkeyPatch, bound: str, half_closes: bool
) -> None:
    monkeypatch.setattr(tls_mux, bound, 0.1)
    full, pause = asyncio.Event(), RelayEnd.pause_writing

    def pause_writing(side: RelayEnd) -> None:
        full.set()
        pause(side)

    monkeypatch.setattr(RelayEnd, "pause_writing", pause_writing)
    async with splitting() as (client, figures), asyncio.timeout(30):
        client.sendall(b"PRI")
        await full.wait()
        assert figures.connections == 1
        if half_closes:
            client.shutdown(socket.SHUT_WR)
        while figures.connections:
            await asyncio.sleep(0.01)
