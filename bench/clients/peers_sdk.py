"""The peers through their own Python clients, as programs use them: `nats-py` and `redis-py`.

Both send and take by their quickest documented way: JetStream's asynchronous publishing and pulls
of batches, Redis's pipelines.
"""

import asyncio
import time
from typing import Any

from nats.aio.client import Client as NatsClient
from nats.js.client import JetStreamContext
from redis.asyncio import Redis

from bench.clients.sdk import FILL_BATCH, PREFETCH, RECEIVE_S
from bench.figures import Run
from bench.line import Turn, Work, fill, measured_with_client
from bench.load import Sample
from bench.peers.nats import NatsSend
from bench.peers.redis import RedisSend

GROUP = "bench"
FILL_WINDOW = 1024


def sending_by_nats(body: bytes, *, window: int) -> Work:
    """`publish_async` of JetStream, with so many messages unanswered."""

    async def work(turn: Turn) -> Run:
        async with await _connect_nats(turn) as client:
            stream = client.jetstream(publish_async_max_pending=window)
            await stream.add_stream(name=turn.topic, subjects=[turn.topic])
            return await measured_with_client(turn.process, _publish(stream, turn, body))

    return work


async def _publish(stream: JetStreamContext, turn: Turn, body: bytes) -> Sample:
    began_s = time.perf_counter()
    until_s = began_s + turn.scale.seconds
    sent = 0
    while time.perf_counter() < until_s:
        await stream.publish_async(turn.topic, body, wait_stall=RECEIVE_S)
        sent += 1
    await stream.publish_async_completed()
    return Sample(sent, time.perf_counter() - began_s)


def sending_by_redis(body: bytes, *, batch: int, tasks: int) -> Work:
    """Pipelines of `batch` XADDs from so many tasks."""

    async def work(turn: Turn) -> Run:
        async with Redis(port=turn.port, max_connections=tasks) as client:
            load = _add(client, turn, body, batch, tasks)
            return await measured_with_client(turn.process, load)

    return work


async def _add(client: Redis, turn: Turn, body: bytes, batch: int, tasks: int) -> Sample:
    began_s = time.perf_counter()
    until_s = began_s + turn.scale.seconds

    async def worker() -> int:
        sent = 0
        while time.perf_counter() < until_s:
            async with client.pipeline(transaction=False) as pipeline:
                for _ in range(batch):
                    pipeline.xadd(turn.topic, {"body": body})
                sent += len(await pipeline.execute())
        return sent

    sent = await asyncio.gather(*(worker() for _ in range(tasks)))
    return Sample(sum(sent), time.perf_counter() - began_s)


def taking_by_nats(body: bytes) -> Work:
    """Pulls of a durable consumer; each message acknowledged for itself."""

    async def work(turn: Turn) -> Run:
        messages = await fill(turn, lambda turn: NatsSend(turn.topic, body), FILL_WINDOW)
        async with await _connect_nats(turn) as client:
            stream = client.jetstream()
            return await measured_with_client(turn.process, _fetch(stream, turn, messages))

    return work


async def _fetch(stream: JetStreamContext, turn: Turn, messages: int) -> Sample:
    began_s = time.perf_counter()
    consumer = await stream.pull_subscribe(turn.topic, GROUP)
    taken = 0
    while taken < messages:
        for message in await consumer.fetch(FILL_BATCH, timeout=RECEIVE_S):
            await message.ack()
            taken += 1
    return Sample(taken, time.perf_counter() - began_s)


def taking_by_redis(body: bytes) -> Work:
    """XREADGROUP of many, and one XACK for them."""

    async def work(turn: Turn) -> Run:
        messages = await fill(turn, lambda turn: RedisSend(turn.topic, body), FILL_WINDOW)
        async with Redis(port=turn.port) as client:
            return await measured_with_client(turn.process, _read(client, turn, messages))

    return work


async def _read(client: Redis, turn: Turn, messages: int) -> Sample:
    began_s = time.perf_counter()
    await client.xgroup_create(turn.topic, GROUP, id="0")
    taken = 0
    while taken < messages:
        place: Any = {turn.topic: ">"}
        answer: Any = await client.xreadgroup(GROUP, "bench", place, count=FILL_BATCH)
        names = [name for _, entries in answer for name, _ in entries]
        taken += await client.xack(turn.topic, GROUP, *names)
    return Sample(taken, time.perf_counter() - began_s)


async def _connect_nats(turn: Turn) -> NatsClient:
    client = NatsClient()
    await client.connect(f"nats://127.0.0.1:{turn.port}", pending_size=PREFETCH * 1024)
    return client
