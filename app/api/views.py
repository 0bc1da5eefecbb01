"""Saved views: lists of the console with their filters, each under a name of one's own."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from app.api.access.users import READ_OWN
from app.api.framework.operation import API, Call, operation
from app.api.topics.topics import actor_of
from app.security.access import OWN
from app.services.views import NAME_CHARS_MAX, PATH_CHARS_MAX, NewView
from engine.errors import Invalid
from kitemq.model.values import Milliseconds

TAG = "views"
ID_CHARS_MAX = 18


class NewViewBody(msgspec.Struct, forbid_unknown_fields=True):
    """A view to be kept."""

    name: Annotated[str, Meta(min_length=1, max_length=NAME_CHARS_MAX)]
    path: Annotated[
        str,
        Meta(
            max_length=PATH_CHARS_MAX,
            description="/topics, /groups, /messages, /dlq, /dlq/GROUP, /audit, /jobs, "
            "/scheduled, /transactions or /clients.",
        ),
    ]
    query: Annotated[
        str,
        Meta(
            max_length=10_000,
            description="What stands behind `?` in the address of the list, at most 2,000 "
            "characters; the page and the cursor are left out.",
        ),
    ] = ""


class View(msgspec.Struct):
    """A list of the console, and how it is filtered and sorted."""

    id: int
    name: str
    path: str
    query: str
    address: Annotated[str, Meta(description="Both together, as a browser takes it.")]
    created_ms: Milliseconds


class ViewList(msgspec.Struct):
    """One's views by name, at most 100."""

    items: list[View]


def _out(row: Any) -> View:
    return View(row.id, row.name, row.path, row.query, row.href, row.created_ms)


@operation(
    "GET",
    f"{API}/views",
    tag=TAG,
    needs=READ_OWN,
    answer=ViewList,
    example="curl $URL/api/v1/views",
)
async def list_views(call: Call[None, None]) -> ViewList:
    """List one's own saved views; while there are no users everybody shares them."""
    return ViewList([_out(row) for row in await call.services.views.of(call.who.name)])


@operation(
    "POST",
    f"{API}/views",
    tag=TAG,
    needs=OWN,
    body=NewViewBody,
    answer=View,
    status=201,
    errors=(409,),
    example="curl -X POST $URL/api/v1/views -H 'Content-Type: application/json' "
    """-d '{"name": "behind", "path": "/groups", "query": "sort=-lag"}'""",
)
async def create_view(call: Call[None, NewViewBody]) -> View:
    """Save a view of a list, at most 100. A name that is taken is a 409."""
    new = NewView(call.body.name, call.body.path, call.body.query)
    return _out(await call.services.views.add(actor_of(call), call.who.name, new))


@operation(
    "DELETE",
    f"{API}/views/{{id}}",
    tag=TAG,
    needs=OWN,
    status=204,
    errors=(404,),
    example="curl -X DELETE $URL/api/v1/views/1",
)
async def delete_view(call: Call[None, None]) -> None:
    """Forget one of one's own views."""
    text = call.path("id")
    if not (text.isascii() and text.isdecimal() and len(text) <= ID_CHARS_MAX):
        raise Invalid(f"{text[:40]!r} is no id of a view", field="id", remedy="list the views")
    await call.services.views.delete(actor_of(call), call.who.name, int(text))


OPERATIONS = (list_views, create_view, delete_view)
