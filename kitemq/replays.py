"""Dead letters and replay jobs, over REST: a part of `kitemq.Client`."""

import time
from collections.abc import Iterable, Iterator
from typing import Any

from kitemq.model.dead_letters import (
    DeadLetterCounts,
    DeadLetterInfo,
    DeadLetterList,
    Dismiss,
    DismissalList,
    DismissAnswer,
    Redrive,
    Restore,
    RestoreAnswer,
)
from kitemq.model.replays import (
    MessageOutcome,
    NewReplayJob,
    NewReplayRetry,
    OutcomePage,
    Replay,
    ReplayPage,
    ReplayRate,
    ReplayState,
)
from kitemq.model.values import OffsetInput
from kitemq.rest import Json, RestConnection, segment

POLL_S = 0.2


class Replaying(RestConnection):
    """What a client can do with dead letters, and with messages that are to be sent again."""

    # -- dead letters ---------------------------------------------------------------------------

    def dead_letters(
        self,
        group: str,
        *,
        reason: str = "",
        topic: str = "",
        filter: str = "*",
        dismissed: bool | None = None,
        limit: int = 0,
    ) -> Iterator[DeadLetterInfo]:
        """A group's dead letters with their cause, the newest first, page by page.

        Those with this reason, first sent to this topic, that match the filter; only those that
        are dismissed, or only the others, where `dismissed` says so. At most `limit` of them; 0
        means all.
        """
        params: Json = {"reason": reason, "topic": topic, "filter": filter}
        if dismissed is not None:
            params["dismissed"] = "true" if dismissed else "false"
        path = _dead_letters(group)
        return self._listed(DeadLetterList, path, count_max=limit, after="after", **params)

    def dead_letter(self, group: str, offset: int) -> DeadLetterInfo:
        """One dead letter; NotFound."""
        return self._typed(DeadLetterInfo, "GET", f"{_dead_letters(group)}/{offset}")

    def count_dead_letters(self, group: str, *, newest: int = 1000) -> DeadLetterCounts:
        """How many of a group's newest dead letters (10,000) have which reason, topic, client."""
        path = f"{_dead_letters(group)}/counts"
        return self._typed(DeadLetterCounts, "GET", path, params={"newest": newest})

    def redrive(self, group: str, offsets: Iterable[int] = (), **choice: Any) -> Replay:
        """Send dead letters again, by default all, to this group alone, at 100 a second.

        `choice`: the fields of `kitemq.model.dead_letters.Redrive`. Answers the replay job.
        """
        body = Redrive(offsets=_offsets(offsets), **choice)
        return self._typed(Replay, "POST", f"{_dead_letters(group)}/redrive", body=body)

    def dismiss_dead_letters(
        self, group: str, offsets: Iterable[int] = (), *, note: str, **choice: Any
    ) -> DismissAnswer:
        """Let dead letters rest, by default all: `count` of them did not yet. Deletes nothing.

        `choice`: the fields of `kitemq.model.dead_letters.Dismiss`.
        """
        body = Dismiss(note=note, offsets=_offsets(offsets), **choice)
        return self._typed(DismissAnswer, "POST", f"{_dead_letters(group)}/dismiss", body=body)

    def restore_dead_letters(
        self, group: str, offsets: Iterable[int] = (), *, dismissal: str = "", all: bool = False
    ) -> RestoreAnswer:
        """Have dismissed dead letters looked at again: these, of one dismissal, or all."""
        body = Restore(offsets=_offsets(offsets), dismissal=dismissal, all=all)
        return self._typed(RestoreAnswer, "POST", f"{_dead_letters(group)}/restore", body=body)

    def dismissals(self, group: str, *, limit: int = 50) -> DismissalList:
        """What was dismissed together, with its note, the newest first; at most 200."""
        path = f"{_dead_letters(group)}/dismissals"
        return self._typed(DismissalList, "GET", path, params={"limit": limit})

    # -- jobs -----------------------------------------------------------------------------------

    def create_replay(self, source: str, to: str, **choice: Any) -> Replay:
        """Send messages of a topic again; the job.

        `to` is "origin", "group" or "topic", the latter two named by `to_name`. `choice`: the
        fields of `kitemq.model.replays.NewReplayJob`; docs/replays.md tells of them.
        """
        fields: Json = {"source": source, "to": to, **choice}
        return self._typed(Replay, "POST", "/replays", body=NewReplayJob(**fields))

    def replays(self, *, source: str = "", state: str = "", limit: int = 0) -> Iterator[Replay]:
        """Replay jobs, the newest first, page by page; at most `limit`, 0 means all."""
        return self._listed(ReplayPage, "/replays", count_max=limit, source=source, state=state)

    def replay(self, job_id: str) -> Replay:
        """One job as it stands; NotFound."""
        return self._typed(Replay, "GET", f"/replays/{segment(job_id)}")

    def begin_replay(self, job_id: str) -> Replay:
        """Do a dry run in earnest; Refused for a job that is none."""
        return self._order(job_id, "begin")

    def retry_replay(self, job_id: str, **choice: Any) -> Replay:
        """Try again what failed in a job that is over, and nothing else; the new job.

        `choice`: the fields of `kitemq.model.replays.NewReplayRetry`. Refused where nothing failed.
        """
        path = f"/replays/{segment(job_id)}/retry"
        return self._typed(Replay, "POST", path, body=NewReplayRetry(**choice))

    def pause_replay(self, job_id: str) -> Replay:
        """Let a job rest; Refused unless it runs."""
        return self._order(job_id, "pause")

    def resume_replay(self, job_id: str) -> Replay:
        """Let a paused job go on; Refused unless it is paused."""
        return self._order(job_id, "resume")

    def stop_replay(self, job_id: str) -> Replay:
        """End a job; Refused when it is over."""
        return self._order(job_id, "stop")

    def change_replay(self, job_id: str, *, rate: float) -> Replay:
        """Messages a second from now on; 0 for as fast as it goes."""
        path = f"/replays/{segment(job_id)}"
        return self._typed(Replay, "PATCH", path, body=ReplayRate(rate))

    def replay_outcomes(
        self, job_id: str, *, outcome: str = "", limit: int = 0
    ) -> Iterator[MessageOutcome]:
        """What became of each message of a job, or of those with one outcome, page by page."""
        path = f"/replays/{segment(job_id)}/outcomes"
        return self._listed(OutcomePage, path, count_max=limit, outcome=outcome)

    def await_replay(self, job_id: str, *, timeout_s: float = 60.0) -> Replay:
        """The job once it is over or paused, or as it stands after `timeout_s`; waits."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            job = self.replay(job_id)
            if job.state is not ReplayState.RUNNING or time.monotonic() >= deadline_s:
                return job
            time.sleep(POLL_S)

    # -- helpers --------------------------------------------------------------------------------

    def _order(self, job_id: str, verb: str) -> Replay:
        return self._typed(Replay, "POST", f"/replays/{segment(job_id)}/{verb}")


def _dead_letters(group: str) -> str:
    return f"/groups/{segment(group)}/dead-letters"


def _offsets(offsets: Iterable[int]) -> list[OffsetInput]:
    return [OffsetInput(offset) for offset in offsets]
