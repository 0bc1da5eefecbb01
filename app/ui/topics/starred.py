"""Stars on topics: the button beside each name."""

from typing import Annotated, Literal

from msgspec import Meta
from starlette.responses import Response

from app.services.stars_and_notes import TopicAnnotations
from app.ui.framework import forms
from app.ui.framework.language import N_
from app.ui.framework.page_request import PageRequest
from app.ui.framework.typed_forms import Fields


class StarFields(Fields, frozen=True):
    """The button beside a name; `back` is the page that it is on."""

    star: Annotated[Literal["on", "off"], Meta(title=N_("Star"))]
    back: str


async def glance(request: PageRequest) -> TopicAnnotations:
    """The user's stars, and the topics with notes."""
    version = request.services.user_directory.version
    return await request.services.stars_and_notes.glance(request.who.name, version)


async def change(request: PageRequest) -> Response:
    """POST /topics/{topic}/star with `star` on or off; redirects to the page of the button.

    The list reloads its rows itself, so that ticked rows stay ticked.
    """
    __, fields = await request.read_form(StarFields)
    topic, owner = request.path_params["topic"], request.who.name
    annotations = request.services.stars_and_notes
    await (annotations.star if fields.star == "on" else annotations.unstar)(
        request.actor, owner, topic
    )
    if request.headers.get("hx-request") == "true":
        return Response(status_code=204, headers={"HX-Trigger": "kite:refresh"})
    return forms.go(request, forms.local_path(fields.back or "/topics"))
