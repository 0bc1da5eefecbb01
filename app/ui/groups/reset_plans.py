"""Reset plans: a reviewed reset as a file, which can be reviewed again and applied.

The file has the current and the new offset of each queue. Loading it shows a review with the
current offsets; queues that moved since the file was made are marked.
"""

from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from app.administration import ResetOrder
from app.ui.framework import formats
from app.ui.framework.forms import Form
from app.ui.framework.language import _
from app.ui.groups.reset_review import NONE
from engine.broker import ResetPreview, ResetTarget, ResetTo
from engine.errors import Invalid

KIND = "kitemq.reset-plan"
VERSION = 1
QUEUES_MAX = 1024
PLAN_CHARS_MAX = 1024 * 1024

Offset = Annotated[str, Meta(pattern="^[0-9]{1,19}$")]
Number = Annotated[int, Meta(ge=0, le=65_535)]


class PlannedQueue(msgspec.Struct, forbid_unknown_fields=True):
    """One queue; `new_offset` null keeps its offset, `current_offset` null means no offset yet."""

    topic: Annotated[str, Meta(min_length=1, max_length=255)]
    queue: Number
    current_offset: Offset | None
    new_offset: Offset | None


class PlanFile(msgspec.Struct, forbid_unknown_fields=True):
    """The file; `precondition` covers all current offsets, `to` is the target in words."""

    kind: str
    version: int
    group: str
    to: str
    made_at: str
    precondition: str
    queues: Annotated[list[PlannedQueue], Meta(min_length=1, max_length=QUEUES_MAX)]

    @property
    def offsets(self) -> str:
        """The current offsets of the plan, in the form that `reset_review.review` takes."""
        return "\n".join(
            f"{each.queue} {NONE if each.current_offset is None else each.current_offset}"
            f" {each.topic}"
            for each in self.queues
        )

    @property
    def order(self) -> ResetOrder:
        """The reset of this plan."""
        topics = tuple(dict.fromkeys(each.topic for each in self.queues))
        goals = tuple(
            (each.topic, each.queue, None if each.new_offset is None else int(each.new_offset))
            for each in self.queues
        )
        return ResetOrder(topics, ResetTarget(ResetTo.OFFSET), goals=goals)


def file_of(preview: ResetPreview, to: str, now_ms: int) -> bytes:
    """The plan of a preview."""
    plan = PlanFile(
        kind=KIND,
        version=VERSION,
        group=preview.group,
        to=to,
        made_at=formats.iso(now_ms),
        precondition=preview.precondition,
        queues=[
            PlannedQueue(each.topic, each.queue, _offset(each.current), _offset(each.target))
            if each.moves
            else PlannedQueue(each.topic, each.queue, _offset(each.current), None)
            for each in preview.queues
        ],
    )
    return msgspec.json.format(msgspec.json.encode(plan), indent=2) + b"\n"


def download(content: bytes, group: str) -> Response:
    """The plan as a download."""
    name = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in group)
    headers = {
        "Content-Disposition": f'attachment; filename="reset-plan-{name}.json"',
        "Cache-Control": "no-store",
    }
    return Response(content, media_type="application/json", headers=headers)


def read(form: Form, group: str) -> PlanFile | None:
    """The plan in a form's field `plan`; None if it is invalid, with the error at the field."""
    text = form.values["plan"]
    try:
        if len(text) > PLAN_CHARS_MAX:
            raise Invalid(_("the file is too long"))
        plan = msgspec.json.decode(text.encode(), type=PlanFile)
        if (plan.kind, plan.version) != (KIND, VERSION):
            raise Invalid(_("its kind or version is not supported"))
    except (msgspec.MsgspecError, Invalid) as error:
        why = error.detail if isinstance(error, Invalid) else str(error)
        form.refuse("plan", _("Not a reset plan: %(why)s.", why=why))
        return None
    if plan.group != group:
        form.refuse("plan", _("This is a plan for the group %(group)s.", group=plan.group[:255]))
        return None
    return plan


def _offset(value: int | None) -> str | None:
    return None if value is None else str(value)
