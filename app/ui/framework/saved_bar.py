"""The row of saved views above a list, with the link to save the current one."""

from dataclasses import dataclass
from urllib.parse import quote, urlencode

from starlette.requests import Request

from app.container import services_of
from app.security.access import principal_of
from app.services import views
from app.services.views import Glance
from app.ui.framework.language import _
from engine.errors import Invalid

SHOWN_MAX = 6


@dataclass(frozen=True)
class SavedLink:
    """A saved view; `is_here` if it is the current page."""

    name: str
    href: str
    is_here: bool


@dataclass(frozen=True)
class SavedBar:
    """The saved views on a list's page; `left_out` more are at `all_href`.

    `failure` is the reason why the views are unknown.
    """

    links: list[SavedLink]
    left_out: int
    all_href: str
    failure: str


async def glance(request: Request) -> Glance:
    """The saved views of the user."""
    version = services_of(request.scope).user_directory.version
    return await services_of(request.scope).views.glance(principal_of(request.scope).name, version)


async def read(request: Request) -> SavedBar | None:
    """The row for the requested page; None if it is no list."""
    path = quote(request.scope["path"], safe="/")
    if not views.is_list(path):
        return None
    try:
        here = views.stored_query(request.url.query)
    except Invalid:
        here = ""
    views_glance = await glance(request)
    failure = _("the database is not responding") if views_glance.failure else ""
    links = [SavedLink(v.name, v.href, v.query == here) for v in views_glance.at(path)]
    # The current view comes first, so that it is never cut off.
    links.sort(key=lambda link: not link.is_here)
    all_href = f"/views?{urlencode({'path': path, 'query': here})}"
    return SavedBar(links[:SHOWN_MAX], max(0, len(links) - SHOWN_MAX), all_href, failure)
