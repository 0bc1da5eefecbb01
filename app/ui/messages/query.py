"""The query of a search through a topic, shared by the page and the export.

Times are UTC unless the query names a zone. A relative range ("the last hour") moves with the
clock; `address` writes fixed times, so that the link can be kept, shared and continued.
"""

from collections.abc import Mapping
from urllib.parse import urlencode

from app.ui.framework import formats
from app.ui.framework.forms import Form
from app.ui.framework.language import N_, _
from app.ui.framework.zones import UTC_ZONE, Zone
from engine.broker import FOREVER_MS, ScanQuery

FIELDS = ("topic", "since", "from", "to", "filter", "contains")
HOUR_MS = 3_600_000
SINCE_MS = {
    "15m": HOUR_MS // 4,
    "1h": HOUR_MS,
    "24h": 24 * HOUR_MS,
    "7d": 7 * 24 * HOUR_MS,
    "all": 0,
}
SINCE = (
    ("15m", "last 15 minutes"),
    ("1h", N_("last hour")),
    ("24h", "last 24 hours"),
    ("7d", "last 7 days"),
    ("all", N_("everything kept")),
    ("", N_("from and to, below")),
)
SINCE_DEFAULT = "24h"
TEXT_MAX = 512
FILTER_MAX = 16_500  # slightly over the limit of a filter


def read(
    values: Mapping[str, str], now_ms: int, display_zone: Zone = UTC_ZONE
) -> tuple[Form, ScanQuery]:
    """Read the form, with errors at its fields, and the query that it describes.

    Its times are in the `zone` that it names; the form shows them in `display_zone`.
    """
    form = Form({name: values.get(name, "").strip()[:FILTER_MAX] for name in FIELDS})
    form.values["contains"] = values.get("contains", "")
    if len(form.values["contains"]) > TEXT_MAX:
        form.refuse("contains", _("At most %(text_max)s characters.", text_max=TEXT_MAX))
    if form.values["since"] not in SINCE_MS:
        form.values["since"] = ""
    is_fixed = bool(form.values["from"] or form.values["to"])
    if not is_fixed and not form.values["since"]:
        form.values["since"] = SINCE_DEFAULT
    zone_name = values.get("zone", "")
    begin_ms, end_ms = _times(form, zone_name, display_zone) if is_fixed else _since(form, now_ms)
    return form, ScanQuery(
        form.values["topic"],
        begin_ms,
        end_ms,
        form.values["filter"] or "*",
        form.values["contains"],
    )


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
    params = {name: value for name, value in others.items() if value not in ("", None)}
    return f"{path}?{urlencode({**values, **params})}"


def _since(form: Form, now_ms: int) -> tuple[int, int]:
    length_ms = SINCE_MS[form.values["since"]]
    return (max(0, now_ms - length_ms) if length_ms else 0), FOREVER_MS


def _times(form: Form, zone_name: str, display_zone: Zone) -> tuple[int, int]:
    form.values["since"] = ""
    begin_ms, end_ms = 0, FOREVER_MS
    for name in ("from", "to"):
        at_ms = form.moment(name, zone_name, display_zone) if form.values[name] else None
        if at_ms is not None and name == "from":
            begin_ms = at_ms
        elif at_ms is not None:
            end_ms = at_ms
    if end_ms <= begin_ms and not form.errors:
        form.refuse("to", _("The end must lie after the beginning."))
    return begin_ms, end_ms


def _typed(at_ms: int) -> str:
    """A time as the value of a date and time field."""
    return formats.iso(at_ms).removesuffix("Z")
