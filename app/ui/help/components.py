"""Every component of the console on one page, rendered by the macros that all pages use.

The page is what a change to a style or a macro is looked at with, in both themes and on a phone.
"""

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from app.monitoring import sparkline
from app.monitoring.sparkline import Sparkline
from app.ui.framework import pages, tables
from app.ui.framework.forms import Form
from app.ui.framework.language import N_, _
from app.ui.framework.rights import Lock
from app.ui.framework.tables import Cut, Query

SORTS = ("name", "messages")
SAMPLE_ROWS = (("billing", 1_234, "ok"), ("orders", 56_789, "warn"), ("shipments", 0, "bad"))
# The colours of tokens.css that a page may use, by what they are for.
COLORS = ("ink", "muted", "link", "ok", "warn", "bad", "in", "out", "line", "surface", "raised")
SIZES = ("xs", "s", "m", "l", "xl")
TONES = (("ok", N_("ok")), ("warn", N_("warning")), ("bad", N_("failed")), ("", N_("unknown")))


@dataclass(frozen=True)
class ComponentsPage:
    """The context of `components.html`."""

    query: Query
    cut: Cut[tuple[str, int, str]]
    # Not `form`: its sample errors do not make the page a 422.
    sample: Form
    lock: Lock
    curve: Sparkline
    colors: tuple[str, ...]
    sizes: tuple[str, ...]
    tones: tuple[tuple[str, str], ...]


async def show(request: Request) -> Response:
    """GET /help/components"""
    query = tables.parse_query(request.query_params, SORTS, "name")
    key = SORTS.index(query.sort)
    rows = sorted(SAMPLE_ROWS, key=lambda row: row[key], reverse=query.is_downward)
    sample = Form({"name": "orders", "queues": "many", "body": "{}", "type": "NORMAL", "at": ""})
    sample.number("queues", _("Queues"), 1, 64)
    context = ComponentsPage(
        query=query,
        cut=tables.cut(rows, query),
        sample=sample,
        lock=Lock("lock-sample", _("Requires operator"), "administer:topic"),
        curve=sparkline.line([1, 4, 2, 8, 5, 7, 3, 9]),
        colors=COLORS,
        sizes=SIZES,
        tones=TONES,
    )
    return await pages.respond(
        request, "components.html", context, title=_("Components"), status=200
    )
