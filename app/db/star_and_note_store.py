"""Stars and notes of topics in SQL: each change is one transaction with its audit entry."""

from dataclasses import asdict, replace

from sqlalchemy import Connection, delete, insert, select, update

from app.db.audit_store import insert_audit
from app.db.rows import AuditEntry, NoteRow, json_text
from app.db.store import TableStore, count_rows, read_one
from app.db.tables import topic_notes, topic_stars
from engine.errors import Conflict

STARS_MAX = 500  # of one owner
NOTES_MAX = 10_000  # of all topics together


class StarAndNoteStore(TableStore):
    """The part of the database that holds stars and notes."""

    def stars_of(self, owner: str) -> list[str]:
        """The topics that an owner has starred, by name."""
        with self._transaction() as connection:
            return sorted(_stars(connection, owner))

    def noted(self) -> list[str]:
        """The topics with a note, in no order."""
        with self._transaction() as connection:
            return list(connection.execute(select(topic_notes.c.topic)).scalars())

    def star(self, owner: str, topic: str, entry: AuditEntry) -> bool:
        """Star a topic; False if it has a star. Raises Conflict if its owner has 500."""
        with self._transaction() as connection:
            stars = _stars(connection, owner)
            if topic in stars:
                return False
            if len(stars) >= STARS_MAX:
                raise Conflict(
                    f"nobody stars more than {STARS_MAX} topics",
                    field="topic",
                    remedy="take some stars away",
                )
            insert_audit(connection, replace(entry, after_json='{"starred":true}'))
            values = {"owner": owner, "topic": topic, "created_ms": entry.at_ms}
            connection.execute(insert(topic_stars).values(**values))
        return True

    def unstar(self, owner: str, topic: str, entry: AuditEntry) -> bool:
        """Remove a star; False if there was none."""
        with self._transaction() as connection:
            if topic not in _stars(connection, owner):
                return False
            insert_audit(connection, replace(entry, before_json='{"starred":true}'))
            mine = (topic_stars.c.owner == owner, topic_stars.c.topic == topic)
            connection.execute(delete(topic_stars).where(*mine))
        return True

    def note(self, topic: str) -> NoteRow:
        """A topic's note, with an empty text if there is none."""
        with self._transaction() as connection:
            return _note(connection, topic)

    def write_note(self, note: NoteRow, seen_ms: int, entry: AuditEntry) -> NoteRow:
        """Write a note; an empty text deletes it.

        Raises Conflict unless the stored version is `seen_ms` (0 for none), and if 10,000 topics
        have a note.
        """
        with self._transaction() as connection:
            before = _note(connection, note.topic)
            if before.changed_ms != seen_ms:
                raise _changed(before)
            # Never twice the same, also when the clock goes back.
            after = replace(note, changed_ms=max(note.changed_ms, before.changed_ms + 1))
            if after.text == before.text:
                return before
            audited = replace(entry, before_json=_json(before), after_json=_json(after))
            insert_audit(connection, audited)
            return _replace(connection, before, after)


def _stars(connection: Connection, owner: str) -> set[str]:
    rows = connection.execute(select(topic_stars.c.topic).where(topic_stars.c.owner == owner))
    return set(rows.scalars())


def _note(connection: Connection, topic: str) -> NoteRow:
    note = read_one(connection, select(topic_notes).where(topic_notes.c.topic == topic), NoteRow)
    return note or NoteRow(topic=topic)


def _replace(connection: Connection, before: NoteRow, after: NoteRow) -> NoteRow:
    # The condition once more: of two transactions that saw the same, the second finds nothing.
    same = (topic_notes.c.topic == before.topic, topic_notes.c.changed_ms == before.changed_ms)
    if not before.changed_ms:
        if after.text:
            _check_room(connection)
            connection.execute(insert(topic_notes).values(**asdict(after)))
        return after if after.text else before
    change = update(topic_notes).values(**asdict(after)) if after.text else delete(topic_notes)
    if connection.execute(change.where(*same)).rowcount != 1:
        raise _changed(before)
    return after if after.text else NoteRow(topic=after.topic)


def _check_room(connection: Connection) -> None:
    if count_rows(connection, topic_notes) >= NOTES_MAX:
        raise Conflict(
            f"{NOTES_MAX:,} topics have notes, and no more can",
            field="text",
            remedy="take notes away that nobody needs",
        )


def _changed(before: NoteRow) -> Conflict:
    by = f" by {before.author}" if before.author else ""
    return Conflict(
        f"the note was changed{by} since you read it",
        field="version",
        remedy="read it again, then write what is to stand there",
    )


def _json(note: NoteRow) -> str:
    return json_text({"text": note.text, "author": note.author} if note.text else None)
