"""One's saved views: all of them, a new one, and away with one."""

from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from app.container import services_of
from app.numbers import is_whole
from app.security.access import principal_of
from app.services import views
from app.services.audit import Actor, actor_at
from app.ui.framework import forms, pages
from app.ui.framework.console import client_of
from app.ui.framework.forms import Form
from app.ui.framework.language import _
from engine.errors import Conflict, EngineError, Invalid, NotFound
from kitemq.model.views import NewView

FIELDS = ("name", "path", "query")
ID_CHARS_MAX = 18
VIEWS_MAX = 100  # of one owner, as app/db/view_store.py has it


@dataclass(frozen=True)
class ViewLine:
    """A saved view."""

    id: str
    name: str
    address: str
    created_ms: int


@dataclass(frozen=True)
class ViewsPage:
    """The context of `views.html`; without `can_save` no list was named."""

    lines: list[ViewLine]
    lines_max: int
    form: Form
    can_save: bool
    address: str
    is_shared: bool


async def show(request: Request) -> Response:
    """GET /views, perhaps with the `path` and `query` of a list that is to be saved."""
    given = request.query_params
    path, query = given.get("path", ""), given.get("query", "")
    # A filter that was typed has changed the address since the link was made.
    with suppress(ValueError):  # what is no address names no list
        shown = urlsplit(request.headers.get("hx-current-url", ""))
        if path and shown.path == path:
            query = shown.query
    return await _page(request, Form({"name": "", "path": path, "query": query}))


async def create(request: Request) -> Response:
    """POST /views: back to the list, or the form with what is wrong."""
    form = forms.fill(await forms.read(request), FIELDS)
    new = NewView(**form.values)
    try:
        kept = await services_of(request.scope).views.add(_actor(request), _owner(request), new)
    except (Invalid, Conflict) as error:
        if error.field == "path":  # which no link of ours asks for
            raise
        status = 409 if isinstance(error, Conflict) else 422
        return await _page(request, _blamed(form, error), status)
    joint = "&" if kept.query else "?"
    return forms.go(request, f"{kept.href}{joint}done=view-saved")


async def delete(request: Request) -> Response:
    """POST /views/{id}/delete"""
    text = request.path_params["id"]
    if not is_whole(text, ID_CHARS_MAX):
        raise NotFound(_("you have no view %(text)s", text=f"{text[:40]!r}"), field="id")
    await services_of(request.scope).views.delete(_actor(request), _owner(request), int(text))
    return forms.go(request, "/views?done=deleted")


async def _page(request: Request, form: Form, status: int = 200) -> Response:
    found = await services_of(request.scope).views.of(_owner(request))
    path = form.values["path"]
    try:
        form.values["query"] = views.stored_query(form.values["query"])
    except Invalid as error:
        form = _blamed(form, error)
    query = form.values["query"]
    context = ViewsPage(
        lines=[ViewLine(str(v.id), v.name, v.href, v.created_ms) for v in found],
        lines_max=VIEWS_MAX,
        form=form,
        can_save=views.is_list(path),
        address=f"{path}?{query}" if query else path,
        is_shared=principal_of(request.scope).is_open,
    )
    return await pages.respond(
        request, "views.html", context, title=_("Saved views"), section="views", status=status
    )


def _blamed(form: Form, error: EngineError) -> Form:
    """The form with what is wrong; only the name stands in a field that people see."""
    seen = Form({"name": form.values["name"]}, form.errors, form.error)
    seen.blame(error)
    return Form(form.values, seen.errors, seen.error)


def _owner(request: Request) -> str:
    return principal_of(request.scope).name


def _actor(request: Request) -> Actor:
    return actor_at(client_of(request), request.headers.get("x-request-id", ""))
