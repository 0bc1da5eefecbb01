"""An Apache master that does what a test says: name server, broker and HA port on loopback.

RocketMQ's own broker, which never sends garbage, is followed in `tests/rocketmq/test_master.py`.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

from app.tasks import end_tasks
from protocol.remoting.codes import Flag, RequestCode, ResponseCode
from protocol.remoting.frames import Command, FrameReader, encode
from protocol.replication import REPORT, frame
from tests.engine.replication.master_log import MasterLog, tables

LOOK_S = 0.01
TABLES = {
    RequestCode.GET_ALL_TOPIC_CONFIG: "topics.json",
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: "subscriptionGroup.json",
    RequestCode.GET_ALL_CONSUMER_OFFSET: "consumerOffset.json",
    RequestCode.GET_ALL_DELAY_OFFSET: "delayOffset.json",
}


class ScriptedMaster:
    """`log` and `sections` of its tables may be changed at any time.

    `script` gives the bytes that the next connection of the HA port gets instead of the log, after
    the position that it was asked for. Of the log, only what lies before `held` is given.
    """

    def __init__(self, segment_bytes: int) -> None:
        self.log = MasterLog(segment_bytes)
        self.sections: dict[str, Mapping[Any, Any]] = {}
        self.settings: dict[str, object] = {
            "brokerRole": "ASYNC_MASTER",
            "brokerIP2": "127.0.0.1",
            "mappedFileSizeCommitLog": segment_bytes,
        }
        self.brokers = ["a"]
        self.oldest = 0
        self.end: int | None = None  # None: that of the log
        self.held = 1 << 62
        self.script: Callable[[int], Iterator[bytes]] | None = None
        self.positions: list[int] = []  # that connections asked for
        self.reported = 0
        self.address = ""
        self._tasks: set[asyncio.Task[Any]] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator["ScriptedMaster"]:
        """Listen until the end of the `with`."""
        remoting = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        ha = await asyncio.start_server(self._give, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{remoting.sockets[0].getsockname()[1]}"
        self.settings["haListenPort"] = ha.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            remoting.close()
            ha.close()
            await end_tasks(*self._tasks)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames = FrameReader(frame_bytes_max=1 << 24)
        with self._serving(writer):
            while data := await reader.read(65536):
                frames.add(data)
                for command in frames.frames():
                    body = self._body(command.code)
                    code = ResponseCode.SYSTEM_ERROR if body is None else ResponseCode.SUCCESS
                    answer = Command(code, command.opaque, Flag.RESPONSE, body=body or b"")
                    writer.write(encode(answer))

    @contextmanager
    def _serving(self, writer: asyncio.StreamWriter) -> Iterator[None]:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(ConnectionError):
                yield
        finally:
            writer.close()
            self._tasks.discard(task)

    def _body(self, code: int) -> bytes | None:
        if code in TABLES:
            return tables(0, **self.sections).bodies[TABLES[RequestCode(code)]]
        if code == RequestCode.GET_BROKER_CONFIG:
            return "\n".join(f"{name}={value}" for name, value in self.settings.items()).encode()
        if code == RequestCode.GET_BROKER_RUNTIME_INFO:
            end = len(self.log.data) if self.end is None else self.end
            ends = {"commitLogMinOffset": str(self.oldest), "commitLogMaxOffset": str(end)}
            return json.dumps({"table": ends}).encode()
        if code == RequestCode.GET_BROKER_CLUSTER_INFO:
            brokers = {
                name: {"brokerName": name, "brokerAddrs": {"0": self.address}}
                for name in self.brokers
            }
            return json.dumps({"brokerAddrTable": brokers}).encode()
        return None

    async def _give(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        (position,) = REPORT.unpack(await reader.readexactly(REPORT.size))
        self.positions.append(position)
        script, self.script = self.script, None
        hearing = asyncio.ensure_future(self._hear(reader))
        with self._serving(writer):
            if script is not None:
                for data in script(position):
                    writer.write(data)
                    await writer.drain()
                await hearing
            while not hearing.done():
                position = await self._give_log(position, writer)
                writer.write(frame(position))  # a heartbeat
                await asyncio.sleep(LOOK_S)
        await end_tasks(hearing)

    async def _give_log(self, position: int, writer: asyncio.StreamWriter) -> int:
        for piece in self.log.pieces(position):
            if piece.position + len(piece.data) > self.held:
                break
            writer.write(frame(piece.position, piece.data))
            await writer.drain()
            position = piece.position + len(piece.data)
        return position

    async def _hear(self, reader: asyncio.StreamReader) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                (self.reported,) = REPORT.unpack(await reader.readexactly(REPORT.size))
