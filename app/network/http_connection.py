"""uvicorn's HTTP protocol with limits on header size and time, body rate, and slow readers.

The parser gets pieces of at most `header_bytes_max`, which bounds the size and the cost of any
header. A refused request gets a problem body if an answer is still possible; then the connection is
closed. Refusals are counted, not logged one by one.
"""

from enum import Enum
from functools import partial
from http import HTTPStatus
from typing import Any

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)
from uvicorn.server import ServerState

from app.errors import ProblemError, problem_answer
from app.network import connection_limits
from app.network.connection_limits import ConnectionSlot
from app.network.connection_monitor import ConnectionMonitor, MonitoredConnection, TransferRate
from app.network.response_cycle import ResponseCycle
from app.network.whole_request import KnownHead, KnownHeads, WholeRequest
from app.security.headers import secured

PIPELINED_MAX = 32  # requests that wait on one connection
REFUSED_S = 1.0  # for the peer to read the answer; its further data is discarded


class Phase(Enum):
    """The state of the parser, as far as its callbacks tell."""

    IDLE = "idle"  # between requests
    HEAD = "head"
    BODY = "body"
    GONE = "gone"  # refused or upgraded: no more parsing


IDLE, HEAD, BODY, GONE = Phase


class HttpConnection(MonitoredConnection, HttpToolsProtocol):
    """One connection of the HTTP port, until it is closed or becomes a WebSocket."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        *,
        slot: ConnectionSlot,
        monitor: ConnectionMonitor,
        heads: KnownHeads,
    ) -> None:
        """`heads` are those that all connections of the port know."""
        HttpToolsProtocol.__init__(self, config, server_state, app_state)
        self._enter(slot, monitor)
        self._phase = HEAD  # of the first request, from connecting on
        self._phase_s = 0.0  # of the first check in this phase; 0: none yet
        self._head_bytes = 0
        self._head_max = monitor.settings.header_bytes_max
        self._received = 0
        self._pace: TransferRate | None = None
        self._is_pipelining = False
        self._is_idle = False  # answered, and no further request has begun
        self._idle_s = 0.0  # of the first check since then; 0: none yet
        self._heads = heads
        self._first = b""  # the piece that a request began with
        self._is_busy = False  # a whole request is under way
        self._whole: WholeRequest | None = None  # that one, where the application has it
        self._later: list[bytes] = []  # what arrived meanwhile
        self._is_stopping = False

    # -- transport callbacks ---------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._is_busy:
            self._later.append(data)
            self.flow.pause_reading()
            return
        if not self._received or (self._is_idle and self._phase is IDLE):
            if self._begin_whole(data):
                return
            self._first = data
        else:
            self._first = b""
        self._is_idle = False
        if self._phase is not HEAD and len(data) <= self._head_max:
            self._feed(data)  # nearly always
            return
        view, at = memoryview(data), 0
        while at < len(data) and self._phase is not GONE:
            size_bytes = self._room()
            self._feed(view[at : at + size_bytes])
            at += size_bytes

    def connection_lost(self, exc: Exception | None) -> None:
        if self._whole is not None:
            self._whole.leave()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Close once the request under way is answered."""
        if self._is_busy:
            self._is_stopping = True
        else:
            super().shutdown()

    # -- whole requests --------------------------------------------------------------------------

    def _begin_whole(self, data: bytes) -> bool:
        """Begin a request that arrived in one piece, if its head is known."""
        known = None if self.flow.write_paused else self._heads.find(data)
        if known is None:
            return False
        head, body = known
        self._received += len(data)
        self._phase, self._is_idle, self._is_busy = IDLE, False, True
        answer = partial(self._answer_direct, head, body)
        if head.direct is None or not head.direct.begin(self.client, body, answer):
            self._begin_application(head, body)
        return True

    def _begin_application(self, head: KnownHead, body: bytes) -> None:
        scope = {
            **head.scope,
            "client": self.client,
            "server": self.server,
            "scheme": self.scheme,
            "state": self.app_state.copy(),
        }
        self._whole = whole = WholeRequest(scope, body, self.transport, self._end_whole)
        whole.begin(self.app, self.loop)
        if whole.task is not None:
            self.tasks.add(whole.task)
            whole.task.add_done_callback(self.tasks.discard)

    def _answer_direct(self, head: KnownHead, body: bytes, answer: bytes | None) -> None:
        if answer is None:
            self._begin_application(head, body)
            return
        if not self.transport.is_closing():
            self.transport.write(answer)
        self._end_whole(is_answered=True)

    def _end_whole(self, is_answered: bool) -> None:
        """Go on with what arrived meanwhile."""
        self._whole, self._is_busy = None, False
        self.server_state.total_requests += 1
        if not is_answered or self._is_stopping:
            self.transport.close()
        if self.transport.is_closing():
            return
        self._is_idle, self._idle_s = True, 0.0
        if self._later:
            data, self._later = b"".join(self._later), []
            self.flow.resume_reading()
            self.data_received(data)

    # -- parser callbacks ------------------------------------------------------------------------

    def on_headers_complete(self) -> None:
        self._phase, self._phase_s = BODY, 0.0
        if self.pipeline and len(self.pipeline) >= PIPELINED_MAX:
            self._is_pipelining = True
            raise ValueError("too many requests at once")
        super().on_headers_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        cycle.__class__ = ResponseCycle  # uvicorn has no setting for its class
        super()._start_asgi_task(cycle, app)

    def on_message_complete(self) -> None:
        self._phase = IDLE
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Begin the next request that waits; without one, `check` ends the connection some day.

        uvicorn would set a timer for each answer.
        """
        if self.pipeline or self.transport.is_closing():
            super().on_response_complete()
            return
        self.server_state.total_requests += 1
        self.flow.resume_reading()
        self._is_idle, self._idle_s = True, 0.0
        if self._first and self.cycle.keep_alive:
            scope: Any = self.cycle.scope  # uvicorn's type of it has no keys of ours
            self._heads.learn(self._first, scope)

    def handle_websocket_upgrade(self) -> None:
        self._phase = GONE
        self._monitor.connections.discard(self)
        protocol: Any = self.config.ws_protocol_class
        self.ws_protocol_class = partial(protocol, slot=self._slot, monitor=self._monitor)  # type: ignore[assignment]
        super().handle_websocket_upgrade()
        self.parser = None  # type: ignore[assignment]  # breaks a reference cycle

    # -- limits ----------------------------------------------------------------------------------

    def check(self, now_s: float) -> None:
        """Called once a second: end requests that take too long."""
        super().check(now_s)
        if self._is_idle:
            self._check_idle(now_s)
        if self._phase in (IDLE, GONE) or self.flow.read_paused or self.transport.is_closing():
            self._phase_s = 0.0
            return
        if not self._phase_s:
            self._phase_s, self._pace = now_s, None
        if self._phase is HEAD:
            self._check_header(now_s)
        else:
            self._check_body(now_s)

    def _check_idle(self, now_s: float) -> None:
        if not self._idle_s:
            self._idle_s = now_s
        elif now_s - self._idle_s >= self.timeout_keep_alive:
            self.timeout_keep_alive_handler()

    def _check_header(self, now_s: float) -> None:
        """Skipped during the answer to an earlier request, for which the client waits."""
        if self._is_answering():
            return
        timeout_s = self._monitor.settings.header_timeout_s
        if now_s - self._phase_s >= timeout_s:
            detail = f"the request's headers were not complete within {timeout_s:g} s"
            self._refuse(
                connection_limits.HEADER_TIMEOUT, HTTPStatus.REQUEST_TIMEOUT, "timeout", detail
            )

    def _check_body(self, now_s: float) -> None:
        settings = self._monitor.settings
        if self._pace is None:
            self._pace = TransferRate(now_s, self._received)
        elif self._pace.is_too_slow(
            now_s, self._received, settings.body_timeout_s, settings.transfer_bytes_per_s_min
        ):
            detail = (
                f"the body came with less than {settings.transfer_bytes_per_s_min} bytes a second "
                f"over {settings.body_timeout_s:g} s"
            )
            self._refuse(
                connection_limits.BODY_TIMEOUT, HTTPStatus.REQUEST_TIMEOUT, "timeout", detail
            )

    def _room(self) -> int:
        """The bytes to parse before the next check of the header's size."""
        return self._head_max - self._head_bytes if self._phase is HEAD else self._head_max

    def _feed(self, data: bytes | memoryview) -> None:
        if self._phase is IDLE:
            self._phase, self._phase_s, self._head_bytes = HEAD, 0.0, 0
        elif self._phase is GONE:
            return
        self._received += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            if self._should_upgrade():
                self.handle_websocket_upgrade()
            return
        except httptools.HttpParserError:
            self._refuse_malformed()
            return
        if self._phase is HEAD:
            self._head_bytes += len(data)
            if self._head_bytes >= self._head_max:
                self._refuse_head()

    def _refuse_malformed(self) -> None:
        if self._is_pipelining:
            detail = f"at most {PIPELINED_MAX} requests may wait on one connection"
            status, code = HTTPStatus.TOO_MANY_REQUESTS, "too_many_requests"
            self._refuse(connection_limits.PIPELINED, status, code, detail)
            return
        detail = "this is no HTTP request"
        self._refuse(connection_limits.MALFORMED, HTTPStatus.BAD_REQUEST, "bad_request", detail)

    def _refuse_head(self) -> None:
        limit = f"larger than {self._head_max} bytes"
        if len(self.url or b"") > self._head_max // 2:
            status, code = HTTPStatus.REQUEST_URI_TOO_LONG, "url_too_long"
            self._refuse(
                connection_limits.HEADER_SIZE, status, code, f"the URL with its headers is {limit}"
            )
            return
        status, code = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "headers_too_large"
        self._refuse(connection_limits.HEADER_SIZE, status, code, f"the headers are {limit}")

    def _refuse(self, reason: str, status: HTTPStatus, code: str, detail: str) -> None:
        """Answer if possible, then close the connection."""
        phase, self._phase = self._phase, GONE
        if not self._received:
            self.end(reason)  # no request at all
            return
        if self._is_answering():
            cycle = self.cycle
            if phase is not BODY or cycle.response_started or self.pipeline:
                self.end(reason)  # in the middle of another answer
                return
            cycle.disconnected = True  # tells the application that the client has left
            cycle.message_event.set()
        self._monitor.limits.refusals.note(reason, self._slot.address)
        self._answer(status, code, detail)
        # Closing at once would make the system discard the answer if more data arrives.
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(REFUSED_S, self.transport.close)

    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _answer(self, status: HTTPStatus, code: str, detail: str) -> None:
        number, headers, body = problem_answer(ProblemError(status, code, detail))
        lines = [STATUS_LINE[number]]
        for name, value in [*secured(headers), (b"connection", b"close")]:
            lines += [name, b": ", value, b"\r\n"]
        self.transport.write(b"".join([*lines, b"\r\n", body]))
