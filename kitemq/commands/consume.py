"""`kitemq consume GROUP TOPIC`: receive, print, acknowledge."""

import asyncio
import base64
import signal
from datetime import UTC, datetime

import click

from kitemq.async_consumer import AsyncConsumer
from kitemq.commands.command import ClientCommand, Options, argument, option
from kitemq.commands.output import Exit, Output, note
from kitemq.errors import TimedOut
from kitemq.received import Received
from kitemq.rest import Json

BODY_PREVIEW_MAX = 200

FILTER_HELP = 'tags, as in "paid || sent", or "SQL92: amount > 100"'


@click.command(cls=ClientCommand)
@argument("group")
@argument("topic")
@option("--filter", default="*", help=FILTER_HELP)
@option("--count", type=int, default=0, help="stop after so many; 0 = never")
@option("--timeout", type=float, default=0.0, help="stop after so many idle seconds")
@option("--invisible", type=float, default=60.0, help="seconds until it comes again")
@option("--prefetch", type=int, default=256, help="held here at once")
@option("--ack/--no-ack", default=True, help="acknowledge (default), or put each back")
def consume(options: Options, output: Output) -> int:
    return asyncio.run(_consume(options, output))


async def _consume(options: Options, output: Output) -> int:
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
            output.line(text_of(message), row_of(message))
            count += 1
            # Printed first: a reader of the output has it before it is gone from the group.
            message.ack() if options.ack else message.release()
    except (TimedOut, asyncio.CancelledError):
        pass
    finally:
        await consumer.stop(timeout_s=5.0)
    note(f"{count} received")
    return Exit.OK


def row_of(message: Received) -> Json:
    """A message as one JSON line."""
    body, encoding = printable_body(message.body)
    return {
        "message_id": message.message_id,
        "topic": message.topic,
        "queue": message.queue,
        "offset": str(message.offset),
        "attempt": message.attempt,
        "tag": message.tag,
        "keys": list(message.keys),
        "message_group": message.message_group,
        "properties": message.properties,
        "born_ms": message.born_ms,
        "stored_ms": message.stored_ms,
        "body": body,
        "encoding": encoding,
    }


def text_of(message: Received) -> str:
    """A message as one line for a person."""
    return human_line(row_of(message))


def human_line(row: Json) -> str:
    """Time, place, tag, keys and the beginning of the body."""
    stored = datetime.fromtimestamp(row["stored_ms"] / 1000, UTC)
    again = f" attempt {row['attempt']}" if row["attempt"] > 1 else ""
    marks = " ".join([row["tag"], *row["keys"]]).strip()
    body = str(row["body"])
    cut = body[:BODY_PREVIEW_MAX] + ("…" if len(body) > BODY_PREVIEW_MAX else "")
    clean = "".join(sign if sign.isprintable() else "·" for sign in cut)
    place = f"{row['topic']}/{row['queue']}/{row['offset']}"
    return f"{stored:%Y-%m-%d %H:%M:%S} {place}{again} {f'[{marks}] ' if marks else ''}{clean}"


def printable_body(body: bytes) -> tuple[str, str]:
    """Text and its encoding: UTF-8 where it is, else base64."""
    try:
        return body.decode(), "utf-8"
    except UnicodeDecodeError:
        return base64.b64encode(body).decode(), "base64"
