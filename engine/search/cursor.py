"""The cursor of a scan: an opaque text that a client returns for the next page."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from hashlib import blake2b
from typing import TypeVar

import msgspec

from engine.errors import Invalid

CHARS_MAX = 400
DIGEST_BYTES = 8


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    """Records at or past `position` and before `end` are still to be looked at.

    `scanned`, `total` and `matched` count messages over all pages so far. `digest` stands for what
    is looked for: a cursor means nothing to another search.
    """

    digest: bytes
    position: int
    end: int
    scanned: int
    total: int
    matched: int


C = TypeVar("C", bound=Cursor)


def digest_of(query: msgspec.Struct) -> bytes:
    """A short stand-in for what is looked for."""
    return blake2b(msgspec.msgpack.encode(query), digest_size=DIGEST_BYTES).digest()


def write_cursor(cursor: Cursor) -> str:
    """The cursor as a text of letters, digits, "-" and "_"."""
    return urlsafe_b64encode(msgspec.msgpack.encode(cursor)).decode().rstrip("=")


def read_cursor(text: str, digest: bytes, kind: type[C]) -> C:
    """The cursor of a kind again; Invalid for what is none, or that is another search's."""
    try:
        data = urlsafe_b64decode(text[:CHARS_MAX].encode() + b"=" * (-len(text) % 4))
        cursor = msgspec.msgpack.decode(data, type=kind)
    except (NotBase64, ValueError, msgspec.MsgspecError):
        raise Invalid(
            "that is no cursor", field="cursor", remedy="give a page's next_cursor as it is"
        ) from None
    if cursor.digest != digest:
        raise Invalid(
            "the cursor belongs to another search",
            field="cursor",
            remedy="go on with the very same topic, times and filter, or begin anew",
        )
    return cursor
