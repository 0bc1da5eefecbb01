"""The user's saved views: list, create, delete."""

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.responses import Response

from app.services import views
from app.ui.framework import forms, pages
from app.ui.framework.forms import Form
from app.ui.framework.language import _
from app.ui.framework.page_request import PageRequest
from app.ui.framework.typed_forms import Fields, Verbatim
from engine.errors import Conflict, EngineError, Invalid, NotFound
from kitemq.model.numbers import is_whole
from kitemq.model.views import VIEWS_MAX, NewView

if TYPE_CHECKING:
    from app.db.rows import ViewRow

ID_CHARS_MAX = 18


class ViewFields(Fields, frozen=True):
    """The form for a new view: its name, and the list with its filter."""

    name: Verbatim
    path: Verbatim
    query: Verbatim


@dataclass(frozen=True)
class ViewsPage:
    """The context of `views.html`; `can_save` if a list is named."""

    lines: "list[ViewRow]"
    lines_max: int
    form: Form
    can_save: bool
    address: str


async def show(request: PageRequest) -> Response:
    """GET /views, optionally with the `path` and `query` of a list to save."""
    values = request.query_params
    path, query = values.get("path", ""), values.get("query", "")
    # Typing a filter changes the address after the link was rendered.
    with suppress(ValueError):  # an invalid address names no list
        address = urlsplit(request.headers.get("hx-current-url", ""))
        if path and address.path == path:
            query = address.query
    return await _page(request, Form({"name": "", "path": path, "query": query}))


async def create(request: PageRequest) -> Response:
    """POST /views: save and redirect to the list, or show the form with its errors."""
    form, fields = await request.read_form(ViewFields)
    new = NewView(fields.name, fields.path, fields.query)
    try:
        view = await request.services.views.add(request.actor, _owner(request), new)
    except (Invalid, Conflict) as error:
        if error.field == "path":  # none of the console's links leads here
            raise
        return await _page(request, _blamed(form, error))
    joint = "&" if view.query else "?"
    return forms.go(request, f"{view.href}{joint}done=view-saved")


async def delete(request: PageRequest) -> Response:
    """POST /views/{id}/delete"""
    text = request.path_params["id"]
    if not is_whole(text, ID_CHARS_MAX):
        raise NotFound(_("there is no saved view %(text)s", text=f"{text[:40]!r}"), field="id")
    await request.services.views.delete(request.actor, _owner(request), int(text))
    return forms.go(request, "/views?done=deleted")


async def _page(request: PageRequest, form: Form) -> Response:
    saved = await request.services.views.of(_owner(request))
    path = form.values["path"]
    try:
        form.values["query"] = views.stored_query(form.values["query"])
    except Invalid as error:
        form = _blamed(form, error)
    query = form.values["query"]
    context = ViewsPage(
        lines=saved,
        lines_max=VIEWS_MAX,
        form=form,
        can_save=views.is_list(path),
        address=f"{path}?{query}" if query else path,
    )
    return await pages.respond(request, "views.html", context, title=_("Saved views"))


def _blamed(form: Form, error: EngineError) -> Form:
    """The form with the error; the name is its only visible field."""
    name_form = Form({"name": form.values["name"]}, form.errors, form.error)
    name_form.blame(error)
    return replace(name_form, values=form.values)


def _owner(request: PageRequest) -> str:
    return request.who.name
