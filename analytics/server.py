"""The server as the data source needs it, over REST: how far queues go, messages, and sending.

What may pass by itself (the server is starting, busy, or out of reach) is tried again for
`PATIENCE_S`; everything else is raised at once.
"""

import time
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from analytics.errors import DataLost, Refused, ServerFailed

DEFAULT_URL = "http://127.0.0.1:8080"
TIMEOUT_S = 30.0
PATIENCE_S = 60.0
WAIT_MIN_S, WAIT_MAX_S = 0.2, 5.0
PULL_MAX = 160  # messages of one answer
AGAIN = frozenset(
    {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE}
)
LOCK = "lock"


class QueueBounds(NamedTuple):
    """The first offset that a queue still has, and one past its last."""

    least: int
    end: int


class PulledMessages(NamedTuple):
    """Messages as JSON has them, and where to go on; nothing was kept at an offset too old."""

    messages: list[dict[str, Any]]
    following: int
    is_too_old: bool


class ServerClient:
    """One connection; closed by `with`."""

    def __init__(self, url: str, token: str = "", *, patience_s: float = PATIENCE_S) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            self._client = httpx.Client(base_url=url, headers=headers, timeout=TIMEOUT_S)
        except httpx.InvalidURL as error:
            raise Refused(f"{url!r} is no address: {error}", field="server") from None
        self._url = url
        self._patience_s = patience_s

    def __enter__(self) -> "ServerClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def ends(self, topic: str) -> dict[int, QueueBounds]:
        """By queue. Refused where there is no such topic, ServerFailed for all else.

        Queues that are missing, as those of a cluster's broker that is away, are waited for.
        """
        until_s = time.monotonic() + self._patience_s
        while unknown := (topic_detail := self._get(f"/api/v1/topics/{topic}", {})).get("unknown"):
            if time.monotonic() + WAIT_MAX_S > until_s:
                raise ServerFailed(f"{self._url} lacks queues of {topic}: {unknown}")
            time.sleep(WAIT_MAX_S)
        return {
            queue["queue"]: QueueBounds(int(queue["min_offset"]), int(queue["max_offset"]))
            for queue in topic_detail["queues"]
        }

    def store(self) -> Path | None:
        """The server's data directory, where it is this machine's too; else None."""
        about = self._get("/api/v1/system", {})
        folder, mark = Path(about.get("data", "")), about.get("data_mark", "")
        return folder if mark and mark == mark_of(folder) else None

    def pull(self, topic: str, queue: int, offset: int) -> PulledMessages:
        """Messages from `offset` on, at most `PULL_MAX`."""
        query = {"queue": queue, "offset": offset, "limit": PULL_MAX, "encoding": "base64"}
        page = self._get(f"/api/v1/topics/{topic}/messages", query)
        is_too_old = page["status"] == "offset_too_small"
        return PulledMessages(page["messages"], int(page["next_offset"]), is_too_old)

    def produce(self, topic: str, messages: Sequence[dict[str, Any]]) -> None:
        """Store these together; repeated until the server has said that it did."""
        self._ask("POST", f"/api/v1/topics/{topic}/messages", json={"messages": messages})

    def _get(self, path: str, query: dict[str, Any]) -> Any:
        return self._ask("GET", path, params=query)

    def _ask(self, method: str, path: str, **given: Any) -> Any:
        until_s, wait_s = time.monotonic() + self._patience_s, WAIT_MIN_S
        while True:
            try:
                answer = self._client.request(method, path, **given)
                failure = self._failure(answer)
                if failure is None:
                    return answer.json()
            except httpx.TransportError as error:
                failure = f"{self._url} does not answer: {error}"
            except ValueError:
                raise ServerFailed(f"{self._url} answered with something else than JSON") from None
            if time.monotonic() + wait_s > until_s:
                raise ServerFailed(failure, "is the server running? see the option `server`")
            time.sleep(wait_s)
            wait_s = min(2 * wait_s, WAIT_MAX_S)

    def _failure(self, answer: httpx.Response) -> str | None:
        """Why to ask again; None where it went well. Raises where asking again is no use."""
        if answer.is_success:
            return None
        text = f"{self._url} answered {answer.status_code}: {_detail(answer)}"
        if answer.status_code in AGAIN:
            return text
        if answer.status_code == HTTPStatus.GONE:
            raise DataLost(text)
        if answer.status_code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise Refused(text, "give a token that may do this", field="token")
        if answer.is_client_error:
            raise Refused(text, field="topic")
        raise ServerFailed(text)


def mark_of(folder: Path) -> str:
    """What tells a data directory from every other one of this machine; "" where it is none.

    The server says the same of its own, so that no other store is taken for it.
    """
    try:
        status = (folder / LOCK).stat()
    except OSError:
        return ""
    return f"{status.st_dev:x}-{status.st_ino:x}-{status.st_ctime_ns:x}"


def _detail(answer: httpx.Response) -> str:
    """What the problem body says, else the beginning of whatever there is."""
    try:
        problem = answer.json()
        parts = [problem.get("detail") or problem.get("title") or "", problem.get("remedy") or ""]
        return ": ".join(filter(None, parts)) or answer.text[:200]
    except (ValueError, AttributeError):
        return answer.text[:200]
