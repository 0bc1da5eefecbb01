"""The page of one user: rights, role, password, and deletion."""

from dataclasses import dataclass
from typing import Annotated

from starlette.responses import Response

from app.db.rows import UserRow
from app.security.access import TABLE, Grant, Kind, Principal, Role, lacks
from app.security.credentials import parse_role
from app.ui.access.access import ROLES, UserLine, patterns_of, user_line
from app.ui.framework import forms, pages
from app.ui.framework.forms import Form
from app.ui.framework.language import _
from app.ui.framework.page_request import PageRequest
from app.ui.framework.templating import segment
from app.ui.framework.typed_forms import Fields, Verbatim
from engine.errors import Conflict, Invalid, NotFound
from kitemq.model.access import UserPatch


class UserChangeFields(Fields, frozen=True):
    """The form for what a user may do."""

    role: str
    patterns: Annotated[list[str], patterns_of]
    disabled: str


class NewPasswordFields(Fields, frozen=True):
    """The form for another password."""

    password: Verbatim


@dataclass(frozen=True)
class UserPage:
    """The context of `access_user.html`."""

    user: UserLine
    form: Form
    password_form: Form
    delete_form: Form
    on: str
    answers: dict[str, bool]  # whether the user has each right on `on`
    roles: tuple[tuple[str, str], ...] = ROLES


async def show(
    request: PageRequest,
    *,
    form: Form | None = None,
    password_form: Form | None = None,
    delete_form: Form | None = None,
) -> Response:
    """GET /access/users/{name}"""
    directory = request.services.user_directory
    user = directory.user(request.path_params["name"])
    if user is None:
        raise NotFound(_("there is no user %(name)s", name=f"{request.path_params['name']!r}"))
    values = {
        "role": user.role,
        "patterns": "\n".join(user.patterns),
        "disabled": "yes" if user.disabled else "",
    }
    on = request.query_params.get("on", "").strip()[:255]
    context = UserPage(
        user=user_line(user, directory, request.who),
        form=form or Form(values),
        password_form=password_form or Form({"password": ""}),
        delete_form=delete_form or Form({"confirm": ""}),
        on=on,
        answers=_answers(user, on),
    )
    return await pages.respond(request, "access_user.html", context, title=user.name)


async def change(request: PageRequest) -> Response:
    """POST /access/users/{name}: role, patterns, whether it is switched off."""
    form, fields = await request.read_form(UserChangeFields)
    name = request.path_params["name"]
    try:
        patch = UserPatch(parse_role(fields.role), fields.patterns, fields.disabled == "yes")
        await request.services.accounts.change_user(request.actor, name, patch)
    except (Invalid, Conflict) as error:
        form.blame(error)
        return await show(request, form=form)
    return forms.go(request, f"/access/users/{segment(name)}?done=changed")


async def set_password(request: PageRequest) -> Response:
    """POST /access/users/{name}/password"""
    __, fields = await request.read_form(NewPasswordFields)
    name, accounts = request.path_params["name"], request.services.accounts
    try:
        await accounts.set_password(request.actor, name, fields.password)
    except Invalid as error:
        form = Form({"password": ""})
        form.blame(error)
        return await show(request, password_form=form)
    return forms.go(request, f"/access/users/{segment(name)}?done=changed")


async def delete(request: PageRequest) -> Response:
    """POST /access/users/{name}/delete: delete the user if the form repeats the name."""
    name = request.path_params["name"]
    refusal = _("Type %(name)s to delete this user.", name=name)
    form = await forms.confirmation(request, name, refusal)
    if not form.is_wrong:
        try:
            await request.services.accounts.delete_user(request.actor, name)
        except Conflict as error:
            form.blame(error)
    if form.is_wrong:
        return await show(request, delete_form=form)
    return forms.go(request, "/access?done=deleted")


def _answers(user: UserRow, on: str) -> dict[str, bool]:
    """The rights of a user on the topic and the group `on`, and on kinds without names."""
    who = Principal(user.name, () if user.disabled else (Grant(Role(user.role), user.patterns),))
    answers = {}
    for __, action, kind in TABLE:
        name = f":{on}" if on and kind in (Kind.TOPIC, Kind.GROUP) else ""
        answers[f"{action}:{kind}{name}"] = not lacks(who, action, kind, on)
    return answers
