"""The row of saved views above a list: those of this list, and the way to save it as it is now."""

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
    """One saved view; `is_here` where the page shows just that."""

    name: str
    href: str
    is_here: bool


@dataclass(frozen=True)
class SavedBar:
    """What a list's page shows; `left_out` more are behind `all_href`.

    `failure` says why nobody knows the views.
    """

    links: list[SavedLink]
    left_out: int
    all_href: str
    failure: str


async def glance(request: Request) -> Glance:
    """The saved views of the one who looks."""
    version = services_of(request.scope).user_directory.version
    return await services_of(request.scope).views.glance(principal_of(request.scope).name, version)


async def read(request: Request) -> SavedBar | None:
    """The row for the page that was asked for; None where that is no list."""
    path = quote(request.scope["path"], safe="/")
    if not views.is_list(path):
        return None
    try:
        here = views.stored_query(request.url.query)
    except Invalid:
        here = ""
    known = await glance(request)
    failure = _("the database does not answer") if known.failure else ""
    found = [SavedLink(v.name, v.href, v.query == here) for v in known.at(path)]
    # What is shown now stays in sight, however many there are.
    found.sort(key=lambda link: not link.is_here)
    all_href = f"/views?{urlencode({'path': path, 'query': here})}"
    return SavedBar(found[:SHOWN_MAX], max(0, len(found) - SHOWN_MAX), all_href, failure)
