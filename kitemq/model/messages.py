"""Messages as the REST API shows them, by themselves or inside what is told of them.

The server fills `Stored` by hand (`app/api/messages/messages.py`), as produce, receive and pull
have to be fast.
"""

from base64 import b64decode
from enum import StrEnum
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from kitemq.model.values import Int64

FILTER = (
    '`*` for all, tags joined by `||` as in "a || b", or `SQL92:` and an expression over properties'
    ' as in "SQL92: amount > 100" (docs/filters.md).'
)
Filter = Annotated[str, Meta(description=FILTER)]
WAIT_MS_MAX = 30_000
Wait = Annotated[int, Meta(ge=0, le=WAIT_MS_MAX, description="How long to wait for a message.")]


Order = Literal["oldest", "newest"]  # the first of a list


class Encoding(StrEnum):
    """How bodies are shown: auto is text where it is UTF-8, else base64."""

    AUTO = "auto"
    UTF8 = "utf-8"
    BASE64 = "base64"


class Compressed(msgspec.Struct, gc=False):
    """A body that its producer compressed: it is handed out decompressed unless `error` says why
    not; then it is as the log keeps it.
    """

    codec: Annotated[str, Meta(description="zlib, lz4 or zstd.")]
    stored_bytes: Annotated[int, Meta(description="The size of the body in the log.")]
    body_bytes: Annotated[int, Meta(description="The size of the body that is handed out.")]
    error: Annotated[str, Meta(description="Why the body is handed out compressed; else empty.")]


class Stored(msgspec.Struct, gc=False):
    """A stored message. `topic` is where it lies, `origin_topic` where it was first sent to.

    `compressed` is null for a body that its producer did not compress.
    """

    message_id: str
    offset_id: str
    topic: str
    queue: int
    offset: Int64
    position: Int64
    origin_topic: str
    tag: str
    keys: tuple[str, ...]
    properties: dict[str, str]
    message_group: str
    attempt: int
    born_ms: int
    born_host: str
    stored_ms: int
    size_bytes: int
    body: str
    encoding: str
    compressed: Compressed | None

    @property
    def content(self) -> bytes:
        """The body as bytes."""
        is_base64 = self.encoding == Encoding.BASE64
        return b64decode(self.body) if is_base64 else self.body.encode()


class MessageView(Stored, omit_defaults=True):
    """A stored message as the caller may see it.

    Without the right to read it, `body`, `keys` and the producer's properties are empty, and
    `missing_right` names the right.
    """

    missing_right: str = ""


class PullPage(msgspec.Struct):
    """Messages from an offset on; pull again from `next_offset`."""

    status: Annotated[str, Meta(description="found, no_matched_message, offset_overflow_one …")]
    messages: list[Stored]
    next_offset: str
    min_offset: str
    max_offset: str


class MessageList(msgspec.Struct):
    """Messages that were looked for."""

    items: list[MessageView]


class KeyedMessages(msgspec.Struct):
    """Messages with a key, the newest first."""

    items: list[MessageView]
    next_cursor: Annotated[
        str | None, Meta(description="Goes on with older ones; null where there are no more.")
    ]


class SearchPage(msgspec.Struct):
    """Messages found, in the chosen order, and how far the search has come over all its answers."""

    items: list[Stored]
    scanned: Annotated[int, Meta(description="Messages looked at so far.")]
    total: Annotated[int, Meta(description="Messages in the given time when it began.")]
    matched: Annotated[int, Meta(description="Messages found so far.")]
    next_cursor: Annotated[
        str | None,
        Meta(description="Goes on, where the page was full or the time was up; null at the end."),
    ]
    reached_ms: Annotated[
        int | None, Meta(description="When the last message looked at was stored.")
    ]
    unreadable: Annotated[int, Meta(description="Damaged or gone, of those looked at just now.")]


class SearchResult(msgspec.Struct):
    """What the text may mean; the name itself stands first among names, of which 50 are shown."""

    messages: list[MessageView]
    messages_cut: Annotated[
        bool, Meta(description="More may have it as key: the time or the number (64) was up.")
    ]
    topics: list[str]
    topics_total: int
    groups: list[str]
    groups_total: int
