"""REST for stars, which put topics first in a user's list, and for notes on topics."""

from app.api.access.users import READ_OWN
from app.api.framework.operation import Call, Operations
from app.db.rows import NoteRow
from app.security.access import OWN, Action
from engine.errors import Invalid
from kitemq.model.conversion import convert
from kitemq.model.numbers import is_whole
from kitemq.model.stars_and_notes import NewNote, StarList, TopicNote

VERSION_CHARS_MAX = 18


def _out(row: NoteRow) -> TopicNote:
    return convert(row, TopicNote, changed_ms=row.changed_ms or None, version=row.changed_ms)


def version_ms(text: str) -> int:
    """The version as it was given out; Invalid for what never was one."""
    if is_whole(text, VERSION_CHARS_MAX):
        return int(text)
    raise Invalid(f"{text[:40]!r} is no version", field="version", remedy="read the note first")


operations = Operations("topics")


@operations.get("/stars", needs=READ_OWN)
async def list_stars(call: Call[None, None]) -> StarList:
    """List the topics one has starred; while there are no users everybody shares them."""
    return StarList(await call.services.stars_and_notes.stars_of(call.who.name))


@operations.put("/topics/{topic}/star", needs=OWN, errors=(409,))
async def star_topic(call: Call[None, None]) -> None:
    """Put a topic first in one's own list of topics.

    At most 500. A star is about the name: it stays when the topic is deleted and created again.
    """
    await call.services.stars_and_notes.star(call.actor, call.who.name, call.path("topic"))


@operations.delete("/topics/{topic}/star", needs=OWN, not_found=False)
async def unstar_topic(call: Call[None, None]) -> None:
    """Take one's star from a topic, also from one that is gone."""
    await call.services.stars_and_notes.unstar(call.actor, call.who.name, call.path("topic"))


@operations.get("/topics/{topic}/note", needs=Action.READ)
async def get_note(call: Call[None, None]) -> TopicNote:
    """Read what people wrote about a topic."""
    return _out(await call.services.stars_and_notes.note(call.path("topic")))


@operations.put(
    "/topics/{topic}/note",
    needs=Action.ADMINISTER,
    errors=(409,),
    example_body='{"text": "What the shop sends.", "version": "0"}',
)
async def write_note(call: Call[None, NewNote]) -> TopicNote:
    """Write what a topic is for.

    A 409 if the note has changed since it was read. It is about the name: it stays
    when the topic is deleted and created again.
    """
    body = call.body
    expected_ms = version_ms(body.version)
    return _out(
        await call.services.stars_and_notes.write_note(
            call.actor, call.path("topic"), body.text, expected_ms
        )
    )
