"""Stars on topics: the button beside each name."""

from starlette.requests import Request
from starlette.responses import Response

from app.security.access import who_of
from app.services.audit import Actor, actor_at
from app.services.marks import Marks, TopicMarks
from app.ui.framework import forms
from app.ui.framework.console import client_of
from app.ui.framework.language import _


def marks_of(request: Request) -> TopicMarks:
    """Who keeps stars and notes."""
    kept: TopicMarks = request.app.state.marks
    return kept


async def glance(request: Request) -> Marks:
    """The stars of the one who looks, and which topics have notes."""
    version = request.app.state.people.version
    return await marks_of(request).glance(who_of(request.scope).name, version)


def actor(request: Request) -> Actor:
    """Who changes a mark, for the trail."""
    return actor_at(client_of(request), request.headers.get("x-request-id", ""))


async def change(request: Request) -> Response:
    """POST /topics/{topic}/star with `star` on or off; back to where the button stands.

    The list itself asks for its rows anew: what is ticked there stays ticked.
    """
    posted = await forms.read(request)
    form = forms.fill(posted, ("star", "back"))
    is_on = form.choice("star", _("Star"), ("on", "off")) == "on"
    topic, owner = request.path_params["topic"], who_of(request.scope).name
    marks = marks_of(request)
    await (marks.star if is_on else marks.unstar)(actor(request), owner, topic)
    if request.headers.get("hx-request") == "true":
        return Response(status_code=204, headers={"HX-Trigger": "kite:refresh"})
    return forms.go(request, forms.local_path(form.values["back"] or "/topics"))
