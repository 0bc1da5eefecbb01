"""Stars of topics, and notes on their purpose."""

from typing import Annotated

import msgspec
from msgspec import Meta

from kitemq.model.values import Int64, Milliseconds

NOTE_CHARS_MAX = 20_000


class StarList(msgspec.Struct, frozen=True):
    """The topics that one has starred, by name, at most 500; also those that are gone."""

    items: list[str]


class TopicNote(msgspec.Struct, frozen=True):
    """A note on the purpose of a topic, as Markdown; without text there is none."""

    topic: str
    text: str
    author: str
    changed_ms: Milliseconds | None
    version: Annotated[Int64, Meta(description="Differs with each change; 0 where there is none.")]


class NewNote(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The text of a note to write."""

    text: Annotated[
        str,
        Meta(
            max_length=NOTE_CHARS_MAX,
            description="Markdown, at most 20,000 characters; nothing takes the note away.",
        ),
    ]
    version: Annotated[str, Meta(description="`version` of the note as it was read.")]
