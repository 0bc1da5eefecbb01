"""Replay jobs, which send messages of a topic again."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from kitemq.async_api.connection import AsyncApi
from kitemq.model.replays import (
    MessageOutcome,
    NewReplayJob,
    NewReplayRetry,
    OutcomePage,
    PastReplay,
    PastReplayPage,
    Replay,
    ReplayPage,
    ReplayRate,
    ReplayState,
)
from kitemq.rest import Json, segment

POLL_S = 0.2


class AsyncReplaysApi(AsyncApi):
    """`client.replays`: jobs that send messages again, and what became of each message."""

    def list(self, *, source: str = "", state: str = "", limit: int = 0) -> AsyncIterator[Replay]:
        """Replay jobs, the newest first, page by page; at most `limit`, 0 means all."""
        return self._rest.pages(ReplayPage, "/replays", count_max=limit, source=source, state=state)

    async def get(self, job_id: str) -> Replay:
        """One job as it stands; NotFound."""
        return await self._rest.fetch(Replay, "GET", _path(job_id))

    async def create(self, source: str, to: str, **choice: Any) -> Replay:
        """Send messages of a topic again; the job.

        `to` is "origin", "group" or "topic", the latter two named by `to_name`. `choice`: the
        fields of `kitemq.model.replays.NewReplayJob`; docs/replays.md describes them.
        """
        fields: Json = {"source": source, "to": to, **choice}
        return await self._rest.fetch(Replay, "POST", "/replays", body=NewReplayJob(**fields))

    async def begin(self, job_id: str) -> Replay:
        """Do a dry run in earnest; Refused for a job that is none."""
        return await self._rest.fetch(Replay, "POST", _path(job_id, "begin"))

    async def retry(self, job_id: str, **choice: Any) -> Replay:
        """Try again what failed in a job that is over, and nothing else; the new job.

        `choice`: the fields of `kitemq.model.replays.NewReplayRetry`. Refused where nothing failed.
        """
        body = NewReplayRetry(**choice)
        return await self._rest.fetch(Replay, "POST", _path(job_id, "retry"), body=body)

    async def pause(self, job_id: str) -> Replay:
        """Send nothing for now; Refused unless the job runs."""
        return await self._rest.fetch(Replay, "POST", _path(job_id, "pause"))

    async def resume(self, job_id: str) -> Replay:
        """Let a paused job go on; Refused unless it is paused."""
        return await self._rest.fetch(Replay, "POST", _path(job_id, "resume"))

    async def stop(self, job_id: str) -> Replay:
        """End a job; Refused when it is over."""
        return await self._rest.fetch(Replay, "POST", _path(job_id, "stop"))

    async def change(self, job_id: str, *, rate: float) -> Replay:
        """Messages a second from now on; 0 for as fast as it goes."""
        return await self._rest.fetch(Replay, "PATCH", _path(job_id), body=ReplayRate(rate))

    def outcomes(
        self, job_id: str, *, outcome: str = "", limit: int = 0
    ) -> AsyncIterator[MessageOutcome]:
        """The outcomes of a job's messages, or those with one outcome, page by page."""
        path = _path(job_id, "outcomes")
        return self._rest.pages(OutcomePage, path, count_max=limit, outcome=outcome)

    def history(
        self,
        *,
        source: str = "",
        state: str = "",
        created_by: str = "",
        from_ms: int | None = None,
        to_ms: int | None = None,
        limit: int = 0,
    ) -> AsyncIterator[PastReplay]:
        """The newest 10,000 jobs, also those that the engine no longer keeps, page by page.

        Created from `from_ms` to before `to_ms` (ms since 1970 UTC); at most `limit`, 0 means all.
        """
        times = {"from_ms": from_ms, "to_ms": to_ms}
        params: Json = {name: each for name, each in times.items() if each is not None}
        params |= {"source": source, "state": state, "created_by": created_by}
        return self._rest.pages(PastReplayPage, "/replay-history", count_max=limit, **params)

    async def wait(self, job_id: str, *, timeout_s: float = 60.0) -> Replay:
        """The job once it is over or paused, or as it stands after `timeout_s`."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            job = await self.get(job_id)
            if job.state is not ReplayState.RUNNING or time.monotonic() >= deadline_s:
                return job
            await asyncio.sleep(POLL_S)


def _path(job_id: str, verb: str = "") -> str:
    return f"/replays/{segment(job_id)}" + (f"/{verb}" if verb else "")
