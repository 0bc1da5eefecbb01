"""A proxy between classic clients and Apache's name server and broker that records every frame.

Clients have one address for both, as with KiteMQ: a request goes to the name server or the broker
by its code. No byte is changed. The broker announces the proxy's address as its own (`brokerIP1`),
so that routes lead here without being rewritten.
"""

import asyncio
import base64
import time
from collections.abc import Callable
from typing import Any

from protocol.remoting.codes import Flag
from protocol.remoting.codes import RequestCode as R
from protocol.remoting.frames import Command, decode

LENGTH_BYTES = 4
OF_NAME_SERVER = frozenset(
    {
        R.PUT_KV_CONFIG,
        R.GET_KV_CONFIG,
        R.DELETE_KV_CONFIG,
        R.GET_ROUTEINFO_BY_TOPIC,
        R.GET_BROKER_CLUSTER_INFO,
        R.WIPE_WRITE_PERM_OF_BROKER,
        R.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
        R.DELETE_TOPIC_IN_NAMESRV,
        R.GET_KVLIST_BY_NAMESPACE,
        R.GET_TOPICS_BY_CLUSTER,
        R.GET_SYSTEM_TOPIC_LIST_FROM_NS,
        R.GET_UNIT_TOPIC_LIST,
        R.GET_HAS_UNIT_SUB_TOPIC_LIST,
        R.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
        R.UPDATE_NAMESRV_CONFIG,
        R.GET_NAMESRV_CONFIG,
        R.ADD_WRITE_PERM_OF_BROKER,
    }
)


class Proxy:
    """Listens until the `async with` ends; each frame and each end of a connection is an event."""

    def __init__(self, address: str, name_server: str, broker: str) -> None:
        """Addresses are "host:port"."""
        self._address, self._name_server, self._broker = address, name_server, broker
        self._count = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.scenario = ""
        self.events: list[dict[str, Any]] = []

    async def __aenter__(self) -> "Proxy":
        host, _, port = self._address.rpartition(":")
        self._server = await asyncio.start_server(self._serve, host, int(port))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._count += 1
        number, scenario = self._count, self.scenario
        upstreams: dict[str, asyncio.StreamWriter] = {}

        def record(side: str, frame: bytes) -> None:
            self.events.append(_event(number, scenario, side, frame=_text(frame)))

        async def upstream(address: str) -> asyncio.StreamWriter:
            if address not in upstreams:
                host, _, port = address.rpartition(":")
                there, upstreams[address] = await asyncio.open_connection(host, int(port))
                task = asyncio.create_task(_carry(there, writer, record))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            return upstreams[address]

        try:
            async for frame in _frames(reader):
                record("client", frame)
                (await upstream(self._target(decode(frame[LENGTH_BYTES:])))).write(frame)
        finally:
            self.events.append(_event(number, scenario, "end"))
            for each in (*upstreams.values(), writer):
                each.close()

    def _target(self, command: Command) -> str:
        is_request = not command.flag & Flag.RESPONSE
        return self._name_server if is_request and command.code in OF_NAME_SERVER else self._broker


async def _frames(reader: asyncio.StreamReader) -> Any:
    while True:
        try:
            length = await reader.readexactly(LENGTH_BYTES)
            yield length + await reader.readexactly(int.from_bytes(length))
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            return  # the proxy ends by cancelling its connections


async def _carry(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    record: Callable[[str, bytes], None],
) -> None:
    async for frame in _frames(reader):
        record("server", frame)
        writer.write(frame)


def _event(number: int, scenario: str, side: str, **more: Any) -> dict[str, Any]:
    at_ms = int(time.time() * 1000)
    return {"at_ms": at_ms, "scenario": scenario, "connection": number, "side": side, **more}


def _text(frame: bytes) -> str:
    return base64.b64encode(frame).decode()
