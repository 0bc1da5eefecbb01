"""Bulk changes of topics: delete them, or set their permission.

The preview freezes the selection: the form that applies it names each topic with the state of the
preview. A topic that got messages, a reader or other settings since then is reported and left
alone; the engine's own topics are never changed. A deletion must be confirmed by the number.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from starlette.requests import Request
from starlette.responses import Response

from app.container import services_of
from app.db.rows import Actor, actor_at
from app.security.access import Kind
from app.services.topic_kinds import SYSTEM_KINDS, kind_of
from app.services.topics import config_tag, content_tag
from app.ui.framework import bulk, forms, pages
from app.ui.framework.console import Console, client_of
from app.ui.framework.forms import Form
from app.ui.framework.language import _, translated
from app.ui.topics import starred, topics
from app.ui.topics.topics import PERMISSIONS
from engine.broker import TopicConfig
from kitemq.model.topics import TopicSettings

ACTIONS = ("delete", "permission")
FIELDS = ("action", "scope", "q", "type", "permission", "confirm")
GROUPS_SHOWN_MAX = 3
NOT_SEEN = "-"  # matches no preview, so that a forged form changes nothing


@dataclass(frozen=True)
class TopicBulkRow:
    """The planned or actual result for one topic; `note` says why it is left out.

    `groups` are the first that would lose their place, of `groups_total`.
    """

    topic: str
    outcome: str
    note: str = ""
    messages: int = 0
    last_ms: int | None = None
    groups: Sequence[str] = ()
    groups_total: int = 0
    seen: str = ""

    @property
    def choice(self) -> tuple[str, str]:
        return self.seen, self.topic


@dataclass(frozen=True, kw_only=True)
class TopicBulk(bulk.Sheet):
    """The context of `topic_bulk.html`; `confirm` is the text that confirms a deletion."""

    messages: int
    groups: int
    confirm: str
    permissions: Sequence[tuple[str, str]] = PERMISSIONS


@dataclass(frozen=True)
class TopicAction:
    """The change to make to each topic, and the request that asks for it."""

    request: Request
    action: str
    permission: int

    @property
    def console(self) -> Console:
        return pages.console_of(self.request)

    def reason_to_skip(self, config: TopicConfig) -> str:
        """The reason why a topic is left out; "" if it would be changed."""
        if kind_of(config) in SYSTEM_KINDS:
            return _("the engine's own topic: it is left alone")
        if self.action == "permission" and config.permission == self.permission:
            return _("it has this permission already")
        return ""


async def show(request: Request) -> Response:
    """GET /bulk/topics: ask for the permission, then preview the result for each topic."""
    query = request.query_params
    form = Form({name: query.get(name, "").strip() for name in FIELDS})
    action = form.choice("action", _("What to do"), ACTIONS)
    names = await _names(request, form, query.getlist("topic"))
    is_asking = action == "permission" and not form.values["permission"]
    order = None if is_asking else _action(request, form)
    if order is None or form.is_wrong or not names:
        is_asking = is_asking or "permission" in form.errors
        ticked = query.getlist("topic") if is_asking else None
        return await _page(request, form, [], len(names), asking=ticked)

    async def preview(name: str) -> TopicBulkRow:
        return _preview(order, name)

    chosen = names[: bulk.ITEMS_MAX]
    rows = await bulk.each(request, Kind.TOPIC, chosen, preview, TopicBulkRow)
    return await _page(request, form, rows, len(names))


async def apply(request: Request) -> Response:
    """POST /bulk/topics: change the topics of the preview and show the result of each."""
    posted = await forms.read(request, bytes_max=forms.LARGE_BYTES_MAX)
    form = forms.fill(posted, FIELDS)
    form.choice("action", _("What to do"), ACTIONS)
    order = _action(request, form)
    chosen = bulk.parsed(posted.one("selection"))
    if not chosen:
        form.error = form.errors.get("action") or _("Nothing was changed: no topic was named.")
    phrase = confirmation(len(chosen))
    if order.action == "delete" and chosen and form.values["confirm"].strip() != phrase:
        form.refuse("confirm", _("That is not “%(wanted)s”; nothing was deleted.", wanted=phrase))
    if form.is_wrong:
        return await _again(request, form, order, chosen)
    actor = actor_at(client_of(request))

    async def change(name: str) -> TopicBulkRow:
        return await _change(order, actor, name, chosen[name])

    rows = await bulk.each(request, Kind.TOPIC, list(chosen), change, TopicBulkRow)
    return await _page(request, form, rows, len(chosen), is_done=True)


def confirmation(count: int) -> str:
    """The text that confirms the deletion of `count` topics, the same in every language."""
    return f"delete {count}"


def _action(request: Request, form: Form) -> TopicAction:
    """The action in the form; errors are reported at their fields."""
    permission = 0
    if form.values["action"] == "permission":
        choices = tuple(value for value, __ in PERMISSIONS)
        permission = int(form.choice("permission", _("Permission"), choices))
    return TopicAction(request, form.values["action"], permission)


async def _names(request: Request, form: Form, ticked: Sequence[str]) -> list[str]:
    """The topics that were ticked, or all that match the filter, by name."""
    if form.values["scope"] != "all":
        if not ticked:
            form.error = _("No topic is ticked: go back and tick some, or choose all that match.")
        return list(dict.fromkeys(ticked))
    console = pages.console_of(request)
    everything = console.broker.topics(system=True)
    stars = (await starred.glance(request)).stars
    kind, text = topics.parse_kind(form.values["type"]), form.values["q"]
    matches = await console.render(lambda: topics.matching(everything, text, kind, stars))
    return [topic.name for topic in matches]


async def _again(
    request: Request, form: Form, order: TopicAction, chosen: Mapping[str, str]
) -> Response:
    """The preview again, with the expected state of the first preview."""

    async def preview(name: str) -> TopicBulkRow:
        return replace(_preview(order, name), seen=chosen[name])

    rows = await bulk.each(request, Kind.TOPIC, list(chosen), preview, TopicBulkRow)
    return await _page(request, form, rows, len(chosen))


def _preview(order: TopicAction, name: str) -> TopicBulkRow:
    broker = order.console.broker
    config = broker.topic(name)
    note = order.reason_to_skip(config)
    row = TopicBulkRow(name, "left" if note else "would", note)
    if order.action == "permission":
        change = "" if note else permission_change(config.permission, order.permission)
        return replace(row, note=note or change, seen=config_tag(config))
    stats = broker.topic_stats(name)
    groups = sorted(broker.groups_of(name))
    return replace(
        row,
        messages=stats.messages,
        last_ms=max((q.last_stored_ms or 0 for q in stats.queues), default=0) or None,
        groups=groups[:GROUPS_SHOWN_MAX],
        groups_total=len(groups),
        seen=content_tag(broker, name),
    )


def permission_change(before: int, after: int) -> str:
    """The change of a permission in words."""
    words = dict(PERMISSIONS)
    names = (translated(words[str(value)]) for value in (before, after))
    return " → ".join(names)


async def _change(order: TopicAction, actor: Actor, name: str, seen: str) -> TopicBulkRow:
    config = order.console.broker.topic(name)
    note = order.reason_to_skip(config)
    if note:
        return TopicBulkRow(name, "left", note)
    change = services_of(order.request.scope).topics
    if order.action == "delete":
        await change.delete(actor, name, seen=seen or NOT_SEEN)
        return TopicBulkRow(name, "done")
    became = permission_change(config.permission, order.permission)
    await change.change(
        actor, name, TopicSettings(permission=order.permission), seen=seen or NOT_SEEN
    )
    return TopicBulkRow(name, "done", became)


async def _page(
    request: Request,
    form: Form,
    rows: list[TopicBulkRow],
    matching: int,
    *,
    asking: Iterable[str] | None = None,
    is_done: bool = False,
) -> Response:
    would = [row for row in rows if row.outcome == "would"]
    context = TopicBulk(
        **vars(bulk.sheet(Kind.TOPIC, form, rows, matching, asking=asking, is_done=is_done)),
        messages=sum(row.messages for row in would),
        groups=sum(row.groups_total for row in would),
        confirm=confirmation(len(would)),
    )
    return await pages.respond(
        request,
        "topic_bulk.html",
        context,
        title=_("Many topics at once"),
        section="topics",
        status=422 if form.is_wrong else 200,
    )
