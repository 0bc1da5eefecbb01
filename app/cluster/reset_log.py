"""The resets that servers made of a cluster's groups; SQL has them, as brokers remember none.

As many are kept as the embedded engine keeps (`ResetHistory`), and numbered alike.
"""

from collections.abc import Sequence

import msgspec

from app.db.rows import GroupResetsRow
from app.db.worker import DatabaseAsker, DatabaseWorker
from engine.broker import OffsetMove, Reset, ResetHistory
from engine.errors import Busy

TRIES = 5  # where servers reset the same group at once
UNAVAILABLE = "the resets of groups cannot be read or noted: {error}"


class ResetLog:
    """The resets of all groups."""

    def __init__(self, database: DatabaseWorker) -> None:
        self._ask = DatabaseAsker(database, UNAVAILABLE, code="resets_unavailable")

    async def history(self, group: str) -> Sequence[Reset]:
        """A group's resets, newest first; Busy."""
        _, history = await self._read(group)
        return history.of_group(group)

    async def get(self, group: str, number: int) -> Reset:
        """A reset of the past; NotFound, Busy."""
        _, history = await self._read(group)
        return history.get(group, number)

    async def undoable(self, group: str, number: int) -> Reset:
        """One that is not undone; Conflict, NotFound, Busy."""
        _, history = await self._read(group)
        return history.undoable(group, number)

    async def add(
        self, group: str, at_ms: int, to: str, moves: Sequence[OffsetMove], undoes: int
    ) -> Reset:
        """Note a reset that was made; Busy."""
        for _ in range(TRIES):
            version, history = await self._read(group)
            reset = Reset(history.next_number(group), at_ms, to, list(moves), undoes)
            history.add(group, reset)
            if await self._write(group, version + 1, history):
                return reset
        raise Busy(f"others reset group {group!r} at the same time", remedy="look at its history")

    async def forget(self, group: str) -> None:
        """A group was deleted; Busy."""
        await self._ask(lambda database: database.resets.forget(group))

    async def _write(self, group: str, version: int, history: ResetHistory) -> bool:
        resets = msgspec.msgpack.encode(history.of_group(group)[::-1])
        row = GroupResetsRow(group_name=group, version=version, resets=resets)
        return await self._ask(lambda database: database.resets.write(row))

    async def _read(self, group: str) -> tuple[int, ResetHistory]:
        row = await self._ask(lambda database: database.resets.read(group))
        history = ResetHistory()
        for reset in msgspec.msgpack.decode(row.resets, type=list[Reset]) if row else ():
            history.keep(group, reset)
        return (row.version if row else 0), history
