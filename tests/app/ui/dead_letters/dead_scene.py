"""Dead letters made to order, through the API, for the tests of their pages."""

import time
from typing import Any

from tests.app.ui.scenery import Scenery

PATIENCE_S = 30.0


def one_queue(scenery: Scenery, topic: str) -> None:
    """A topic whose messages keep their order."""
    scenery.post("/topics", {"name": topic, "read_queues": 1, "write_queues": 1})


def dying_group(scenery: Scenery, group: str) -> None:
    """A group that gives a message up after its first attempt."""
    scenery.post("/groups", {"name": group, "retry_max": 0})


def kill(
    scenery: Scenery,
    group: str,
    topic: str,
    messages: list[dict[str, Any]],
    *,
    error: str = "ValueError: no such street",
    is_rejected: bool = False,
    client: str = "",
) -> None:
    """Send messages, and let the group fail at each of them."""
    scenery.send(topic, messages)
    failed: list[dict[str, Any]] = []
    while len(failed) < len(messages):
        failed += scenery.receive(group, topic, min(200, len(messages) - len(failed)))
    level = {"delay_level": -1} if is_rejected else {}
    nacks = [{"receipt": one["receipt"], "error": error, **level} for one in failed]
    named = {"client": client} if client else {}
    scenery.post(f"/groups/{group}/nack", {"nacks": nacks, **named})


def await_job(scenery: Scenery, job_id: str) -> dict[str, Any]:
    """The job once it is over."""
    limit_s = time.monotonic() + PATIENCE_S
    while True:
        job: dict[str, Any] = scenery.get(f"/replays/{job_id}")
        if job["state"] in ("finished", "stopped"):
            return job
        assert time.monotonic() < limit_s, job
        time.sleep(0.05)
