"""Lists of any length as one page of rows: query, sort, cut. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Generic, Literal, TypeVar

from msgspec import Meta

from app.ui.framework import typed_forms
from app.ui.framework.typed_forms import Fields

Row = TypeVar("Row")
Other = TypeVar("Other")


SIZES = (25, 50, 100, 200)


class ListFields(Fields, frozen=True):
    """The query of a list as an address has it."""

    q: Annotated[str, Meta(max_length=255)] = ""
    sort: str = ""
    page: Annotated[int, Meta(ge=1, le=999_999_999)] = 1
    size: Literal[25, 50, 100, 200] = 50


@dataclass(frozen=True)
class Query:
    """The query of a list: text filter, sort key ("-" first: descending), page."""

    text: str
    sort: str
    is_downward: bool
    page: int
    size: int


@dataclass(frozen=True)
class Cut(Generic[Row]):
    """One page of a longer list; `first` counts from 1, 0 when there is none."""

    rows: Sequence[Row]
    total: int
    first: int
    last: int
    page: int
    pages: int
    size: int

    def with_rows(self, rows: Sequence[Other]) -> "Cut[Other]":
        """The same page with other rows; rows of deleted objects may be missing."""
        fields: dict[str, Any] = vars(self) | {"rows": rows}
        return Cut(**fields)


def parse_query(values: Mapping[str, str], sorts: Sequence[str], default: str) -> Query:
    """Parse a list's query; invalid values give the default, since people edit links."""
    fields = typed_forms.query(values, ListFields)
    sort = fields.sort if fields.sort.lstrip("-") in sorts else default
    is_downward = sort.startswith("-")
    return Query(fields.q, sort.lstrip("-"), is_downward, fields.page, fields.size)


def cut(rows: Sequence[Row], query: Query) -> Cut[Row]:
    """The requested page of the rows; a page past the end gives the last."""
    pages = max(1, -(-len(rows) // query.size))
    page = min(query.page, pages)
    begin = (page - 1) * query.size
    visible_rows = rows[begin : begin + query.size]
    return Cut(
        rows=visible_rows,
        total=len(rows),
        first=begin + 1 if visible_rows else 0,
        last=begin + len(visible_rows),
        page=page,
        pages=pages,
        size=query.size,
    )


def whole(query: Query, count: int) -> Query:
    """The same query with one page of all `count` rows, for exports."""
    return replace(query, page=1, size=max(1, count))


def order(
    rows: list[Row], key: Callable[[Row], Any], name: Callable[[Row], str], *, down: bool
) -> None:
    """Sort in place by `key`, then by name; None is unknown and comes last in both directions."""
    rows.sort(key=name)
    sortable = [row for row in rows if key(row) is not None]
    sortable.sort(key=key, reverse=down)
    unknown = [row for row in rows if key(row) is None]
    rows[:] = sortable + unknown
