"""Definitions of topics from a file: what would become of each row, and doing it."""

from collections.abc import Sequence
from typing import Any

from app.api.framework.operation import Call, Operations
from app.pause import Pause
from app.security.access import Action, Kind, Needs
from app.services.topic_files import FileRow
from app.services.topic_imports import ImportRow, counted
from kitemq.model.conversion import convert
from kitemq.model.topics import ImportedTopic, ImportedTopics, TopicImportFile

operations = Operations("topics")


@operations.post(
    "/topics/import",
    needs=Needs(Action.ADMINISTER, Kind.TOPIC),
    example_body='{"dry_run": true, "content": "name,read_queues\\norders,8"}',
)
async def import_topics(call: Call[None, TopicImportFile]) -> ImportedTopics:
    """Create and change topics by a file.

    Each row has its outcome, and each change its entry in the audit trail. Rows that are wrong are
    refused and the others done; what is there already as the file wants it is left alone, so the
    file can be sent again. Nothing is done where the right for one of the topics is missing.
    """
    body = call.body
    imports = call.services.topic_imports
    rows = await imports.read(body.content, body.format)
    await _require_all(call, rows)

    def allowed(name: str) -> None:
        call.require(Action.ADMINISTER, Kind.TOPIC, name)

    if body.dry_run:
        preview = await imports.preview(rows, allowed)
    else:
        preview = await imports.apply(call.actor, rows, allowed)
    pause = Pause()
    visible_rows = []
    for row in preview:
        visible_rows.append(_out(row))
        await pause.when_due()
    return ImportedTopics(body.dry_run, counted(preview), visible_rows)


async def _require_all(call: Call[Any, Any], rows: Sequence[FileRow]) -> None:
    """Each name is held against as many as 100 patterns, so others get their turns between."""
    pause = Pause()
    for row in rows:
        if row.definition is not None:
            call.require(Action.ADMINISTER, Kind.TOPIC, row.name)
        await pause.when_due()


def _out(row: ImportRow) -> ImportedTopic:
    return convert(row, ImportedTopic, seen=row.definition.seen if row.definition else "")
