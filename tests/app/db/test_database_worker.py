"""The database's thread: what goes wrong there is the database's fault, whatever it is."""

import asyncio
import errno
import sys
from pathlib import Path
from typing import Any

import pytest

from app.db.rows import DatabaseError
from app.db.worker import DatabaseWorker

pytestmark = pytest.mark.anyio


class Full:
    """Finds no module for want of files that can be opened."""

    def find_spec(self, name: str, *_: Any) -> None:
        if name == "app.db.database":
            raise OSError(errno.EMFILE, "Too many open files")


async def test_a_library_that_cannot_be_read_just_now_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else who looks at the database now and then would stop for good."""
    worker = DatabaseWorker(f"sqlite:///{tmp_path / 'kite.db'}")
    monkeypatch.delitem(sys.modules, "app.db.database", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Full(), *sys.meta_path])
    try:
        with pytest.raises(DatabaseError, match="Too many open files"):
            await worker.run(lambda _: 1)
        monkeypatch.undo()
        assert await worker.run(lambda _: 1) == 1
        assert worker.failure == ""
    finally:
        await worker.close()


async def test_opening_it_soon_does_not_take_a_failure_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who looked in the first second of a server would be told that its database is well."""
    monkeypatch.setattr("app.db.worker.WARM_UP_S", 0.0)
    worker = DatabaseWorker(f"sqlite:///{tmp_path / 'kite.db'}")

    def fail(_: object) -> None:
        raise DatabaseError("the connection is gone")

    with pytest.raises(DatabaseError):
        await worker.run(fail)
    worker.start()
    await asyncio.sleep(0.05)  # the timer, not the database, is what has to have its turn
    await worker.close()
    assert worker.failure == "the connection is gone"
