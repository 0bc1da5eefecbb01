"""Requests that arrive in one piece and with a head that was parsed before.

A program's requests have the same head over and over, but for the length of the body. Where a
connection waits for its next request and gets all of it at once, a known head is not parsed again:
the application begins in the same turn of the event loop, without a task, and its answer leaves in
one write; the most frequent operations pass by ASGI altogether. Everything else is uvicorn's
`RequestResponseCycle`.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from starlette.types import ASGIApp, Message, Scope

from app.eager import EAGER, Remainder, begin
from app.network.response_cycle import head_of

log = logging.getLogger("kitemq.network")

HEAD_BYTES_MAX = 2048  # of a head that is kept
HEADS_MAX = 512
HEAD_END = b"\r\n\r\n"
# What uvicorn sets in a scope that is not the connection's.
SAID_BY_HEAD = (
    *("type", "asgi", "http_version", "root_path", "headers"),
    *("method", "path", "raw_path", "query_string"),
)
SPECIAL = frozenset({b"transfer-encoding", b"expect", b"upgrade"})


# Takes the whole answer; None where the request has to take the ordinary way after all.
Answer = Callable[[bytes | None], None]


class DirectRequests(Protocol):
    """The requests of one head, without ASGI."""

    def begin(self, client: tuple[str, int] | None, body: bytes, answer: Answer) -> bool:
        """Begin one, and call `answer` once; False if it has to take the ordinary way."""


class KnownHead(NamedTuple):
    """What a head says: the scope without what belongs to a connection, and the body's length."""

    scope: Scope
    body_bytes: int
    direct: DirectRequests | None


class KnownHeads:
    """The heads of the last requests that may begin at once, by their bytes."""

    def __init__(self) -> None:
        self._heads: dict[bytes, KnownHead] = {}

    def find(self, data: bytes) -> tuple[KnownHead, bytes] | None:
        """The head and the body of exactly one request; None where its head is not known."""
        end = data.find(HEAD_END, 0, HEAD_BYTES_MAX)
        known = self._heads.get(data[:end]) if end > 0 else None
        if known is None or len(data) != end + len(HEAD_END) + known.body_bytes:
            return None
        return known, data[end + len(HEAD_END) :]

    def learn(self, data: bytes, scope: Scope) -> None:
        """Keep the head of a request that was parsed, where the next one may begin at once."""
        if EAGER not in scope or scope["http_version"] != "1.1":
            return
        headers = dict(scope["headers"])
        end = data.find(HEAD_END, 0, HEAD_BYTES_MAX)
        body_bytes = len(data) - end - len(HEAD_END)
        if end <= 0 or SPECIAL & headers.keys():
            return
        if headers.get(b"content-length", b"0") != b"%d" % body_bytes:
            return
        if len(self._heads) >= HEADS_MAX:
            del self._heads[next(iter(self._heads))]
        said = {key: scope[key] for key in SAID_BY_HEAD}
        direct_way = scope[EAGER]
        direct = None if direct_way is None else direct_way(scope)
        self._heads[data[:end]] = KnownHead(said, body_bytes, direct)


class WholeRequest:
    """One request and its answer; `done` is called once, when the application is through with it.

    Its argument says whether the answer was given; without one the connection is of no more use.
    """

    __slots__ = ("_body", "_done", "_gone", "_head", "_is_answered", "_transport", "scope", "task")

    def __init__(
        self, scope: Scope, body: bytes, transport: asyncio.Transport, done: Callable[[bool], None]
    ) -> None:
        self.scope = scope
        self.task: asyncio.Task[None] | None = None
        self._body: bytes | None = body
        self._transport = transport
        self._done = done
        self._head = b""
        self._is_answered = False
        self._gone: asyncio.Future[None] | None = None

    def begin(self, app: ASGIApp, loop: asyncio.AbstractEventLoop) -> None:
        """Run the application up to its first wait; `task` does the rest."""
        try:
            running: Any = app(self.scope, self._receive, self._send)  # a coroutine
            rest = begin(running)
        except Exception as error:
            self._fail(error)
        else:
            if isinstance(rest, Remainder):
                self.task = loop.create_task(self._finish(rest))
            else:
                self._done(self._is_answered)

    def leave(self) -> None:
        """The client is gone."""
        if self._gone is not None and not self._gone.done():
            self._gone.set_result(None)

    async def _finish(self, rest: Remainder[None]) -> None:
        try:
            await rest
        except Exception as error:
            self._fail(error)
        else:
            self._done(self._is_answered)

    def _fail(self, error: Exception) -> None:
        log.error("a request failed", exc_info=error)
        self._done(False)

    async def _receive(self) -> Message:
        """The body, then the end of the connection."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        if not self._transport.is_closing():
            self._gone = asyncio.get_running_loop().create_future()
            await self._gone
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        """Write the answer once it is whole."""
        if message["type"] == "http.response.start":
            head = head_of(message["status"], message["headers"])
            if head is None:
                raise RuntimeError("an answer without a length")
            self._head = head.content
            return
        content, self._head = self._head + message.get("body", b""), b""
        self._is_answered = not message.get("more_body", False)
        if not self._transport.is_closing():
            self._transport.write(content)
