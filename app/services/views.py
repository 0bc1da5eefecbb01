"""Saved views: a console list with its filter, under a name that its owner chose.

Only the console's own lists can be saved, so a view never leads elsewhere.
"""

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

from app.db.rows import Actor, ViewRow
from app.db.worker import DatabaseWorker
from app.services.owned_rows import OwnedRows, checked_name
from engine.clock import Clock
from engine.errors import Invalid
from kitemq.model.conversion import convert
from kitemq.model.views import PATH_CHARS_MAX, NewView

QUERY_CHARS_MAX = 2000
LISTS = frozenset(
    {"/topics", "/groups", "/messages", "/dlq", "/audit"}
    | {"/jobs", "/scheduled", "/transactions", "/clients"}
)
LIST_OF_ONE = re.compile(r"/dlq/[A-Za-z0-9_.~%-]+\Z")  # a group's dead letters
# The position in a list is no part of a view.
PASSING = frozenset({"page", "cursor", "done", "format", "message"})


@dataclass(frozen=True)
class Glance:
    """An owner's views; `failure` says why they are not known."""

    views: tuple[ViewRow, ...]
    failure: str = ""

    def at(self, path: str) -> list[ViewRow]:
        """Those of one list."""
        return [view for view in self.views if view.path == path]


def is_list(path: str) -> bool:
    """Whether the path of an address is a list that can be saved."""
    return path in LISTS or LIST_OF_ONE.match(path) is not None


def checked(new: NewView) -> NewView:
    """Normalize a view for storage; Invalid names the fault."""
    name = checked_name(new.name, "view")
    if len(new.path) > PATH_CHARS_MAX or not is_list(new.path):
        raise Invalid(
            f"{new.path[:80]!r} is no list of the console",
            field="path",
            remedy=f"one of {', '.join(sorted(LISTS))} or /dlq/GROUP",
        )
    query = stored_query(new.query)
    if len(query) > QUERY_CHARS_MAX:
        raise Invalid(
            f"the filter has {len(query):,} characters; a view keeps {QUERY_CHARS_MAX:,}",
            field="query",
            remedy="shorten the filter",
        )
    return NewView(name, new.path, query)


def stored_query(query: str) -> str:
    """The part of an address after "?" that belongs to a view; Invalid where it has no end."""
    try:
        pairs = parse_qsl(query.removeprefix("?"), max_num_fields=200)
    except ValueError:
        raise Invalid(
            "the filter has more than 200 parts", field="query", remedy="shorten the filter"
        ) from None
    return urlencode([pair for pair in pairs if pair[0] not in PASSING])


class Views(OwnedRows[ViewRow]):
    """Stores views, at most 100 of an owner, and caches them for pages."""

    def __init__(self, database: DatabaseWorker, clock: Clock) -> None:
        super().__init__(database, clock, lambda db: db.views, kind="view", what="the saved views")

    async def glance(self, owner: str, people_version: int = 0) -> Glance:
        """Those of an owner for a page, which must not fail or wait; see `TtlCache.of`."""
        entry = await self._cache.of(owner, people_version)
        return Glance(tuple(entry.value), entry.failure)

    async def add(self, actor: Actor, owner: str, new: NewView) -> ViewRow:
        """Keep a view; Invalid, Conflict for a name that is taken or one view too many."""
        view = checked(new)
        row = convert(view, ViewRow, owner=owner, created_ms=self._clock.now_ms())
        entry = self._store.entry(actor, "view.create", view.name)
        self._cache.forget(owner)
        added = await self._store.run(lambda database: database.views.add(row, entry))
        self._cache.forget(owner)
        return added
