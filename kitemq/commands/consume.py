"""`kitemq consume GROUP TOPIC`: receive, print, acknowledge."""

import asyncio
import signal
from datetime import UTC, datetime

import click
import msgspec

from kitemq.async_consumer import AsyncConsumer
from kitemq.commands.command import ClientCommand, CommandOptions, argument, option
from kitemq.commands.output import Exit, Output, note
from kitemq.errors import TimedOut
from kitemq.message import body_text
from kitemq.model.conversion import convert
from kitemq.model.messages import Stored
from kitemq.received import Received

BODY_PREVIEW_MAX = 200

FILTER_HELP = 'tags, as in "paid || sent", or "SQL92: amount > 100"'


class ConsumeOptions(CommandOptions):
    group: str
    topic: str
    filter: str
    count: int
    timeout: float
    invisible: float
    prefetch: int
    ack: bool


@click.command(cls=ClientCommand)
@argument("group")
@argument("topic")
@option("--filter", default="*", help=FILTER_HELP)
@option("--count", type=int, default=0, help="stop after so many; 0 = never")
@option("--timeout", type=float, default=0.0, help="stop after so many idle seconds")
@option("--invisible", type=float, default=60.0, help="seconds until it comes again")
@option("--prefetch", type=int, default=256, help="held here at once")
@option("--ack/--no-ack", default=True, help="acknowledge (default), or put each back")
def consume(options: ConsumeOptions, output: Output) -> int:
    return asyncio.run(_consume(options, output))


async def _consume(options: ConsumeOptions, output: Output) -> int:
    consumer = AsyncConsumer(
        options.group,
        {options.topic: options.filter},
        options.server,
        prefetch=min(options.prefetch, options.count or options.prefetch),
        invisible_s=options.invisible,
    )
    await consumer.start()
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    for stop in (signal.SIGINT, signal.SIGTERM):  # a shell starts background jobs deaf to SIGINT
        loop.add_signal_handler(stop, task.cancel)
    count = 0
    try:
        while not options.count or count < options.count:
            message = await consumer.receive(options.timeout or None)
            if message is None:
                break
            row = consumed(message)
            output.line(human_line(row), row)
            count += 1
            # Printed first: a reader of the output has it before it is gone from the group.
            message.ack() if options.ack else message.release()
    except (TimedOut, asyncio.CancelledError):
        pass
    finally:
        await consumer.stop(timeout_s=5.0)
    note(f"{count} received")
    return Exit.OK


class ConsumedMessage(msgspec.Struct):
    """A received message as one JSON line."""

    message_id: str
    topic: str
    queue: int
    offset: str
    attempt: int
    tag: str
    keys: tuple[str, ...]
    message_group: str
    properties: dict[str, str]
    born_ms: int
    stored_ms: int
    body: str
    encoding: str


def consumed(message: Received) -> ConsumedMessage:
    """A received message, its body as text or in base64."""
    body, encoding = body_text(message.body)
    return convert(
        message, ConsumedMessage, offset=str(message.offset), body=body, encoding=encoding
    )


def human_line(message: ConsumedMessage | Stored) -> str:
    """Time, place, tag, keys and the beginning of the body."""
    stored = datetime.fromtimestamp(message.stored_ms / 1000, UTC)
    again = f" attempt {message.attempt}" if message.attempt > 1 else ""
    marks = " ".join([message.tag, *message.keys]).strip()
    cut = message.body[:BODY_PREVIEW_MAX] + ("…" if len(message.body) > BODY_PREVIEW_MAX else "")
    clean = "".join(sign if sign.isprintable() else "·" for sign in cut)
    place = f"{message.topic}/{message.queue}/{message.offset}"
    return f"{stored:%Y-%m-%d %H:%M:%S} {place}{again} {f'[{marks}] ' if marks else ''}{clean}"
