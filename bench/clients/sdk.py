"""KiteMQ through its own SDK: what a Python program really gets, the SDK's work included."""

import asyncio
import time

from bench.clients.websocket import SocketSend
from bench.figures import Run
from bench.line import Turn, Work, fill, measured_with_client
from bench.load import LoadError, Sample
from kitemq.async_consumer import AsyncConsumer
from kitemq.async_producer import AsyncProducer
from kitemq.message import Message

FILL_BATCH = 256
PREFETCH = 4096
RECEIVE_S = 30.0


def sending_by_sdk(body: bytes, *, batch: int, tasks: int, durability: str = "stored") -> Work:
    """`tasks` tasks that each send `batch` messages and wait for them, over and over."""

    async def work(turn: Turn) -> Run:
        url = f"http://127.0.0.1:{turn.port}"
        async with AsyncProducer(url, durability=durability) as producer:
            return await measured_with_client(
                turn.process, _send(producer, turn, body, batch, tasks)
            )

    return work


async def _send(producer: AsyncProducer, turn: Turn, body: bytes, batch: int, tasks: int) -> Sample:
    messages = [Message(body=body) for _ in range(batch)]
    began_s = time.perf_counter()
    until_s = began_s + turn.scale.seconds

    async def worker() -> int:
        sent = 0
        while time.perf_counter() < until_s:
            sent += len(await producer.send_batch(turn.topic, messages))
        return sent

    sent = await asyncio.gather(*(worker() for _ in range(tasks)))
    return Sample(sum(sent), time.perf_counter() - began_s)


def taking_by_sdk(body: bytes) -> Work:
    """Receive and acknowledge a backlog message by message."""

    async def work(turn: Turn) -> Run:
        messages = await fill(
            turn, lambda turn: SocketSend(turn.port, turn.topic, body, per_request=FILL_BATCH), 4
        )
        return await measured_with_client(turn.process, _take(turn, messages))

    return work


async def _take(turn: Turn, messages: int) -> Sample:
    url = f"http://127.0.0.1:{turn.port}"
    began_s = time.perf_counter()
    async with AsyncConsumer("bench", turn.topic, url, prefetch=PREFETCH) as consumer:
        for _ in range(messages):
            message = await consumer.receive(RECEIVE_S)
            if message is None:
                raise LoadError("the consumer ended before the backlog did")
            message.ack()
    return Sample(messages, time.perf_counter() - began_s)
