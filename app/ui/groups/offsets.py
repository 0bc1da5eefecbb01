"""Resetting a group's offsets in steps: target, scope, review, apply.

Every step but the last is a GET: its query holds all choices, and it changes nothing. The last step
carries the precondition of the review.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal
from urllib.parse import urlencode

from msgspec import Meta
from starlette.responses import Response

from app.administration import ResetOrder
from app.ui.framework import forms, typed_forms
from app.ui.framework.forms import Form, Posted
from app.ui.framework.language import N_, _
from app.ui.framework.page_request import PageRequest
from app.ui.framework.typed_forms import Fields, InvalidField, Moment, Verbatim
from app.ui.framework.zones import Zone
from app.ui.groups import reset_plans
from app.ui.groups.head import GroupTab, group_of, head_of, path_of, respond, topics_of_group
from app.ui.groups.reset_review import Review, ReviewFields, place_in_words, review
from engine.broker import RETRY_PREFIX, GroupConfig, OffsetsMoved, ResetTarget, ResetTo
from engine.errors import EngineError
from kitemq.model.numbers import is_whole

PLAN = "plan"  # a target of a reset: the offsets of a file
STEPS = ("strategy", "scope", "review")
NAMES = {"topics": "other", "topic": "other", "group": "from_group"}
QUEUES_MAX = 1024


def shift_of(text: str) -> int:
    """A typed number of messages, below 0 to go back. Raises InvalidField."""
    text = text.strip().removeprefix("+")
    digits = text.removeprefix("-")
    if is_whole(digits) and int(digits):
        return int(text)
    raise InvalidField(_("Enter a whole number of messages other than 0; negative moves back."))


def queues_of(text: str) -> tuple[int, ...]:
    """Typed numbers of queues. Raises InvalidField."""
    parts = text.replace(",", " ").split()
    if all(is_whole(part, 5) for part in parts):
        return tuple(map(int, parts[: QUEUES_MAX + 1]))
    raise InvalidField(_("Enter queue numbers separated by commas; empty means all."))


class DraftFields(Fields, frozen=True):
    """All fields of the steps; the target and the queues have structs of their own."""

    to: str
    at: str
    zone: str
    offset: str
    by: str
    from_group: str
    queues: str
    other: str
    plan: Verbatim
    topic: tuple[str, ...]


class StepQuery(Fields, frozen=True):
    """The step that a query asks for, and the page of its review; "all" is that of all queues."""

    step: Literal["strategy", "scope", "all", "review"] = "strategy"
    page: Annotated[int, Meta(ge=0, le=99_999)] = 1


class ToFields(Fields, frozen=True):
    """The kind of a target, whose value has a struct of its own."""

    to: Annotated[ResetTo, Meta(title=N_("Where to"))]


class TimeTarget(Fields, frozen=True):
    """The first message stored at or after this time."""

    at: Moment


class OffsetTarget(Fields, frozen=True):
    """One offset, the same in every queue."""

    offset: Annotated[int, Meta(title=N_("The offset"), ge=0, le=2**63 - 1)]


class ShiftTarget(Fields, frozen=True):
    """Messages to move forward; a negative number moves back."""

    by: Annotated[int, shift_of] = 0


class QueueFields(Fields, frozen=True):
    """The queues to move; none means all."""

    queues: Annotated[tuple[int, ...], queues_of] = ()


@dataclass(frozen=True)
class TopicChoice:
    """A topic of the group, and whether it is chosen for the reset."""

    topic: str
    is_chosen: bool
    is_retry: bool
    queues: int
    lag: int


@dataclass(frozen=True)
class Wizard(GroupTab):
    """The context of `group_offsets.html`; `carried` is what the form hands to the next step."""

    step: str
    form: Form
    choices: Sequence[TopicChoice]
    carried: Sequence[tuple[str, str]]
    review: Review | None
    is_conflict: bool
    here: str
    back: str
    plan_href: str


@dataclass(frozen=True)
class ResetDraft:
    """A reset in progress: the step, the fields of the form, and the ticked topics."""

    step: str
    form: Form
    topics: tuple[str, ...]
    zone: Zone  # the zone of displayed times
    group: str

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The draft as parameters of a query."""
        fields = [(name, value) for name, value in self.form.values.items() if value]
        return fields + [("topic", topic) for topic in self.topics]


