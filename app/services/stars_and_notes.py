"""Stars and notes of topics.

A star belongs to a user and puts a topic first in that user's list; while there are no users, all
share one set. A note is shared: Markdown on the purpose of a topic, with its author. Both are tied
to the name: they outlive the topic and apply again when it is created anew.
"""

from dataclasses import dataclass

from app.administration import Administration
from app.db.rows import Actor, NoteRow
from app.db.worker import DatabaseWorker
from app.services.audited_store import AuditedStore
from app.services.ttl_cache import TtlCache
from engine.clock import Clock
from engine.errors import Invalid
from kitemq.model.stars_and_notes import NOTE_CHARS_MAX

EVERYBODY = ""  # whose the notes are, to `TtlCache`


@dataclass(frozen=True)
class TopicAnnotations:
    """Stars and notes as a page shows them beside topics; `failure` is the reason if unknown."""

    stars: frozenset[str]
    noted: frozenset[str]
    failure: str = ""


class StarsAndNotes:
    """Stores stars and notes, and caches them for pages."""

    def __init__(
        self, administration: Administration, database: DatabaseWorker, clock: Clock
    ) -> None:
        self._administration = administration
        self._store = AuditedStore(
            database, clock, code="stars_and_notes_unavailable", what="stars and notes"
        )
        nothing: frozenset[str] = frozenset()
        self._stars = TtlCache(clock, self._read_stars, nothing)
        self._noted = TtlCache(clock, self._read_noted, nothing)

    async def glance(self, owner: str, people_version: int = 0) -> TopicAnnotations:
        """An owner's stars and the topics with notes, for a page; see `TtlCache.of`."""
        stars = await self._stars.of(owner, people_version)
        noted = await self._noted.of(EVERYBODY)
        return TopicAnnotations(stars.value, noted.value, stars.failure or noted.failure)

    async def stars_of(self, owner: str) -> list[str]:
        """The topics with a star, by name, at most 500; also those that are gone."""
        return await self._store.run(lambda database: database.stars_and_notes.stars_of(owner))

    async def star(self, actor: Actor, owner: str, topic: str) -> None:
        """Star a topic that there is; TopicNotFound, Conflict for one too many."""
        await self._administration.topic(topic)
        entry = self._store.entry(actor, "topic.star", topic)
        await self._store.run(lambda database: database.stars_and_notes.star(owner, topic, entry))
        self._stars.forget(owner)

    async def unstar(self, actor: Actor, owner: str, topic: str) -> None:
        """Take a star away, also of a topic that is gone; nothing happens where none is."""
        entry = self._store.entry(actor, "topic.unstar", topic[:255])
        await self._store.run(lambda database: database.stars_and_notes.unstar(owner, topic, entry))
        self._stars.forget(owner)

    async def note(self, topic: str) -> NoteRow:
        """A topic's note, without text where it has none; TopicNotFound."""
        await self._administration.topic(topic)
        return await self._store.run(lambda database: database.stars_and_notes.note(topic))

    async def write_note(self, actor: Actor, topic: str, text: str, expected_ms: int) -> NoteRow:
        """Let the note say `text`, nothing for none; TopicNotFound, Invalid.

        Conflict where the note is not the one of `expected_ms` any more (0: where there was none).
        """
        await self._administration.topic(topic)
        entry = self._store.entry(actor, "topic.note", topic)
        row = NoteRow(topic=topic, text=checked(text), author=actor.name, changed_ms=entry.at_ms)
        note = await self._store.run(
            lambda db: db.stars_and_notes.write_note(row, expected_ms, entry)
        )
        self._noted.forget(EVERYBODY)
        return note

    async def _read_stars(self, owner: str) -> frozenset[str]:
        return frozenset(await self.stars_of(owner))

    async def _read_noted(self, _owner: str) -> frozenset[str]:
        return frozenset(await self._store.run(lambda database: database.stars_and_notes.noted()))


def checked(text: str) -> str:
    """The note as it is kept: lines are joined by line feeds; Invalid names the fault."""
    content = text.replace("\r\n", "\n").rstrip()
    if len(content) > NOTE_CHARS_MAX:
        raise Invalid(
            f"the note has {len(content):,} characters; at most {NOTE_CHARS_MAX:,} are kept",
            field="text",
            remedy="shorten it, or link to a longer page",
        )
    if "\0" in content:
        raise Invalid("the note holds a NUL character", field="text", remedy="take it out")
    return content
