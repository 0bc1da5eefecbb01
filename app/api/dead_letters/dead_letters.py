"""Dead letters of a group: what they died of, and sending them again."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from app.api.framework.operation import Call, Operations
from app.api.framework.paging import PAGE_DEFAULT, Limit, NumberCursor, number_in
from app.api.messages.messages import message_view
from app.security.access import Action, Principal, require_replay
from app.security.message_rights import looks_inside, visible
from app.services import bodies
from engine.broker import (
    DEAD_LETTER_PREFIX,
    GROUP_QUEUE,
    DeadLetter,
    DeadLetterConditions,
    DeadLetterState,
    NewReplay,
)
from engine.errors import NotFound, TopicNotFound
from kitemq.model.conversion import convert
from kitemq.model.dead_letters import (
    DeadLetterCounts,
    DeadLetterCut,
    DeadLetterInfo,
    DeadLetterList,
    Redrive,
)
from kitemq.model.messages import Encoding
from kitemq.model.replays import Replay

operations = Operations("dead letters")
NEWEST_MAX = 10_000


class DeadQuery(DeadLetterCut, frozen=True, forbid_unknown_fields=True):
    """Filters of the list of dead letters."""

    limit: Limit = PAGE_DEFAULT
    after: NumberCursor = ""
    state: Annotated[
        Literal["open", "resent", "dismissed", "all"],
        Meta(description="Those that wait for a decision; or the others, or all."),
    ] = "open"
    encoding: Encoding = Encoding.AUTO


class CountQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The number of dead letters to count."""

    newest: Annotated[int, Meta(ge=1, le=NEWEST_MAX)] = 1000


def dead_letter_out(
    who: Principal, letter: DeadLetter, encoding: Encoding = Encoding.AUTO
) -> DeadLetterInfo:
    """Convert a dead letter; without the right of `who` to read it, without its content."""
    message = message_view(visible(who, letter.message), encoding)
    return convert(letter, DeadLetterInfo, message=message, died_ms=message.stored_ms)


@operations.get("/groups/{group}/dead-letters", needs=Action.READ, example="?reason=rejected")
async def list_dead_letters(call: Call[DeadQuery, None]) -> DeadLetterList:
    """List a group's open dead letters, or those in another state, the newest first.

    At most 500 are looked at for one page: with conditions it may be short, or empty, although
    `next_cursor` says that there is more. Without the right to read the group's messages they come
    without what they say, and an SQL92 filter is refused.
    """
    query, group = call.query, call.path("group")
    if looks_inside(query.filter):
        call.require_messages(DEAD_LETTER_PREFIX + group)
    page = await call.administration.dead_letters.page(
        group,
        convert(query, DeadLetterConditions),
        after=number_in(query.after),
        count_max=query.limit,
        state=None if query.state == "all" else DeadLetterState(query.state),
    )
    await bodies.decompress([item.message for item in page.items])
    return DeadLetterList(
        [dead_letter_out(call.who, item, query.encoding) for item in page.items],
        None if page.next is None else str(page.next),
        page.count,
    )


@operations.get("/groups/{group}/dead-letters/counts", needs=Action.READ, example="?newest=500")
async def count_dead_letters(call: Call[CountQuery, None]) -> DeadLetterCounts:
    """Count a group's dead letters by state, the newest by cause, origin topic and client."""
    return await call.services.replays.count_dead_letters(call.path("group"), call.query.newest)


@operations.get("/groups/{group}/dead-letters/{offset}", needs=Action.READ)
async def get_dead_letter(call: Call[None, None]) -> DeadLetterInfo:
    """Get one dead letter; without the right to read it, without its content."""
    offset = call.number("offset")
    letter = await call.administration.dead_letters.get(call.path("group"), offset)
    await bodies.decompress([letter.message])
    return dead_letter_out(call.who, letter)


@operations.post(
    "/groups/{group}/dead-letters/redrive",
    needs=Action.ADMINISTER,
    status=201,
    errors=(403, 409),
    example_body='{"reason": "rejected", "fresh_only": true}',
)
async def redrive_dead_letters(call: Call[None, Redrive]) -> Replay:
    """Send dead letters again: one, some, all, or those that meet conditions.

    Makes a replay job (see POST /replays), by default back to this group alone at 100 a second.
    """
    group, body = call.path("group"), call.body
    order = convert(
        body,
        NewReplay,
        source=DEAD_LETTER_PREFIX + group,
        places=[(GROUP_QUEUE, int(offset)) for offset in body.offsets],
        origin_topic=body.topic,
        dead_letter_state=body.state,
    )
    require_replay(call.who, order.source, order.to, order.to_name)
    try:
        job = await call.services.replays.create(call.actor, order)
    except TopicNotFound as error:
        if body.to_name and DEAD_LETTER_PREFIX not in error.detail:
            raise
        raise NotFound(
            f"the group {group!r} has no dead letters",
            field="group",
            remedy="check its spelling, or choose another group",
            code="no_dead_letters",
        ) from None
    return convert(job, Replay)
