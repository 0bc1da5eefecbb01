"""Definitions of topics from a file: what would become of each row, and doing it."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from app.api.framework.operation import API, Call, operation
from app.api.topics.topics import TAG, actor_of
from app.pause import Pause
from app.security.access import Action, Kind, Needs
from app.services.topic_files import CHARS_MAX, FileRow
from app.services.topic_imports import ImportRow, TopicImports, counted


class ImportBody(msgspec.Struct, forbid_unknown_fields=True):
    """A file of definitions as text."""

    content: Annotated[
        str,
        Meta(
            max_length=CHARS_MAX,
            description="CSV with a head, a JSON list, a page of `GET /api/v1/topics`, or JSON "
            "lines; at most 10,000 rows. Columns: name (or topic), type, read_queues, "
            "write_queues, permission, promise, retention_ms, trace_sample; figures that lists "
            "show beside them are passed over. What is left out stays, an empty promise, "
            "retention_ms or trace_sample is the broker's default. A row with the `seen` of a dry "
            "run does just what that showed, or nothing.",
        ),
    ]
    format: Annotated[
        Literal["", "csv", "json"], Meta(description="Without it the first letter tells.")
    ] = ""
    dry_run: Annotated[bool, Meta(description="Only say what would become of each row.")] = False


class Changed(msgspec.Struct):
    """A setting before and after; `""` before for a new topic, null for the broker's default."""

    field: str
    before: str | int | float | None
    after: str | int | float | None


class ImportedRow(msgspec.Struct):
    """A row of the file, counted from 1, and what becomes of it.

    Refused and failed ones name the column, say why, and what helps.
    """

    number: int
    topic: str
    outcome: Annotated[
        str,
        Meta(
            description="In a dry run create, change, same or refused; else created, changed, "
            "same, refused or failed; unreached where 20 seconds were over."
        ),
    ]
    changes: list[Changed]
    field: str
    detail: str
    remedy: str
    seen: Annotated[str, Meta(description="What a dry run saw of the topic.")]


class Import(msgspec.Struct):
    """All rows in the order of the file, and how many have which outcome."""

    dry_run: bool
    counts: dict[str, int]
    rows: list[ImportedRow]


def imports_of(call: Call[Any, Any]) -> TopicImports:
    """Who reads files of definitions."""
    imports: TopicImports = call.state.topic_imports
    return imports


@operation(
    "POST",
    f"{API}/topics/import",
    tag=TAG,
    needs=Needs(Action.ADMINISTER, Kind.TOPIC),
    body=ImportBody,
    answer=Import,
    example="curl -X POST $URL/api/v1/topics/import -H 'Content-Type: application/json' "
    """-d '{"dry_run": true, "content": "name,read_queues\\norders,8"}'""",
)
async def import_topics(call: Call[None, ImportBody]) -> Import:
    """Create and change topics by a file.

    Each row has its outcome, and each change its entry in the audit trail. Rows that are wrong are
    refused and the others done; what is there already as the file wants it is left alone, so the
    file can be sent again. Nothing is done where the right for one of the topics is missing.
    """
    body = call.body
    imports = imports_of(call)
    rows = await imports.read(body.content, body.format)
    await _require_all(call, rows)

    def allowed(name: str) -> None:
        call.require(Action.ADMINISTER, Kind.TOPIC, name)

    if body.dry_run:
        found = await imports.preview(rows, allowed)
    else:
        found = await imports.apply(actor_of(call), rows, allowed)
    pause = Pause()
    shown = []
    for row in found:
        shown.append(_out(row))
        await pause.when_due()
    return Import(body.dry_run, counted(found), shown)


async def _require_all(call: Call[Any, Any], rows: Sequence[FileRow]) -> None:
    """Each name is held against as many as 100 patterns, so others get their turns between."""
    pause = Pause()
    for row in rows:
        if row.definition is not None:
            call.require(Action.ADMINISTER, Kind.TOPIC, row.name)
        await pause.when_due()


def _out(row: ImportRow) -> ImportedRow:
    changes = [Changed(each.field, _cell(each.before), _cell(each.after)) for each in row.changes]
    seen = row.definition.seen if row.definition else ""
    return ImportedRow(
        row.number, row.topic, row.outcome, changes, row.field, row.detail, row.remedy, seen
    )


def _cell(value: Any) -> str | int | float | None:
    return value if isinstance(value, int | float) or value is None else str(value)


OPERATIONS = (import_topics,)
