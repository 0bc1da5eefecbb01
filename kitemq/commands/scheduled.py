"""`kitemq scheduled`: what waits for its time of delivery; recall, deliver, reschedule."""

from datetime import UTC, datetime

from kitemq.client import Client
from kitemq.commands.asking import confirmed
from kitemq.commands.command import (
    CommandGroup,
    CommandOptions,
    IdOptions,
    argument,
    option,
    yes_option,
)
from kitemq.commands.output import Exit, Output, document
from kitemq.commands.times import milliseconds, time_ms
from kitemq.errors import Invalid
from kitemq.model.scheduled import WaitingMessage
from kitemq.rest import Json

COLUMNS = ("due", "topic", "queue", "message_id", "tag", "size_bytes")
LIMIT_DEFAULT = 100


scheduled = CommandGroup("scheduled")


class ScheduledListOptions(CommandOptions):
    topic: str
    due_from: str | None
    limit: int


@scheduled.command("list", help="what waits, by time")
@argument("topic", default="", help="only what is bound for it")
@option("--from", "due_from", metavar="WHEN", help="due then")
@option("--limit", type=int, default=LIMIT_DEFAULT, help="0 means all")
def list_scheduled(options: ScheduledListOptions, output: Output) -> int:
    from_ms = 0 if options.due_from is None else time_ms(options.due_from, "--from")
    with Client(options.server) as client:
        messages = client.scheduled.list(topic=options.topic, from_ms=from_ms, limit=options.limit)
        if output.is_json:
            output.rows(messages, COLUMNS)
        else:
            output.rows(map(_row, messages), COLUMNS)
    return Exit.OK


class RecallOptions(CommandOptions):
    id: str
    yes: bool


@scheduled.command("recall", help="never deliver a message")
@argument("id", help="its message id, or offset id")
@yes_option
def recall(options: RecallOptions, output: Output) -> int:
    confirmed(f"recall message {options.id}: it will never be delivered", yes=options.yes)
    with Client(options.server) as client:
        return _print_result(options.id, client.scheduled.recall(options.id), output)


@scheduled.command("deliver", help="deliver a message at once")
@argument("id", help="its message id, or offset id")
def deliver(options: IdOptions, output: Output) -> int:
    with Client(options.server) as client:
        return _print_result(options.id, client.scheduled.deliver(options.id), output)


class RescheduleOptions(CommandOptions):
    id: str
    delay: str | None
    deliver_at: str | None


@scheduled.command("reschedule", help="let a message wait for another time")
@argument("id", help="its message id, or offset id")
@option("--delay", metavar="TIME", help="from now: 90s, 5m, 2h")
@option("--deliver-at", metavar="WHEN", help="2026-01-31T09:00Z")
def reschedule(options: RescheduleOptions, output: Output) -> int:
    if (options.delay is None) == (options.deliver_at is None):
        raise Invalid(
            "give either --delay or --deliver-at", field="--delay", remedy="as in --delay 5m"
        )
    with Client(options.server) as client:
        if options.deliver_at is not None:
            at_ms = time_ms(options.deliver_at, "--deliver-at")
            result = client.scheduled.reschedule(options.id, deliver_at_ms=at_ms)
        else:
            delay_ms = milliseconds(options.delay or "", "--delay")
            result = client.scheduled.reschedule(options.id, delay_ms=delay_ms)
    return _print_result(options.id, result, output)


def _print_result(message_id: str, result: str, output: Output) -> int:
    output.line(
        f"{message_id}: {result.replace('_', ' ')}", {"message_id": message_id, "result": result}
    )
    return Exit.OK


def _row(item: WaitingMessage) -> Json:
    due = datetime.fromtimestamp(item.due_ms / 1000, UTC)
    return {
        **document(item),
        "tag": item.message.tag,
        "size_bytes": item.message.size_bytes,
        "due": due.isoformat(sep=" ", timespec="milliseconds"),
    }
