"""The command palette: pages, actions, topics and groups by a few letters of their names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from starlette.responses import Response

from app.services.topic_kinds import SYSTEM_KINDS, kind_of
from app.ui.framework import pages, saved_bar
from app.ui.framework.language import N_, _, translated
from app.ui.framework.page_request import PageRequest
from app.ui.framework.templating import segment

EACH_MAX = 8
QUERY_CHARS_MAX = 255
NO_VIEWS: Mapping[str, str] = {}

# Title, address, icon, and further search terms.
PLACES = (
    (N_("Overview"), "/", "overview", "start home attention"),
    (N_("Topics"), "/topics", "topic", ""),
    (N_("Groups"), "/groups", "group", "consumers lag"),
    (N_("Messages"), "/messages", "topic", "search find key"),
    (N_("Live tail"), "/tail", "topic", "follow watch"),
    (N_("Dead letters"), "/dlq", "skull", "dlq failed"),
    (N_("Jobs"), "/jobs", "send", "replay redrive"),
    (N_("Find"), "/search", "search", "message id"),
    (N_("Alerts"), "/alerts", "alert", "rules silence webhook"),
    (N_("Reports"), "/reports", "trend", "spark latency percentiles throughput skew"),
    (N_("Settings"), "/settings", "clock", "theme zone refresh colours language"),
    (N_("Engine"), "/engine", "disk", "health disk self-checks support bundle settings"),
    (N_("Read-only, log levels"), "/engine/control", "lock", "freeze switch debug logger"),
    (N_("Audit"), "/audit", "list", "trail who changed refused"),
    (N_("Access"), "/access", "lock", "users tokens roles rights"),
    (N_("Help"), "/help", "info", "glossary words terms keys shortcuts documentation"),
    (N_("Getting started"), "/help/start", "send", "first message example tutorial guide"),
    ("API", "/docs/api", "code", "rest openapi"),
)
ACTIONS = (
    (N_("Create topic"), "/create/topic", "plus", "new"),
    (N_("New alert rule"), "/alerts/new", "plus", "create watch"),
)


@dataclass(frozen=True)
class PaletteHit:
    """A hit of the palette."""

    kind: str
    title: str
    href: str
    icon: str


@dataclass(frozen=True)
class Palette:
    """The context of `palette.html`; `more` are the notes on hits that are cut off."""

    text: str
    hits: list[PaletteHit]
    more: list[str]


async def show(request: PageRequest) -> Response:
    """GET /palette"""
    console = request.console
    text = request.query_params.get("q", "").strip()[:QUERY_CHARS_MAX]
    # Only names; a topic's kind tells the engine's own topics.
    topics = console.broker.topics(system=True) if text else []
    groups = [group.name for group in console.broker.groups()] if text else []

    views_glance = await saved_bar.glance(request)
    saved = {view.name: view.href for view in views_glance.views}

    def search() -> Palette:
        own = [topic.name for topic in topics if kind_of(topic) not in SYSTEM_KINDS]
        return find(text, own, groups, saved)

    context = await console.render(search)
    return await pages.respond(request, "palette.html", context, title=_("Go to"))


def find(
    text: str, topics: Sequence[str], groups: Sequence[str], saved: Mapping[str, str] = NO_VIEWS
) -> Palette:
    """The best hits of each kind; without letters pages, actions and saved views. Pure.

    `saved` maps the name of a view to its address.
    """
    hits: list[PaletteHit] = []
    more: list[str] = []
    # An exact name of a topic or group comes before pages that contain the letters.
    for kind, names, folder, icon in (
        (_("Topic"), topics, "topics", "topic"),
        (_("Group"), groups, "groups", "group"),
    ):
        matches = ranked(text, names) if text else []
        hits += [PaletteHit(kind, n, f"/{folder}/{segment(n)}", icon) for n in matches[:EACH_MAX]]
        if kind == _("Topic") and matches:
            name = matches[0]
            hits.append(
                PaletteHit(
                    _("Action"),
                    _("Produce to %(name)s", name=name),
                    f"/topics/{segment(name)}/produce",
                    "send",
                )
            )
        if len(matches) > EACH_MAX:
            more.append(_more(matches, _("topics") if folder == "topics" else _("groups")))
    names = ranked(text, list(saved))  # all views if there are no letters
    hits += [PaletteHit(_("View"), name, saved[name], "list") for name in names[:EACH_MAX]]
    if len(names) > EACH_MAX:
        more.append(_more(names, _("saved views")))
    places = [_hit(_("Page"), place) for place in PLACES if _is_meant(text, place)]
    actions = [_hit(_("Action"), place) for place in ACTIONS if _is_meant(text, place)]
    exact = any(hit.title.lower() == text.lower() for hit in hits)
    menu = [*places, *actions]
    by_name = any(hit.title.lower().startswith(text.lower()) for hit in menu)
    return Palette(text, [*menu, *hits] if by_name and not exact else [*hits, *menu], more)


def _more(matches: Sequence[str], folder: str) -> str:
    """The note that says how many names match."""
    return _(
        "first %(n)s of %(all)s %(folder)s", n=EACH_MAX, all=f"{len(matches):,}", folder=folder
    )


def ranked(text: str, names: Sequence[str]) -> list[str]:
    """Names that match `text`: equal ones, then as prefix, substring, and subsequence."""
    query = text.lower()
    ranks = [(rank, len(name), name) for name in names if (rank := _rank(query, name.lower()))]
    return [name for __, __, name in sorted(ranks)]


def _rank(query: str, name: str) -> int:
    """The rank of a match: 1 is best, 0 is no match."""
    if name == query:
        return 1
    if name.startswith(query):
        return 2
    if query in name:
        return 3
    letters = iter(name)
    return 4 if all(letter in letters for letter in query) else 0


def _hit(kind: str, place: tuple[str, str, str, str]) -> PaletteHit:
    title, href, icon, __ = place
    return PaletteHit(kind, translated(title), href, icon)


def _is_meant(text: str, place: tuple[str, str, str, str]) -> bool:
    # The English name matches in every language.
    words = f"{place[0]} {translated(place[0])} {place[3]}".lower()
    return all(word in words for word in text.lower().split())
