"""Tag filters: "*" for all, or "a || b". A tag is matched by hash first, then by its text.

A consume queue entry holds only the Java hash of the tag, so scanning reads no record; two tags
with one hash are told apart once the record is read. A message without a tag matches no tag.
"""

from functools import lru_cache

import msgspec

from engine.errors import Invalid
from engine.message import StoredMessage
from engine.store.hashing import tag_hash

ALL_TEXT = "*"
SEPARATOR = "||"
TEXT_CHARS_MAX = 2048
TAGS_MAX = 64


class TagFilter(msgspec.Struct, frozen=True):
    """A parsed expression; without tags it lets everything through."""

    tags: frozenset[str] = frozenset()
    codes: frozenset[int] = frozenset()

    @property
    def is_all(self) -> bool:
        return not self.tags

    def may_match(self, tag_code: int) -> bool:
        """Whether an entry with this hash can match: false is certain, true is not."""
        return not self.tags or tag_code in self.codes

    def matches(self, message: StoredMessage) -> bool:
        """Whether the message itself does."""
        return not self.tags or message.tag in self.tags


ALL = TagFilter()


@lru_cache(maxsize=1024)
def parse_filter(text: str) -> TagFilter:
    """The filter that `text` means; Invalid (field `filter`) when it names no tag or too many."""
    if text.strip() in ("", ALL_TEXT):
        return ALL
    if len(text) > TEXT_CHARS_MAX:
        raise _invalid(f"a filter has at most {TEXT_CHARS_MAX} characters, this one {len(text)}")
    tags = frozenset(tag for part in text.split(SEPARATOR) if (tag := part.strip()))
    if not tags:
        raise _invalid(f"the filter {text!r} names no tag")
    if len(tags) > TAGS_MAX:
        raise _invalid(f"a filter names at most {TAGS_MAX} tags, this one {len(tags)}")
    return TagFilter(tags, frozenset(map(tag_hash, tags)))


def _invalid(detail: str) -> Invalid:
    return Invalid(detail, field="filter", remedy='use "*", or tags joined by "||"')
