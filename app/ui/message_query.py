"""What a search through a topic asks for, as its address says it; page and export read it alike.

Times are UTC. An address with a length of time ("the last hour") moves with the clock; `address`
writes one that stands still, so that it may be kept, handed on and continued.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import urlencode

from app.ui import formats
from app.ui.forms import Form
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
    ("1h", "last hour"),
    ("24h", "last 24 hours"),
    ("7d", "last 7 days"),
    ("all", "everything kept"),
    ("", "from and to, below"),
)
SINCE_DEFAULT = "24h"
TEXT_MAX = 512
FILTER_MAX = 4200


def read(values: Mapping[str, str], now_ms: int) -> tuple[Form, ScanQuery]:
    """The form as it was filled in, with errors at its fields, and what it means."""
    form = Form({name: values.get(name, "").strip()[:FILTER_MAX] for name in FIELDS})
    form.values["contains"] = values.get("contains", "")
    if len(form.values["contains"]) > TEXT_MAX:
        form.refuse("contains", f"At most {TEXT_MAX} characters.")
    if form.values["since"] not in SINCE_MS:
        form.values["since"] = ""
    is_fixed = bool(form.values["from"] or form.values["to"])
    if not is_fixed and not form.values["since"]:
        form.values["since"] = SINCE_DEFAULT
    begin_ms, end_ms = _times(form) if is_fixed else _since(form, now_ms)
    return form, ScanQuery(
        form.values["topic"],
        begin_ms,
        end_ms,
        form.values["filter"] or "*",
        form.values["contains"],
    )


def address(query: ScanQuery, path: str, **others: object) -> str:
    """The address of this very search, its times fixed, with `others` in its query."""
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
    kept = {name: value for name, value in others.items() if value not in ("", None)}
    return f"{path}?{urlencode({**values, **kept})}"


def parse_moment(text: str) -> int | None:
    """Milliseconds since 1970 of "2026-11-20T21:24[:14[.123]]" in UTC; None for anything else."""
    try:
        moment = datetime.fromisoformat(text.removesuffix("Z"))
        if moment.tzinfo is not None:
            return None
        at_ms = round(moment.replace(tzinfo=UTC).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
    return at_ms if at_ms >= 0 else None


def _since(form: Form, now_ms: int) -> tuple[int, int]:
    length_ms = SINCE_MS[form.values["since"]]
    return (max(0, now_ms - length_ms) if length_ms else 0), FOREVER_MS


def _times(form: Form) -> tuple[int, int]:
    form.values["since"] = ""
    begin_ms, end_ms = 0, FOREVER_MS
    for name in ("from", "to"):
        text = form.values[name]
        at_ms = parse_moment(text) if text else None
        if text and at_ms is None:
            form.refuse(name, "Write a time as 2026-11-20T21:24, in UTC.")
        elif at_ms is not None and name == "from":
            begin_ms = at_ms
        elif at_ms is not None:
            end_ms = at_ms
    if end_ms <= begin_ms and not form.errors:
        form.refuse("to", "The end must lie after the beginning.")
    return begin_ms, end_ms


def _typed(at_ms: int) -> str:
    """As a browser's date and time field has it."""
    return formats.iso(at_ms).removesuffix("Z")
