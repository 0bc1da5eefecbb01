"""Stars, which put topics first in one's own list, and notes on what a topic is for."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from app.api.access.users import READ_OWN
from app.api.framework.operation import API, Call, operation
from app.api.topics.topics import TAG, actor_of
from app.security.access import OWN, Action, Kind, Needs
from app.services.marks import NOTE_CHARS_MAX
from engine.errors import Invalid
from kitemq.model.values import Milliseconds

VERSION_CHARS_MAX = 18


class StarList(msgspec.Struct):
    """The topics that one has starred, by name, at most 500; also those that are gone."""

    items: list[str]


class Note(msgspec.Struct):
    """What a topic is for, as Markdown; without text nobody has written anything."""

    topic: str
    text: str
    author: str
    changed_ms: Milliseconds | None
    version: Annotated[str, Meta(description="Differs with each change; 0 where there is none.")]


class NoteBody(msgspec.Struct, forbid_unknown_fields=True):
    """What the note is to say."""

    text: Annotated[
        str,
        Meta(
            max_length=NOTE_CHARS_MAX,
            description="Markdown, at most 20,000 characters; nothing takes the note away.",
        ),
    ]
    version: Annotated[str, Meta(description="`version` of the note as it was read.")]


def _out(row: Any) -> Note:
    return Note(row.topic, row.text, row.author, row.changed_ms or None, str(row.changed_ms))


def version_ms(text: str) -> int:
    """The version as it was given out; Invalid for what never was one."""
    if text.isascii() and text.isdecimal() and len(text) <= VERSION_CHARS_MAX:
        return int(text)
    raise Invalid(f"{text[:40]!r} is no version", field="version", remedy="read the note first")


@operation(
    "GET",
    f"{API}/stars",
    tag=TAG,
    needs=READ_OWN,
    answer=StarList,
    example="curl $URL/api/v1/stars",
)
async def list_stars(call: Call[None, None]) -> StarList:
    """List the topics one has starred; while there are no users everybody shares them."""
    return StarList(await call.services.marks.stars_of(call.who.name))


@operation(
    "PUT",
    f"{API}/topics/{{topic}}/star",
    tag=TAG,
    needs=OWN,
    status=204,
    errors=(404, 409),
    example="curl -X PUT $URL/api/v1/topics/orders/star",
)
async def star_topic(call: Call[None, None]) -> None:
    """Put a topic first in one's own list of topics.

    At most 500. A star is about the name: it stays when the topic is deleted and created again.
    """
    await call.services.marks.star(actor_of(call), call.who.name, call.path("topic"))


@operation(
    "DELETE",
    f"{API}/topics/{{topic}}/star",
    tag=TAG,
    needs=OWN,
    status=204,
    example="curl -X DELETE $URL/api/v1/topics/orders/star",
)
async def unstar_topic(call: Call[None, None]) -> None:
    """Take one's star from a topic, also from one that is gone."""
    await call.services.marks.unstar(actor_of(call), call.who.name, call.path("topic"))


@operation(
    "GET",
    f"{API}/topics/{{topic}}/note",
    tag=TAG,
    needs=Needs(Action.READ, Kind.TOPIC, "topic"),
    answer=Note,
    errors=(404,),
    example="curl $URL/api/v1/topics/orders/note",
)
async def get_note(call: Call[None, None]) -> Note:
    """Read what people wrote about a topic."""
    return _out(await call.services.marks.note(call.path("topic")))


@operation(
    "PUT",
    f"{API}/topics/{{topic}}/note",
    tag=TAG,
    needs=Needs(Action.ADMINISTER, Kind.TOPIC, "topic"),
    body=NoteBody,
    answer=Note,
    errors=(404, 409),
    example="curl -X PUT $URL/api/v1/topics/orders/note -H 'Content-Type: application/json' "
    """-d '{"text": "What the shop sends.", "version": "0"}'""",
)
async def write_note(call: Call[None, NoteBody]) -> Note:
    """Write what a topic is for.

    A 409 where somebody else changed the note since it was read. It is about the name: it stays
    when the topic is deleted and created again.
    """
    body = call.body
    seen_ms = version_ms(body.version)
    return _out(
        await call.services.marks.write_note(actor_of(call), call.path("topic"), body.text, seen_ms)
    )


OPERATIONS = (list_stars, star_topic, unstar_topic, get_note, write_note)
