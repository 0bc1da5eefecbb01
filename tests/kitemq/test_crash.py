"""A server that is killed in the middle of it: what the SDK's users may rely on."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.process import free_port
from kitemq import AckResult, AsyncConsumer, AsyncProducer, Client, KiteError, Received

pytestmark = [pytest.mark.anyio, pytest.mark.crash]

START_TIMEOUT_S = 60.0
KILLS = 2
SENT_MIN = 600


class Killable:
    """A server process on a fixed port and data directory."""

    def __init__(self, data: Path) -> None:
        self.listen = f"127.0.0.1:{free_port()}"
        self._data = data
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://{self.listen}"

    async def start(self) -> None:
        self._spawn()
        async with asyncio.timeout(START_TIMEOUT_S):
            with Client(self.url, timeout_s=1) as client:
                while True:
                    try:
                        await asyncio.to_thread(list, client.topics.list())
                    except KiteError:
                        await asyncio.sleep(0.02)
                    else:
                        return

    def _spawn(self) -> None:
        command = [sys.executable, "-m", "kitemq", "serve", "--listen", self.listen]
        # The ports beside a free one may be taken.
        command += ["--set", "grpc_listen=off", "--set", "remoting_listen=off"]
        self._process = subprocess.Popen(
            [*command, "--data", str(self._data), "--set", "log_level=warning"],
            env={name: value for name, value in os.environ.items() if "KITEMQ" not in name},
        )

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Killable]:
    killable = Killable(tmp_path / "data")
    try:
        yield killable
    finally:
        killable.kill()


async def test_a_killed_server_loses_nothing_accepted_and_repeats_nothing_acknowledged(
    server: Killable,
) -> None:
    await server.start()
    with Client(server.url) as client:
        client.topics.create("t")
    sent = 0
    accepted: set[str] = set()
    acknowledged: list[str] = []
    told: list[AckResult] = []
    async with (
        AsyncProducer(server.url) as producer,
        AsyncConsumer("g", "t", server.url, prefetch=20) as consumer,
    ):

        async def produce() -> None:
            """Goes on until the last kill is over, however much the server takes by then."""
            nonlocal sent
            while kills_left or sent < SENT_MIN:
                result = await producer.send("t", f"{sent}")
                accepted.add(result.message_id)
                sent += 1

        async def handle(message: Received) -> None:
            message.ack(told.append)
            acknowledged.append(message.message_id)

        kills_left = KILLS
        working = asyncio.create_task(consumer.run(handle, concurrency=2))
        producing = asyncio.create_task(produce())
        while kills_left:
            goal = len(accepted) + 100
            while len(accepted) < goal and not producing.done():
                await asyncio.sleep(0.005)
            server.kill()
            await server.start()
            kills_left -= 1
        await producing
        async with asyncio.timeout(30):
            while not accepted <= set(acknowledged):
                await asyncio.sleep(0.01)
        await consumer.stop()
        await working
    # A message stored twice, because the answer to its first send was lost, keeps its id.
    with Client(server.url) as client:
        stored = client.topics.get("t").messages or 0
        assert client.groups.lag("g").count == 0
    assert stored >= sent >= SENT_MIN
    assert len(acknowledged) - told.count(AckResult.STALE) <= stored
    assert len(acknowledged) >= len(accepted) == sent
