"""Dead letters and replay jobs, over REST: a part of `kitemq.Client`."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

from kitemq.rest import Json, RestConnection, segment

PAGE = 200
POLL_S = 0.2
OVER = frozenset({"finished", "stopped"})


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
    ) -> Iterator[Json]:
        """A group's dead letters with their cause, the newest first, page by page.

        Those with this reason, first sent to this topic, that match the filter; only those that
        are dismissed, or only the others, where `dismissed` says so. At most `limit` of them; 0
        means all.
        """
        path = f"/groups/{segment(group)}/dead-letters"
        params: Json = {"reason": reason, "topic": topic, "filter": filter}
        if dismissed is not None:
            params["dismissed"] = "true" if dismissed else "false"
        return self._paged(path, params, "after", limit)

    def dead_letter(self, group: str, offset: int) -> Json:
        """One dead letter; NotFound."""
        return self._call("GET", f"/groups/{segment(group)}/dead-letters/{offset}")

    def count_dead_letters(self, group: str, *, newest: int = 1000) -> Json:
        """How many of a group's newest dead letters (10,000) have which reason, topic, client."""
        path = f"/groups/{segment(group)}/dead-letters/counts"
        return self._call("GET", path, params={"newest": newest})

    def redrive(self, group: str, offsets: Sequence[int] = (), **choice: Any) -> Json:
        """Send dead letters again, by default all, to this group alone, at 100 a second.

        `choice`: to ("group", "origin" or "topic"), to_name, name, from_ms, to_ms, filter, reason,
        topic, fresh_only, with_dismissed, rate, dry_run. Answers the replay job.
        """
        document = {"offsets": [str(offset) for offset in offsets], **choice}
        return self._call("POST", f"/groups/{segment(group)}/dead-letters/redrive", json=document)

    def dismiss_dead_letters(
        self, group: str, offsets: Sequence[int] = (), *, note: str, **choice: Any
    ) -> Json:
        """Let dead letters rest, by default all: `count` of them did not yet. Deletes nothing.

        `choice`: from_ms, to_ms, filter, reason, topic, expected, dry_run.
        """
        document = {"offsets": [str(offset) for offset in offsets], "note": note, **choice}
        return self._call("POST", f"/groups/{segment(group)}/dead-letters/dismiss", json=document)

    def restore_dead_letters(
        self, group: str, offsets: Sequence[int] = (), *, dismissal: str = "", all: bool = False
    ) -> Json:
        """Have dismissed dead letters looked at again: these, of one dismissal, or all."""
        document = {
            "offsets": [str(offset) for offset in offsets],
            "dismissal": dismissal,
            "all": all,
        }
        return self._call("POST", f"/groups/{segment(group)}/dead-letters/restore", json=document)

    def dismissals(self, group: str, *, limit: int = 50) -> Json:
        """What was dismissed together, with its note, the newest first; at most 200."""
        path = f"/groups/{segment(group)}/dead-letters/dismissals"
        return self._call("GET", path, params={"limit": limit})

    # -- jobs -----------------------------------------------------------------------------------

    def create_replay(self, source: str, to: str, **choice: Any) -> Json:
        """Send messages of a topic again; the job.

        `to` is "origin", "group" or "topic", the latter two named by `to_name`. `choice`: name,
        messages, ranges, from_ms, to_ms, filter, reason, origin_topic, fresh_only, rate, dry_run,
        as docs/replays.md tells.
        """
        return self._call("POST", "/replays", json={"source": source, "to": to, **choice})

    def replays(self, *, source: str = "", state: str = "", limit: int = 0) -> Iterator[Json]:
        """Replay jobs, the newest first, page by page; at most `limit`, 0 means all."""
        return self._paged("/replays", {"source": source, "state": state}, "cursor", limit)

    def replay(self, job_id: str) -> Json:
        """One job as it stands; NotFound."""
        return self._call("GET", f"/replays/{segment(job_id)}")

    def begin_replay(self, job_id: str) -> Json:
        """Do a dry run in earnest; Refused for a job that is none."""
        return self._order(job_id, "begin")

    def retry_replay(self, job_id: str, **choice: Any) -> Json:
        """Try again what failed in a job that is over, and nothing else; the new job.

        `choice`: to and to_name (else as before), name, rate, dry_run. Refused where nothing
        failed.
        """
        return self._call("POST", f"/replays/{segment(job_id)}/retry", json=choice)

    def pause_replay(self, job_id: str) -> Json:
        """Let a job rest; Refused unless it runs."""
        return self._order(job_id, "pause")

    def resume_replay(self, job_id: str) -> Json:
        """Let a paused job go on; Refused unless it is paused."""
        return self._order(job_id, "resume")

    def stop_replay(self, job_id: str) -> Json:
        """End a job; Refused when it is over."""
        return self._order(job_id, "stop")

    def change_replay(self, job_id: str, *, rate: float) -> Json:
        """Messages a second from now on; 0 for as fast as it goes."""
        return self._call("PATCH", f"/replays/{segment(job_id)}", json={"rate": rate})

    def replay_outcomes(self, job_id: str, *, outcome: str = "", limit: int = 0) -> Iterator[Json]:
        """What became of each message of a job, or of those with one outcome, page by page."""
        path = f"/replays/{segment(job_id)}/outcomes"
        return self._paged(path, {"outcome": outcome}, "cursor", limit)

    def await_replay(self, job_id: str, *, timeout_s: float = 60.0) -> Json:
        """The job once it is over or paused, or as it stands after `timeout_s`; waits."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            job = self.replay(job_id)
            if job["state"] != "running" or time.monotonic() >= deadline_s:
                return job
            time.sleep(POLL_S)

    # -- helpers --------------------------------------------------------------------------------

    def _order(self, job_id: str, verb: str) -> Json:
        return self._call("POST", f"/replays/{segment(job_id)}/{verb}")

    def _paged(self, path: str, params: Json, place: str, limit: int) -> Iterator[Json]:
        cursor: str | None = ""
        left = limit
        while cursor is not None:
            size = min(PAGE, left) if limit else PAGE
            page = self._call("GET", path, params={**params, place: cursor, "limit": size})
            yield from page["items"]
            left -= len(page["items"])
            cursor = page["next_cursor"] if not limit or left > 0 else None
