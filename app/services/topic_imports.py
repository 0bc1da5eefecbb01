"""Imports topics from a file row by row, each change with its audit entry.

A dry run returns each row's outcome and a tag of its topic; rows that carry this tag
(`TopicDefinition.seen`) apply the previewed change, or nothing. A topic that already matches its
row is left alone, so a file can be applied again.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from app.administration import Administration
from app.db.rows import Actor
from app.pause import Pause
from app.services import topic_files
from app.services.topic_files import FileRow
from app.services.topics import Topics, changed_meanwhile, config_tag, described
from engine.broker import TopicConfig
from engine.errors import Conflict, EngineError, Invalid, TopicNotFound
from kitemq.model.conversion import convert, set_fields
from kitemq.model.topics import TopicDefinition, TopicSettings

BUDGET_S = 20.0
NEW = "new"  # the tag of a topic that did not exist
# In the order in which they are listed: what needs a person comes first.
OUTCOMES = ("refused", "failed", "unreached", "create", "change", "created", "changed", "same")

Allowed = Callable[[str], None]


@dataclass(frozen=True)
class Became:
    """A setting before and after; "" before for a new topic, null for the broker's default."""

    field: str
    before: object
    after: object


@dataclass(frozen=True)
class ImportRow:
    """A row of the file with its outcome; refused and failed ones have a reason.

    `definition` is the row with the tag `seen`, for rows that would change something.
    """

    number: int
    topic: str
    outcome: str
    changes: Sequence[Became] = ()
    field: str = ""
    detail: str = ""
    remedy: str = ""
    definition: TopicDefinition | None = None


class TopicImports:
    """Imports topic definitions on behalf of an actor, who is named in the trail."""

    def __init__(self, administration: Administration, topics: Topics, default_queues: int) -> None:
        self._administration = administration
        self._topics = topics
        self._default_queues = default_queues

    async def read(self, content: str, format: str = "") -> list[FileRow]:
        """The rows of a file, read beside the event loop; Invalid, see `topic_files.read`."""
        return await asyncio.to_thread(topic_files.read, content, format)

    async def preview(self, rows: Sequence[FileRow], allowed: Allowed) -> list[ImportRow]:
        """Preview each row; `allowed` raises for a topic that may not be changed."""

        async def look(row: ImportRow) -> ImportRow:
            return row

        return await self._each(rows, allowed, look)

    async def apply(
        self, actor: Actor, rows: Sequence[FileRow], allowed: Allowed
    ) -> list[ImportRow]:
        """Create and change the topics; rows not processed within 20 seconds are reported."""

        async def act(row: ImportRow) -> ImportRow:
            if row.outcome not in ("create", "change") or row.definition is None:
                return row
            try:
                return await self._act(actor, row, row.definition)
            except EngineError as error:
                return _with_error(row, "failed", error)

        return await self._each(rows, allowed, act)

    async def _each(
        self, rows: Sequence[FileRow], allowed: Allowed, work: Callable[[ImportRow], Any]
    ) -> list[ImportRow]:
        end_s = time.monotonic() + BUDGET_S
        first: dict[str, int] = {}
        results: list[ImportRow] = []
        pause = Pause()
        for row in rows:
            if time.monotonic() >= end_s:
                late = "the time was over: import the file again, what is done stays"
                results.append(ImportRow(row.number, row.name, "unreached", detail=late))
                continue
            number = first.setdefault(row.name, row.number)
            results.append(await work(await self._plan(row, number, allowed)))
            await pause.when_due()
        return results

    async def _plan(self, row: FileRow, number: int, allowed: Allowed) -> ImportRow:
        """Preview a row; a refused one has the column at fault and a remedy."""
        planned = ImportRow(row.number, row.name, "refused")
        try:
            if row.definition is None:
                raise row.fault or Invalid("the row defines no topic")
            if number != row.number:
                raise Invalid(
                    f"row {number} defines this topic already", field="name", remedy="keep one"
                )
            allowed(row.name)
            return await self._planned(planned, row.definition)
        except EngineError as error:
            return _with_error(planned, "refused", error)

    async def _planned(self, row: ImportRow, definition: TopicDefinition) -> ImportRow:
        try:
            current: TopicConfig | None = await self._administration.topic(definition.name)
        except TopicNotFound:
            current = None
        tag = NEW if current is None else config_tag(current)
        if definition.seen not in ("", tag):
            raise changed_meanwhile(definition.name)
        before = {} if current is None else described(current)
        config = self._config(definition, current)
        await self._administration.check_topic(config)
        if current is not None and config.type is not current.type:
            raise Conflict(
                f"the topic is {current.type.value}, a topic keeps its type for life",
                field="type",
                remedy="leave the type out, or delete the topic first",
            )
        after = described(config)
        changes = [
            Became(name, before.get(name, ""), value)
            for name, value in after.items()
            if name != "name" and (current is None or before[name] != value)
        ]
        outcome = "create" if current is None else "change" if changes else "same"
        applicable = msgspec.structs.replace(definition, seen=tag) if changes else None
        return replace(row, outcome=outcome, changes=changes, definition=applicable)

    def _config(self, definition: TopicDefinition, current: TopicConfig | None) -> TopicConfig:
        """The topic as the row wants it."""
        base = current or TopicConfig(
            definition.name, read_queues=self._default_queues, write_queues=self._default_queues
        )
        return convert(base, TopicConfig, **set_fields(definition))

    async def _act(self, actor: Actor, row: ImportRow, definition: TopicDefinition) -> ImportRow:
        if row.outcome == "create":
            await self._topics.create(actor, self._config(definition, None))
            return replace(row, outcome="created", definition=None)
        settings = convert(definition, TopicSettings)
        await self._topics.change(actor, definition.name, settings, seen=definition.seen)
        return replace(row, outcome="changed", definition=None)


def counted(rows: Iterable[ImportRow]) -> dict[str, int]:
    """The number of rows by outcome, without zeros."""
    counts = dict.fromkeys(OUTCOMES, 0)
    for row in rows:
        counts[row.outcome] += 1
    return {outcome: count for outcome, count in counts.items() if count}


def _with_error(row: ImportRow, outcome: str, error: EngineError) -> ImportRow:
    return replace(
        row,
        outcome=outcome,
        field=error.field,
        detail=error.detail,
        remedy=error.remedy,
        definition=None,
    )
