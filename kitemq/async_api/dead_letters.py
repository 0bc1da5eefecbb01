"""Dead letters of a group: list, count, send again, dismiss, restore."""

from collections.abc import AsyncIterator, Iterable
from typing import Any

import msgspec

from kitemq.async_api.connection import AsyncApi
from kitemq.model.dead_letters import (
    DeadLetterCounts,
    DeadLetterCut,
    DeadLetterInfo,
    DeadLetterList,
    Dismiss,
    DismissalList,
    DismissAnswer,
    Redrive,
    Restore,
    RestoreAnswer,
)
from kitemq.model.replays import Replay
from kitemq.model.values import OffsetInput
from kitemq.rest import Json, segment


class AsyncDeadLettersApi(AsyncApi):
    """`client.dead_letters`: messages that a group was unable to process."""

    def list(
        self,
        group: str,
        *,
        state: str = "open",
        limit: int = 0,
        **conditions: Any,
    ) -> AsyncIterator[DeadLetterInfo]:
        """A group's open dead letters with their cause, the newest first, page by page.

        `state`: open, resent, dismissed or all. `conditions`: the fields of
        `kitemq.model.dead_letters.DeadLetterCut`, as `error_class="KeyError"`. At most `limit` of
        them; 0 means all.
        """
        params: Json = {"state": state, **msgspec.to_builtins(DeadLetterCut(**conditions))}
        path = _path(group)
        return self._rest.pages(DeadLetterList, path, count_max=limit, after="after", **params)

    async def get(self, group: str, offset: int) -> DeadLetterInfo:
        """One dead letter; NotFound."""
        return await self._rest.fetch(DeadLetterInfo, "GET", f"{_path(group)}/{offset}")

    async def count(self, group: str, *, newest: int = 1000) -> DeadLetterCounts:
        """Counts of a group's dead letters by state, of the newest (10,000) by cause and client."""
        path, params = f"{_path(group)}/counts", {"newest": newest}
        return await self._rest.fetch(DeadLetterCounts, "GET", path, params=params)

    async def redrive(self, group: str, offsets: Iterable[int] = (), **choice: Any) -> Replay:
        """Send dead letters again, by default all, to this group alone, at 100 a second.

        `choice`: the fields of `kitemq.model.dead_letters.Redrive`. Answers the replay job.
        """
        body = Redrive(offsets=_offsets(offsets), **choice)
        return await self._rest.fetch(Replay, "POST", f"{_path(group)}/redrive", body=body)

    async def dismiss(
        self, group: str, offsets: Iterable[int] = (), *, note: str, **choice: Any
    ) -> DismissAnswer:
        """Mark dead letters as dismissed, by default all; `count` of them were not yet.

        Deletes nothing. `choice`: the fields of `kitemq.model.dead_letters.Dismiss`.
        """
        body = Dismiss(note=note, offsets=_offsets(offsets), **choice)
        return await self._rest.fetch(DismissAnswer, "POST", f"{_path(group)}/dismiss", body=body)

    async def restore(
        self, group: str, offsets: Iterable[int] = (), *, dismissal: str = "", all: bool = False
    ) -> RestoreAnswer:
        """Have dismissed dead letters looked at again: these, of one dismissal, or all."""
        body = Restore(offsets=_offsets(offsets), dismissal=dismissal, all=all)
        return await self._rest.fetch(RestoreAnswer, "POST", f"{_path(group)}/restore", body=body)

    async def dismissals(self, group: str, *, limit: int = 50) -> DismissalList:
        """The dismissals with their notes, newest first; at most 200."""
        path, params = f"{_path(group)}/dismissals", {"limit": limit}
        return await self._rest.fetch(DismissalList, "GET", path, params=params)


def _path(group: str) -> str:
    return f"/groups/{segment(group)}/dead-letters"


def _offsets(offsets: Iterable[int]) -> list[OffsetInput]:
    return [OffsetInput(offset) for offset in offsets]
