"""The list of topics, and the form for a new topic."""

import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from msgspec import Meta
from starlette.responses import Response

from app.administration import FIGURES_UNKNOWN
from app.monitoring import sparkline
from app.monitoring.sampler import Snapshot, TopicFigures, topic_figures
from app.monitoring.sparkline import Sparkline
from app.pause import paced
from app.security.access import Action, Kind, require
from app.services.stars_and_notes import TopicAnnotations
from app.services.topic_kinds import KINDS, SYSTEM_KINDS, USER_KINDS, kind_of
from app.ui.framework import forms, list_exports, pages, tables, typed_forms
from app.ui.framework.console import Console
from app.ui.framework.forms import Form
from app.ui.framework.language import N_, _
from app.ui.framework.page_request import PageRequest
from app.ui.framework.tables import Cut, Query
from app.ui.framework.templating import segment
from app.ui.framework.typed_forms import Fields
from app.ui.topics import starred
from app.ui.topics.defaults import PERMISSIONS
from app.ui.topics.sizes import LIST_MESSAGES_MAX, LIST_QUEUES_MAX, Size, size_of
from engine.broker import QueueContent, TopicConfig, TopicStats
from engine.errors import Conflict, Forbidden, Invalid, NotFound
from kitemq.model.conversion import convert
from kitemq.model.topics import Durability, TopicType

SORTS = ("star", "name", "messages", "rate", "bytes", "lag", "last")
BY_NAME = ("star", "name")  # sort keys that need no figures; the first is the default
STARRED = "starred"
AGE_MAX_MS = 5_000
QUEUES_MAX = 1024
NO_STATS = TopicStats([], 0)
DURABILITIES = (
    ("", N_("broker default")),
    ("stored", N_("stored: survives a process crash")),
    ("flushed", N_("flushed: survives a power loss")),
    ("replicated", N_("replicated: survives the loss of the machine, on a standby")),
)
TYPES = (
    ("NORMAL", N_("NORMAL: any message")),
    ("FIFO", N_("FIFO: in order per message group, for ordered groups")),
    ("DELAY", N_("DELAY: delivered after a delay")),
    ("TRANSACTION", N_("TRANSACTION: half messages")),
)


class TopicListQuery(Fields, frozen=True):
    """The filter of the list besides its text; "" for the users' topics."""

    type: Literal[
        "", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "RETRY", "DLQ", "SYSTEM", "starred", "all"
    ] = ""


class SettingFields(Fields, frozen=True):
    """The settings that both forms of a topic have."""

    read_queues: Annotated[int, Meta(title=N_("Read queues"), ge=1, le=QUEUES_MAX)]
    write_queues: Annotated[int, Meta(title=N_("Write queues"), ge=1, le=QUEUES_MAX)]
    permission: Annotated[Literal[6, 4, 2, 0], Meta(title=N_("Permission"))]
    durability: Annotated[Durability | None, Meta(title=N_("Durability"))]


class NewTopicFields(SettingFields, frozen=True):
    """The form for a new topic."""

    name: str
    type: Annotated[TopicType, Meta(title=N_("Type"))]


class ListedTopic(TopicFigures, frozen=True):
    """A row of the list, read with the page; `unknown` is why it has no figures, "" if it has."""

    name: str
    permission: int
    queues: int
    history: Sparkline
    groups: int
    lag: int | None
    is_starred: bool
    has_note: bool
    size: Size
    unknown: str


@dataclass(frozen=True)
class KindFacet:
    """A kind of topic that the list can be filtered by."""

    value: str
    label: str
    count: int
    is_on: bool


@dataclass(frozen=True)
class TopicList:
    """The context of `topics.html`; lists are sorted by figures read at `as_of_ms`.

    `marks_failure` is the reason why the stars are unknown, `away` why figures of others are.
    """

    cut: Cut[ListedTopic]
    facets: list[KindFacet]
    query: Query
    kind: str
    as_of_ms: int
    is_any: bool
    marks_failure: str
    away: str


