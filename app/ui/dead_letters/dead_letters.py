"""The lists of dead letters: the groups that have some, and one group's, with facets.

Counts cover what `dead_index` holds in memory; the page says so if that is incomplete.
"""

import contextlib
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from starlette.responses import Response

from app.administration import FIGURES_UNKNOWN
from app.monitoring import sparkline
from app.monitoring.dead_index import DeadLetterListing
from app.monitoring.dead_summaries import DeadSummary
from app.monitoring.sparkline import Sparkline
from app.pause import paced
from app.security.message_rights import lacks_messages, visible
from app.services.search import SearchService
from app.ui.dead_letters import filters as dead_filter
from app.ui.dead_letters.copies import CopyOutcome, outcome_of
from app.ui.dead_letters.filters import Criteria, DeadLetterFacet, DeadLetterSelection
from app.ui.framework import pages, tables
from app.ui.framework.console import Console
from app.ui.framework.language import _
from app.ui.framework.page_request import PageRequest
from app.ui.framework.tables import Cut, Query
from engine.broker import (
    DEAD_LETTER_PREFIX,
    DeadLetter,
    DeadLetterArrivals,
    DeadLetterState,
    DeadLetterTally,
    DismissalSummary,
    DismissNote,
    ReplayJob,
    StateCounts,
    error_line_of,
)
from engine.errors import GroupNotFound, Invalid, MessageNotFound, NotFound, TopicNotFound
from engine.message import StoredMessage
from kitemq.model.conversion import convert

SORTS = ("dead", "group", "newest")
CAUSES_MAX = 3
BUDGET_S = 0.4
COPIES_S = 0.2  # for what became of the copies of a page's rows
FOUND_MAX = 1000
JOBS_MAX = 5
DISMISSALS_MAX = 5
LINE_CHARS_MAX = 200
NO_SUMMARY = DeadSummary(
    DeadLetterTally(
        examined=0,
        reasons={},
        error_classes={},
        topics={},
        clients={},
        redriven=0,
        returned=0,
        dismissed=0,
        next=None,
    ),
    DeadLetterArrivals([], count=0, open=0),
    oldest_ms=None,
)


@dataclass(frozen=True)
class DeadCount:
    """A group's dead letters by state, and the newest; `unknown` is why they are not known."""

    group: str
    open: int
    resent: int
    dismissed: int
    newest_ms: int | None
    unknown: str = ""


class DeadCause(NamedTuple):
    """A cause that a facet of the group's page names: an error's class or a reason."""

    facet: str
    value: str


@dataclass(frozen=True)
class DeadGroup:
    """A row of the list of groups; the most frequent `causes` are those of the tally.

    Of the open dead letters `fresh` died within 24 hours; `history` has all that died, hour by
    hour.
    """

    dead: DeadCount
    is_gone: bool
    fresh: int
    history: Sparkline
    oldest_ms: int | None
    tally: DeadLetterTally
    causes: list[tuple[DeadCause, int]]
    causes_left: int
    unknown: str = ""


@dataclass(frozen=True)
class DeadGroups:
    """The context of `dlq.html`; `total` counts the open ones of all groups.

    `away` is why those of some groups are not counted, "" if all are.
    """

    cut: Cut[DeadGroup]
    query: Query
    total: int
    resent: int
    dismissed: int
    groups: int
    away: str


@dataclass(frozen=True)
class DeadLine:
    """A dead letter in the list; `error` is the main line of its consumer's error."""

    offset: int
    place: str  # its queue and offset, as paths name them
    died_ms: int
    message_id: str
    tag: str
    keys: tuple[str, ...]
    origin_topic: str
    failures: int
    reason: str
    error: str
    client: str
    redriven_by: list[str]
    redriven_from: str
    redrive_count: int
    dismissed: DismissNote | None
    state: DeadLetterState
    copy: CopyOutcome | None  # of one that is resent, as far as it is known


@dataclass(frozen=True)
class DeadPage:
    """The context of `dlq_group.html`: counted over the newest `examined` of `total`.

    `whole` counts all of these by state, `states` what meets the other criteria. The newest of
    `dismissals` are shown.
    """

    group: str
    is_gone: bool
    total: int
    examined: int
    unreadable: int
    whole: StateCounts
    states: StateCounts
    returned: int
    criteria: Criteria
    criteria_query: Mapping[str, str]
    from_text: str
    until_text: str
    facets: list[DeadLetterFacet]
    cut: Cut[DeadLine]
    note: str
    jobs: list[ReplayJob]
    dismissals: list[DismissalSummary]
    dismissals_total: int
    unread: str  # the missing right that conceals keys


@dataclass(frozen=True)
class DeadLetterView:
    """The index of a group's dead letters, and the selection that meets the criteria."""

    index: DeadLetterListing
    selection: DeadLetterSelection
    note: str


