"""Mutated frames on a running port: nothing hangs, grows or leaves a traceback.

REMOTING_FRAMES=100000 makes it the long run, which `make soak` does.
"""

import asyncio
import json
import logging
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.remoting.codes import RequestCode
from protocol.remoting.frames import Command, encode
from tests.remoting.port import LIMIT_S, Running, beat_of, pulling, sending

pytestmark = pytest.mark.anyio

SEED = 20_261_123
COUNT = int(os.environ.get("REMOTING_FRAMES", "10000"))
PER_CONNECTION = 20
GOLDEN = [
    bytes.fromhex(text)
    for text in json.loads((Path(__file__).parent / "golden.json").read_text()).values()
]
# Texts that numbers, names and documents are replaced by.
ODD = [
    "", "0", "-1", "1e9", "true", "null", "x" * 300, str(1 << 31), str(1 << 63), str(-(1 << 63)),
    "9" * 30, "%RETRY%", "%DLQ%g", "TBW102", "\x01\x02", "orders", "*", "a > ", "{}",
    "\u20ac", "\x00",
]  # fmt: skip
BODIES = [b"", b"x", b"{}", b"[]", b'{"clientID":"c"}', beat_of("c1", "g"), b"\xff" * 40, b"[" * 99]
CODES = [*map(int, RequestCode), 0, -1, 9999]
FIELDS = sorted(
    {*sending("orders"), *pulling("g", "orders", 0)}
    | {"topic", "group", "producerGroup", "offset", "commitOrRollback", "timestamp", "perm"}
    | {"readQueueNums", "writeQueueNums", "key", "clientId", "properties", "batch", "delayLevel"}
)


def runs(count: int, seed: int) -> Iterator[list[bytes]]:
    """The frames of one connection after the other.

    Generated ones of every code with odd fields; at the end of some, a golden frame with bytes
    changed, at which the server may close the connection.
    """
    chance = random.Random(seed)
    while count > 0:
        size = min(count, chance.randint(1, PER_CONNECTION))
        run = [generated(chance) for _ in range(size - 1)]
        yield [*run, mutated(chance) if chance.random() < 0.8 else generated(chance)]
        count -= size


def mutated(chance: random.Random) -> bytes:
    """A golden frame of which some bytes are changed, or which breaks off."""
    frame = bytearray(chance.choice(GOLDEN))
    for _ in range(chance.randint(1, 6)):
        frame[chance.randrange(len(frame))] = chance.randrange(256)
    return bytes(frame[: chance.randrange(len(frame)) if chance.random() < 0.1 else len(frame)])


def generated(chance: random.Random) -> bytes:
    """A whole frame of any code, whose fields and body may be anything."""
    fields = {name: chance.choice(ODD) for name in chance.sample(FIELDS, chance.randint(0, 12))}
    if chance.random() < 0.7:
        plain = sending("orders") | pulling("g", "orders", 0) | {"topic": "orders", "group": "g"}
        fields = {name: str(value) for name, value in plain.items()} | fields
    fields["suspendTimeoutMillis"] = "20"
    command = Command(
        chance.choice(CODES),
        chance.randrange(1 << 31),
        chance.choice([0, 0, 0, 1, 2, 3, 1 << 20]),
        fields,
        chance.choice(BODIES),
        is_binary=chance.random() < 0.3,
    )
    return encode(command)


async def talk(running: Running, run: list[bytes]) -> None:
    """Write frames to one connection, which the server answers or closes."""
    host, _, port = running.port.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        for frame in run:
            writer.write(frame)
        await writer.drain()
        writer.write_eof()
        while await reader.read(65536):
            continue
    except ConnectionError:
        return
    finally:
        writer.close()


async def test_mutated_frames_are_answered_or_closed(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    await (await running.connect()).send("orders", b"x")
    for number, run in enumerate(runs(COUNT, SEED)):
        async with asyncio.timeout(LIMIT_S):
            await talk(running, run)
        assert not caplog.records, f"seed {SEED}, run {number}: {caplog.records[0].getMessage()}"
    running.opened[0].writer.close()
    async with asyncio.timeout(LIMIT_S):
        while running.port.backend.connections:
            await asyncio.sleep(0.01)
    limits = running.app.services.request_limits
    assert (limits.requests, limits.used_bytes, running.port.backend.figures.polls) == (0, 0, 0)
    assert len(running.port.backend.clients) == 0
    client = await running.connect()
    await client.send("afterwards", b"x")


async def test_an_unfinished_frame_does_not_stay(running: Running) -> None:
    """A half-open connection with half a frame ends with `body_timeout_s`."""
    client = await running.connect()
    client.writer.write(GOLDEN[0][:40])
    async with asyncio.timeout(LIMIT_S):
        while not running.app.services.request_limits.used_bytes:  # the half of it is there
            await asyncio.sleep(0.01)
    (connection,) = running.port.backend.connections
    now_s = asyncio.get_running_loop().time()
    connection.check(now_s)
    connection.check(now_s + running.app.services.settings.body_timeout_s + 60)
    assert await client.is_closed()


async def test_a_half_open_consumer_leaves_its_group_and_locks(running: Running) -> None:
    """A client whose machine is gone sends no FIN: it is found by its silence."""
    first, second = await running.connect(), await running.connect()
    await first.send("orders", b"x")
    await first.beat("c1", "billing")
    queue = {"topic": "orders", "brokerName": "kitemq", "queueId": 0}
    lock = {"consumerGroup": "billing", "clientId": "c1", "mqSet": [queue]}
    await first.ok(RequestCode.LOCK_BATCH_MQ, {}, json.dumps(lock).encode())
    await second.beat("c2", "billing")
    idle_s = running.app.services.settings.remoting_idle_s
    now_s = asyncio.get_running_loop().time()
    silent = next(
        each for each in running.port.backend.connections if each.client.endswith(_port_of(first))
    )
    silent.check(now_s + idle_s + 1)
    assert await first.is_closed()
    members = await second.document(
        RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "billing"}
    )
    assert members == {"consumerIdList": ["c2"]}
    lock["clientId"] = "c2"
    locked = await second.document(RequestCode.LOCK_BATCH_MQ, {}, json.dumps(lock).encode())
    assert [each["queueId"] for each in locked["lockOKMQSet"]] == [0]


def _port_of(client: object) -> str:
    return f":{client.writer.get_extra_info('sockname')[1]}"  # type: ignore[attr-defined]