@dataclass(frozen=True)
class TopicSelection:
    """The topics of one page, and the counts beside them."""

    cut: Cut[TopicConfig]
    facets: list[KindFacet]
    is_any: bool


@dataclass(frozen=True)
class TopicForm:
    """The context of `topic_new.html`."""

    form: Form
    types: tuple[tuple[str, str], ...] = TYPES
    permissions: tuple[tuple[str, str], ...] = PERMISSIONS
    durabilities: tuple[tuple[str, str], ...] = DURABILITIES


async def show(request: PageRequest) -> Response:
    """GET /topics"""
    console = request.console
    query = tables.parse_query(request.query_params, SORTS, BY_NAME[0])
    kind = request.read_query(TopicListQuery).type
    marks = await starred.glance(request)
    snapshot = console.sampler.snapshot
    if query.sort not in BY_NAME or not snapshot.taken_ms:
        snapshot = await console.sampler.fresh(AGE_MAX_MS)
    everything = await console.administration.topics(system=True)
    kind_of_file = list_exports.file_kind(request)
    cut = tables.whole(query, len(everything)) if kind_of_file else query
    selection = await console.render(lambda: _select(everything, snapshot, cut, kind, marks))
    if kind_of_file:
        listing = list_exports.topics(selection.cut.rows, snapshot)
        return await list_exports.respond(console, listing, kind_of_file)
    context = TopicList(
        cut=await _rows(console, snapshot, selection.cut, marks),
        facets=selection.facets,
        query=query,
        kind=kind,
        as_of_ms=snapshot.taken_ms,
        is_any=selection.is_any,
        marks_failure=_("the database is not responding") if marks.failure else "",
        away=snapshot.away,
    )
    return await pages.respond(request, "topics.html", context, title=_("Topics"), is_live=True)


def matching(
    everything: Iterable[TopicConfig], text: str, kind: str, stars: Collection[str]
) -> list[TopicConfig]:
    """The topics of `kind` whose names contain every word of `text`."""
    words = text.lower().split()
    candidates = [
        topic for topic in everything if all(word in topic.name.lower() for word in words)
    ]
    return [topic for topic in candidates if _is_chosen(topic, kind, stars)]


def _select(
    everything: list[TopicConfig],
    snapshot: Snapshot,
    query: Query,
    kind: str,
    marks: TopicAnnotations,
) -> TopicSelection:
    """Filter, count, sort and cut the topics; pure, because it runs on another thread."""
    candidates = matching(everything, query.text, "all", ())
    matches = [topic for topic in candidates if _is_chosen(topic, kind, marks.stars)]
    key = sort_key(snapshot, query.sort, marks.stars)
    tables.order(matches, key, lambda t: t.name, down=query.is_downward)
    counts = Counter(map(kind_of, candidates))
    counts[STARRED] = sum(topic.name in marks.stars for topic in candidates)
    return TopicSelection(
        cut=tables.cut(matches, query),
        facets=_facets(counts, kind),
        is_any=any(kind_of(topic) in USER_KINDS for topic in everything),
    )


def _is_chosen(topic: TopicConfig, kind: str, stars: Collection[str]) -> bool:
    if kind == STARRED:
        return topic.name in stars
    if not kind:
        return kind_of(topic) in USER_KINDS
    return kind in ("all", kind_of(topic))


def _facets(counts: Counter[str], active: str) -> list[KindFacet]:
    facets = [
        KindFacet("", _("Your topics"), sum(counts[kind] for kind in USER_KINDS), active == "")
    ]
    facets += [KindFacet(STARRED, _("Starred"), counts[STARRED], active == STARRED)]
    facets += [KindFacet(kind, kind, counts[kind], active == kind) for kind in KINDS]
    everything = sum(counts[kind] for kind in KINDS)
    total = KindFacet("all", _("Including system topics"), everything, active == "all")
    visible_facets = [f for f in facets if f.count or f.is_on or not f.value]
    return (
        [*visible_facets, total] if any(counts[kind] for kind in SYSTEM_KINDS) else visible_facets
    )