async def show(request: PageRequest) -> Response:
    """GET /dlq"""
    console = request.console
    query = tables.parse_query(request.query_params, SORTS, "-newest")
    counts = await _counts(console)
    context = await _groups(console, query, counts)
    return await pages.respond(request, "dlq.html", context, title=_("Dead letters"), is_live=True)


async def _counts(console: Console) -> list[DeadCount]:
    """Every group that has dead letters."""
    counts: list[DeadCount] = []
    names = [topic.name for topic in await console.administration.topics(system=True)]
    async for name in paced(name for name in names if name.startswith(DEAD_LETTER_PREFIX)):
        with contextlib.suppress(NotFound):  # deleted while the others were read
            counts.append(await _count(console, name))
    return [each for each in counts if each.open or each.resent or each.dismissed or each.unknown]


async def _count(console: Console, topic: str) -> DeadCount:
    group = topic.removeprefix(DEAD_LETTER_PREFIX)
    try:
        stats = await console.administration.topic_stats(topic)
        states = await console.administration.dead_letters.state_counts(group)
    except FIGURES_UNKNOWN as error:
        return DeadCount(group, 0, 0, 0, None, unknown=error.detail)
    newest = max((queue.last_stored_ms or 0 for queue in stats.queues), default=0)
    return convert(states, DeadCount, group=group, newest_ms=newest or None)


async def _groups(console: Console, query: Query, counts: list[DeadCount]) -> DeadGroups:
    words = query.text.lower().split()
    matches = [one for one in counts if all(word in one.group.lower() for word in words)]
    name = {"dead": "open", "newest": "newest_ms"}.get(query.sort, query.sort)
    tables.order(matches, attrgetter(name), attrgetter("group"), down=query.is_downward)
    page = tables.cut(matches, query)
    rows: list[DeadGroup] = []
    async for count in paced(page.rows):
        with contextlib.suppress(NotFound):  # deleted while the others were read
            rows.append(await _group(console, count))
    return DeadGroups(
        cut=page.with_rows(rows),
        query=query,
        total=sum(one.open for one in counts),
        resent=sum(one.resent for one in counts),
        dismissed=sum(one.dismissed for one in counts),
        groups=len(counts),
        away=next((one.unknown for one in counts if one.unknown), ""),
    )


async def _group(console: Console, of: DeadCount) -> DeadGroup:
    group, is_gone = of.group, not await pages.exists(console.administration.group, of.group)
    summary, unknown = NO_SUMMARY, of.unknown
    if not unknown:
        try:
            summary = await console.dead_summaries.of(group)
        except FIGURES_UNKNOWN as error:
            unknown = error.detail
    tally = summary.tally
    causes = Counter({DeadCause("error_class", name): n for name, n in tally.error_classes.items()})
    if not tally.error_classes.keys() - {""}:  # clients that report no error
        causes = Counter({DeadCause("reason", name): n for name, n in tally.reasons.items()})
    ranked = sorted(causes.items(), key=lambda pair: (-pair[1], pair[0].value))
    return DeadGroup(
        dead=of,
        is_gone=is_gone,
        fresh=summary.arrived.open,
        history=sparkline.line(summary.arrived.steps),
        oldest_ms=summary.oldest_ms,
        tally=tally,
        causes=ranked[:CAUSES_MAX],
        causes_left=len(ranked[CAUSES_MAX:]),
        unknown=unknown,
    )


async def detail(request: PageRequest) -> Response:
    """GET /dlq/{group}"""
    console = request.console
    group = request.path_params["group"]
    criteria = criteria_of(request)
    now_ms = console.now_ms()
    view = await view_of(request, group, criteria, now_ms, BUDGET_S)
    query = tables.parse_query(request.query_params, ("newest",), "-newest")
    cut = tables.cut(view.selection.offsets, query)
    who = request.who
    lines = await _lines(request, group, list(cut.rows))
    source = DEAD_LETTER_PREFIX + group
    has = console.messaging.capabilities
    dismissals = await request.services.dismissals.listed(group) if has.dismissals else []
    replays = request.services.replays
    zone = request.zone
    context = DeadPage(
        group=group,
        is_gone=not await pages.exists(console.administration.group, group),
        total=view.index.total,
        examined=view.index.examined,
        unreadable=view.index.unreadable,
        whole=await console.administration.dead_letters.state_counts(group),
        states=view.selection.states,
        returned=view.selection.returned,
        criteria=criteria,
        criteria_query=criteria.query(),
        from_text=dead_filter.field_text(criteria.from_ms, zone),
        until_text=dead_filter.field_text(criteria.until_ms, zone),
        facets=view.selection.facets,
        cut=cut.with_rows(lines),
        note=view.note,
        jobs=await replays.list(source=source, count_max=JOBS_MAX)
        if has.dead_letter_replays
        else [],
        dismissals=dismissals[:DISMISSALS_MAX],
        dismissals_total=len(dismissals),
        unread=lacks_messages(who, source),
    )
    title = _("Dead letters of %(group)s", group=group)
    return await pages.respond(request, "dlq_group.html", context, title=title, is_live=True)


