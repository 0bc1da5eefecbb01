"""Pages of lists: the parameters that ask for one, and the cursor that leads to the next."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from heapq import nsmallest
from typing import Annotated, TypeVar

from msgspec import Meta

T = TypeVar("T")

PAGE_DEFAULT = 50
PAGE_MAX = 200
CURSOR = "`next_cursor` of the page before."

Limit = Annotated[int, Meta(ge=1, le=PAGE_MAX, description="Items of one page.")]
Cursor = Annotated[str, Meta(description=CURSOR)]
NumberCursor = Annotated[str, Meta(pattern="^[0-9]{0,18}$", description=CURSOR)]


def number_in(cursor: str) -> int | None:
    """The number in a NumberCursor; None for the first page."""
    return int(cursor) if cursor else None


def page_by(
    items: Iterable[T], key: Callable[[T], str], cursor: str, limit: int
) -> tuple[list[T], str | None]:
    """At most `limit` items in the order of their keys, from behind `cursor`; the next cursor."""
    rest = (item for item in items if key(item) > cursor)
    page = nsmallest(limit + 1, rest, key=key)
    return page[:limit], key(page[limit - 1]) if len(page) > limit else None


def page_of(
    items: Sequence[T], key: Callable[[T], str], cursor: str, limit: int
) -> tuple[Sequence[T], str | None]:
    """The same of items that are in the order of their keys: it looks at those of the page."""
    first = bisect_right(items, cursor, key=key) if cursor else 0
    page = items[first : first + limit]
    return page, key(page[-1]) if len(items) > first + limit else None


def cursor_after(page: Sequence[T], limit: int, key: Callable[[T], object]) -> str | None:
    """The cursor behind a page that was read with this limit; None for one that is not full."""
    return str(key(page[-1])) if len(page) == limit else None
