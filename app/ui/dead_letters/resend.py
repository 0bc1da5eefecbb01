"""Resending dead letters: the form with its preview, and the dry run that it creates."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta
from msgspec.structs import replace
from starlette.responses import Response

from app.monitoring.dead_index import COUNTED_MAX
from app.ui.dead_letters import filters as dead_filter
from app.ui.dead_letters.dead_letters import DeadLetterView, check_ticked, criteria_of, view_of
from app.ui.dead_letters.filters import NONE, OFFSETS_MAX, Criteria
from app.ui.framework import forms, pages, rights, typed_forms
from app.ui.framework.console import Console
from app.ui.framework.forms import Form
from app.ui.framework.language import N_, _
from app.ui.framework.page_request import PageRequest
from app.ui.framework.templating import segment
from app.ui.framework.typed_forms import Fields
from app.ui.replays import jobs
from engine.broker import (
    DEAD_LETTER_PREFIX,
    GROUP_QUEUE,
    DeadLetterState,
    NewReplay,
    ReplayTo,
)
from engine.errors import EngineError, Forbidden, Invalid, NotFound, TopicNotFound
from kitemq.model.numbers import is_whole

BUDGET_S = 0.4
WHOLE_S = 20.0  # time to index the whole group before a job is created
AS_MARKED = ("error_class", "error", "reason", "topic", "tag", "client", "attempts")
AS_TYPED = ("from", "until", "id", "key", "offsets", "state")
CRITERIA = (*AS_MARKED, *AS_TYPED)
ENGINE_NAMES = {"places": "offsets", "filter": "tag"}
TARGETS = (
    ("group", N_("one group alone, by way of its retry topic")),
    ("origin", N_("the topic each was first sent to: all its groups get it")),
    ("topic", N_("another topic: all its groups get it")),
)
SQL_PREFIX = "sql92:"


class OneFields(Fields, frozen=True):
    """Where a single dead letter goes; the comment is the job's name."""

    to: Annotated[Literal["group", "origin"], Meta(title=N_("Where to"))]
    comment: Annotated[str, Meta(title=N_("Comment"), max_length=200)]


@dataclass(frozen=True)
class Resend:
    """The context of `dlq_resend.html`: `count` of `total` dead letters would be resent."""

    group: str
    is_gone: bool
    form: Form
    hidden: Mapping[str, str]
    words: list[str]
    ticked: int
    count: int
    total: int
    examined: int
    returned: int
    sent_before: int | None
    targets: tuple[tuple[str, str], ...] = TARGETS


async def show(request: PageRequest) -> Response:
    """GET /dlq/{group}/resend"""
    console = request.console
    group = request.path_params["group"]
    check_ticked(request, _("go back and select some, or choose “resend all that match”"))
    is_gone = not await pages.exists(console.administration.group, group)
    texts = {"rate": "100", "to": "origin"} if is_gone else {"rate": "100", "to": "group"}
    form = typed_forms.fill(texts | {"to_group": "" if is_gone else group}, jobs.TargetFields)
    return await _page(request, form, criteria_of(request).settled(console.now_ms()))


async def _page(request: PageRequest, form: Form, criteria: Criteria) -> Response:
    console = request.console
    group = request.path_params["group"]
    view = await view_of(request, group, criteria, console.now_ms(), BUDGET_S)
    context = Resend(
        group=group,
        is_gone=not await pages.exists(console.administration.group, group),
        form=form,
        hidden=criteria.query(),
        words=criteria.words(),
        ticked=len(criteria.offsets),
        count=len(criteria.offsets) or len(view.selection.offsets),
        total=view.index.total,
        examined=view.index.examined,
        returned=view.selection.returned,
        sent_before=await _sent_before(console, group, criteria),
    )
    title = _("Resend dead letters of %(group)s", group=group)
    return await pages.respond(request, "dlq_resend.html", context, title=title)


async def _sent_before(console: Console, group: str, criteria: Criteria) -> int | None:
    """How many of the ticked dead letters were resent before; None unless 1 to 50 are ticked."""
    if not 0 < len(criteria.offsets) <= 50:
        return None
    count = 0
    for offset in criteria.offsets:
        try:
            letter = await console.administration.dead_letters.get(group, offset)
            count += bool(letter.redriven_by)
        except NotFound:
            continue
    return count


async def create(request: PageRequest) -> Response:
    """POST /dlq/{group}/resend: create a dry run; its page has the next step."""
    group = request.path_params["group"]
    posted = await forms.read(request)
    form = typed_forms.fill(posted, jobs.TargetFields)
    criteria = dead_filter.parse({name: posted.one(name) for name in CRITERIA})
    new = jobs.new_job(form, DEAD_LETTER_PREFIX + group)
    if form.is_wrong:
        return await _page(request, form, criteria)
    rights.require_resend(request, new.source, new.to, new.to_name)
    try:
        new = await _choosing(request, group, criteria, new)
        job = await request.services.replays.create(request.actor, new)
    except (Invalid, NotFound, Forbidden) as error:
        _blame(form, error, group, f"to_{new.to}")
        return await _page(request, form, criteria)
    return await jobs.settled(request, job.id)


