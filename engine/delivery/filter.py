"""Filters: "*" for all, "a || b" for tags, or "SQL92: amount > 5" for properties.

A consume queue entry holds only the Java hash of the tag, so scanning for tags reads no record;
tags with the same hash are distinguished once the record is read. A message without a tag matches
no tag. An SQL92 expression needs the record, unless it names the tags that it can match.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Protocol

import msgspec

from engine.delivery.sql import CACHE_MAX, SqlFilter, compile_sql
from engine.errors import Invalid
from engine.message import StoredMessage
from engine.store.hashing import tag_hash

ALL_TEXT = "*"
SEPARATOR = "||"
FILTER_BYTES_MAX = 16 * 1024  # of tags, as one tag may have
FILTERS_CHARS_MAX = 256 * 1024  # of all filters of one subscription
CACHED_CHARS_MAX = 2048
TAGS_MAX = 64

_SQL = re.compile(r"\s*SQL92:", re.IGNORECASE)


class Filter(Protocol):
    """A consumer's choice of messages; comparable and hashable."""

    @property
    def is_all(self) -> bool:
        """Whether it lets everything through, so that nothing needs to be asked."""

    def may_match(self, tag_code: int) -> bool:
        """Whether an entry with this tag hash can match: false is certain, true is not."""

    def matches(self, message: StoredMessage) -> bool:
        """Whether the message itself does."""


class TagFilter(msgspec.Struct, frozen=True):
    """Tags joined by "||"; without tags it lets everything through."""

    tags: frozenset[str] = frozenset()
    codes: frozenset[int] = frozenset()

    @property
    def is_all(self) -> bool:
        return not self.tags

    def may_match(self, tag_code: int) -> bool:
        return not self.tags or tag_code in self.codes

    def matches(self, message: StoredMessage) -> bool:
        return not self.tags or message.tag in self.tags


class PropertyFilter(msgspec.Struct, frozen=True):
    """An SQL92 expression; `codes` are those of the tags without which it cannot be true."""

    sql: SqlFilter
    codes: frozenset[int] | None

    @property
    def is_all(self) -> bool:
        return False

    def may_match(self, tag_code: int) -> bool:
        return self.codes is None or tag_code in self.codes

    def matches(self, message: StoredMessage) -> bool:
        return self.sql.matches(message.properties)


ALL = TagFilter()


def parse_filter(text: str) -> Filter:
    """The filter that `text` means; Invalid (field `filter`) when it is wrong.

    A text that begins with "SQL92:", in whatever case, is an expression over the properties, at
    most 4,096 characters (see `sql/`); any other is a tag expression, at most 16 KiB.
    """
    sql = _SQL.match(text)
    if sql:
        return _property_filter(text[sql.end() :])
    return _tag_filter(text) if len(text) <= CACHED_CHARS_MAX else _long_tag_filter(text)


def check_together(topics: Mapping[str, str]) -> None:
    """Raise Invalid where the filters of one subscription (topic to filter) are too long."""
    count = sum(map(len, topics.values()))
    if count > FILTERS_CHARS_MAX:
        raise Invalid(
            f"the filters have {count} characters together, {FILTERS_CHARS_MAX} is the most",
            field="topics",
            remedy="shorten them, or receive from fewer topics at once",
        )


@lru_cache(maxsize=CACHE_MAX)
def _property_filter(expression: str) -> PropertyFilter:
    sql = compile_sql(expression)
    return PropertyFilter(sql, None if sql.tags is None else frozenset(map(tag_hash, sql.tags)))


@lru_cache(maxsize=64)
def _long_tag_filter(text: str) -> TagFilter:
    size_bytes = len(text.encode("utf-8", "surrogatepass"))
    if size_bytes > FILTER_BYTES_MAX:
        raise _invalid(f"a filter has at most {FILTER_BYTES_MAX} bytes, this one {size_bytes}")
    return _parsed_tags(text)


@lru_cache(maxsize=1024)
def _tag_filter(text: str) -> TagFilter:
    return _parsed_tags(text)


def _parsed_tags(text: str) -> TagFilter:
    if text.strip() in ("", ALL_TEXT):
        return ALL
    tags = frozenset(tag for part in text.split(SEPARATOR) if (tag := part.strip()))
    if not tags:
        raise _invalid(f"the filter {text!r} names no tag")
    if len(tags) > TAGS_MAX:
        raise _invalid(f"a filter names at most {TAGS_MAX} tags, this one {len(tags)}")
    return TagFilter(tags, frozenset(map(tag_hash, tags)))


def _invalid(detail: str) -> Invalid:
    return Invalid(detail, field="filter", remedy='use "*", tags joined by "||", or "SQL92: a > 5"')
