"""One connection: requests and answers of the client, and requests of the server to it.

All frames of one read are processed at once, and all answers of one turn of the event loop are
written at once. A client with many requests under way is not read from until half of them are
answered: its sends wait in its own buffers instead of failing. An invalid frame closes the
connection; earlier requests are not affected.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from app.db.rows import CLIENT_ADDRESS
from app.network import connection_limits
from app.network.connection_limits import ConnectionSlot
from app.network.connection_monitor import ConnectionMonitor, MonitoredConnection, TransferRate
from app.network.keep_alive import keep_alive
from app.remoting.call import RemotingCall
from app.remoting.errors import ErrorResponse, RemotingRefusal, answer_of
from app.remoting.plain_sends import PlainSends
from app.security.access import NOBODY
from app.security.byte_budget import BudgetExceeded
from engine.host import socket_text
from protocol.remoting.codes import Flag, RequestCode, ResponseCode
from protocol.remoting.frames import Command, FrameError, FrameReader, RawFrame, encode

if TYPE_CHECKING:
    from app.remoting.backend import RemotingBackend

log = logging.getLogger("kitemq.remoting")

QUESTIONS_MAX = 16  # unanswered, to one client
AHEAD_MAX = 512  # requests of one connection under way before no more are read
FRAME_ROOM = 1024 * 1024  # of a frame in addition to the largest body
Outcome = ErrorResponse | None | Awaitable[ErrorResponse]


class RemotingConnection(MonitoredConnection):
    """A client's connection; `client` is its address, `broker` that at which it reaches the broker.

    `server_host` is the host of this server that it called.
    """

    def __init__(
        self, backend: "RemotingBackend", slot: ConnectionSlot, monitor: ConnectionMonitor
    ) -> None:
        self._enter(slot, monitor)
        self.backend = backend
        self.client = self.server_host = self.broker = ""
        self.host = slot.address
        self.since_ms = backend.host.clock.now_ms()
        self.is_open = False
        self.polls = 0
        self._reader = FrameReader(frame_bytes_max=backend.settings.request_bytes_max + FRAME_ROOM)
        # Fewer than one address may have, so that one connection alone is never refused.
        self._ahead_max = max(1, min(AHEAD_MAX, backend.settings.client_requests_max // 2))
        self._ahead = 0  # requests under way
        self._is_held = False  # no frames are processed, as too many are under way
        self._is_unread = False  # the client does not read its answers
        self._reservation = backend.request_limits.budget.reserve(self.host, "", self._evicted)
        self._out: list[bytes] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._questions: dict[int, asyncio.Future[Command]] = {}
        self._opaque = 0
        self._seen_s = 0.0
        self._received_bytes = 0
        self._arrival: TransferRate | None = None

    # -- the transport's calls -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        super().connection_made(transport)
        self.client = socket_text(transport.get_extra_info("peername"))
        self.server_host = str((transport.get_extra_info("sockname") or ("",))[0])
        self.broker = self.backend.addresses.broker(self.server_host)
        if (accepted := transport.get_extra_info("socket")) is not None:
            keep_alive(accepted)
        self._seen_s = asyncio.get_running_loop().time()
        self.is_open = True
        self.backend.connected(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        for task in tuple(self._tasks):
            task.cancel()
        for question in self._questions.values():
            question.cancel()
        self._reservation.close()
        self.backend.disconnected(self)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._is_unread = True
        if not self.transport.is_closing():
            self.transport.pause_reading()  # a client that reads no answers sends no more requests

    def resume_writing(self) -> None:
        super().resume_writing()
        self._is_unread = False
        self._resume_reading()

    def data_received(self, data: bytes) -> None:
        self._seen_s = asyncio.get_running_loop().time()
        self._received_bytes += len(data)
        self._reader.add(data)
        if self._is_held and not self.transport.is_closing():
            self.transport.pause_reading()
        self._read_frames()

    def _read_frames(self) -> None:
        """Process the frames that have arrived, up to as many as may be under way."""
        CLIENT_ADDRESS.set(self.host)
        try:
            while not self._is_held and (
                frames := self._reader.take(self._ahead_max - self._ahead)
            ):
                self._take_frames(frames)
                if not self.is_open:
                    return
                self._is_held = self._ahead >= self._ahead_max
            self._count_pending()
        except FrameError as error:
            log.debug("%s sent what is no frame: %s", self.client, error)
            self.end(connection_limits.MALFORMED)
        except BudgetExceeded:
            self.end(connection_limits.UNREAD)

    def check(self, now_s: float) -> None:
        """End an idle connection, or one whose frame arrives too slowly."""
        super().check(now_s)
        settings = self.backend.settings
        if self.transport.is_closing():
            return
        if now_s - self._seen_s > settings.remoting_idle_s:
            self.transport.close()
        elif self._reader.pending_bytes and not (self._is_held or self._monitor.is_stalled(self)):
            self._check_arrival(now_s)
        else:
            self._arrival = None

    # -- answers ---------------------------------------------------------------------------------

    def answer(self, call: RemotingCall, answer: ErrorResponse) -> None:
        """Answer a request once; one-way requests are only counted."""
        self.release(call)
        command = call.command
        self.backend.count(command.code, answer.code)
        if command.is_one_way:
            return
        self._write(
            Command(
                int(answer.code),
                command.opaque,
                Flag.RESPONSE,
                answer.fields,
                answer.body,
                answer.remark,
                is_binary=command.is_binary,
            )
        )

    def tell(self, code: RequestCode, fields: dict[str, str], body: bytes = b"") -> bool:
        """Send a one-way request to the client; False if it is not reachable."""
        if not self.is_open or self._monitor.is_stalled(self):
            return False
        self._opaque += 1
        self._write(Command(int(code), self._opaque, Flag.ONE_WAY, fields, body))
        return True

    async def ask(
        self, code: RequestCode, fields: dict[str, str], timeout_s: float, body: bytes = b""
    ) -> Command:
        """Send the client a request; returns its answer. RemotingRefusal, TimeoutError."""
        if not self.is_open or len(self._questions) >= QUESTIONS_MAX:
            raise RemotingRefusal(ResponseCode.SYSTEM_BUSY, "the client cannot be asked just now")
        self._opaque += 1
        opaque = self._opaque
        answer = self._questions[opaque] = asyncio.get_running_loop().create_future()
        try:
            self._write(Command(int(code), opaque, 0, fields, body))
            async with asyncio.timeout(timeout_s):
                command: Command = await answer
                return command
        finally:
            del self._questions[opaque]

    def close(self) -> None:
        """Close after writing pending answers."""
        if self.is_open:
            self._flush()
            self.transport.close()

    # -- requests --------------------------------------------------------------------------------

    def _take_frames(self, frames: Sequence[RawFrame]) -> None:
        principal = self.backend.signatures.anybody
        sends = None if principal is None else PlainSends(self, principal, len(frames))
        try:
            for frame in frames:
                if sends is None or not sends.take(frame):
                    if sends is not None:
                        sends.submit()
                    self.take(frame)
                    if not self.is_open:
                        return
        finally:
            if sends is not None:
                sends.submit()

    def take(self, frame: RawFrame) -> None:
        """Handle one frame by itself; FrameError where it is none."""
        command = frame.command()
        if command.is_answer:
            question = self._questions.get(command.opaque)
            if question is not None and not question.done():
                question.set_result(command)
            return
        call = RemotingCall(self, command, NOBODY)
        try:
            call.principal = self.backend.signatures.identify(command)
            handler = self.backend.handler(command.code)
            self._count_in(call)
            outcome = handler(self.backend, call)
        except Exception as error:
            self.answer(call, answer_of(error))
            return
        if isinstance(outcome, ErrorResponse):
            self.answer(call, outcome)
        elif outcome is not None:
            self._begin(call, outcome)

    def _begin(self, call: RemotingCall, outcome: Awaitable[ErrorResponse]) -> None:
        """Continue an asynchronous handler as a task."""
        task = asyncio.get_running_loop().create_task(self._finish(call, outcome))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # Cancelled before its first step, it does not begin at all.
        task.add_done_callback(lambda task: self.release(call) if task.cancelled() else None)

    async def _finish(self, call: RemotingCall, outcome: Awaitable[ErrorResponse]) -> None:
        try:
            answer = await outcome
        except Exception as error:
            answer = answer_of(error)
        self.answer(call, answer)

    def _count_in(self, call: RemotingCall) -> None:
        """Count the request and its bytes; raises ProblemError if the server is full."""
        limits = self.backend.request_limits
        limits.enter(self.host)
        call.counted = self.host
        self.ahead(1)
        if size_bytes := len(call.command.body):
            call.give_back = limits.hold(self.host, call.principal.caller, size_bytes)

    def release(self, call: RemotingCall) -> None:
        """End the count of a request that is answered, or that only waits from now on."""
        if call.counted:
            self.backend.request_limits.leave(call.counted)
            call.counted = ""
            self.ahead(-1)
        if call.give_back is not None:
            call.give_back()
            call.give_back = None

    def ahead(self, count: int) -> None:
        """So many more requests are under way, or fewer; half of what may be is read on at."""
        before, self._ahead = self._ahead, self._ahead + count
        if self._is_held and self._ahead <= self._ahead_max // 2 < before:
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        """Process what waited for earlier requests to be answered."""
        self._is_held = False
        if self.is_open:
            self._read_frames()
            self._resume_reading()

    def _resume_reading(self) -> None:
        if not (self._is_held or self._is_unread or self.transport.is_closing()):
            self.transport.resume_reading()

    # -- inside ----------------------------------------------------------------------------------

    def _write(self, command: Command) -> None:
        if self.is_open:
            self.write(encode(command))

    def write(self, frames: bytes) -> None:
        """Write whole frames, together with all others of this turn of the event loop."""
        if not self.is_open:
            return
        if not self._out:
            asyncio.get_running_loop().call_soon(self._flush)
        self._out.append(frames)

    def _flush(self) -> None:
        out, self._out = self._out, []
        if out and self.is_open and not self.transport.is_closing():
            self.transport.write(out[0] if len(out) == 1 else b"".join(out))

    def _count_pending(self) -> None:
        """Count the bytes of an unfinished frame; raises BudgetExceeded."""
        more = self._reader.pending_bytes - self._reservation.size_bytes
        if more > 0:
            self._reservation.take(more)
        elif more:
            self._reservation.add(more)

    def _check_arrival(self, now_s: float) -> None:
        settings = self.backend.settings
        if self._arrival is None:
            self._arrival = TransferRate(now_s, self._received_bytes)
        elif self._arrival.is_too_slow(
            now_s,
            self._received_bytes,
            settings.body_timeout_s,
            settings.transfer_bytes_per_s_min,
        ):
            self.end(connection_limits.BODY_TIMEOUT)

    def _evicted(self) -> None:
        if self.is_open:
            self.transport.abort()


Handler = Callable[[Any, RemotingCall], Outcome]
