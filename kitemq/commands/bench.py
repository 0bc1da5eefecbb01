"""`kitemq bench`: a quick look at what this machine and server can do, through the SDK.

The judge of speed is `bench/`, which compares with peers; this says whether all is well.
"""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import click

from kitemq.async_consumer import AsyncConsumer
from kitemq.async_producer import AsyncProducer
from kitemq.client import Client
from kitemq.commands.command import ClientCommand, CommandOptions, option
from kitemq.commands.output import Exit, Output, note
from kitemq.errors import Invalid, Rejected
from kitemq.message import Message

CHUNK = 1000
ROUND_TRIPS = 500


class BenchOptions(CommandOptions):
    count: int
    size: int


@click.command(cls=ClientCommand)
@option("--count", type=int, default=200_000, help="messages")
@option("--size", type=int, default=256, help="bytes of a body")
def bench(options: BenchOptions, output: Output) -> int:
    if options.count < 1 or options.size < 1:
        raise Invalid("nothing to measure", field="count", remedy="give 1 or more")
    topic = f"kitemq-bench-{secrets.token_hex(4)}"
    with Client(options.server) as client:
        with suppress(Rejected):  # a token may measure and not look at the server
            note(f"the engine's loops over batches: {client.server.info().kernel or 'unknown'}")
        client.topics.create(topic)
        try:
            asyncio.run(_bench(options, output, topic))
        finally:
            client.groups.delete(topic)
            client.topics.delete(topic)
    return Exit.OK


async def _bench(options: BenchOptions, output: Output, topic: str) -> None:
    body = secrets.token_bytes(options.size)
    for name, run in (
        ("produce", _produce),
        ("consume", _consume),
        ("send and wait", _round_trips),
    ):
        note(f"{name} …")
        count = ROUND_TRIPS if run is _round_trips else options.count
        started_s = time.perf_counter()
        await run(options, topic, body)
        seconds = time.perf_counter() - started_s
        row = {
            "line": name,
            "messages": count,
            "seconds": round(seconds, 3),
            "messages_per_s": round(count / seconds),
            "us_per_message": round(seconds / count * 1e6, 2),
        }
        output.line(
            f"{name:14} {count:>9,} messages  {count / seconds:>10,.0f}/s"
            f"  {seconds / count * 1e6:8.2f} us each",
            row,
        )


async def _produce(options: BenchOptions, topic: str, body: bytes) -> None:
    async with AsyncProducer(options.server) as producer:
        remaining = options.count
        while remaining:
            chunk = [Message(body=body)] * min(CHUNK, remaining)
            remaining -= len(chunk)
            for message in chunk:
                await producer.submit(topic, message.body)
        await producer.flush()


async def _consume(options: BenchOptions, topic: str, body: bytes) -> None:
    async with AsyncConsumer(topic, topic, options.server, prefetch=4096) as consumer:
        remaining = options.count
        async for message in consumer:
            message.ack()
            remaining -= 1
            if not remaining:
                return


async def _round_trips(options: BenchOptions, topic: str, body: bytes) -> None:
    async with AsyncProducer(options.server) as producer:
        for _ in range(ROUND_TRIPS):
            await producer.send(topic, body)


Line = Callable[[BenchOptions, str, bytes], Awaitable[None]]
