"""Retention: what is kept for how long; and purging a topic."""

from typing import Annotated

import msgspec
from msgspec import Meta

from app.api.framework.operation import API, Call, operation
from app.api.topics.topics import actor_of
from app.security.access import READ_SERVER, Action, Kind, Needs
from app.services.retention import Extent
from engine.broker import Purge
from engine.errors import Invalid
from kitemq.model.values import Milliseconds

TAG = "retention"
NUMBER_MAX = 2**63 - 1
NUMBER_DIGITS_MAX = 19


class Holder(msgspec.Struct):
    """What keeps old files from going; its oldest message lies at `position` of the log."""

    name: str
    position: str


class Retention(msgspec.Struct):
    """The policy in force, and where log and disk stand."""

    retention_ms: Annotated[int, Meta(description="How long messages are kept; 0 for good.")]
    retention_bytes: Annotated[int, Meta(description="The most the log may take; 0 no limit.")]
    disk_expire_percent: int
    disk_force_percent: int
    disk_refuse_percent: int
    disk_enough_bytes: int
    disk_percent: Annotated[
        float, Meta(description="How full the disk is; 0 while disk_enough_bytes are free.")
    ]
    disk_free_bytes: int | None
    disk_bytes: int
    log_bytes: int
    segments: Annotated[int, Meta(description="Log files; they go whole, the last one never.")]
    segment_bytes: int
    oldest_position: str
    oldest_ms: Annotated[
        int | None, Meta(description="When the oldest message was stored, ms since 1970 UTC.")
    ]
    next_due_ms: Annotated[
        int | None, Meta(description="When the oldest file is old enough to go; null if never.")
    ]
    held_by: Annotated[list[Holder], Meta(description="What keeps files that could go.")]
    refusal: Annotated[str, Meta(description="Why sends are refused; empty if they are not.")]
    warning: Annotated[str, Meta(description="What somebody should see to; empty if nothing.")]


class PurgeOrder(msgspec.Struct, forbid_unknown_fields=True):
    """How much is to be purged: one of `before_offset`, `before_ms` and `all`."""

    before_offset: Annotated[
        dict[str, str | int] | None,
        Meta(description="By queue number: the first offset that stays."),
    ] = None
    before_ms: Annotated[Milliseconds | None, Meta(description="Older messages go.")] = None
    all: Annotated[bool, Meta(description="Everything that can be read now.")] = False
    dry_run: Annotated[bool, Meta(description="Only count what would go.")] = False


class PurgedQueue(msgspec.Struct):
    """`count` messages from `from_offset` on; the queue begins at `to_offset`."""

    queue: int
    from_offset: str
    to_offset: str
    count: int


class Purged(msgspec.Struct):
    """What went, or with `dry_run` would go; only queues that lose something are listed."""

    topic: str
    count: int
    dry_run: bool
    queues: list[PurgedQueue]


@operation(
    "GET",
    f"{API}/retention",
    tag=TAG,
    needs=READ_SERVER,
    answer=Retention,
    example="curl $URL/api/v1/retention",
)
async def get_retention(call: Call[None, None]) -> Retention:
    """See what is kept for how long, how full log and disk are, and what goes next."""
    status = call.host.broker.retention.status()
    fields = msgspec.structs.asdict(status)
    fields["oldest_position"] = str(status.oldest_position)
    fields["held_by"] = [Holder(held.name, str(held.position)) for held in status.held_by]
    return Retention(**fields)


@operation(
    "POST",
    f"{API}/topics/{{topic}}/purge",
    tag=TAG,
    needs=Needs(Action.ADMINISTER, Kind.TOPIC, "topic"),
    body=PurgeOrder,
    answer=Purged,
    errors=(403, 404),
    example="curl -X POST $URL/api/v1/topics/orders/purge -H 'Content-Type: application/json' "
    """-d '{"all": true, "dry_run": true}'""",
)
async def purge_topic(call: Call[None, PurgeOrder]) -> Purged:
    """Purge a topic: make messages unreadable for good.

    Up to an offset of some queues, up to a time, or all that can be read now; groups that had not
    come so far go on where their queue begins then. The room on the disk comes back with
    retention. With `dry_run` nothing happens but counting. Retries and messages that wait for
    their time are not touched.
    """
    order = call.body
    extent = Extent(_offsets(order.before_offset), order.before_ms, order.all)
    purges = call.services.purges
    topic = call.path("topic")
    if order.dry_run:
        return _out(purges.preview(topic, extent))
    return _out(await purges.purge(actor_of(call), topic, extent))


def _out(done: Purge) -> Purged:
    return Purged(
        done.topic,
        done.count,
        done.is_dry_run,
        [
            PurgedQueue(each.queue, str(each.from_offset), str(each.to_offset), each.count)
            for each in done.queues
        ],
    )


def _offsets(given: dict[str, str | int] | None) -> dict[int, int] | None:
    if given is None:
        return None
    return {
        _number(queue, queue, "a queue"): _number(offset, queue, "an offset")
        for queue, offset in given.items()
    }


def _number(value: str | int, queue: str, what: str) -> int:
    text = str(value)
    is_number = text.isascii() and text.isdecimal() and len(text) <= NUMBER_DIGITS_MAX
    if is_number and int(text) <= NUMBER_MAX:
        return int(text)
    raise Invalid(
        f"{text[:40]!r} is no number of {what}",
        field=f"before_offset.{queue[:40]}",
        remedy="send whole numbers from 0",
    )


OPERATIONS = (get_retention, purge_topic)
