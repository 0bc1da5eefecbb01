"""The help page: glossary, keyboard shortcuts, and links to the documentation."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from starlette.responses import Response

from app.ui.framework import pages
from app.ui.framework.language import N_, _, translated
from app.ui.framework.page_request import PageRequest
from app.ui.help.glossary import CHAPTERS, Chapter, Term

QUERY_CHARS_MAX = 100
# The shortcuts of app.js and drawer.js; a test compares both.
KEYS = (
    ("Ctrl K", N_("search pages and actions")),
    ("/", N_("search")),
    ("g o", N_("overview")),
    ("g t", N_("topics")),
    ("g m", N_("messages of any topic")),
    ("g g", N_("groups")),
    ("g d", N_("dead letters")),
    ("g a", N_("alerts")),
    ("g e", N_("engine")),
    ("g h", N_("help and glossary")),
    ("j k", N_("next and previous message of a list")),
    ("r", N_("refresh now")),
    ("?", N_("this help")),
    ("Esc", N_("close a dialog")),
)
LINKS = (
    ("/help/start", N_("Getting started: from the first message to a resent dead letter")),
    ("/docs/api", N_("REST API with examples for every operation; works offline")),
    ("/openapi.json", N_("OpenAPI document for tools")),
    ("/metrics", N_("Metrics for Prometheus")),
    ("/engine?settings=all", N_("All settings with values, defaults and descriptions")),
    ("/access", N_("Users and permissions")),
    ("/help/components", N_("Components of the console's pages")),
)


@dataclass(frozen=True)
class HelpPage:
    """The context of `help.html`; `q` filters the terms."""

    q: str
    chapters: list[Chapter]
    matches: int
    total: int
    keys: Sequence[tuple[str, str]] = KEYS
    links: Sequence[tuple[str, str]] = LINKS


async def show(request: PageRequest) -> Response:
    """GET /help"""
    text = request.query_params.get("q", "").strip()[:QUERY_CHARS_MAX]
    chapters = _chapters(text)
    context = HelpPage(
        q=text,
        chapters=chapters,
        matches=sum(len(chapter.terms) for chapter in chapters),
        total=sum(len(chapter.terms) for chapter in CHAPTERS),
    )
    return await pages.respond(request, "help.html", context, title=_("Help"))


def _chapters(text: str) -> list[Chapter]:
    """The terms that contain `text`, in either language, by chapter."""
    chapters = [
        replace(chapter, terms=tuple(term for term in chapter.terms if _is_meant(text, term)))
        for chapter in CHAPTERS
    ]
    return [chapter for chapter in chapters if chapter.terms]


def _is_meant(text: str, term: Term) -> bool:
    texts = (term.name, term.text, translated(term.name), translated(term.text))
    return any(text.lower() in each.lower() for each in texts)