async def show(request: PageRequest) -> Response:
    """GET /groups/{group}/offsets"""
    config, query = await group_of(request), request.read_query(StepQuery)
    draft = _draft(request, config, request.query_params, query.step)
    if draft.step == "all":
        draft = await _of_all_queues(request, config, draft)
    if draft.step == "strategy":
        draft.form.values["to"] = draft.form.values["to"] or ResetTo.EARLIEST.value
        if draft.form.values["at"]:
            typed_forms.parse(draft.form, TimeTarget, draft.zone)
        return await _page(request, config, draft)
    order = _order(draft)
    if draft.step == "scope" or order is None:
        return await _refuse_or_show(request, config, draft)
    try:
        preview = await request.services.resets.preview(config.name, order)
    except EngineError as error:
        draft.form.blame(error, NAMES)
        return await _refuse_or_show(request, config, draft)
    return await _page(request, config, draft, review(preview, page=query.page))


async def export(request: PageRequest) -> Response:
    """GET /groups/{group}/offsets/plan: the review of the same query as a file."""
    config = await group_of(request)
    draft = _draft(request, config, request.query_params, "review")
    order = _order(draft)
    if order is None:
        return await _refuse_or_show(request, config, draft)
    preview = await request.services.resets.preview(config.name, order)
    now_ms = request.console.now_ms()
    content = reset_plans.file_of(preview, place_in_words(preview.to), now_ms)
    return reset_plans.download(content, config.name)


async def look(request: PageRequest) -> Response:
    """POST /groups/{group}/offsets/plan: review what a plan would do now; changes nothing."""
    config = await group_of(request)
    draft = _draft(request, config, await forms.read(request), "review")
    form = draft.form
    form.values["to"] = PLAN
    plan = reset_plans.read(form, config.name)
    if plan is None:
        return await _refuse_or_show(request, config, draft)
    try:
        preview = await request.services.resets.preview(config.name, plan.order)
    except EngineError as error:
        form.blame(error, {"topic": PLAN, "topics": PLAN, "queues": PLAN})
        return await _refuse_or_show(request, config, draft)
    result = review(preview, offsets=plan.offsets)
    is_conflict = preview.precondition != plan.precondition
    return await _page(request, config, draft, result, is_conflict=is_conflict)


async def apply(request: PageRequest) -> Response:
    """POST /groups/{group}/offsets: with the precondition of the review, or by force."""
    config, posted = await group_of(request), await forms.read(request)
    draft = _draft(request, config, posted, "review")
    order = _order(draft)
    if order is None:
        return await _refuse_or_show(request, config, draft)
    __, fields = typed_forms.read(posted, ReviewFields)
    resets, actor = request.services.resets, request.actor
    try:
        reset = await resets.apply(
            actor, config.name, order, precondition=fields.precondition, force=fields.is_forced
        )
    except OffsetsMoved as error:
        result = review(error.preview, offsets=fields.offsets)
        return await _page(request, config, draft, result, is_conflict=True)
    except EngineError as error:
        draft.form.blame(error, NAMES)
        return await _refuse_or_show(request, config, draft)
    page = f"/resets/{reset.number}" if reset.number else ""  # 0: it could not be noted
    return forms.go(request, f"{path_of(config.name)}{page}?done=changed")


def _draft(
    request: PageRequest, config: GroupConfig, values: Posted | Mapping[str, str], step: str
) -> ResetDraft:
    """The draft in a query or a form."""
    form, fields = typed_forms.read(values, DraftFields)
    return ResetDraft(step, form, fields.topic, request.zone, config.name)


async def _of_all_queues(
    request: PageRequest, config: GroupConfig, draft: ResetDraft
) -> ResetDraft:
    """The draft, ready for its review, with every queue of the topics ticked by default."""
    draft.form.values["queues"] = draft.form.values["other"] = ""
    draft = replace(draft, step="review", topics=())
    choices = await _choices(request, config, draft)
    return replace(draft, topics=tuple(choice.topic for choice in choices if choice.is_chosen))