def _blame(form: Form, error: EngineError, group: str, to_name: str) -> None:
    if isinstance(error, TopicNotFound) and DEAD_LETTER_PREFIX in error.detail:
        raise no_dead_letters(group) from error
    form.blame(error, ENGINE_NAMES | {"to_name": to_name})


def no_dead_letters(group: str) -> NotFound:
    """The error for a group without dead letters."""
    return NotFound(
        _("the group %(group)s has no dead letters", group=f"{group!r}"),
        field="group",
        remedy=_("check its spelling, or choose another group"),
        code="no_dead_letters",
    )


async def _choosing(
    request: PageRequest, group: str, criteria: Criteria, new: NewReplay
) -> NewReplay:
    """The job with its selection: as its own conditions if possible, else as single messages."""
    if criteria.offsets:
        return replace(new, places=[(GROUP_QUEUE, offset) for offset in criteria.offsets])
    is_all = criteria.wants == dead_filter.ALL
    if _is_expressible(criteria):
        return replace(
            new,
            from_ms=criteria.from_ms,
            to_ms=criteria.until_ms,
            reason=criteria.reason,
            origin_topic=criteria.topic,
            filter=criteria.tag or "*",
            error_class=criteria.error_class,
            error=criteria.error,
            client=criteria.client,
            failures=int(criteria.attempts) if criteria.attempts else None,
            dead_letter_state=None if is_all else DeadLetterState(criteria.wants),
            with_dismissed=is_all,
        )
    now_ms = request.console.now_ms()
    view = await view_of(request, group, criteria, now_ms, WHOLE_S)
    _check_named(view)
    return replace(new, places=[(GROUP_QUEUE, offset) for offset in view.selection.offsets])


def _is_expressible(criteria: Criteria) -> bool:
    """Whether a job's own conditions can express the criteria."""
    by_absence = NONE in [getattr(criteria, name) for name in AS_MARKED]
    is_number = not criteria.attempts or is_whole(criteria.attempts)
    if criteria.id or criteria.key or by_absence or not is_number:
        return False
    return "|" not in criteria.tag and not criteria.tag.lower().startswith(SQL_PREFIX)


def _check_named(view: DeadLetterView) -> None:
    """Raise Invalid if a list of single messages would be incomplete or empty."""
    count = len(view.selection.offsets)
    if not count:
        raise Invalid(_("no dead letter meets these conditions"), remedy=_("choose others"))
    if count > OFFSETS_MAX:
        raise Invalid(
            _(
                "%(count)s dead letters match, %(offsets_max)s can be chosen by client, key or id",
                count=f"{count:,}",
                offsets_max=f"{OFFSETS_MAX:,}",
            ),
            remedy=_("narrow it by reason, topic, tag or time"),
        )
    if not view.index.is_whole:
        raise Invalid(
            _(
                "only the newest %(examined)s of %(total)s were checked (at most "
                "%(counted_max)s are)",
                examined=f"{view.index.examined:,}",
                total=f"{view.index.total:,}",
                counted_max=f"{COUNTED_MAX:,}",
            ),
            remedy=_("choose by reason, topic, tag or time instead"),
        )


async def one(request: PageRequest) -> Response:
    """POST /dlq/{group}/{offset}/resend: resend one at once; the job's page has the result."""
    group = request.path_params["group"]
    form, fields = await request.read_form(OneFields)
    if form.is_wrong:
        field, error = next(iter(form.errors.items()))
        raise Invalid(error, field=field)
    letter = await request.administration.dead_letters.get(group, offset_of(request))
    new = NewReplay(
        source=DEAD_LETTER_PREFIX + group,
        to=ReplayTo(fields.to),
        places=[(GROUP_QUEUE, letter.offset)],
        name=fields.comment
        or _("%(group)s dead letter %(offset)s", group=group, offset=letter.offset),
        rate=0,
    )
    rights.require_resend(request, new.source, new.to, new.to_name)
    job = await request.services.replays.create(request.actor, new)
    return await jobs.settled(request, job.id)


def offset_of(request: PageRequest) -> int:
    """The offset in the path; raises NotFound if it is no number."""
    text = request.path_params["offset"]
    if not is_whole(text):
        raise NotFound(
            _("%(text)s is not the offset of a dead letter", text=f"{text[:60]!r}"),
            field="offset",
            remedy=_("see the list, /dlq/%(group)s", group=segment(request.path_params["group"])),
        )
    return int(text)
