"""Messages that wait for their time of delivery: list, recall, deliver, reschedule."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta

from app.api.framework.operation import Call, Operations
from app.api.framework.paging import PAGE_DEFAULT, Limit
from app.api.messages.messages import message_view
from app.security.access import EVERYTHING, READ_SERVER, Action, Kind, Needs, Principal
from app.security.message_rights import visible
from app.services import bodies
from engine.broker import Scheduled
from engine.errors import Invalid
from kitemq.model.conversion import convert
from kitemq.model.messages import Encoding
from kitemq.model.scheduled import NewTime, ScheduledChange, Time, WaitingMessage, WaitingPage

operations = Operations("scheduled")
ADMINISTER_TOPICS = Needs(Action.ADMINISTER, Kind.TOPIC, EVERYTHING)


class ScheduledQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Filters of the list of waiting messages."""

    topic: Annotated[str, Meta(description="Only those bound for it.")] = ""
    from_ms: Annotated[Time, Meta(description="Due at this time or later.")] = 0
    after: Annotated[str, Meta(description="A page's `next`.")] = ""
    limit: Limit = PAGE_DEFAULT
    encoding: Encoding = Encoding.AUTO


@operations.get(
    "/scheduled",
    capability="scheduled_list",
    needs=READ_SERVER,
    example="?topic=reminders&limit=10",
)
async def list_scheduled(call: Call[ScheduledQuery, None]) -> WaitingPage:
    """List messages that wait for their time.

    By time, the earliest first: those with `delay_ms` or `deliver_at_ms`, and those in delay
    levels, retries included. Messages that the caller may not read come without their content.
    """
    query = call.query
    page = await call.messaging.scheduled(
        topic=query.topic, from_ms=query.from_ms, after=query.after, count_max=query.limit
    )
    await bodies.decompress([item.message for item in page.items])
    items = [_waiting_message(call.who, item, query.encoding) for item in page.items]
    total = None if page.unknown else page.count
    return WaitingPage(items, page.next, total, page.unknown)


@operations.post("/scheduled/{message_id}/recall", needs=ADMINISTER_TOPICS)
async def recall_message(call: Call[None, None]) -> ScheduledChange:
    """Recall a waiting message: it is never delivered.

    Takes the message id or the offset id. Asking again gets the same answer.
    """
    message_id = call.path("message_id")
    answer = await call.services.scheduled.recall(call.actor, message_id)
    return ScheduledChange(message_id, answer.value)


@operations.post("/scheduled/{message_id}/deliver", needs=ADMINISTER_TOPICS)
async def deliver_message(call: Call[None, None]) -> ScheduledChange:
    """Deliver a waiting message at once."""
    message_id = call.path("message_id")
    answer = await call.services.scheduled.deliver_now(call.actor, message_id)
    return ScheduledChange(message_id, answer.value)


@operations.post(
    "/scheduled/{message_id}/reschedule",
    needs=ADMINISTER_TOPICS,
    example_body='{"delay_ms": 60000}',
)
async def reschedule_message(call: Call[None, NewTime]) -> ScheduledChange:
    """Let a waiting message wait for another time.

    A time that has come already delivers it at once. At most a year ahead. A message in a delay
    level leaves it for the exact time.
    """
    message_id = call.path("message_id")
    deliver_at_ms = _time_of(call.body, call.host.clock.now_ms())
    answer = await call.services.scheduled.reschedule(call.actor, message_id, deliver_at_ms)
    return ScheduledChange(message_id, answer.value)


def _time_of(new: NewTime, now_ms: int) -> int:
    if new.deliver_at_ms is not UNSET and new.delay_ms is UNSET:
        return new.deliver_at_ms
    if new.delay_ms is not UNSET and new.deliver_at_ms is UNSET:
        return now_ms + new.delay_ms
    raise Invalid(
        "give either deliver_at_ms or delay_ms",
        field="deliver_at_ms",
        remedy="give one of them: a time, or how much later than now",
    )


def _waiting_message(who: Principal, item: Scheduled, encoding: Encoding) -> WaitingMessage:
    message = visible(who, item.message)
    queue = item.queue if item.queue >= 0 else None
    fields = message_view(message, encoding)
    return convert(item, WaitingMessage, message_id=message.message_id, queue=queue, message=fields)
