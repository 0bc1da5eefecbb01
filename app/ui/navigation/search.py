"""The page of a search by one text: redirects to the only exact match, or lists all by kind."""

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.responses import RedirectResponse, Response

from app.ui.framework import pages
from app.ui.framework.language import N_, _, translated
from app.ui.framework.page_request import PageRequest
from app.ui.framework.templating import segment
from app.ui.navigation import hits
from app.ui.navigation.hits import Hit, HitKind
from app.ui.topics.messages import MessageRow, rows_of

EACH_MAX = 50
BUDGET_S = 2.0
TITLES = {
    HitKind.MESSAGE: N_("Messages"),
    HitKind.TOPIC: N_("Topics"),
    HitKind.GROUP: N_("Groups"),
    HitKind.PAGE: N_("Pages"),
    HitKind.ACTION: N_("Actions"),
    HitKind.CLIENT: N_("Clients"),
    HitKind.VIEW: N_("Saved views"),
}
DIRECT = (HitKind.TOPIC, HitKind.GROUP)
# The lists that show all names of a kind, by a part of the name.
LISTS = {HitKind.TOPIC: "/topics?q=", HitKind.GROUP: "/groups?q=", HitKind.CLIENT: "/clients?q="}


@dataclass(frozen=True)
class HitGroup:
    """The hits of one kind; `list_href` leads to all of them, where there are `total`."""

    title: str
    hits: list[Hit]
    total: int
    list_href: str
    rows: Sequence[MessageRow] = ()  # the messages themselves, newest first


@dataclass(frozen=True)
class FindPage:
    """The context of `search.html`."""

    text: str
    groups: list[HitGroup]


async def show(request: PageRequest) -> Response:
    """GET /search?q=; a single exact match redirects to its page."""
    values = request.query_params
    topic, key = values.get("topic", "").strip(), values.get("key", "").strip()
    if topic and key:
        return _go(f"/topics/{segment(topic)}/messages?by=key&key={segment(key)}")
    result = await hits.search(request, values.get("q", ""), each_max=EACH_MAX, budget_s=BUDGET_S)
    exact = [hit.href for hit in result.hits if _is_direct(hit)]
    if len(exact) == 1:
        return _go(exact[0])
    newest = sorted(result.messages, key=lambda each: -each.stored_ms)
    rows = await request.console.render(lambda: rows_of(request.who, newest))
    context = FindPage(result.text, _groups(result, rows) if result.text else [])
    return await pages.respond(request, "search.html", context, title=_("Find"))


def _is_direct(hit: Hit) -> bool:
    is_message = hit.kind is HitKind.MESSAGE and hit.href.startswith("/m/")
    return hit.is_exact and (is_message or hit.kind in DIRECT)


def _groups(result: hits.Hits, rows: Sequence[MessageRow]) -> list[HitGroup]:
    """The hits by kind, the kind of the best hit first."""
    kinds = dict.fromkeys(hit.kind for hit in result.hits)
    return [
        HitGroup(
            translated(TITLES[kind]),
            [hit for hit in result.hits if hit.kind is kind],
            result.totals.get(kind, 0),
            LISTS[kind] + segment(result.text) if kind in LISTS else "",
            rows if kind is HitKind.MESSAGE else (),
        )
        for kind in kinds
    ]


def _go(path: str) -> Response:
    return RedirectResponse(path, status_code=302)
