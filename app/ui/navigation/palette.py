"""The command palette and the header's search: the best hits while one types."""

from starlette.responses import Response

from app.ui.framework import pages
from app.ui.framework.language import _
from app.ui.framework.page_request import PageRequest
from app.ui.navigation import hits

EACH_MAX = 8
BUDGET_S = 0.25


async def show(request: PageRequest) -> Response:
    """GET /palette?q="""
    text = request.query_params.get("q", "")
    context = await hits.search(request, text, each_max=EACH_MAX, budget_s=BUDGET_S, is_typing=True)
    return await pages.respond(request, "palette.html", context, title=_("Go to"))
