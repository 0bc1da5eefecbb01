"""A running port for classic clients in the test's own process, and a raw client of it."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from app.main import Application, create_app
from app.network.connection_monitor import ConnectionMonitor
from app.remoting.port import RemotingPort
from app.settings import Settings
from engine.clock import Clock, ManualClock
from engine.message import StoredMessage
from engine.store.record import decode
from protocol.remoting.codes import Flag, RequestCode, ResponseCode
from protocol.remoting.frames import Command, FrameReader, encode
from protocol.remoting.signature import ACCESS_KEY, SIGNATURE, sign
from tests.grpc.endpoint import listening

LIMIT_S = 30.0


class Client:
    """One connection; answers are found by their number, requests of the server lie in `told`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer
        self._frames = FrameReader(frame_bytes_max=1 << 24)
        self._opaque = 0
        self._answers: dict[int, Command] = {}
        self.told: list[Command] = []
        self.keys: tuple[str, str] | None = None  # access key and secret

    def begin(
        self,
        code: int,
        fields: dict[str, Any] | None = None,
        body: bytes = b"",
        *,
        flag: int = 0,
        is_binary: bool = False,
    ) -> int:
        """Write a request; the number of its answer."""
        self._opaque += 1
        texts = {name: str(value) for name, value in (fields or {}).items()}
        command = Command(int(code), self._opaque, flag, texts, body, is_binary=is_binary)
        if self.keys is not None:
            command.fields[ACCESS_KEY] = self.keys[0]
            command.fields[SIGNATURE] = sign(command, self.keys[1])
        self.writer.write(encode(command))
        return self._opaque

    async def answer(self, opaque: int) -> Command:
        """The answer of this number."""
        async with asyncio.timeout(LIMIT_S):
            while opaque not in self._answers:
                await self._read()
        return self._answers.pop(opaque)

    async def ask(self, code: int, fields: Any = None, body: bytes = b"", **how: Any) -> Command:
        return await self.answer(self.begin(code, fields, body, **how))

    async def ok(self, code: int, fields: Any = None, body: bytes = b"") -> Command:
        """The same, which went well."""
        answer = await self.ask(code, fields, body)
        assert answer.code == ResponseCode.SUCCESS, answer
        return answer

    async def document(self, code: int, fields: Any = None, body: bytes = b"") -> Any:
        return json.loads((await self.ok(code, fields, body)).body)

    async def until_told(self, code: int) -> Command:
        """The next request of the server with this code."""
        async with asyncio.timeout(LIMIT_S):
            while not (found := [each for each in self.told if each.code == code]):
                await self._read()
        self.told.remove(found[0])
        return found[0]

    async def is_closed(self) -> bool:
        """Wait until the server closes the connection."""
        async with asyncio.timeout(LIMIT_S):
            try:
                while await self._reader.read(65536):
                    continue
            except ConnectionError:
                return True
        return True

    async def send(self, topic: str, body: bytes, **fields: Any) -> Command:
        """A SEND_MESSAGE_V2, which went well."""
        return await self.ok(RequestCode.SEND_MESSAGE_V2, sending(topic, **fields), body)

    async def beat(self, client: str, *groups: str, topic: str = "orders", **more: Any) -> Command:
        """A heartbeat of a consumer of these groups."""
        return await self.ok(
            RequestCode.HEART_BEAT, {}, beat_of(client, *groups, topic=topic, **more)
        )

    async def _read(self) -> None:
        data = await self._reader.read(65536)
        assert data, "the server closed the connection"
        self._frames.add(data)
        for command in self._frames.frames():
            if command.flag & Flag.RESPONSE:
                self._answers[command.opaque] = command
            else:
                self.told.append(command)


def sending(topic: str, *, queue: int = -1, properties: str = "", **more: Any) -> dict[str, Any]:
    """Fields of a SEND_MESSAGE_V2."""
    given = {"a": "sender", "b": topic, "c": "TBW102", "d": 4, "e": queue, "f": 0}
    return given | {"g": 1_700_000_000_000, "h": 0, "i": properties, "j": 0} | more


def pulling(group: str, topic: str, offset: int, *, queue: int = 0, **more: Any) -> dict[str, Any]:
    """Fields of a PULL_MESSAGE that waits for nothing and takes all."""
    return {
        "consumerGroup": group, "topic": topic, "queueId": queue, "queueOffset": offset,
        "maxMsgNums": 32, "sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 15_000,
        "subscription": "*", "subVersion": 1, "expressionType": "TAG",
    } | more  # fmt: skip


def beat_of(client: str, *groups: str, topic: str = "orders", model: str = "CLUSTERING",
            filter: str = "*", producers: tuple[str, ...] = ()) -> bytes:  # fmt: skip
    """The body of a heartbeat."""
    consumers = [
        {
            "groupName": group,
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": model,
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "subscriptionDataSet": [
                {"topic": topic, "subString": filter, "subVersion": 1, "expressionType": "TAG"},
            ],
        }
        for group in groups
    ]
    told = {
        "clientID": client,
        "consumerDataSet": consumers,
        "producerDataSet": [{"groupName": group} for group in producers],
    }
    return json.dumps(told).encode()


@dataclass
class Running:
    """An application with its port for classic clients, and a way to reach it."""

    app: Application
    port: RemotingPort
    clock: Any  # by hand, where none was given
    http: httpx.AsyncClient
    watch: ConnectionMonitor
    opened: list[Client]

    @property
    def broker(self) -> Any:
        return self.app.services.host.broker

    def advance(self, seconds: float) -> None:
        """Let time pass, and the engine do what became due."""
        self.clock.advance(seconds)
        for _ in range(8):
            self.broker.tick()

    async def connect(self, address: str = "") -> Client:
        host, _, port = (address or self.port.address).rpartition(":")
        client = Client(*await asyncio.open_connection(host, int(port)))
        self.opened.append(client)
        return client

    async def until_parked(self, count: int = 1) -> None:
        """Wait until so many long polls wait in the engine."""
        async with asyncio.timeout(LIMIT_S):
            while self.app.services.host.waiting_count < count:
                await asyncio.sleep(0.01)


@asynccontextmanager
async def opened(
    data: Path,
    listeners: Sequence[socket.socket] = (),
    clock: Clock | None = None,
    **changes: Any,
) -> AsyncIterator[Running]:
    """The application and its port over `data`, on a free port; without a clock by one by hand."""
    clock = clock or ManualClock()
    # No reports: where the clock runs far ahead, one would be due.
    settings = Settings(data=data, disk_free_min_bytes=0, report_schedules=False, **changes)
    app = create_app(settings, clock=clock)
    async with app.router.lifespan_context(app):
        watch = ConnectionMonitor(app.services.settings, app.services.connection_limits)
        port = RemotingPort(app.services, listeners or [listening()], watch)
        await port.start()
        transport = httpx.ASGITransport(app, client=("127.0.0.1", 50_000))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as http:
            running = Running(app, port, clock, http, watch, [])
            try:
                yield running
            finally:
                app.services.host.drain()
                for client in running.opened:
                    client.writer.close()
                await port.stop()
                await asyncio.sleep(0.01)


def records(body: bytes) -> list[StoredMessage]:
    """The records of an answer to a pull."""
    found, at = [], 0
    while at < len(body):
        found.append(decode(body, at))
        at += found[-1].size_bytes
    return found


def bodies(body: bytes) -> list[bytes]:
    """Only their bodies."""
    return [each.body for each in records(body)]