def _order(draft: ResetDraft) -> ResetOrder | None:
    """The reset that the draft describes; None if a field is invalid, with its error."""
    form = draft.form
    if form.values["to"] == PLAN:
        plan = reset_plans.read(form, draft.group)
        return None if plan is None else plan.order
    target = _target(form, draft.zone)
    topics = (*draft.topics, *([form.values["other"]] if form.values["other"] else ()))
    if not topics and draft.step != "scope":
        form.refuse("other", _("Choose at least one topic."))
    queues = typed_forms.parse(form, QueueFields).queues
    return None if form.is_wrong else ResetOrder(tuple(dict.fromkeys(topics)), target, queues)


def _target(form: Form, zone: Zone) -> ResetTarget:
    to = typed_forms.parse(form, ToFields).to
    if to is ResetTo.TIME:
        return ResetTarget(to, typed_forms.parse(form, TimeTarget, zone).at)
    if to is ResetTo.OFFSET:
        return ResetTarget(to, typed_forms.parse(form, OffsetTarget).offset)
    if to is ResetTo.SHIFT:
        return ResetTarget(to, typed_forms.parse(form, ShiftTarget).by)
    if to is ResetTo.GROUP and not form.values["from_group"]:
        form.refuse("from_group", _("Enter the group to copy from."))
    return ResetTarget(to, group=form.values["from_group"] if to is ResetTo.GROUP else "")


async def _refuse_or_show(request: PageRequest, config: GroupConfig, draft: ResetDraft) -> Response:
    """Show the step with the invalid field, or the scope if none is invalid."""
    form = draft.form
    is_target = {"to", "at", "offset", "by", "from_group", PLAN} & set(form.errors)
    step = "strategy" if is_target else "scope"
    return await _page(request, config, replace(draft, step=step))


async def _page(
    request: PageRequest,
    config: GroupConfig,
    draft: ResetDraft,
    result: Review | None = None,
    *,
    is_conflict: bool = False,
) -> Response:
    console = request.console
    lag = await console.administration.lag(config.name)
    head = await head_of(console, config, "offsets", lag)
    base = f"{head.path}/offsets"
    before = STEPS[max(0, STEPS.index(draft.step) - 1)]
    context = Wizard(
        head=head,
        step=draft.step,
        form=draft.form,
        choices=await _choices(request, config, draft),
        carried=_carried(draft),
        review=result,
        is_conflict=is_conflict,
        here=_address(base, draft.step, draft),
        back=_address(base, before, draft),
        plan_href=_address(f"{base}/plan", draft.step, draft),
    )
    title, status = _("Reset offsets of %(name)s", name=config.name), 409 if is_conflict else None
    return await respond(request, "group_offsets.html", context, title=title, status=status)


def _address(path: str, step: str, draft: ResetDraft) -> str:
    """The address of a step; a plan is too long for an address and starts again."""
    if draft.form.values["to"] == PLAN:
        return path.removesuffix(f"/{PLAN}")
    return f"{path}?{urlencode([('step', step), *draft.pairs])}"


def _carried(draft: ResetDraft) -> list[tuple[str, str]]:
    """The hidden fields of a step: all values that its own fields do not hold."""
    own = {
        "strategy": {"to", "at", "zone", "offset", "by", "from_group", PLAN},
        "scope": {"topic", "queues", "other"},
        "review": set[str](),
    }[draft.step]
    return [(name, value) for name, value in draft.pairs if name not in own]


async def _choices(
    request: PageRequest, config: GroupConfig, draft: ResetDraft
) -> list[TopicChoice]:
    """The group's topics and those of the query; by default all but retry topics are ticked."""
    console = request.console
    lag = await console.administration.lag(config.name)
    topics = await topics_of_group(console, config, lag)
    is_first = not draft.topics and not draft.form.values["other"]
    choices = []
    for topic in sorted({*topics, *draft.topics}):
        queues = [queue for queue in lag.queues if queue.topic == topic]
        is_retry = topic.startswith(RETRY_PREFIX)  # a cluster has one of POP beside each topic
        is_chosen = topic in draft.topics or (is_first and not is_retry)
        unread = sum(queue.count for queue in queues)
        choices.append(TopicChoice(topic, is_chosen, is_retry, len(queues), unread))
    return choices
