"""The audit trail: all changes with their actors, filtered, by page and as a CSV file."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta, field
from starlette.responses import Response, StreamingResponse

from app.db.rows import DONE, AuditEntry, AuditFilter
from app.services.audit import STARTED, Audit
from app.ui.framework import cells, formats, forms, pages, tables, typed_forms
from app.ui.framework.forms import Form
from app.ui.framework.language import N_, _
from app.ui.framework.page_request import PageRequest
from app.ui.framework.templating import segment
from app.ui.framework.turns import Turns
from app.ui.framework.typed_forms import Fields, Moment, Verbatim
from app.ui.framework.zones import Zone
from engine.errors import EngineError, Invalid
from kitemq.model.conversion import convert
from kitemq.model.numbers import whole

EXPORT_PAGE = 200
EXPORTS_MAX = 4
ID_MAX = 2**63 - 1
COLUMNS = (
    "id at actor action object_kind object_name result before after request_id address".split()
)

# The page of an object by kind: a path that its name follows, or one page for all.
PLACES = {
    "topic": "/topics/",
    "group": "/groups/",
    "message": "/m/",
    "replay": "/jobs/",
    "user": "/access/users/",
    "transaction": "/transactions/",
}
FIXED = {
    "token": "/access",
    "session": "/access",
    "logger": "/engine/control",
    "server": "/engine/control",
    "silence": "/alerts",
    "alert_rule": "/alerts",
    "alert_receiver": "/alerts",
    "report": "/reports",
}

EXPORTS = Turns(EXPORTS_MAX, N_("exports of the audit trail"))


Text = Annotated[str, Meta(max_length=512)]


class AuditFields(Fields, frozen=True, kw_only=True):
    """The filter in a query."""

    object_kind: Text = field(name="kind")
    name_part: Text = field(name="name")
    action: Text
    actor: Text
    result: Text
    address: Text
    request_id: Text
    from_ms: Moment | None = field(name="from")
    to_ms: Moment | None = field(name="to")
    zone: Verbatim


@dataclass(frozen=True)
class Difference:
    """A field before and after a change; "" where it did not exist."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, kw_only=True)
class AuditRow(AuditEntry):
    """One change; `tone` is ok, warn or bad; `href` leads to the object where it has a page.

    `undo` is the address that reverts it; "" if it cannot be reverted.
    """

    href: str
    tone: str
    undo: str
    differences: list[Difference]


@dataclass(frozen=True)
class AuditTrailPage:
    """The context of `audit.html`; the choices count the newest `examined` entries."""

    rows: list[AuditRow]
    form: Form
    is_filtered: bool
    kinds: dict[str, int]
    actions: dict[str, int]
    results: dict[str, int]
    examined: int
    size: int
    is_later: bool
    next_cursor: str
    export_query: str
    sizes: tuple[int, ...] = tables.SIZES


async def show(request: PageRequest) -> Response:
    """GET /audit"""
    values = request.query_params
    form, match = read(values, request.zone)
    size = tables.parse_query(values, ("at",), "at").size
    before_id = _id(values.get("cursor", ""))
    audit = request.services.audit
    tally = await audit.tally()
    entries: list[AuditEntry] = []
    if not form.is_wrong:
        entries = await audit.find(match, limit=size, before_id=before_id)
    last = str(entries[-1].id) if len(entries) == size else ""
    more = await audit.find(match, limit=1, before_id=int(last)) if last else []
    context = AuditTrailPage(
        rows=[row_of(entry) for entry in entries],
        form=form,
        is_filtered=match != AuditFilter(),
        kinds=_choices(tally.kinds, form.values["kind"]),
        actions=_choices(tally.actions, form.values["action"]),
        results=_choices(tally.results, form.values["result"]),
        examined=tally.examined,
        size=size,
        is_later=before_id is not None,
        next_cursor=last if more else "",
        export_query=_export_query(form, request.zone),
    )
    return await pages.respond(request, "audit.html", context, title=_("Audit"), is_live=True)


