"""Saved views: lists of the console with their filters, each under a name of one's own."""

from typing import TYPE_CHECKING

from app.api.access.users import READ_OWN
from app.api.framework.operation import API, Call, operation
from app.api.topics.topics import actor_of
from app.security.access import OWN
from engine.errors import Invalid
from kitemq.model.conversion import convert
from kitemq.model.numbers import is_whole
from kitemq.model.views import NewView, SavedView, ViewList

if TYPE_CHECKING:
    from app.db.view_store import ViewRow

TAG = "views"
ID_CHARS_MAX = 18


def _out(row: "ViewRow") -> SavedView:
    return convert(row, SavedView, address=row.href)


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
    body=NewView,
    answer=SavedView,
    status=201,
    errors=(409,),
    example="curl -X POST $URL/api/v1/views -H 'Content-Type: application/json' "
    """-d '{"name": "behind", "path": "/groups", "query": "sort=-lag"}'""",
)
async def create_view(call: Call[None, NewView]) -> SavedView:
    """Save a view of a list, at most 100. A name that is taken is a 409."""
    return _out(await call.services.views.add(actor_of(call), call.who.name, call.body))


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
    if not is_whole(text, ID_CHARS_MAX):
        raise Invalid(f"{text[:40]!r} is no id of a view", field="id", remedy="list the views")
    await call.services.views.delete(actor_of(call), call.who.name, int(text))


OPERATIONS = (list_views, create_view, delete_view)
