"""Calls of REST operations over a WebSocket: CALL in, ANSWER out.

A call runs through the whole application as a request of its own, security included, with the
headers of the handshake: a connection may do here exactly what its client may do over HTTP. Calls
run beside the connection's other frames and end in any order.
"""

import asyncio
import logging
from collections.abc import Callable
from urllib.parse import unquote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.framework.operation import API
from app.errors import INTERNAL, Headers, ProblemError, problem_answer
from app.ws.limits import SocketLimits
from engine.errors import Busy, Invalid
from kitemq.protocol.calls import AnswerFrame, CallFrame

log = logging.getLogger("kitemq.socket")

PLAIN_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
TARGET_CHARS_MAX = 8192
METHOD_CHARS_MAX = 16
TYPE_CHARS_MAX = 256
FRAME_ROOM_BYTES = 1024  # header, status and content type of an ANSWER
CLOSE_TIMEOUT_S = 2.0  # for calls to notice that the client is gone
SCHEMES = {"ws": "http", "wss": "https"}
STREAM = "text/event-stream"
# Of the handshake, these speak of the connection or of a body that it has not.
DROPPED = frozenset(
    {
        b"connection", b"upgrade", b"keep-alive", b"te", b"trailer", b"transfer-encoding",
        b"expect", b"content-length", b"content-type", b"content-encoding", b"accept",
        b"accept-encoding",
    }
)  # fmt: skip
DROPPED_PREFIXES = (b"sec-websocket-", b"kitemq-")

PROTOCOL_HEADER = b"sec-websocket-protocol"

OnAnswer = Callable[[int, AnswerFrame, bool], None]  # request, frame, whether the CALL was text


class Calls:
    """The calls of one connection: at most `calls_max` under way."""

    def __init__(
        self,
        scope: Scope,
        limits: SocketLimits,
        *,
        on_answer: OnAnswer,
        on_done: Callable[[int], None],
        has_room: Callable[[], bool],
    ) -> None:
        """`scope` is the handshake's. `on_done` gets the size of a call's body once it is over.

        Calls begin only while `has_room` says so; `resume` tells that it may have changed.
        """
        self._scope = scope
        self._limits = limits
        self._on_answer = on_answer
        self._on_done = on_done
        self._has_room = has_room
        self._room = asyncio.Event()
        self._gone = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._headers = [
            (name, value)
            for name, value in scope["headers"]
            if name not in DROPPED and not name.startswith(DROPPED_PREFIXES)
        ]
        # The token that a browser's script gave as a subprotocol speaks for the calls, too.
        self._headers += [
            (name, value) for name, value in scope["headers"] if name == PROTOCOL_HEADER
        ]

    def begin(self, request: int, frame: CallFrame, *, is_text: bool) -> None:
        """Start a call; its ANSWER is sent when it ends.

        Raises Invalid for a request that REST does not know, Busy beyond the limit.
        """
        if len(self._tasks) >= self._limits.calls_max:
            raise Busy(
                f"one connection has at most {self._limits.calls_max} calls under way",
                field="path",
                remedy="wait for an answer, then call again",
            )
        scope = self._scope_of(frame)
        task = asyncio.ensure_future(self._run(request, frame, scope, is_text))
        self._tasks.add(task)

        def over(task: "asyncio.Task[None]") -> None:
            self._tasks.discard(task)
            self._on_done(len(frame.body))

        task.add_done_callback(over)

    @property
    def is_busy(self) -> bool:
        """Whether a call is under way, or waits for room."""
        return bool(self._tasks)

    def resume(self) -> None:
        """The client took answers: calls that waited for that may begin."""
        self._room.set()

    def leave(self) -> None:
        """The connection is gone: let every long poll end, as a closed HTTP connection does."""
        self._gone.set()
        self._room.set()

    async def close(self) -> None:
        """Wait a short time until all calls have ended, then cancel the others."""
        self.leave()
        if self._tasks:
            _, pending = await asyncio.wait(tuple(self._tasks), timeout=CLOSE_TIMEOUT_S)
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)
        # Their owner knows these calls: without a cycle it leaves nothing to the collector.
        del self._on_answer, self._on_done, self._has_room

    async def _run(self, request: int, frame: CallFrame, scope: Scope, is_text: bool) -> None:
        while not self._has_room() and not self._gone.is_set():
            self._room.clear()
            await self._room.wait()
        if self._gone.is_set():
            return
        answer = await ask(
            scope["app"],
            scope,
            frame.body,
            self._gone,
            answer_bytes_max=self._limits.frame_bytes_max - FRAME_ROOM_BYTES,
        )
        if answer is not None and not self._gone.is_set():
            self._on_answer(request, answer, is_text)

    def _scope_of(self, frame: CallFrame) -> Scope:
        """The scope of the request that the same client would have sent over HTTP."""
        path, _, query = _checked(frame).partition("?")
        headers = self._headers.copy()
        if frame.content_type:
            headers.append((b"content-type", frame.content_type.encode()))
        if frame.body:
            headers.append((b"content-length", b"%d" % len(frame.body)))
        origin = self._scope
        return {
            "type": "http",
            "asgi": origin.get("asgi", {"version": "3.0"}),
            "http_version": "1.1",
            "method": frame.method,
            "scheme": SCHEMES.get(origin.get("scheme", "ws"), "http"),
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": origin.get("root_path", ""),
            "headers": headers,
            "client": origin.get("client"),
            "server": origin.get("server"),
            "state": dict(origin.get("state") or {}),
            "app": origin["app"],
        }


