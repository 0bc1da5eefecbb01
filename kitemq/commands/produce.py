"""`kitemq produce TOPIC`: messages from standard input, an argument or a file."""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import click
import msgspec

from kitemq.async_producer import AsyncProducer
from kitemq.commands.command import ClientCommand, CommandOptions, OptionalChoice, argument, option
from kitemq.commands.output import Exit, Output, exit_of, note
from kitemq.commands.times import milliseconds, time_ms
from kitemq.errors import Invalid, KiteError
from kitemq.message import MessageOptions, SendResult
from kitemq.model.topics import Durability

ERRORS_PRINTED_MAX = 10


class ProduceOptions(CommandOptions):
    topic: str
    body: str | None
    file: Path | None
    tag: str
    key: tuple[str, ...]
    group: str
    property: tuple[str, ...]
    delay_level: int
    delay: str | None
    deliver_at: str | None
    event_at: str | None
    count: int
    rate: float
    durability: str
    timeout: float


@click.command(
    cls=ClientCommand,
    one_of=("body", "file"),
    help="Send each line of standard input as a message, or one body.",
)
@argument("topic")
@option("--body", help="the message itself")
@option("--file", type=Path, help="a file that is the message")
@option("--tag", default="", help="what consumers filter by")
@option("--key", multiple=True, help="what it is found by; repeat")
@option("--group", default="", help="message group: keeps order in a FIFO topic")
@option("--property", multiple=True, metavar="NAME=VALUE", help="repeat for more")
@option("--delay-level", type=int, default=0, help="1 (1 s) to 18 (2 h)")
@option("--delay", metavar="TIME", help="deliver later: 90s, 5m, 2h")
@option("--deliver-at", metavar="WHEN", help="2026-01-31T09:00Z, or ms since 1970")
@option("--event-at", metavar="WHEN", help="when what it tells of happened")
@option("--count", type=int, default=1, help="send --body or --file so often")
@option("--rate", type=float, default=0.0, help="messages per second; 0 = at will")
@option("--durability", default="", type=OptionalChoice(["", *Durability]))
@option("--timeout", type=float, default=30.0, help="seconds to try for")
def produce(options: ProduceOptions, output: Output) -> int:
    return asyncio.run(_produce(options, output))


async def _produce(options: ProduceOptions, output: Output) -> int:
    fields = message_options(options)
    run = _Run(output, is_single=_is_single(options))
    started_s = time.monotonic()
    async with AsyncProducer(options.server, timeout_s=options.timeout) as producer:
        async for body in _bodies(options):
            future = await producer.submit(
                options.topic,
                body,
                durability=options.durability or None,
                **fields,
            )
            future.add_done_callback(run.answered)
        await producer.flush()
    return run.report(time.monotonic() - started_s)


def message_options(options: ProduceOptions) -> MessageOptions:
    """The fields that every message gets."""

    def moment(text: str | None, name: str) -> int | None:
        return None if text is None else time_ms(text, name)

    return {
        "tag": options.tag,
        "keys": options.key,
        "properties": _properties(options.property),
        "message_group": options.group,
        "delay_level": options.delay_level,
        "event_ms": moment(options.event_at, "--event-at"),
        "delay_ms": 0 if options.delay is None else milliseconds(options.delay, "--delay"),
        "deliver_at_ms": moment(options.deliver_at, "--deliver-at") or 0,
    }


class _Run:
    """Counts what became of the messages."""

    def __init__(self, output: Output, *, is_single: bool) -> None:
        self._output = output
        self._is_single = is_single
        self._sent = 0
        self._failed: Counter[str] = Counter()
        self._last_error: KiteError | None = None

    def answered(self, future: "asyncio.Future[SendResult]") -> None:
        error = future.exception()
        if error is None:
            self._sent += 1
            if self._is_single:
                self._output.row(_row(future.result()))
        elif isinstance(error, KiteError):
            self._failed[str(error)] += 1
            self._last_error = error
        else:
            raise error

    def report(self, seconds: float) -> int:
        for text, count in self._failed.most_common(ERRORS_PRINTED_MAX):
            note(f"kitemq: {count} not sent: {text}")
        failed = self._failed.total()
        if not self._is_single:
            rate = self._sent / seconds if seconds else 0.0
            self._output.line(
                f"{self._sent} sent, {failed} failed, {rate:,.0f} messages/s",
                {"sent": self._sent, "failed": failed, "seconds": round(seconds, 3)},
            )
        if self._last_error is None:
            return Exit.OK
        return Exit.PARTIAL if self._sent else exit_of(self._last_error)


async def _bodies(options: ProduceOptions) -> AsyncIterator[bytes]:
    """The bodies to send, not faster than `--rate`, the whole of them `--count` times."""
    number = 0
    started_s = time.monotonic()
    async for body in _sources(options):
        if options.rate:
            await asyncio.sleep(max(0.0, started_s + number / options.rate - time.monotonic()))
        number += 1
        yield body


async def _sources(options: ProduceOptions) -> AsyncIterator[bytes]:
    whole = None if options.body is None else options.body.encode()
    if options.file is not None:
        whole = await asyncio.to_thread(_read_file, options.file)
    if whole is not None:
        for _ in range(options.count):
            yield whole
        return
    while line := await asyncio.to_thread(sys.stdin.buffer.readline):
        body = line.rstrip(b"\r\n")
        if body:
            yield body


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Invalid(f"cannot read {path}: {error.strerror}", field="--file") from None


def _is_single(options: ProduceOptions) -> bool:
    has_message = options.body is not None or options.file is not None
    return has_message and options.count == 1


def _properties(pairs: Iterable[str]) -> dict[str, str]:
    properties = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name or not value:
            raise Invalid(
                f"{pair!r} is no NAME=VALUE", field="--property", remedy="as in color=red"
            )
        properties[name] = value
    return properties


def _row(result: SendResult) -> dict[str, object]:
    row = msgspec.to_builtins(result)
    return {**row, "offset": str(result.offset), "position": str(result.position)}
