"""REST for retention: its limits and state, and purging a topic."""

from app.api.framework.operation import Call, Operations
from app.security.access import READ_SERVER, Action
from app.services.retention import Extent
from engine.errors import Invalid
from kitemq.model.conversion import convert
from kitemq.model.numbers import whole
from kitemq.model.retention import Purged, PurgeOrder, Retention
from kitemq.model.values import OFFSET_MAX

operations = Operations("retention")


@operations.get("/retention", capability="log_figures", needs=READ_SERVER)
async def get_retention(call: Call[None, None]) -> Retention:
    """See what is kept for how long, how full log and disk are, and what goes next."""
    return convert(await call.services.purges.status(), Retention)


@operations.post(
    "/topics/{topic}/purge",
    capability="purges",
    needs=Action.ADMINISTER,
    errors=(403,),
    example_body='{"all": true, "dry_run": true}',
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
        return convert(purges.preview(topic, extent), Purged)
    return convert(await purges.purge(call.actor, topic, extent), Purged)


def _offsets(texts: dict[str, str | int] | None) -> dict[int, int] | None:
    if texts is None:
        return None
    return {
        _number(queue, queue, "a queue"): _number(offset, queue, "an offset")
        for queue, offset in texts.items()
    }


def _number(value: str | int, queue: str, what: str) -> int:
    number = whole(str(value), OFFSET_MAX)
    if number is not None:
        return number
    raise Invalid(
        f"{str(value)[:40]!r} is no number of {what}",
        field=f"before_offset.{queue[:40]}",
        remedy="send whole numbers from 0",
    )
