"""`kitemq trace`: what happened to one message, as a timeline; how the recording of it goes."""

from datetime import datetime

import click

from kitemq.client import Client
from kitemq.commands.command import ClientCommand, CommandOptions, argument, flag
from kitemq.commands.output import Exit, Output, note
from kitemq.model.journeys import Journey, Stage

STATUS = "--status"


class TraceOptions(CommandOptions):
    id: str
    status: bool


@click.command("trace", cls=ClientCommand, one_of=("id", "status"), needs_one=True)
@argument("id", default="", metavar="ID", help="message id or offset id")
@flag(STATUS, "how the recording of traces goes")
def trace(options: TraceOptions, output: Output) -> int:
    """Exit code 1 where nothing is known of the message."""
    with Client(options.server) as client:
        if options.status:
            output.row(client.traces.status())
            return Exit.OK
        journey = client.traces.journey(options.id)
    if output.is_json:
        output.row(journey)
    else:
        for line in lines_of(journey):
            output.line(line, journey)
        for reason in journey.reasons_checked:
            if reason.applies or not journey.stages:
                mark = "yes" if reason.applies else "no"
                note(f"{reason.code.replace('_', ' ')}? {mark}: {reason.detail}")
    if journey.stages:
        return Exit.OK
    note(f"nothing is known of {options.id}; what was looked at is listed above")
    return Exit.FAILED


def lines_of(journey: Journey) -> list[str]:
    """The timeline as text: when, after which time, what, how it ended, who, how long it took."""
    stages = journey.stages
    if not stages:
        return []
    begin_ms = stages[0].at_ms
    began = datetime.fromtimestamp(begin_ms / 1000).astimezone()
    lines = [f"{journey.message_id}  {journey.topic}  {began:%Y-%m-%d %H:%M:%S %Z}"]
    rows = [_cells(stage, begin_ms) for stage in stages]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines += ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    for branch in journey.groups:
        count = branch.deliveries
        times = f"{count} deliver{'y' if count == 1 else 'ies'}"
        lines.append(f"{branch.group}: {branch.state.replace('_', ' ')}, {times}")
    if not journey.complete:
        lines.append("there is more than is shown")
    return lines


def _cells(stage: Stage, begin_ms: int) -> list[str]:
    name = stage.name.replace("_", " ")
    if stage.attempt and stage.name in ("delivery", "retry_wait", "check", "client_consume"):
        name += f" {stage.attempt}"
    until_ms = stage.until_ms
    took = "" if until_ms is None else f"took {length(until_ms - stage.at_ms)}"
    if until_ms is None and stage.outcome in ("waiting", "inflight"):
        took = "goes on"
    if until_ms == stage.at_ms:
        took = ""
    who = " ".join(filter(None, (stage.group, stage.client)))
    return [
        f"+{length(stage.at_ms - begin_ms)}",
        name,
        stage.outcome.replace("_", " "),
        took,
        who,
        stage.detail,
    ]


def length(span_ms: int) -> str:
    """A span as a person reads it: 250ms, 1.5s, 3m20s, 2h05m, 3d04h."""
    if span_ms < 1000:
        return f"{span_ms}ms"
    if span_ms < 60_000:
        return f"{span_ms / 1000:.3g}s"
    minutes, seconds = divmod(span_ms // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d{hours:02}h"
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{seconds:02}s"