def sort_key(snapshot: Snapshot, sort: str, stars: Collection[str]) -> Callable[[TopicConfig], Any]:
    """The sort key of a topic; None if it is newer than the snapshot."""
    if sort == "star":  # then the busiest, by powers of two: rows do not swap at each refresh
        rates = {name: round(figures.rate or 0) for name, figures in snapshot.topics.items()}
        return lambda t: (t.name not in stars, -rates.get(t.name, 0).bit_length())
    if sort == "name":
        return lambda topic: topic.name
    if sort == "lag":
        return lambda topic: snapshot.worst_lag(topic.name)
    field = {"last": "last_ms", "bytes": "bytes_rate"}.get(sort, sort)
    return lambda topic: getattr(snapshot.topics.get(topic.name), field, None)


async def _rows(
    console: Console, snapshot: Snapshot, cut: Cut[TopicConfig], marks: TopicAnnotations
) -> Cut[ListedTopic]:
    rows: list[ListedTopic] = []
    async for topic in paced(cut.rows):
        with contextlib.suppress(NotFound):  # deleted while the others were read
            rows.append(await _row(console, snapshot, topic, marks))
    return cut.with_rows(rows)


async def _row(
    console: Console, snapshot: Snapshot, topic: TopicConfig, marks: TopicAnnotations
) -> ListedTopic:
    name, meter = topic.name, console.meter
    try:
        stats, unknown = await console.administration.topic_stats(name), ""
        contents = await _contents(console, name, stats)
    except FIGURES_UNKNOWN as error:
        stats, unknown, contents = NO_STATS, error.detail, []
    figures = topic_figures(topic, stats, meter.topic_rate(name), meter.topic_bytes_rate(name))
    return convert(
        figures,
        ListedTopic,
        name=name,
        permission=topic.permission,
        queues=topic.read_queues,
        history=sparkline.line(meter.topic_history(name)),
        groups=len(snapshot.readers(name)),
        lag=snapshot.worst_lag(name),
        is_starred=name in marks.stars,
        has_note=name in marks.noted,
        size=size_of(contents, figures.messages),
        unknown=unknown,
    )


async def _contents(console: Console, topic: str, stats: TopicStats) -> list[QueueContent]:
    filled = [q.queue for q in stats.queues if q.max_offset > q.min_offset][:LIST_QUEUES_MAX]
    return [
        await console.messaging.queue_content(topic, queue, count_max=LIST_MESSAGES_MAX)
        for queue in filled
    ]


async def new(request: PageRequest) -> Response:
    """GET /create/topic"""
    queues = str(request.console.host.config.default_queues)
    texts = {"type": "NORMAL", "read_queues": queues, "write_queues": queues, "permission": "6"}
    return await _form_page(request, typed_forms.fill(texts, NewTopicFields))


async def create(request: PageRequest) -> Response:
    """POST /topics: create the topic, or show the form with its errors."""
    form, fields = await request.read_form(NewTopicFields)
    if not fields.name:
        form.refuse("name", _("Enter a name for the topic."))
    if form.is_wrong:
        return await _form_page(request, form)
    require(request.who, Action.ADMINISTER, Kind.TOPIC, fields.name)
    topics, actor = request.services.topics, request.actor
    try:
        topic = await topics.create(actor, convert(fields, TopicConfig))
    except (Invalid, Conflict, Forbidden) as error:
        form.blame(error, {"topic": "name"})
        return await _form_page(request, form)
    return forms.go(request, f"/topics/{segment(topic.name)}?done=created")


async def _form_page(request: PageRequest, form: Form) -> Response:
    title = _("Create topic")
    return await pages.respond(
        request, "topic_new.html", TopicForm(form), title=title, section="topics"
    )