def check_ticked(request: PageRequest, remedy: str) -> None:
    """Raise Invalid if the ticked dead letters are meant and none is ticked."""
    if request.query_params.get("scope") == "ticked" and "offset" not in request.query_params:
        raise Invalid(_("no dead letter is selected"), field="offset", remedy=remedy)


def criteria_of(request: PageRequest) -> Criteria:
    """The criteria in a query; ticked dead letters come as one or several `offset`."""
    values = dict(request.query_params)
    ticked = request.query_params.getlist("offset")
    if ticked:
        values["offsets"] = ",".join([*ticked, values.get("offsets", "")])
    return dead_filter.parse(values)


async def view_of(
    request: PageRequest, group: str, criteria: Criteria, now_ms: int, budget_s: float
) -> DeadLetterView:
    """Select the dead letters that meet the criteria, reading for about `budget_s` seconds.

    Raises GroupNotFound.
    """
    console = request.console
    index = await console.dead_index.listing(group, budget_s)
    offsets, note = await _matching_offsets(request, group, criteria) if index.total else (None, "")
    states = await console.administration.dead_letters.states(group)
    rows = index.rows
    selection = await console.render(
        lambda: dead_filter.select(
            rows, criteria, now_ms, offsets, states.marked(rows[0].offset) if rows else {}
        )
    )
    return DeadLetterView(index, selection, note)


async def _matching_offsets(
    request: PageRequest, group: str, criteria: Criteria
) -> tuple[set[int] | None, str]:
    """The offsets that match an id, a key or the ticked rows; None without such criteria."""
    topic = DEAD_LETTER_PREFIX + group
    offsets: set[int] | None = set(criteria.offsets) if criteria.offsets else None
    note = ""
    if criteria.id:
        records = await request.services.search.by_id(criteria.id)
        here = {record.offset for record in records if record.topic == topic}
        offsets = here if offsets is None else offsets & here
    if criteria.key and lacks_messages(request.who, topic):
        return set(), _("You may not read message bodies of group %(name)s.", name=group)
    if criteria.key:
        here, is_cut = await _keyed(request.services.search, topic, criteria.key)
        if is_cut:
            note = _(
                "Only the newest %(found_max)s with this key were checked.",
                found_max=f"{FOUND_MAX:,}",
            )
        offsets = here if offsets is None else offsets & here
    return offsets, note


async def _keyed(search: SearchService, topic: str, key: str) -> tuple[set[int], bool]:
    """The offsets of the newest messages with a key, and whether there are more of them."""
    offsets: set[int] = set()
    cursor = ""
    while True:
        try:
            page = await search.by_key(topic, key, cursor=cursor)
        except TopicNotFound:  # deleted meanwhile
            return offsets, False
        offsets.update(record.offset for record in page.messages)
        cursor = page.next_cursor
        if not cursor or len(offsets) >= FOUND_MAX:
            return offsets, bool(cursor)


async def _lines(request: PageRequest, group: str, offsets: list[int]) -> list[DeadLine]:
    """The rows of a page, without those that can no longer be read."""
    console, who = request.console, request.who
    lines: list[DeadLine] = []
    until_s = time.monotonic() + COPIES_S
    async for offset in paced(offsets):
        # Retention may have taken it since it was counted.
        with contextlib.suppress(MessageNotFound, GroupNotFound):
            letter = await console.administration.dead_letters.get(group, offset)
            is_known = letter.redriven_by and time.monotonic() < until_s
            copy = await outcome_of(request, group, letter) if is_known else None
            lines.append(line_of(letter, visible(who, letter.message), copy))
    return lines


def line_of(letter: DeadLetter, message: StoredMessage, copy: CopyOutcome | None) -> DeadLine:
    """A dead letter as one row; `message` is concealed if the user may not read it."""
    first = error_line_of(letter.error)
    is_cut = first != letter.error.strip() or len(first) > LINE_CHARS_MAX
    return convert(
        letter,
        DeadLine,
        place=f"{message.queue}/{message.offset}",
        died_ms=message.stored_ms,
        message_id=message.message_id,
        tag=message.tag,
        keys=message.keys,
        copy=copy,
        error=first[:LINE_CHARS_MAX].rstrip() + (" …" if is_cut else ""),
    )
