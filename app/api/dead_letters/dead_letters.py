"""Dead letters of a group: what they died of, and sending them again."""

from typing import Annotated

import msgspec
from msgspec import Meta

from app.api.framework.operation import API, Call, operation
from app.api.messages.messages import OFFSET_MAX, Encoding, Filter, Seen, number_in_path, seen
from app.api.replays.shapes import (
    DryRun,
    FreshOnly,
    OffsetText,
    OriginTopic,
    PageLimit,
    Rate,
    Reason,
    Replay,
    Time,
    WithDismissed,
    offset_of,
    replay_out,
)
from app.api.topics.topics import actor_of
from app.security.access import Action, Kind, Needs, Principal, require_replay
from app.security.message_rights import looks_inside, visible
from app.services import bodies
from app.services.replays import Counts
from engine.broker import (
    DEAD_LETTER_PREFIX,
    GROUP_QUEUE,
    DeadLetter,
    DismissNote,
    NewReplay,
    ReplayTo,
)
from engine.errors import NotFound, TopicNotFound

TAG = "dead letters"
NEWEST_MAX = 10_000


class Dead(msgspec.Struct):
    """A dead letter with its cause, and what was done about it."""

    message: Seen
    reason: Annotated[str, Meta(description="attempts_exhausted, rejected …")]
    error: Annotated[str, Meta(description="What its consumer said last.")]
    client: Annotated[str, Meta(description="Which client had it last.")]
    failures: Annotated[int, Meta(description="How often it was delivered in vain.")]
    died_ms: int
    origin_topic: str
    origin_id: Annotated[str, Meta(description="Offset id of the record that was first sent.")]
    redriven_by: Annotated[
        list[str], Meta(description="Replay jobs that sent it again from here, oldest first.")
    ]
    redriven_from: Annotated[
        str, Meta(description="The replay job after which it came back dead; else empty.")
    ]
    redrive_count: Annotated[
        int, Meta(description="How many replay jobs had sent it before it died.")
    ]
    dismissed: Annotated[
        DismissNote | None, Meta(description="Who let it rest, and why; null for nobody.")
    ]


class DeadPage(msgspec.Struct):
    """Dead letters, the newest first; may be short although there is a next page.

    `total` counts all of the group, without conditions.
    """

    items: list[Dead]
    next_cursor: str | None
    total: int


class DeadQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which dead letters are listed."""

    limit: PageLimit = 50
    after: Annotated[str, Meta(description="`next_cursor` of the page before.")] = ""
    reason: Reason = ""
    topic: OriginTopic = ""
    filter: Filter = "*"
    dismissed: Annotated[
        bool | None, Meta(description="Only those that are dismissed, or only the others.")
    ] = None
    encoding: Encoding = Encoding.AUTO


class CountQuery(msgspec.Struct, forbid_unknown_fields=True):
    """How many are counted."""

    newest: Annotated[int, Meta(ge=1, le=NEWEST_MAX)] = 1000


class DeadCounts(msgspec.Struct):
    """What the newest `examined` of a group's `total` dead letters have in common."""

    total: int
    examined: int
    reasons: dict[str, int]
    topics: dict[str, int]
    clients: dict[str, int]
    redriven: Annotated[int, Meta(description="How many of them were sent again.")]
    returned: Annotated[int, Meta(description="How many had been sent again before they died.")]
    dismissed: Annotated[int, Meta(description="How many of them people let rest.")]


class Redrive(msgspec.Struct, forbid_unknown_fields=True):
    """Which dead letters are sent again, and where to. Without any choice, all of them."""

    to: Annotated[
        ReplayTo,
        Meta(description="group: only this group, others did not fail; or origin, or topic."),
    ] = ReplayTo.GROUP
    to_name: Annotated[str, Meta(description="The topic, or another group.")] = ""
    name: Annotated[str, Meta(max_length=200)] = ""
    offsets: Annotated[list[OffsetText], Meta(max_length=10_000)] = []
    from_ms: Time = 0
    to_ms: Time = 0
    filter: Filter = "*"
    reason: Reason = ""
    topic: OriginTopic = ""
    fresh_only: FreshOnly = False
    with_dismissed: WithDismissed = False
    rate: Rate = 100.0
    dry_run: DryRun = False


def dead_out(who: Principal, letter: DeadLetter, encoding: Encoding = Encoding.AUTO) -> Dead:
    """A dead letter as the API shows it."""
    return Dead(
        seen(visible(who, letter.message), encoding),
        letter.reason,
        letter.error,
        letter.client,
        letter.failures,
        letter.message.stored_ms,
        letter.origin_topic,
        letter.origin_id,
        letter.redriven_by,
        letter.redriven_from,
        letter.redrive_count,
        letter.dismissed,
    )


