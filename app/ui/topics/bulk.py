"""Bulk changes of topics: delete them, or set their permission.

The preview freezes the selection: the form that applies it names each topic with the state of the
preview. A topic that got messages, a reader or other settings since then is reported and left
alone; the engine's own topics are never changed. A deletion must be confirmed by the number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from msgspec import Meta
from starlette.responses import Response

from app.security.access import Kind
from app.services.topic_kinds import SYSTEM_KINDS, kind_of
from app.services.topics import config_tag, content_tag
from app.ui.framework import bulk, forms, typed_forms
from app.ui.framework.bulk import BulkRow
from app.ui.framework.forms import Form
from app.ui.framework.language import N_, _, translated
from app.ui.framework.page_request import PageRequest
from app.ui.framework.typed_forms import Fields
from app.ui.topics import starred, topics
from app.ui.topics.defaults import PERMISSIONS
from app.ui.topics.topics import TopicListQuery
from engine.broker import TopicConfig
from kitemq.model.topics import TopicSettings

GROUPS_SHOWN_MAX = 3
SUMMED = ("messages", "groups_total")
NOT_SEEN = "-"  # matches no preview, so that a forged form changes nothing


class TopicBulkFields(Fields, frozen=True):
    """What to do with which topics: the ticked ones, or all that match the filter of the list.

    `selection` holds those of a preview, with the state that each had.
    """

    action: Annotated[Literal["delete", "permission"], Meta(title=N_("Next step"))]
    scope: str
    q: str
    type: str
    permission: str
    confirm: str
    topic: tuple[str, ...]
    selection: Annotated[dict[str, str], bulk.parsed]


class PermissionFields(Fields, frozen=True):
    """The parameter of the action `permission`."""

    permission: Annotated[Literal[6, 4, 2, 0], Meta(title=N_("Permission"))]


@dataclass(frozen=True)
class TopicBulkRow(BulkRow):
    """The result for one topic; `groups` are the first that lose their place, of `groups_total`."""

    messages: int = 0
    last_ms: int | None = None
    groups: Sequence[str] = ()
    groups_total: int = 0


@dataclass(frozen=True)
class TopicAction:
    """The change to make to each topic, and the request that asks for it.

    `selection` has the state of each topic in the preview; it is empty in the first one.
    """

    request: PageRequest
    action: str
    permission: int
    selection: Mapping[str, str]

    async def preview(self, name: str) -> TopicBulkRow:
        """What would happen to a topic."""
        administration = self.request.administration
        config = await administration.topic(name)
        note = self.reason_to_skip(config)
        row = TopicBulkRow(name, "left" if note else "would", note)
        if self.action == "permission":
            note = note or permission_change(config.permission, self.permission)
            return replace(row, note=note, state=self.selection.get(name, config_tag(config)))
        stats = await administration.topic_stats(name)
        groups = sorted(await administration.groups_of(name))
        seen = self.selection.get(name)
        state = await content_tag(administration, name) if seen is None else seen
        return replace(
            row,
            messages=stats.messages,
            last_ms=max((q.last_stored_ms or 0 for q in stats.queues), default=0) or None,
            groups=groups[:GROUPS_SHOWN_MAX],
            groups_total=len(groups),
            state=state,
        )

    async def change(self, name: str) -> TopicBulkRow:
        """Change a topic if it still is what the preview showed."""
        config = await self.request.administration.topic(name)
        note = self.reason_to_skip(config)
        if note:
            return TopicBulkRow(name, "left", note)
        topics, actor = self.request.services.topics, self.request.actor
        state = self.selection[name] or NOT_SEEN
        if self.action == "delete":
            await topics.delete(actor, name, seen=state)
            return TopicBulkRow(name, "done")
        await topics.change(actor, name, TopicSettings(permission=self.permission), seen=state)
        return TopicBulkRow(name, "done", permission_change(config.permission, self.permission))

    def reason_to_skip(self, config: TopicConfig) -> str:
        """The reason why a topic is left out; "" if it would be changed."""
        if kind_of(config) in SYSTEM_KINDS:
            return _("system topics are not changed")
        if self.action == "permission" and config.permission == self.permission:
            return _("it has this permission already")
        return ""


async def show(request: PageRequest) -> Response:
    """GET /bulk/topics: ask for the permission, then preview the result for each topic."""
    form, fields = typed_forms.read(request.query_params, TopicBulkFields)
    names = await _names(request, form, fields)
    is_asking = fields.action == "permission" and not fields.permission
    action = None if is_asking else _action(request, form, fields)
    if action is None or form.is_wrong or not names:
        is_asking = is_asking or "permission" in form.errors
        asking = fields.topic if is_asking else None
        return await bulk.respond(
            request, Kind.TOPIC, form, (), len(names), choices=PERMISSIONS, asking=asking
        )
    first = names[: bulk.ITEMS_MAX]
    rows = await bulk.each(request, Kind.TOPIC, first, action.preview, TopicBulkRow)
    return await bulk.respond(request, Kind.TOPIC, form, rows, len(names), summed=SUMMED)


async def apply(request: PageRequest) -> Response:
    """POST /bulk/topics: change the topics of the preview and show the result of each.

    A form with an error is shown again with the expected state of its preview.
    """
    form, fields = await request.read_form(TopicBulkFields, bytes_max=forms.LARGE_BYTES_MAX)
    action, names = _action(request, form, fields), list(fields.selection)
    if not names:
        form.error = form.errors.get("action") or _("Not changed: no topics selected.")
    phrase = bulk.confirmation(len(names))
    if fields.action == "delete" and names and fields.confirm != phrase:
        form.refuse(
            "confirm", _("Enter “%(phrase)s” to confirm. Nothing was deleted.", phrase=phrase)
        )
    work = action.preview if form.is_wrong else action.change
    rows = await bulk.each(request, Kind.TOPIC, names, work, TopicBulkRow)
    is_done = not form.is_wrong
    return await bulk.respond(
        request, Kind.TOPIC, form, rows, len(names), summed=SUMMED, is_done=is_done
    )


def permission_change(before: int, after: int) -> str:
    """The change of a permission in words."""
    words = dict(PERMISSIONS)
    names = (translated(words[str(value)]) for value in (before, after))
    return " → ".join(names)


def _action(request: PageRequest, form: Form, fields: TopicBulkFields) -> TopicAction:
    """The action in the form; errors are reported at their fields."""
    permission = 0
    if form.values["action"] == "permission":
        permission = typed_forms.parse(form, PermissionFields).permission
    return TopicAction(request, form.values["action"], permission, fields.selection)


async def _names(request: PageRequest, form: Form, fields: TopicBulkFields) -> Sequence[str]:
    """The topics that were ticked, or all that match the filter, by name."""
    if fields.scope != "all":
        if not fields.topic:
            form.error = _("No topics selected: go back and select some, or choose all that match.")
        return fields.topic
    console = request.console
    everything = await console.administration.topics(system=True)
    stars = (await starred.glance(request)).stars
    kind = typed_forms.query(form.values, TopicListQuery).type
    matches = await console.render(lambda: topics.matching(everything, fields.q, kind, stars))
    return [topic.name for topic in matches]
