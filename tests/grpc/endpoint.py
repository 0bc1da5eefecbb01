"""A running gRPC endpoint for tests, and a raw stub of it: no client library stands in between.

`opened` serves in the test's own loop, with a clock by hand; `served` runs the whole program in a
process of its own, for clients that need one.
"""

import asyncio
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import httpx

from app.grpc.port import GrpcPort
from app.grpc.server import GrpcServer
from app.main import Application, create_app
from app.network.connection_monitor import ConnectionMonitor
from app.settings import Settings
from engine.clock import ManualClock
from protocol.rocketmq.messages import (
    METHODS,
    SERVICE,
    AckMessageEntry,
    AckMessageRequest,
    FilterExpression,
    Message,
    MessageQueue,
    QueryRouteRequest,
    ReceiveMessageRequest,
    Resource,
    SendMessageRequest,
    SystemProperties,
)
from protocol.rocketmq.numbers import Code

ROOT = Path(__file__).parents[2]
LIMIT_S = 30.0
SERVED = re.compile(r"(?<!classic )RocketMQ clients are served on (\S+)")
READY = re.compile(r"ready on (http://\S+)")
CLIENT = "test@1@0@x"


class Stub:
    """Every RPC of the service, as a method that returns the answer of a unary call."""

    def __init__(self, channel: Any, client: str = CLIENT, **metadata: str) -> None:
        self.channel = channel
        self.metadata = {"x-mq-client-id": client, "x-mq-language": "JAVA"}
        self.metadata |= {name.replace("_", "-"): value for name, value in metadata.items()}

    def named(self, client: str, **metadata: str) -> "Stub":
        """Another client on the same connection."""
        return Stub(self.channel, client, **metadata)

    def begin(self, name: str, request: Any = None, *, timeout: float = LIMIT_S) -> Any:
        """The call itself; of a stream for those that are one."""
        method = METHODS[name]
        kind = f"{'stream' if method.is_client_stream else 'unary'}_"
        kind += "stream" if method.is_server_stream else "unary"
        call = getattr(self.channel, kind)(
            f"/{SERVICE}/{name}",
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        metadata = tuple(self.metadata.items())
        if method.is_client_stream:
            return call(metadata=metadata, timeout=timeout)
        return call(request, metadata=metadata, timeout=timeout)

    async def ask(self, name: str, request: Any) -> Any:
        """The answer of a unary call."""
        return await self.begin(name, request)

    async def ok(self, name: str, request: Any) -> Any:
        """The same, which went well."""
        answer = await self.ask(name, request)
        assert answer.status.code == Code.OK, answer.status
        return answer

    async def code(self, name: str, request: Any) -> Code:
        """Only its code."""
        return Code((await self.ask(name, request)).status.code)

    async def route(self, topic: str, **fields: Any) -> Any:
        return await self.ask("QueryRoute", QueryRouteRequest(topic=Resource(name=topic), **fields))

    async def send(self, topic: str, *bodies: bytes, number: int = 0, **system: Any) -> Any:
        """Send messages that differ in body and id; the answer whatever it is."""
        messages = [
            message_of(topic, body, number=number + index, **system)
            for index, body in enumerate(bodies)
        ]
        return await self.ask("SendMessage", SendMessageRequest(messages=messages))

    async def receive(self, group: str, topic: str, **fields: Any) -> list[Any]:
        """The messages that a receive brought; by default it waits for none."""
        return [each.message for each in await self.received(group, topic, **fields) if _has(each)]

    async def received(self, group: str, topic: str, **fields: Any) -> list[Any]:
        """The whole answer of a receive: status, messages, time."""
        request = receive_of(group, topic, **fields)
        return [each async for each in self.begin("ReceiveMessage", request)]

    async def ack(self, group: str, topic: str, *handles: str) -> Any:
        entries = [AckMessageEntry(message_id="x", receipt_handle=handle) for handle in handles]
        return await self.ask(
            "AckMessage",
            AckMessageRequest(
                group=Resource(name=group), topic=Resource(name=topic), entries=entries
            ),
        )


def _has(answer: Any) -> bool:
    return bool(answer.WhichOneof("content") == "message")


def message_of(
    topic: str,
    body: bytes,
    *,
    number: int = 0,
    deliver_at_s: int = 0,
    properties: dict[str, str] | None = None,
    namespace: str = "",
    **system: Any,
) -> Any:
    """A producer's message, with the id that a client would make."""
    system.setdefault("message_id", f"01{number:032X}")
    found = SystemProperties(**system)
    found.born_timestamp.seconds = 1
    if deliver_at_s:
        found.delivery_timestamp.seconds = deliver_at_s
    resource = Resource(name=topic, resource_namespace=namespace)
    return Message(
        topic=resource, body=body, system_properties=found, user_properties=properties or {}
    )


def receive_of(
    group: str,
    topic: str,
    *,
    count: int = 16,
    wait_s: float = 0.0,
    invisible_s: int = 30,
    auto_renew: bool = False,
    tags: str = "*",
    sql: str = "",
    attempt: str = "",
) -> Any:
    """The request of a receive."""
    request = ReceiveMessageRequest(
        group=Resource(name=group),
        message_queue=MessageQueue(topic=Resource(name=topic)),
        filter_expression=FilterExpression(type=2 if sql else 1, expression=sql or tags),
        batch_size=count,
        auto_renew=auto_renew,
    )
    request.long_polling_timeout.FromMilliseconds(round(wait_s * 1000))
    request.long_polling_timeout.SetInParent()
    if not auto_renew:
        request.invisible_duration.seconds = invisible_s
    if attempt:
        request.attempt_id = attempt
    return request


@dataclass
class Running:
    """An application with its gRPC endpoint, a stub of it, and an HTTP client."""

    app: Application
    port: GrpcPort
    grpc_server: GrpcServer
    clock: ManualClock
    stub: Stub
    http: httpx.AsyncClient

    @property
    def broker(self) -> Any:
        return self.app.services.host.broker

    def advance(self, seconds: float) -> None:
        """Let time pass, and engine and endpoint do what became due."""
        self.clock.advance(seconds)
        for _ in range(8):
            self.broker.tick()
        self.grpc_server.tick()

    async def until_parked(self) -> None:
        """Wait until a long poll waits in the engine."""
        async with asyncio.timeout(LIMIT_S):
            while not self.app.services.host.waiting_count:
                await asyncio.sleep(0.01)


@asynccontextmanager
async def opened(data: Path, **changes: Any) -> AsyncIterator[Running]:
    """The application and its endpoint over `data`, on a free port."""
    changes.setdefault("grpc_tls", False)
    clock = ManualClock()
    app = create_app(Settings(data=data, disk_free_min_bytes=0, **changes), clock=clock)
    async with app.router.lifespan_context(app):
        monitor = monitor_of(app)
        monitor.start()
        port = GrpcPort(app.services, listening(), monitor)
        await port.start()
        try:
            grpc_server = await port.opened()
            transport = httpx.ASGITransport(app, client=("127.0.0.1", 50_000))
            async with (
                httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as http,
                grpc.aio.insecure_channel(port.address, options=OPTIONS) as channel,
            ):
                yield Running(app, port, grpc_server, clock, Stub(channel), http)
        finally:
            app.services.host.drain()
            await port.stop()
            await monitor.stop()


def monitor_of(app: Application) -> ConnectionMonitor:
    """What looks at the connections of a port."""
    return ConnectionMonitor(app.services.settings, app.services.connection_limits)


# Each channel its own connection: else those of two tests would share one.
OPTIONS = (("grpc.use_local_subchannel_pool", 1),)


def listening(host: str = "127.0.0.1") -> socket.socket:
    """A socket that listens on a free port."""
    listener = socket.socket(proto=socket.IPPROTO_TCP)  # without delay, as in tests/live.py
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, 0))
    listener.listen(64)
    listener.setblocking(False)
    return listener


