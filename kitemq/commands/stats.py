"""`kitemq stats`: what goes through, how fast and how late; of the broker, a topic or a group."""

import datetime

import click

from kitemq.client import Client
from kitemq.commands.command import CommandGroup, Options, argument, option, run
from kitemq.commands.output import Exit, Output
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


def show_broker(options: Options, output: Output) -> int:
    with Client(options.server) as client:
        found = client.statistics()
    if output.is_json:
        output.row(found)
        return Exit.OK
    names = ("acked", "retried", "dead", "refused")
    output.rows(_rates({**found["traffic"], **{name: found[name] for name in names}}), RATE_COLUMNS)
    latency = found["put_latency"]
    spreads = [
        {"what": "stored us", **latency["stored"]["recent"]},
        {"what": "flushed us", **latency["flushed"]["recent"]},
        {"what": "body bytes", **found["message_size"]},
    ]
    output.rows(map(_rounded, spreads), TIME_COLUMNS)
    return Exit.OK


@stats.command("topic", help="one topic and who reads it")
@argument("name")
def show_topic(options: Options, output: Output) -> int:
    with Client(options.server) as client:
        found = client.topic_statistics(options.name)
    if output.is_json:
        output.row(found)
        return Exit.OK
    output.rows(_rates({**found["traffic"], "refused": found["refused"]}), RATE_COLUMNS)
    output.rows(map(_reader, found["readers"]), READER_COLUMNS)
    return Exit.OK


@stats.command("group", help="one consumer group and what it reads")
@argument("name")
def show_group(options: Options, output: Output) -> int:
    with Client(options.server) as client:
        found = client.group_statistics(options.name)
    if output.is_json:
        output.row(found)
        return Exit.OK
    names = ("messages_out", "bytes_out", "acked", "retried", "dead")
    output.rows(_rates({name: found[name] for name in names}), RATE_COLUMNS)
    output.rows(map(_reader, found["readers"]), READER_COLUMNS)
    return Exit.OK


@stats.command("lag", help="a group's lag over time")
@argument("name")
@option("--topic", default="", help="this topic only")
@option("--queue", type=int, help="this queue of it only")
@option("--hours", type=float, default=1.0, help="so far back (default 1)")
@option("--points", type=int, default=60, help="at most so many rows (default 60)")
def show_lag(options: Options, output: Output) -> int:
    with Client(options.server) as client:
        found = client.lag_history(
            options.name,
            topic=options.topic,
            queue=options.queue,
            from_ms=-round(options.hours * 3_600_000),
            points=options.points,
        )
    output.rows(
        ({**_rounded(point), "time": _time(point["at_ms"])} for point in found["points"]),
        LAG_COLUMNS,
    )
    return Exit.OK


def _rates(rates: Json) -> list[Json]:
    return [_rounded({"what": name.replace("_", " "), **each}) for name, each in rates.items()]


def _reader(reader: Json) -> Json:
    """The totals since the server started."""
    totals = {name: reader[name]["total"] for name in ("acked", "retried", "dead")}
    handed_out = reader["messages_out"]["total"]
    return {"topic": reader["topic"], "group": reader["group"], "handed_out": handed_out, **totals}


def _rounded(row: Json) -> Json:
    return {
        name: round(value, 2) if isinstance(value, float) else value for name, value in row.items()
    }


def _time(at_ms: int) -> str:
    return datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC).isoformat(timespec="seconds")
