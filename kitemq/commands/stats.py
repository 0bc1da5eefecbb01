"""`kitemq stats`: what goes through, how fast and how late; of the broker, a topic or a group."""

import datetime

import click
import msgspec

from kitemq.client import Client
from kitemq.commands.command import (
    CommandGroup,
    CommandOptions,
    NamedOptions,
    argument,
    option,
    run,
)
from kitemq.commands.output import Exit, Output, document
from kitemq.model.statistics import Rates, ReaderStatistics
from kitemq.rest import Json

RATE_COLUMNS = ("what", "total", "second", "minute", "ten_minutes", "day")
TIME_COLUMNS = ("what", "count", "mean", "p50", "p95", "p99", "p999", "max")
READER_COLUMNS = ("topic", "group", "handed_out", "acked", "retried", "dead")
LAG_COLUMNS = (
    "time",
    "samples",
    "count_max",
    "count_avg",
    "oldest_age_max_ms",
    "inflight_max",
    "retry_waiting_max",
    "dead_max",
)


@click.group(cls=CommandGroup, invoke_without_command=True)
@click.pass_context
def stats(ctx: click.Context) -> int | None:
    """Rates, totals and how long sends take: of the broker, or of what is named."""
    return run(show_broker, ctx) if ctx.invoked_subcommand is None else None


def show_broker(options: CommandOptions, output: Output) -> int:
    with Client(options.server) as client:
        broker = client.statistics.broker()
    if output.is_json:
        output.row(broker)
        return Exit.OK
    output.rows(_rates(broker.traffic, broker), RATE_COLUMNS)
    latency = broker.put_latency
    spreads = {
        "stored us": latency and latency.stored.recent,
        "flushed us": latency and latency.flushed.recent,
        "body bytes": broker.message_size,
    }
    rows = (_row(what, spread) for what, spread in spreads.items() if spread)
    output.rows(rows, TIME_COLUMNS)
    return Exit.OK


@stats.command("topic", help="one topic and who reads it")
@argument("name")
def show_topic(options: NamedOptions, output: Output) -> int:
    with Client(options.server) as client:
        topic = client.statistics.topic(options.name)
    if output.is_json:
        output.row(topic)
        return Exit.OK
    output.rows(_rates(topic.traffic, topic), RATE_COLUMNS)
    output.rows(map(_reader, topic.readers), READER_COLUMNS)
    return Exit.OK


@stats.command("group", help="one consumer group and what it reads")
@argument("name")
def show_group(options: NamedOptions, output: Output) -> int:
    with Client(options.server) as client:
        group = client.statistics.group(options.name)
    if output.is_json:
        output.row(group)
        return Exit.OK
    output.rows(_rates(group), RATE_COLUMNS)
    output.rows(map(_reader, group.readers), READER_COLUMNS)
    return Exit.OK


class LagOptions(CommandOptions):
    name: str
    topic: str
    queue: int | None
    hours: float
    points: int


@stats.command("lag", help="a group's lag over time")
@argument("name")
@option("--topic", default="", help="this topic only")
@option("--queue", type=int, help="this queue of it only")
@option("--hours", type=float, default=1.0, help="so far back (default 1)")
@option("--points", type=int, default=60, help="at most so many rows (default 60)")
def show_lag(options: LagOptions, output: Output) -> int:
    with Client(options.server) as client:
        history = client.statistics.lag_history(
            options.name,
            topic=options.topic,
            queue=options.queue,
            from_ms=-round(options.hours * 3_600_000),
            points=options.points,
        )
    output.rows(
        ({**_rounded(point), "time": _time(point.at_ms)} for point in history.points), LAG_COLUMNS
    )
    return Exit.OK


def _rates(*sources: msgspec.Struct) -> list[Json]:
    """A row for each field that is a rate."""
    return [
        _row(name.replace("_", " "), value)
        for source in sources
        for name in source.__struct_fields__
        if isinstance(value := getattr(source, name), Rates)
    ]


def _reader(reader: ReaderStatistics) -> Json:
    """The totals since the server started."""
    settled = {"acked": reader.acked, "retried": reader.retried, "dead": reader.dead}
    totals = {name: rates and rates.total for name, rates in settled.items()}
    handed_out = reader.messages_out.total
    return {"topic": reader.topic, "group": reader.group, "handed_out": handed_out, **totals}


def _row(what: str, figures: msgspec.Struct) -> Json:
    return {"what": what, **_rounded(figures)}


def _rounded(figures: msgspec.Struct) -> Json:
    return {
        name: round(value, 2) if isinstance(value, float) else value
        for name, value in document(figures).items()
    }


def _time(at_ms: int) -> str:
    return datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC).isoformat(timespec="seconds")