@dataclass
class Served:
    """A server process: the address of its gRPC endpoint, its URL, and its data directory."""

    process: subprocess.Popen[str]
    address: str
    url: str
    data: Path


@contextmanager
def served(data: Path, options: Sequence[str] = ()) -> Iterator[Served]:
    """`kitemq serve` on free ports, or on those that `options` name; killed at the end."""
    command = [sys.executable, "-m", "app.serve", "--data", str(data), "--port", "0", *options]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("KITEMQ_")}
    with subprocess.Popen(
        command, cwd=ROOT, env=environ, stderr=subprocess.PIPE, text=True
    ) as process:
        guard = threading.Timer(LIMIT_S, process.kill)
        guard.start()
        try:
            address, url = _said(process)
            guard.cancel()
            # What it says from now on is read, else it would stop at a full pipe.
            threading.Thread(target=_drain, args=(process,), daemon=True).start()
            yield Served(process, address, url, data)
        finally:
            guard.cancel()
            process.kill()


def _said(process: subprocess.Popen[str]) -> tuple[str, str]:
    assert process.stderr is not None
    said = address = ""
    for line in process.stderr:
        said += line
        if found := SERVED.search(line):
            address = found[1]
        if found := READY.search(line):
            return address, found[1]
    raise AssertionError(f"the server never got ready:\n{said}")


def _drain(process: subprocess.Popen[str]) -> None:
    assert process.stderr is not None
    try:
        for _ in process.stderr:
            pass
    except ValueError:
        return  # it was closed
