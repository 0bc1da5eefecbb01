"""Saved views: a list of the console with its filter, under a name that its owner gave it.

Views are one's own: nobody sees or changes those of others. While there are no users everybody
shares one set. Only our own lists can be saved, so a view never leads elsewhere.
"""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import parse_qsl, urlencode

from app.db.rows import AuditEntry, DatabaseError
from app.db.worker import DatabaseWorker
from app.services.audit import DONE, Actor
from engine.clock import Clock
from engine.errors import Busy, Invalid

if TYPE_CHECKING:
    from app.db.database import Database
    from app.db.view_store import ViewRow

T = TypeVar("T")

KIND = "view"
NAME_CHARS_MAX = 80
PATH_CHARS_MAX = 1024
QUERY_CHARS_MAX = 2000
LISTS = frozenset(
    {"/topics", "/groups", "/messages", "/dlq", "/audit"}
    | {"/jobs", "/scheduled", "/transactions", "/clients"}
)
LIST_OF_ONE = re.compile(r"/dlq/[A-Za-z0-9_.~%-]+\Z")  # a group's dead letters
# Where one was on a list is no part of how one likes to see it.
PASSING = frozenset({"page", "cursor", "done", "format"})
# How long a page shows what was read before, and how long it waits for the database.
FRESH_MS = 30_000
FAILED_MS = 5_000
WAIT_S = 2.0
OWNERS_MAX = 1000


@dataclass(frozen=True)
class NewView:
    """A view as it was asked for."""

    name: str
    path: str
    query: str = ""


@dataclass(frozen=True)
class Glance:
    """An owner's views as of `read_ms`; `failure` says why they are not known."""

    views: "tuple[ViewRow, ...]"
    read_ms: int
    people_version: int
    failure: str = ""

    def at(self, path: str) -> "list[ViewRow]":
        """Those of one list."""
        return [view for view in self.views if view.path == path]


def is_list(path: str) -> bool:
    """Whether a page's path, as it stands in an address, is a list that can be saved."""
    return path in LISTS or LIST_OF_ONE.match(path) is not None


def checked(new: NewView) -> NewView:
    """The view as it is kept; Invalid names what is wrong with it."""
    name = " ".join(new.name.split())
    if not 1 <= len(name) <= NAME_CHARS_MAX or not name.isprintable():
        raise Invalid(
            f"a view's name has 1 to {NAME_CHARS_MAX} characters, all of them printable",
            field="name",
            remedy="choose another name",
        )
    if len(new.path) > PATH_CHARS_MAX or not is_list(new.path):
        raise Invalid(
            f"{new.path[:80]!r} is no list of the console",
            field="path",
            remedy=f"one of {', '.join(sorted(LISTS))} or /dlq/GROUP",
        )
    query = kept_query(new.query)
    if len(query) > QUERY_CHARS_MAX:
        raise Invalid(
            f"the filter has {len(query):,} characters; a view keeps {QUERY_CHARS_MAX:,}",
            field="query",
            remedy="shorten the filter",
        )
    return NewView(name, new.path, query)


def kept_query(query: str) -> str:
    """The part of an address after "?" that belongs to a view; Invalid where it has no end."""
    try:
        pairs = parse_qsl(query.removeprefix("?"), max_num_fields=200)
    except ValueError:
        raise Invalid(
            "the filter has more than 200 parts", field="query", remedy="shorten the filter"
        ) from None
    return urlencode([pair for pair in pairs if pair[0] not in PASSING])


class Views:
    """Keeps views, and knows those of whoever looks at a page."""

    def __init__(self, database: DatabaseWorker, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._known: dict[str, Glance] = {}

    async def of(self, owner: str) -> "list[ViewRow]":
        """An owner's views by name, at most 100. Raises Busy (`views_unavailable`)."""
        return await self._run(lambda database: database.views.of(owner))

    async def glance(self, owner: str, people_version: int = 0) -> Glance:
        """The same for a page, which must not fail or wait for them; up to 30 s old.

        What this server changes shows at once. What was read under another version of people may
        belong to somebody who had the name before.
        """
        now_ms = self._clock.now_ms()
        known = self._known.get(owner)
        if known is not None and known.people_version == people_version:
            age_ms = now_ms - known.read_ms
            if 0 <= age_ms < (FAILED_MS if known.failure else FRESH_MS):
                return known
        try:
            async with asyncio.timeout(WAIT_S):
                found = Glance(tuple(await self.of(owner)), now_ms, people_version)
        except (Busy, TimeoutError):
            found = Glance((), now_ms, people_version, "the database does not answer")
        if len(self._known) >= OWNERS_MAX:
            self._known.clear()
        self._known[owner] = found
        return found

    async def add(self, actor: Actor, owner: str, new: NewView) -> "ViewRow":
        """Keep a view; Invalid, Conflict for a name that is taken or one view too many."""
        from app.db.view_store import ViewRow  # with SQLAlchemy, which is not needed at the start

        view = checked(new)
        row = ViewRow(
            owner=owner,
            name=view.name,
            path=view.path,
            query=view.query,
            created_ms=self._clock.now_ms(),
        )
        entry = self._entry(actor, "view.create", view.name)
        self._known.pop(owner, None)
        added = await self._run(lambda database: database.views.add(row, entry))
        self._known.pop(owner, None)
        return added

    async def delete(self, actor: Actor, owner: str, view_id: int) -> "ViewRow":
        """Forget one of the owner's views, which is returned; NotFound."""
        entry = self._entry(actor, "view.delete", "")
        deleted = await self._run(lambda database: database.views.delete(owner, view_id, entry))
        self._known.pop(owner, None)
        return deleted

    def _entry(self, actor: Actor, action: str, name: str) -> AuditEntry:
        return AuditEntry(
            at_ms=self._clock.now_ms(),
            actor=actor.name,
            action=action,
            object_kind=KIND,
            object_name=name,
            before_json="",
            after_json="",
            result=DONE,
            request_id=actor.request_id,
        )

    async def _run(self, work: "Callable[[Database], T]") -> T:
        try:
            return await self._database.run(work)
        except DatabaseError as error:
            busy = Busy(
                "the saved views cannot be read or written",
                remedy="see the server's log about its database, then try again",
            )
            busy.code = "views_unavailable"
            raise busy from error
