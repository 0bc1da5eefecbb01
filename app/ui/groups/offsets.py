"""Resetting a group's offsets in steps: target, scope, review, apply.

Every step but the last is a GET: its query holds all choices, and it changes nothing. The last step
carries the precondition of the review.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from app.container import services_of
from app.db.rows import actor_at
from app.services.resets import ResetOrder
from app.ui.framework import forms, pages, preferences
from app.ui.framework.console import client_of
from app.ui.framework.forms import Form
from app.ui.framework.language import _
from app.ui.framework.zones import Zone
from app.ui.groups import reset_plans
from app.ui.groups.head import GroupHead, head_of, topics_of_group
from app.ui.groups.reset_review import Review, place_in_words, review
from engine.broker import GroupConfig, OffsetsMoved, ResetTarget, ResetTo
from engine.errors import EngineError
from kitemq.model.numbers import is_whole

PLAN = "plan"  # a target of a reset: the offsets of a file
FIELDS = ("to", "at", "zone", "offset", "by", "from_group", "queues", "other", PLAN)
STEPS = ("strategy", "scope", "review")
NAMES = {"topics": "other", "topic": "other", "group": "from_group"}
OFFSET_MAX = 2**63 - 1
QUEUES_MAX = 1024


@dataclass(frozen=True)
class Choice:
    """A topic of the group, and whether it is chosen for the reset."""

    topic: str
    is_chosen: bool
    is_retry: bool
    queues: int
    lag: int


@dataclass(frozen=True)
class Wizard:
    """The context of `group_offsets.html`; `carried` is what the form hands to the next step."""

    head: GroupHead
    tab: str
    step: str
    form: Form
    choices: Sequence[Choice]
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


async def show(request: Request) -> Response:
    """GET /groups/{group}/offsets"""
    config = pages.console_of(request).broker.group(request.path_params["group"])
    query = request.query_params
    draft = _draft(request, config)
    if draft.step == "strategy":
        draft.form.values["to"] = draft.form.values["to"] or ResetTo.EARLIEST.value
        if draft.form.values["at"]:
            draft.form.moment("at", draft.form.values["zone"], draft.zone)
        return await _page(request, config, draft)
    order = _order(draft)
    if draft.step == "scope" or order is None:
        return await _refuse_or_show(request, config, draft)
    try:
        preview = await services_of(request.scope).resets.preview(config.name, order)
    except EngineError as error:
        draft.form.blame(error, NAMES)
        return await _refuse_or_show(request, config, draft)
    page = query.get("page", "1")
    number = int(page) if is_whole(page, 5) else 1
    return await _page(request, config, draft, review(preview, page=number))


async def export(request: Request) -> Response:
    """GET /groups/{group}/offsets/plan: the review of the same query as a file."""
    console = pages.console_of(request)
    config = console.broker.group(request.path_params["group"])
    draft = replace(_draft(request, config), step="review")
    order = _order(draft)
    if order is None:
        return await _refuse_or_show(request, config, draft)
    preview = await services_of(request.scope).resets.preview(config.name, order)
    content = reset_plans.file_of(preview, place_in_words(preview.to), console.now_ms())
    return reset_plans.download(content, config.name)


async def look(request: Request) -> Response:
    """POST /groups/{group}/offsets/plan: review what a plan would do now; changes nothing."""
    config = pages.console_of(request).broker.group(request.path_params["group"])
    form = forms.fill(await forms.read(request), FIELDS)
    form.values["to"] = PLAN
    draft = ResetDraft("review", form, (), preferences.read(request).zone, config.name)
    plan = reset_plans.read(form, config.name)
    if plan is None:
        return await _refuse_or_show(request, config, draft)
    try:
        preview = await services_of(request.scope).resets.preview(config.name, plan.order)
    except EngineError as error:
        form.blame(error, {"topic": PLAN, "topics": PLAN, "queues": PLAN})
        return await _refuse_or_show(request, config, draft)
    result = review(preview, seen=plan.seen)
    is_conflict = preview.precondition != plan.precondition
    return await _page(request, config, draft, result, is_conflict=is_conflict)


async def apply(request: Request) -> Response:
    """POST /groups/{group}/offsets: with the precondition of the review, or by force."""
    console = pages.console_of(request)
    config = console.broker.group(request.path_params["group"])
    posted = await forms.read(request)
    topics = tuple(dict.fromkeys(posted.values.get("topic", ())))
    zone = preferences.read(request).zone
    draft = ResetDraft("review", forms.fill(posted, FIELDS), topics, zone, config.name)
    order = _order(draft)
    if order is None:
        return await _refuse_or_show(request, config, draft)
    try:
        reset = await services_of(request.scope).resets.apply(
            actor_at(client_of(request)),
            config.name,
            order,
            precondition=posted.one("precondition"),
            force=posted.one("force") == "yes",
        )
    except OffsetsMoved as error:
        result = review(error.preview, seen=posted.one("seen"))
        return await _page(request, config, draft, result, is_conflict=True)
    except EngineError as error:
        draft.form.blame(error, NAMES)
        return await _refuse_or_show(request, config, draft)
    head = head_of(console, config, console.broker.lag(config.name))
    return forms.go(request, f"{head.path}/resets/{reset.number}?done=changed")


def _draft(request: Request, config: GroupConfig) -> ResetDraft:
    """The draft in a query."""
    query = request.query_params
    step = query.get("step", "strategy")
    return ResetDraft(
        step if step in STEPS else "strategy",
        Form({name: query.get(name, "").strip() for name in FIELDS}),
        tuple(dict.fromkeys(query.getlist("topic"))),
        preferences.read(request).zone,
        config.name,
    )


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
    queues = _queues(form)
    return None if form.is_wrong else ResetOrder(tuple(dict.fromkeys(topics)), target, queues)


def _target(form: Form, display_zone: Zone) -> ResetTarget:
    to = ResetTo(form.choice("to", _("Where to"), tuple(ResetTo)))
    if to is ResetTo.TIME:
        at_ms = form.moment("at", form.values["zone"], display_zone)
        form.values["zone"] = display_zone.name
        return ResetTarget(to, at_ms or 0)
    if to is ResetTo.OFFSET:
        return ResetTarget(to, form.number("offset", _("The offset"), 0, OFFSET_MAX))
    if to is ResetTo.SHIFT:
        return ResetTarget(to, _shift(form))
    if to is ResetTo.GROUP and not form.values["from_group"]:
        form.refuse("from_group", _("Name the group to copy from."))
    return ResetTarget(to, group=form.values["from_group"] if to is ResetTo.GROUP else "")


def _shift(form: Form) -> int:
    text = form.values["by"].strip().removeprefix("+")
    digits = text.removeprefix("-")
    if is_whole(digits) and int(digits):
        return int(text)
    form.refuse("by", _("Give a whole number of messages, below 0 to go back; not 0."))
    return 0


def _queues(form: Form) -> tuple[int, ...]:
    parts = form.values["queues"].replace(",", " ").split()
    if all(is_whole(part, 5) for part in parts):
        return tuple(map(int, parts[: QUEUES_MAX + 1]))
    form.refuse("queues", _("Queues are whole numbers divided by commas; none means all."))
    return ()


async def _refuse_or_show(request: Request, config: GroupConfig, draft: ResetDraft) -> Response:
    """Show the step with the invalid field, or the scope if none is invalid."""
    form = draft.form
    is_target = {"to", "at", "offset", "by", "from_group", PLAN} & set(form.errors)
    step = "strategy" if is_target else "scope"
    return await _page(request, config, replace(draft, step=step))


async def _page(
    request: Request,
    config: GroupConfig,
    draft: ResetDraft,
    result: Review | None = None,
    *,
    is_conflict: bool = False,
) -> Response:
    console = pages.console_of(request)
    lag = console.broker.lag(config.name)
    head = head_of(console, config, lag)
    base = f"{head.path}/offsets"
    before = STEPS[max(0, STEPS.index(draft.step) - 1)]
    context = Wizard(
        head=head,
        tab="offsets",
        step=draft.step,
        form=draft.form,
        choices=_choices(request, config, draft),
        carried=_carried(draft),
        review=result,
        is_conflict=is_conflict,
        here=_address(base, draft.step, draft),
        back=_address(base, before, draft),
        plan_href=_address(f"{base}/plan", draft.step, draft),
    )
    return await pages.respond(
        request,
        "group_offsets.html",
        context,
        title=_("Reset offsets of %(name)s", name=config.name),
        section="groups",
        status=409 if is_conflict else 422 if draft.form.is_wrong else 200,
    )


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


def _choices(request: Request, config: GroupConfig, draft: ResetDraft) -> list[Choice]:
    """The group's topics and those of the query; by default all but the retry topic are ticked."""
    console = pages.console_of(request)
    lag = console.broker.lag(config.name)
    topics = topics_of_group(console, config, lag)
    own_retry = head_of(console, config, lag).retry_topic
    is_first = not draft.topics and not draft.form.values["other"]
    choices = []
    for topic in sorted({*topics, *draft.topics}):
        queues = [queue for queue in lag.queues if queue.topic == topic]
        is_retry = topic == own_retry
        is_chosen = topic in draft.topics or (is_first and not is_retry)
        unread = sum(queue.count for queue in queues)
        choices.append(Choice(topic, is_chosen, is_retry, len(queues), unread))
    return choices
