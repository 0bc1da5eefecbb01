"""The list of consumer groups with their status and their lag in messages and time."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace
from starlette.responses import Response

from app.administration import FIGURES_UNKNOWN
from app.monitoring import sparkline
from app.monitoring.forecast import Forecast
from app.monitoring.group_status import SEVERITY
from app.monitoring.sampler import NO_FIGURES, GroupFigures, Snapshot
from app.monitoring.sparkline import Sparkline
from app.monitoring.trends import UNREAD, Trend
from app.pause import paced
from app.ui.framework import list_exports, pages, tables
from app.ui.framework.console import Console
from app.ui.framework.language import _, translated
from app.ui.framework.page_request import PageRequest
from app.ui.framework.tables import Cut, Query
from app.ui.groups import status
from app.ui.groups.head import is_differing
from app.ui.groups.status import StatusFacet, StatusView
from engine.broker import DEAD_LETTER_PREFIX, RETRY_PREFIX, GroupConfig, LagBasis
from engine.errors import NotFound
from kitemq.model.conversion import convert
from kitemq.model.groups import GroupStatus

SORTS = ("name", "status", "lag", "oldest", "clears", "inflight", "retry", "dead", "rate")
AGE_MAX_MS = 5_000


class ListedGroup(GroupFigures, frozen=True, kw_only=True):
    """A row of the list, read with the page; `forecast` and `history` are the snapshot's.

    What a group without an offset in any queue has not read is unknown. `unknown` is why a group
    has no figures at all, "" if it has.
    """

    name: str
    status: StatusView | None
    is_ordered: bool
    paused_topics: int
    is_differing: bool
    topics: int
    unread: int | None
    counts: LagBasis
    history: Sparkline
    trend: Trend
    forecast: Forecast
    dead_topic: str
    unknown: str = ""


@dataclass(frozen=True)
class GroupList:
    """The context of `groups.html`; lists are sorted by figures read at `as_of_ms`.

    `unread` is the lag of all matching groups by these figures, without `unknown` groups, of which
    some are `away`; `status` is the chosen one.
    """

    cut: Cut[ListedGroup]
    query: Query
    as_of_ms: int
    is_any: bool
    unread: int
    unknown: int
    away: str
    status: str
    facets: list[StatusFacet]


@dataclass(frozen=True)
class GroupSelection:
    """The groups of a page, and what is counted over all that match."""

    cut: Cut[GroupConfig]
    unread: int
    unknown: int
    facets: list[StatusFacet]


async def show(request: PageRequest) -> Response:
    """GET /groups"""
    console = request.console
    query = tables.parse_query(request.query_params, SORTS, "-lag")
    chosen = request.query_params.get("status", "")
    snapshot = await console.sampler.fresh(AGE_MAX_MS)
    everything = list(await console.administration.groups())
    kind_of_file = list_exports.file_kind(request)
    cut = tables.whole(query, len(everything)) if kind_of_file else query
    selection = await console.render(lambda: _select(everything, snapshot, cut, chosen))
    page = selection.cut
    if kind_of_file:
        listing = list_exports.groups(page.rows, snapshot)
        return await list_exports.respond(console, listing, kind_of_file)
    is_kept = console.messaging.capabilities.lag_history
    trends = await console.trends.of([group.name for group in page.rows]) if is_kept else {}
    rows: list[ListedGroup] = []
    async for group in paced(page.rows):
        with contextlib.suppress(NotFound):  # deleted while the others were read
            rows.append(await _row(console, snapshot, group, trends.get(group.name, UNREAD)))
    context = GroupList(
        cut=page.with_rows(rows),
        query=query,
        as_of_ms=snapshot.taken_ms,
        is_any=bool(everything),
        unread=selection.unread,
        unknown=selection.unknown,
        away=snapshot.away,
        status=chosen,
        facets=selection.facets,
    )
    return await pages.respond(request, "groups.html", context, title=_("Groups"), is_live=True)


def matching(everything: Iterable[GroupConfig], text: str) -> list[GroupConfig]:
    """The groups whose names hold every word of `text`."""
    words = text.lower().split()
    return [group for group in everything if all(word in group.name.lower() for word in words)]


def _select(
    everything: list[GroupConfig], snapshot: Snapshot, query: Query, chosen: str
) -> GroupSelection:
    """Filter, count, sort and cut the groups; pure, because it runs on another thread."""
    candidates = matching(everything, query.text)
    statuses = {group.name: _status(snapshot, group) for group in candidates}
    counts = Counter(statuses.values())
    matches = [each for each in candidates if chosen in ("", statuses[each.name])]
    tables.order(matches, _key(snapshot, query.sort), lambda g: g.name, down=query.is_downward)
    facets = [StatusFacet("", _("All"), len(candidates))]
    facets += [
        StatusFacet(name, translated(label), counts[name])
        for name, label in status.LABELS.items()
        if counts[name] or name == chosen
    ]
    lags = [_lag(snapshot.groups.get(group.name)) for group in matches]
    return GroupSelection(
        cut=tables.cut(matches, query),
        unread=sum(lag or 0 for lag in lags),
        unknown=lags.count(None),
        facets=facets,
    )


def _key(snapshot: Snapshot, sort: str) -> Callable[[GroupConfig], Any]:
    """The sort key of a group; None, which comes last, if it is unknown."""
    if sort == "name":
        return lambda group: group.name
    if sort == "status":
        return lambda group: (now := _status(snapshot, group)) and SEVERITY[now]
    if sort == "clears":
        return lambda group: _rank(snapshot, group.name)
    if sort == "lag":
        return lambda group: _lag(snapshot.groups.get(group.name))
    field = {"oldest": "oldest_ms", "retry": "retry_waiting", "rate": "pace"}.get(sort, sort)
    return lambda group: getattr(snapshot.groups.get(group.name), field, None)


def _status(snapshot: Snapshot, group: GroupConfig) -> GroupStatus | None:
    return None if group.name in snapshot.unknown_groups else snapshot.standing(group).status


def _lag(figures: GroupFigures | None) -> int | None:
    return None if figures is None else figures.unread


def _rank(snapshot: Snapshot, name: str) -> float | None:
    return None if _lag(snapshot.groups.get(name)) is None else snapshot.forecast(name).rank


async def _row(
    console: Console, snapshot: Snapshot, group: GroupConfig, trend: Trend
) -> ListedGroup:
    counts, unknown = LagBasis.ALL, ""
    try:
        lag = await console.administration.lag(group.name)
        figures, counts = await console.sampler.read(group.name, lag), lag.counts
    except FIGURES_UNKNOWN as error:
        members = await console.administration.members.count(group.name)
        figures = replace(NO_FIGURES, members=members, rate=None, consumed=None)
        unknown = error.detail
    standing = None if unknown else snapshot.standing(group, figures)
    return convert(
        figures,
        ListedGroup,
        name=group.name,
        status=standing and status.view_of(group.name, standing),
        is_ordered=group.ordered,
        paused_topics=len(group.paused_topics),
        is_differing=await is_differing(console, group.name),
        topics=sum(name != RETRY_PREFIX + group.name for name in figures.lag_by_topic),
        unread=figures.unread,
        counts=counts,
        history=sparkline.line(console.sampler.lag_history(group.name)),
        trend=trend,
        forecast=snapshot.forecast(group.name).of_lag(figures.unread),
        dead_topic=DEAD_LETTER_PREFIX + group.name,
        unknown=unknown,
    )
