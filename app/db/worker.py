"""The database on a thread of its own, opened at its first use or soon after the start.

Messages need no database, so the server is ready before it is open: loading SQLAlchemy takes as
long as the rest of the start. If opening fails, the next call tries again.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from app.db.rows import DatabaseError
from engine.errors import Busy

if TYPE_CHECKING:
    from app.db.database import Database

log = logging.getLogger("kitemq.db")

T = TypeVar("T")
Work = Callable[["Database"], T]

WARM_UP_S = 1.0


class DatabaseAsker:
    """Runs work on `database` for users, who get Busy with this text, code and remedy if it fails.

    `{error}` in the text stands for the database's own words.
    """

    def __init__(
        self,
        database: "DatabaseWorker",
        detail: str,
        *,
        code: str = "",
        remedy: str = "see the server's log about its database, then try again",
    ) -> None:
        self._database = database
        self._detail = detail
        self._code = code
        self._remedy = remedy

    async def __call__(self, work: Work[T]) -> T:
        """The result of `work`; raises Busy."""
        try:
            return await self._database.run(work)
        except DatabaseError as error:
            raise self.busy(error) from error

    def busy(self, error: DatabaseError) -> Busy:
        """The error for the user."""
        return Busy(self._detail.format(error=error), remedy=self._remedy, code=self._code)


class DatabaseWorker:
    """Runs calls of `Database` one by one, off the event loop."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="kitemq-db")
        self._database: Database | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.failure = ""  # why the last call failed; empty after one that did not

    def start(self) -> None:
        """Open the database soon, so that the first change does not wait for it."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(WARM_UP_S, self._executor.submit, self._warm_up)

    async def run(self, work: Work[T]) -> T:
        """The result of `work`; raises DatabaseError."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, self._run, work)

    async def close(self) -> None:
        """Finish pending calls, then close the database."""
        if self._timer is not None:
            self._timer.cancel()
        await asyncio.get_running_loop().run_in_executor(self._executor, self._close)
        self._executor.shutdown(wait=False)

    # -- on the thread --------------------------------------------------------------------------

    def _run(self, work: Work[T]) -> T:
        try:
            result = work(self._opened())
        except DatabaseError as error:
            self.failure = str(error)
            raise
        self.failure = ""
        return result

    def _opened(self) -> "Database":
        if self._database is None:
            try:
                from app.db.database import Database
            except OSError as error:  # no file can be opened just now, not even the library's
                raise DatabaseError(f"its library cannot be loaded: {error}") from error

            self._database = Database(self._url)
        return self._database

    def _warm_up(self) -> None:
        if self._database is not None:
            return  # opened by a call, which alone knows how that went
        try:
            self._run(lambda _: None)
        except DatabaseError as error:
            log.error(
                "the database cannot be opened, and nothing can be changed until it can: %s", error
            )

    def _close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None