@operation(
    "GET",
    f"{API}/groups/{{group}}/dead-letters",
    tag=TAG,
    needs=Needs(Action.READ, Kind.GROUP, "group"),
    query=DeadQuery,
    answer=DeadPage,
    errors=(404,),
    example="curl '$URL/api/v1/groups/billing/dead-letters?reason=rejected'",
)
async def list_dead_letters(call: Call[DeadQuery, None]) -> DeadPage:
    """List a group's dead letters with their cause, the newest first.

    At most 500 are looked at for one page: with conditions it may be short, or empty, although
    `next_cursor` says that there is more. Without the right to read the group's messages they come
    without what they say, and an SQL92 filter is refused.
    """
    query, group = call.query, call.path("group")
    if looks_inside(query.filter):
        call.require_messages(DEAD_LETTER_PREFIX + group)
    page = call.host.broker.dead_letters.page(
        group,
        after=offset_of(query.after, "after") if query.after else None,
        count_max=query.limit,
        reason=query.reason,
        topic=query.topic,
        filter=query.filter,
        dismissed=query.dismissed,
    )
    await bodies.decompress([item.message for item in page.items])
    return DeadPage(
        [dead_out(call.who, item, query.encoding) for item in page.items],
        None if page.next is None else str(page.next),
        page.count,
    )


@operation(
    "GET",
    f"{API}/groups/{{group}}/dead-letters/counts",
    tag=TAG,
    needs=Needs(Action.READ, Kind.GROUP, "group"),
    query=CountQuery,
    answer=DeadCounts,
    errors=(404,),
    example="curl '$URL/api/v1/groups/billing/dead-letters/counts?newest=500'",
)
async def count_dead_letters(call: Call[CountQuery, None]) -> DeadCounts:
    """Count a group's newest dead letters by reason, origin topic and client."""
    replays = call.services.replays
    counts: Counts = await replays.count_dead_letters(call.path("group"), call.query.newest)
    return DeadCounts(
        counts.count,
        counts.examined,
        counts.reasons,
        counts.topics,
        counts.clients,
        counts.redriven,
        counts.returned,
        counts.dismissed,
    )


@operation(
    "GET",
    f"{API}/groups/{{group}}/dead-letters/{{offset}}",
    tag=TAG,
    needs=Needs(Action.READ, Kind.GROUP, "group"),
    answer=Dead,
    errors=(404,),
    example="curl $URL/api/v1/groups/billing/dead-letters/0",
)
async def get_dead_letter(call: Call[None, None]) -> Dead:
    """Look at one dead letter; without the right to read it, not at what it says."""
    offset = number_in_path(call, "offset", OFFSET_MAX)
    letter = call.host.broker.dead_letters.get(call.path("group"), offset)
    await bodies.decompress([letter.message])
    return dead_out(call.who, letter)


@operation(
    "POST",
    f"{API}/groups/{{group}}/dead-letters/redrive",
    tag=TAG,
    needs=Needs(Action.ADMINISTER, Kind.GROUP, "group"),
    body=Redrive,
    answer=Replay,
    status=201,
    errors=(403, 404, 409),
    example="curl -X POST $URL/api/v1/groups/billing/dead-letters/redrive "
    """-H 'Content-Type: application/json' -d '{"reason": "rejected", "fresh_only": true}'""",
)
async def redrive_dead_letters(call: Call[None, Redrive]) -> Replay:
    """Send dead letters again: one, some, all, or those that meet conditions.

    Makes a replay job (see POST /replays), by default back to this group alone at 100 a second.
    """
    group, new = call.path("group"), call.body
    replays = call.services.replays
    require_replay(call.who, DEAD_LETTER_PREFIX + group, new.to, new.to_name)
    try:
        job = await replays.create(
            actor_of(call),
            NewReplay(
                source=DEAD_LETTER_PREFIX + group,
                to=new.to,
                to_name=new.to_name,
                name=new.name,
                places=[
                    (GROUP_QUEUE, offset_of(offset, f"offsets[{index}]"))
                    for index, offset in enumerate(new.offsets)
                ],
                from_ms=new.from_ms,
                to_ms=new.to_ms,
                filter=new.filter,
                reason=new.reason,
                origin_topic=new.topic,
                fresh_only=new.fresh_only,
                with_dismissed=new.with_dismissed,
                per_s=new.rate,
                dry_run=new.dry_run,
            ),
        )
    except TopicNotFound as error:
        if new.to_name and DEAD_LETTER_PREFIX not in error.detail:
            raise
        raise NotFound(
            f"the group {group!r} has no dead letters",
            field="group",
            remedy="check its spelling, or look at another group",
            code="no_dead_letters",
        ) from None
    return replay_out(job)


OPERATIONS = (
    count_dead_letters,
    list_dead_letters,
    get_dead_letter,
    redrive_dead_letters,
)
