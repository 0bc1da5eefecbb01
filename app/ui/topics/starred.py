"""Stars on topics: the button beside each name."""

from typing import Annotated, Literal

from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from app.container import services_of
from app.security.access import principal_of
from app.services.stars_and_notes import TopicAnnotations
from app.ui.framework import forms, typed_forms
from app.ui.framework.console import actor_of
from app.ui.framework.language import N_
from app.ui.framework.typed_forms import Fields


class StarFields(Fields, frozen=True):
    """The button beside a name; `back` is the page that it is on."""

    star: Annotated[Literal["on", "off"], Meta(title=N_("Star"))]
    back: str


async def glance(request: Request) -> TopicAnnotations:
    """The user's stars, and the topics with notes."""
    version = services_of(request.scope).user_directory.version
    return await services_of(request.scope).stars_and_notes.glance(
        principal_of(request.scope).name, version
    )


async def change(request: Request) -> Response:
    """POST /topics/{topic}/star with `star` on or off; redirects to the page of the button.

    The list reloads its rows itself, so that ticked rows stay ticked.
    """
    __, fields = typed_forms.read(await forms.read(request), StarFields)
    topic, owner = request.path_params["topic"], principal_of(request.scope).name
    annotations = services_of(request.scope).stars_and_notes
    await (annotations.star if fields.star == "on" else annotations.unstar)(
        actor_of(request), owner, topic
    )
    if request.headers.get("hx-request") == "true":
        return Response(status_code=204, headers={"HX-Trigger": "kite:refresh"})
    return forms.go(request, forms.local_path(fields.back or "/topics"))
