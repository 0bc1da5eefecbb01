"""The query of a search through a topic, shared by the page and the export.

Times are UTC unless the query names a zone. A relative range ("the last hour") moves with the
clock; `address` writes fixed times, so that the link can be kept, shared and continued.
"""

from collections.abc import Mapping
from typing import Annotated
from urllib.parse import urlencode

from msgspec import Meta

from app.ui.framework import formats, typed_forms
from app.ui.framework.forms import Form
from app.ui.framework.language import N_, _
from app.ui.framework.typed_forms import Fields, Moment, Verbatim
from app.ui.framework.zones import UTC_ZONE, Zone
from engine.broker import FOREVER_MS, ScanQuery

HOUR_MS = 3_600_000
SINCE_MS = {
    "15m": HOUR_MS // 4,
    "1h": HOUR_MS,
    "24h": 24 * HOUR_MS,
    "7d": 7 * 24 * HOUR_MS,
    "all": 0,
}
SINCE = (
    ("15m", N_("last 15 minutes")),
    ("1h", N_("last hour")),
    ("24h", N_("last 24 hours")),
    ("7d", N_("last 7 days")),
    ("all", N_("all stored messages")),
    ("", N_("custom range")),
)
SINCE_DEFAULT = "24h"
NEWEST, OLDEST = "newest", "oldest"
ORDERS = ((NEWEST, N_("newest first")), (OLDEST, N_("oldest first")))
TEXT_MAX = 512
FILTER_MAX = 16_500  # slightly over the limit of a filter


class SearchFields(Fields, frozen=True, rename={"from_ms": "from", "to_ms": "to"}):
    """The form of a search through a topic."""

    topic: str
    since: str
    from_ms: Moment | None
    to_ms: Moment | None
    zone: str
    filter: Annotated[str, Meta(max_length=FILTER_MAX)]
    contains: Verbatim
    order: str


def read(
    values: Mapping[str, str],
    now_ms: int,
    display_zone: Zone = UTC_ZONE,
    *,
    since: str = SINCE_DEFAULT,
) -> tuple[Form, ScanQuery]:
    """Read the form, with errors at its fields, and the query that it describes.

    Without a range it is that of `since`.
    Its times are in the `zone` that it names; the form shows them in `display_zone`.
    """
    form, fields = typed_forms.read(values, SearchFields, display_zone)
    if len(fields.contains) > TEXT_MAX:
        form.refuse("contains", _("At most %(text_max)s characters.", text_max=TEXT_MAX))
    is_fixed = bool(form.values["from"] or form.values["to"])
    since = "" if is_fixed else fields.since if fields.since in SINCE_MS else since
    form.values["since"] = since
    begin_ms, end_ms = fields.from_ms or 0, fields.to_ms or FOREVER_MS
    if not is_fixed:
        begin_ms = max(0, now_ms - SINCE_MS[since]) if SINCE_MS[since] else 0
    elif end_ms <= begin_ms and not form.errors:
        form.refuse("to", _("The end must be later than the start."))
    form.values["order"] = OLDEST if fields.order == OLDEST else NEWEST
    query = ScanQuery(
        fields.topic,
        begin_ms,
        end_ms,
        fields.filter or "*",
        fields.contains,
        is_newest_first=fields.order != OLDEST,
    )
    return form, query


def address(query: ScanQuery, path: str, **others: object) -> str:
    """The address of this search with fixed times, and `others` in its query."""
    values: dict[str, object] = {"topic": query.topic}
    if query.begin_ms:
        values["from"] = _typed(query.begin_ms)
    elif query.end_ms == FOREVER_MS:
        values["since"] = "all"
    if query.end_ms != FOREVER_MS:
        values["to"] = _typed(query.end_ms)
    if query.filter != "*":
        values["filter"] = query.filter
    if query.contains:
        values["contains"] = query.contains
    if not query.is_newest_first:
        values["order"] = OLDEST
    params = {name: value for name, value in others.items() if value not in ("", None)}
    return f"{path}?{urlencode({**values, **params})}"


def _typed(at_ms: int) -> str:
    """A time as the value of a date and time field."""
    return formats.iso(at_ms).removesuffix("Z")