async def ask(
    app: ASGIApp, scope: Scope, body: bytes, gone: asyncio.Event, *, answer_bytes_max: int
) -> AnswerFrame | None:
    """The answer of `app` to one request; None if `gone` was set before.

    An answer that is larger than `answer_bytes_max`, or a stream, becomes a problem.
    """
    collected = _Collected(answer_bytes_max)
    work = asyncio.ensure_future(_run_app(app, scope, _receive_of(body, gone), collected.send))
    collected.on_failure = work.cancel
    try:
        await asyncio.wait({work})
    finally:
        work.cancel()
    error = None if work.cancelled() else work.exception()
    if error is not None and collected.failure is None:
        log.error("a call of %s %s failed", scope["method"], scope["path"], exc_info=error)
        return _problem(ProblemError(500, INTERNAL, "the server failed; its log says why"))
    return collected.answer()


async def _run_app(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    await app(scope, receive, send)


class _Collected:
    """`send` of a call: the answer, put together.

    Where it cannot be an answer, `failure` says why, and `on_failure` ends what goes on sending.
    """

    def __init__(self, bytes_max: int) -> None:
        self.failure: ProblemError | None = None
        self.on_failure: Callable[[], object] = bool
        self._bytes_max = bytes_max
        self._status = 0
        self._content_type = ""
        self._parts: list[bytes] = []
        self._size_bytes = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._content_type = _content_type(message.get("headers", ()))
            if self._content_type.startswith(STREAM):
                self._fail(_is_stream())
            return
        part = message.get("body", b"")
        self._size_bytes += len(part)
        if self._size_bytes > self._bytes_max:
            self._fail(_is_too_large(self._bytes_max))
        if self.failure is None:
            self._parts.append(part)
        elif message.get("more_body"):
            self.on_failure()

    def answer(self) -> AnswerFrame | None:
        if self.failure is not None:
            return _problem(self.failure)
        if not self._status:
            return None
        return AnswerFrame(self._status, self._content_type, b"".join(self._parts))

    def _fail(self, error: ProblemError) -> None:
        self._parts.clear()
        self.failure = self.failure or error


def _content_type(headers: Headers) -> str:
    content_type = next((value for name, value in headers if name.lower() == b"content-type"), b"")
    return content_type.decode("latin-1")


def _is_too_large(bytes_max: int) -> ProblemError:
    return ProblemError(
        413,
        "answer_too_large",
        f"the answer is larger than {bytes_max} bytes, the most that fits into a frame",
        field="path",
        remedy="ask for less, for instance with `limit`, or ask over HTTP",
    )


def _is_stream() -> ProblemError:
    return ProblemError(
        406,
        "not_over_call",
        "a stream cannot be the answer to a call",
        field="path",
        remedy="ask for it over HTTP, or subscribe",
    )


def _receive_of(body: bytes, gone: asyncio.Event) -> Receive:
    """`receive` of a call: its body, then nothing until the connection is gone."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if waiting:
            return waiting.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    return receive


def _problem(error: Exception) -> AnswerFrame:
    status, headers, body = problem_answer(error)
    return AnswerFrame(status, _content_type(headers), body)


def _checked(frame: CallFrame) -> str:
    """The call's path; Invalid for a request that no HTTP client could make of this interface."""
    method, path, kind = frame.method, frame.path, frame.content_type
    if not (method.isascii() and method.isalpha() and method.isupper()) or (
        len(method) > METHOD_CHARS_MAX
    ):
        raise Invalid(f"{method[:40]!r} is no method", field="method", remedy="as in GET or POST")
    if len(path) > TARGET_CHARS_MAX or not path.isascii() or not path.isprintable() or " " in path:
        raise Invalid(
            "the path is too long or holds a character that must be escaped",
            field="path",
            remedy=f"at most {TARGET_CHARS_MAX} characters; write others as %XX of their UTF-8",
        )
    plain = path.partition("?")[0]
    if not plain.startswith(f"{API}/") and plain not in PLAIN_PATHS:
        raise Invalid(
            f"{plain[:80]!r} is no operation of the REST interface",
            field="path",
            remedy=f"call a path under {API}/, see docs/rest.md",
        )
    if len(kind) > TYPE_CHARS_MAX or not kind.isascii() or not (kind.isprintable() or not kind):
        raise Invalid("it is no content type", field="content_type", remedy="application/json")
    return path
