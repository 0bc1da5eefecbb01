"""The access check: what a user, a token or a role may do, in general or to one name."""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta
from starlette.responses import Response

from app.security.access import NAMED, Action, Kind
from app.security.rights_check import RightsSubject, decide_all, subject_of
from app.ui.access.access import ROLES
from app.ui.framework import pages, typed_forms
from app.ui.framework.forms import Form
from app.ui.framework.language import N_, _, translated
from app.ui.framework.page_request import PageRequest
from app.ui.framework.typed_forms import Fields
from engine.errors import Invalid, NotFound
from kitemq.model.access import CheckedRight, RightReason
from kitemq.model.conversion import convert

CHOICES_MAX = 200
OPERATIONS_MAX = 6
TEXT_MAX = 4096
REASONS = {
    RightReason.OPEN: N_("there are no users, so everything is allowed"),
    RightReason.ROLE: N_("the role %(by)s has this right"),
    RightReason.PATTERN: N_("the pattern %(by)s covers it"),
}
REFUSALS = {
    RightReason.ROLE: N_("the role %(by)s does not have this right"),
    RightReason.PATTERN: N_("no pattern covers it: %(by)s"),
    RightReason.TOKEN_ROLE: N_("the token's own role %(by)s does not have this right"),
    RightReason.TOKEN_PATTERN: N_("no pattern of the token covers it: %(by)s"),
    RightReason.TOKEN_OWN: N_("a token cannot change its owner's account"),
    RightReason.READ_ONLY: N_("permitted, but the server is read-only"),
    RightReason.EXPIRED: N_("the token has expired"),
    RightReason.DISABLED: N_("the user is disabled"),
    RightReason.PROVIDER: N_("the user's identity provider is no longer configured on this server"),
}


class CheckFields(Fields, frozen=True):
    """Whom to check, "role" for the role and the patterns, and what they may do."""

    who: Annotated[str, Meta(max_length=TEXT_MAX)]
    role: str
    patterns: Annotated[str, Meta(max_length=TEXT_MAX)]
    action: Annotated[Action | None, Meta(title=N_("Action"))]
    kind: Annotated[Kind | None, Meta(title=N_("Kind"))]
    name: Annotated[str, Meta(max_length=255)]


@dataclass(frozen=True)
class OperationsLine:
    """The endpoints of one table that a right opens: the first ones, and how many more."""

    title: str
    operations: tuple[str, ...]
    more: int


class VerdictLine(CheckedRight, frozen=True, kw_only=True):
    """A right, whether it is granted, and the sentence that says why."""

    why: str
    lines: list[OperationsLine]


@dataclass(frozen=True)
class AccessCheckPage:
    """The context of `access_check.html`; `people` are the first CHOICES_MAX."""

    form: Form
    is_checked: bool
    who: str
    rows: list[VerdictLine]
    allowed: int
    people: list[tuple[str, str]]
    people_total: int
    roles: tuple[tuple[str, str], ...] = ROLES
    actions: tuple[str, ...] = tuple(Action)
    kinds: tuple[str, ...] = tuple(kind for kind in Kind if kind is not Kind.PUBLIC)


async def show(request: PageRequest) -> Response:
    """GET /access/check"""
    form, fields = typed_forms.read({"patterns": "*:*:*", **request.query_params}, CheckFields)
    checks: list[CheckedRight] = []
    subject: RightsSubject | None = None
    if fields.who and not form.is_wrong:
        try:
            subject = _subject(request, fields)
            name = fields.name if fields.kind is None or fields.kind in NAMED else ""
            checks = decide_all(subject, action=fields.action, kind=fields.kind, name=name)
        except (Invalid, NotFound) as error:
            form.blame(error, {"user": "who", "token": "who"})
    people, total = _people(request)
    context = AccessCheckPage(
        form=form,
        is_checked=subject is not None and not form.is_wrong,
        who="" if subject is None else subject.principal.audit_name(""),
        rows=[_line(each) for each in checks],
        allowed=sum(each.allowed for each in checks),
        people=people,
        people_total=total,
    )
    return await pages.respond(
        request, "access_check.html", context, title=_("Permissions"), status=form.status
    )


def _subject(request: PageRequest, fields: CheckFields) -> RightsSubject:
    kind, __, name = fields.who.partition(":")
    directory = request.services.user_directory
    if kind == "role":
        return subject_of(directory, role=fields.role, patterns=fields.patterns.split())
    return (
        subject_of(directory, token=name) if kind == "token" else subject_of(directory, user=name)
    )


def _people(request: PageRequest) -> tuple[list[tuple[str, str]], int]:
    """The users and tokens to choose from, users first, and their total number."""
    people = request.services.user_directory
    users = [(f"user:{user.name}", user.name) for user in people.users()]
    tokens = []
    for token in people.tokens():
        owner = people.name_of(token.user_id)
        text = _("token %(token)s of %(owner)s", token=token.name, owner=owner)
        tokens.append((f"token:{token.id}", text))
    return [*users, *tokens][:CHOICES_MAX], len(users) + len(tokens)


def _line(verdict: CheckedRight) -> VerdictLine:
    texts = REASONS if verdict.allowed else REFUSALS
    return convert(
        verdict,
        VerdictLine,
        why=translated(texts[verdict.reason]) % {"by": verdict.by or _("(none)")},
        lines=[
            OperationsLine(
                title, operations[:OPERATIONS_MAX], max(0, len(operations) - OPERATIONS_MAX)
            )
            for title, operations in verdict.operations.items()
        ],
    )
