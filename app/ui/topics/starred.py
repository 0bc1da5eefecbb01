"""Stars on topics: the button beside each name."""

from starlette.requests import Request
from starlette.responses import Response

from app.container import services_of
from app.db.rows import Actor, actor_at
from app.security.access import principal_of
from app.services.stars_and_notes import Marks
from app.ui.framework import forms
from app.ui.framework.console import client_of
from app.ui.framework.language import _


async def glance(request: Request) -> Marks:
    """The user's stars, and the topics with notes."""
    version = services_of(request.scope).user_directory.version
    return await services_of(request.scope).stars_and_notes.glance(
        principal_of(request.scope).name, version
    )


def actor(request: Request) -> Actor:
    """The actor of a change to marks, for the audit trail."""
    return actor_at(client_of(request), request.headers.get("x-request-id", ""))


async def change(request: Request) -> Response:
    """POST /topics/{topic}/star with `star` on or off; redirects to the page of the button.

    The list reloads its rows itself, so that ticked rows stay ticked.
    """
    posted = await forms.read(request)
    form = forms.fill(posted, ("star", "back"))
    is_on = form.choice("star", _("Star"), ("on", "off")) == "on"
    topic, owner = request.path_params["topic"], principal_of(request.scope).name
    marks = services_of(request.scope).stars_and_notes
    await (marks.star if is_on else marks.unstar)(actor(request), owner, topic)
    if request.headers.get("hx-request") == "true":
        return Response(status_code=204, headers={"HX-Trigger": "kite:refresh"})
    return forms.go(request, forms.local_path(form.values["back"] or "/topics"))
