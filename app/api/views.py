"""Saved views: lists of the console with their filters, each under a name of one's own."""

from app.api.access.users import READ_OWN
from app.api.framework.operation import Call, Operations
from app.db.rows import ViewRow
from app.security.access import OWN
from kitemq.model.conversion import convert
from kitemq.model.views import NewView, SavedView, ViewList

operations = Operations("views")


def _out(row: ViewRow) -> SavedView:
    return convert(row, SavedView, address=row.href)


@operations.get("/views", needs=READ_OWN)
async def list_views(call: Call[None, None]) -> ViewList:
    """List one's own saved views; while there are no users everybody shares them."""
    return ViewList([_out(row) for row in await call.services.views.of(call.who.name)])


@operations.post(
    "/views",
    needs=OWN,
    status=201,
    errors=(409,),
    example_body='{"name": "behind", "path": "/groups", "query": "sort=-lag"}',
)
async def create_view(call: Call[None, NewView]) -> SavedView:
    """Save a view of a list, at most 100. A name that is taken is a 409."""
    return _out(await call.services.views.add(call.actor, call.who.name, call.body))


@operations.delete("/views/{id}", needs=OWN)
async def delete_view(call: Call[None, None]) -> None:
    """Forget one of one's own views."""
    await call.services.views.delete(call.actor, call.who.name, call.number("id"))
