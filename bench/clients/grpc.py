"""KiteMQ's endpoint for RocketMQ 5 clients: by a raw stub, and by the official Python client.

The stub shows what the endpoint can do, the client what a program gets from it. The client needs an
environment of its own (`tools/ensure_clients.sh`) and so a process of its own.
"""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import grpc.aio

from bench.figures import Run
from bench.line import Turn, Work, measured
from bench.load import LoadError, Sample
from bench.process import Process
from bench.server import Server
from protocol.rocketmq.messages import (
    METHODS,
    SERVICE,
    Message,
    Resource,
    SendMessageRequest,
    SystemProperties,
)
from protocol.rocketmq.numbers import Code

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / "tests" / "clients" / ".venv" / "bin" / "python"
CLIENT = Path(__file__).with_name("official_client.py")
# Each run its own connection: else it would get the one that the run before left behind.
OPTIONS = (("grpc.use_local_subchannel_pool", 1),)
METADATA = (("x-mq-client-id", "bench@1@0@x"), ("x-mq-language", "PYTHON"))
CALL_S = 30.0


def start_kite_for_client(data: Path) -> Process | None:
    """The server; None where the official client is not installed."""
    return Server(data) if PYTHON.exists() else None


def sending_by_stub(body: bytes, *, window: int, batch: int = 1) -> Work:
    """`window` calls under way on one connection, each with `batch` messages."""

    async def work(turn: Turn) -> Run:
        async with grpc.aio.insecure_channel(_address(turn), options=OPTIONS) as channel:
            send = _Stub(channel, turn, body, batch)
            await send()  # makes the topic and the connection
            return await measured(turn.process, _send(send, turn, window, batch))

    return work


def sending_by_client(body: bytes, *, threads: int) -> Work:
    """The official client's `Producer.send` in so many threads of one producer."""

    async def work(turn: Turn) -> Run:
        turn.process.prepare(turn.topic)
        return await measured(turn.process, _run_client(turn, body, threads))

    return work


def _address(turn: Turn) -> str:
    if not isinstance(turn.process, Server):
        raise TypeError("only our own server speaks RocketMQ's gRPC")
    return f"127.0.0.1:{turn.process.grpc_port}"


class _Stub:
    """A call of SendMessage; each message has an id of its own, as the clients' have."""

    def __init__(self, channel: Any, turn: Turn, body: bytes, batch: int) -> None:
        method = METHODS["SendMessage"]
        self._call = channel.unary_unary(
            f"/{SERVICE}/SendMessage",
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        self._topic = Resource(name=turn.topic)
        self._body = body
        self._batch = batch
        self._next_id = 0

    async def __call__(self) -> None:
        messages = []
        for _ in range(self._batch):
            self._next_id += 1
            system = SystemProperties(message_id=f"01{self._next_id:032X}")
            messages.append(Message(topic=self._topic, body=self._body, system_properties=system))
        answer = await self._call(
            SendMessageRequest(messages=messages), metadata=METADATA, timeout=CALL_S
        )
        if answer.status.code != Code.OK:
            raise LoadError(str(answer.status))


async def _send(send: _Stub, turn: Turn, window: int, batch: int) -> Sample:
    latencies_s: list[float] = []
    began_s = time.perf_counter()
    until_s = began_s + turn.scale.seconds

    async def worker() -> None:
        while (asked_s := time.perf_counter()) < until_s:
            await send()
            latencies_s.append(time.perf_counter() - asked_s)

    await asyncio.gather(*(worker() for _ in range(window)))
    return Sample(len(latencies_s) * batch, time.perf_counter() - began_s, latencies_s)


async def _run_client(turn: Turn, body: bytes, threads: int) -> Sample:
    home = turn.process.data.parent / "home"
    home.mkdir(exist_ok=True)
    words = [_address(turn), turn.topic, str(len(body)), str(threads), str(turn.scale.seconds)]
    client = await asyncio.create_subprocess_exec(
        str(PYTHON),
        "-P",
        str(CLIENT),
        *words,
        env={"HOME": str(home)},
        stdout=asyncio.subprocess.PIPE,
        stderr=sys.stderr,
    )
    output, _ = await client.communicate()
    if client.returncode:
        raise LoadError("the official client failed; what it said is above")
    figures = json.loads(output)
    return Sample(len(figures["latencies_s"]), figures["seconds"], figures["latencies_s"])