async def export(request: PageRequest) -> Response:
    """GET /audit/export with the filter of /audit: all matching entries as CSV."""
    form, match = read(request.query_params, request.zone)
    if form.is_wrong:
        raise Invalid(next(iter(form.errors.values())).rstrip("."), remedy=_("correct the filter"))
    EXPORTS.check()
    audit = request.services.audit
    first = await audit.find(match, limit=EXPORT_PAGE)
    return StreamingResponse(
        _lines(audit, match, first),
        media_type="text/csv; charset=utf-8",
        headers=pages.as_file("audit.csv"),
    )


async def _lines(
    audit: Audit, match: AuditFilter, entries: Sequence[AuditEntry]
) -> AsyncIterator[bytes]:
    """The lines of the file; if the database fails meanwhile, the last line says so."""
    with EXPORTS.taken():
        yield cells.lines([COLUMNS])
        count = 0
        while entries:
            yield cells.lines(map(_cells, entries))
            count += len(entries)
            try:
                entries = await audit.find(match, limit=EXPORT_PAGE, before_id=entries[-1].id)
            except EngineError as error:
                yield cells.lines([[f"not whole: after {count} entries: {error.detail}"]])
                return


def read(values: Mapping[str, str], display_zone: Zone) -> tuple[Form, AuditFilter]:
    """The filter in a query, as a form and as a filter of the audit trail.

    Its times are in the `zone` that the query names; the form shows them in `display_zone`.
    """
    form, fields = typed_forms.read(values, AuditFields, display_zone)
    return form, convert(fields, AuditFilter)


def _export_query(form: Form, display_zone: Zone) -> str:
    query = {name: value for name, value in form.values.items() if value and name != "zone"}
    if query.keys() & {"from", "to"}:
        query["zone"] = display_zone.name
    return "&".join(f"{name}={forms.quoted(value)}" for name, value in query.items())


def row_of(entry: AuditEntry) -> AuditRow:
    """An entry as a row of the table."""
    return convert(
        entry,
        AuditRow,
        href=_href(entry),
        tone={DONE: "ok", STARTED: "warn"}.get(entry.result, "bad"),
        undo=_undo(entry),
        differences=differences(entry.before_json, entry.after_json),
    )


def differences(before_json: str, after_json: str) -> list[Difference]:
    """The fields that differ, or all if one side is empty; other values as a whole."""
    before, after = _fields(before_json), _fields(after_json)
    if before is None or after is None:
        is_same = before_json == after_json
        return [] if is_same else [Difference(_("all"), before_json, after_json)]
    names = [*before, *(name for name in after if name not in before)]
    return [
        Difference(name, before.get(name, ""), after.get(name, ""))
        for name in names
        if before.get(name) != after.get(name)
    ]


def _fields(text: str) -> dict[str, str] | None:
    try:
        fields = msgspec.json.decode(text) if text else {}
    except msgspec.DecodeError:
        return None
    if not isinstance(fields, dict):
        return None
    return {
        name: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for name, value in fields.items()
    }


def _href(entry: AuditEntry) -> str:
    start = PLACES.get(entry.object_kind, "")
    if entry.object_kind in FIXED:
        return FIXED[entry.object_kind]
    return f"{start}{segment(entry.object_name)}" if start and entry.object_name else ""


def _undo(entry: AuditEntry) -> str:
    """The page that undoes a reset; that page says if it is too late."""
    if entry.action not in ("group.reset", "group.undo_reset") or entry.result != DONE:
        return ""
    number = (_fields(entry.after_json) or {}).get("reset", "")
    return f"/groups/{segment(entry.object_name)}/resets/{number}/undo" if number else ""


def _choices(counts: Mapping[str, int], current: str) -> dict[str, int]:
    """The count of each choice by name; the current one is included even if no entry has it."""
    return {name: counts.get(name, 0) for name in sorted({*counts, current} - {""})}


def _cells(entry: AuditEntry) -> list[str]:
    own = {"at": formats.iso(entry.at_ms), "before": entry.before_json, "after": entry.after_json}
    values = vars(entry) | own
    return [str(values[name]) for name in COLUMNS]


def _id(text: str) -> int | None:
    if not text:
        return None
    number = whole(text, ID_MAX)
    if number is not None:
        return number
    raise Invalid(
        _("%(text)s is not a position in the audit trail", text=f"{text[:40]!r}"),
        remedy=_("start at the newest entries"),
    )
