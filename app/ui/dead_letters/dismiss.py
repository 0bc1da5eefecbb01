"""Dismissing and restoring dead letters: a preview with the count, then the change.

The change applies only if the count still is what the preview showed; otherwise the page shows the
new count and nothing changes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from msgspec import Meta
from starlette.responses import Response

from app.monitoring.dead_index import COUNTED_MAX
from app.services.dismissals import join
from app.ui.dead_letters import filters as dead_filter
from app.ui.dead_letters.dead_letters import check_ticked, criteria_of, view_of
from app.ui.dead_letters.filters import Criteria
from app.ui.dead_letters.resend import BUDGET_S, CRITERIA, WHOLE_S
from app.ui.framework import forms, pages, typed_forms
from app.ui.framework.forms import Form
from app.ui.framework.language import N_, _
from app.ui.framework.page_request import PageRequest
from app.ui.framework.templating import segment
from app.ui.framework.typed_forms import Fields, Verbatim
from engine.broker import DeadLetterState, DismissNote
from engine.errors import Conflict, Invalid, Refused

VERBS = DISMISS, RESTORE = "dismiss", "restore"
Id = Annotated[str, Meta(max_length=60)]


class RestoreQuery(Fields, frozen=True):
    """The dismissal to restore, "" for dead letters by criteria."""

    dismissal: Id = ""


class DismissFields(Fields, frozen=True):
    """The form; `count` dead letters below the offset `before` are those of the preview."""

    note: Verbatim
    dismissal: Id
    count: Annotated[int, Meta(title=N_("The number"), ge=0, le=10**15)]
    before: Annotated[int, Meta(title=N_("The offset"), ge=0, le=10**15)]


@dataclass(frozen=True)
class Rest:
    """The context of `dlq_dismiss.html`: `count` would change, `others` are unchanged.

    `is_exact` is false if some dead letters are not counted yet; `before` is the offset after the
    newest chosen one. `note` is that of the dismissal to restore.
    """

    group: str
    verb: str
    form: Form
    hidden: Mapping[str, str]
    words: list[str]
    ticked: int
    count: int
    others: int
    total: int
    is_exact: bool
    before: int
    note: DismissNote | None


@dataclass(frozen=True)
class DismissalChoice:
    """The dead letters that a page or a form chooses."""

    runs: list[range]
    is_exact: bool
    before: int
    note: DismissNote | None = None


async def show(request: PageRequest) -> Response:
    """GET /dlq/{group}/dismiss and /restore: the preview."""
    check_ticked(request, _("go back and select some"))
    criteria = criteria_of(request).settled(request.console.now_ms())
    dismissal = request.read_query(RestoreQuery).dismissal
    criteria = _in_state_for(_verb(request), criteria)
    return await _page(request, Form({"note": ""}), criteria, dismissal, BUDGET_S)


def _verb(request: PageRequest) -> str:
    return request.url.path.rpartition("/")[2]


def _in_state_for(verb: str, criteria: Criteria) -> Criteria:
    """The criteria with a state that `verb` takes: dismissed to restore, another to dismiss."""
    if verb == RESTORE or criteria.state == DeadLetterState.DISMISSED:
        return replace(criteria, state="" if verb == DISMISS else DeadLetterState.DISMISSED.value)
    return criteria


async def _page(
    request: PageRequest,
    form: Form,
    criteria: Criteria,
    dismissal: str,
    budget_s: float,
    status: int | None = None,
) -> Response:
    group, verb = request.path_params["group"], _verb(request)
    choice = await _chosen(request, criteria, dismissal, 0, budget_s)
    impact = await request.services.dismissals.impact(group, choice.runs)
    is_dismissing = verb == DISMISS
    low, end = await request.administration.dead_letters.bounds(group)
    context = Rest(
        group=group,
        verb=verb,
        form=form,
        hidden=criteria.query() | ({"dismissal": dismissal} if dismissal else {}),
        words=criteria.words(),
        ticked=len(criteria.offsets),
        count=impact.count if is_dismissing else impact.already,
        others=impact.already if is_dismissing else impact.count,
        total=end - low,
        is_exact=choice.is_exact,
        before=choice.before,
        note=choice.note,
    )
    title = _("Dismiss dead letters of %(group)s", group=group)
    if not is_dismissing:
        title = _("Restore dead letters of %(group)s", group=group)
    return await pages.respond(request, "dlq_dismiss.html", context, title=title, status=status)


async def _chosen(
    request: PageRequest, criteria: Criteria, dismissal: str, before: int, budget_s: float
) -> DismissalChoice:
    """Choose dead letters below the offset `before`, 0 for the current end."""
    console, group = request.console, request.path_params["group"]
    low, end = await console.administration.dead_letters.bounds(group)
    before = min(before or end, end)
    if dismissal:
        note, runs = await request.services.dismissals.of_dismissal(group, dismissal)
        return DismissalChoice(runs, True, before, note)
    if criteria.offsets:
        offsets = [offset for offset in criteria.offsets if low <= offset < before]
        return DismissalChoice([range(offset, offset + 1) for offset in offsets], True, before)
    if criteria.is_any:
        if criteria.wants == dead_filter.ALL:
            chosen = [range(low, before)] if low < before else []
        else:
            state = DeadLetterState(criteria.wants)
            states = await console.administration.dead_letters.states(group)
            chosen = await console.render(lambda: list(states.runs(state, before)))
        return DismissalChoice(chosen, True, before)
    view = await view_of(request, group, criteria, console.now_ms(), budget_s)
    runs = await console.render(lambda: _runs_below(view.selection.offsets, before))
    return DismissalChoice(runs, view.index.is_whole, before)


def _runs_below(offsets: Sequence[int], before: int) -> list[range]:
    """The offsets below `before` as ranges; `offsets` are in descending order."""
    runs: list[range] = []
    for offset in offsets:
        if offset < before:
            join(runs, offset)
    return runs


async def change(request: PageRequest) -> Response:
    """POST /dlq/{group}/dismiss and /restore: change exactly as many as the preview counted."""
    group, verb = request.path_params["group"], _verb(request)
    posted = await forms.read(request)
    form, fields = typed_forms.read(posted, DismissFields)
    criteria = dead_filter.parse({name: posted.one(name) for name in CRITERIA})
    criteria, dismissal = _in_state_for(verb, criteria), fields.dismissal
    if form.is_wrong:  # in hidden fields
        form.error = "; ".join(form.errors.values())
        return await _page(request, form, criteria, dismissal, WHOLE_S)
    choice = await _chosen(request, criteria, dismissal, fields.before, WHOLE_S)
    _check_counted(choice)
    actor, service = request.actor, request.services.dismissals
    try:
        if verb == DISMISS:
            await service.dismiss(actor, group, choice.runs, fields.note, fields.count)
            place = "state=dismissed&done=dismissed"
        else:
            await service.restore(actor, group, choice.runs, fields.count)
            place = "done=restored"
    except Conflict as error:
        form.error = f"{error.detail[:1].upper()}{error.detail[1:]}."
        return await _page(request, form, criteria, dismissal, WHOLE_S, 409)
    except (Invalid, Refused) as error:
        form.blame(error)
        return await _page(request, form, criteria, dismissal, WHOLE_S)
    return forms.go(request, f"/dlq/{segment(group)}?{place}")


def _check_counted(choice: DismissalChoice) -> None:
    if not choice.is_exact:
        raise Invalid(
            _(
                "not all dead letters could be checked: at most %(most)s are",
                most=f"{COUNTED_MAX:,}",
            ),
            remedy=_("select them, or choose all of them"),
        )
