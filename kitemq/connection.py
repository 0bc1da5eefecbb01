"""Frames over one WebSocket: requests that become futures, deliveries that become calls."""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any

from kitemq.calls import Json, call_frame, document_of
from kitemq.errors import (
    UNWRITABLE,
    Invalid,
    KiteError,
    ProtocolViolation,
    TimedOut,
    Unreachable,
    rejected,
)
from kitemq.protocol.batches import DeliverFrame
from kitemq.protocol.columns import ProtocolError
from kitemq.protocol.frames import VERSION, ErrorFrame, Frame, HelloFrame, WelcomeFrame, encode
from kitemq.protocol.stream import SERVER_FRAMES, UnreadableFrame, iter_frames
from kitemq.protocol.transactions import CheckFrame, ChecksWantedFrame
from kitemq.wire import Wire

REQUEST_MASK = 0xFFFFFFFF
CALL_TIMEOUT_S = 10.0

OnAnswer = Callable[[Frame | KiteError], None]
OnDeliver = Callable[[DeliverFrame], None]
OnEnded = Callable[[KiteError], None]
OnCheck = Callable[[CheckFrame], None]


class ServerConnection:
    """A connection whose client has been welcomed; `lost` resolves when it is gone."""

    def __init__(self) -> None:
        self._wire: Wire | None = None
        self._requests: dict[int, OnAnswer] = {}
        self._subscriptions: dict[int, tuple[OnDeliver, OnEnded]] = {}
        self._checks: dict[int, OnCheck] = {}
        self._last_request = 0
        self.welcome: WelcomeFrame | None = None

    @classmethod
    async def open(
        cls, url: str, client: str, *, timeout_s: float, tls: ssl.SSLContext | None = None
    ) -> "ServerConnection":
        """Connect and say hello; raises Unreachable, ProtocolViolation or what the server says."""
        connection = cls()
        connection._wire = await Wire.open(
            url, connection._on_message, timeout_s=timeout_s, tls=tls
        )
        connection._wire.lost.add_done_callback(connection._on_lost)
        try:
            async with asyncio.timeout(timeout_s):
                answer = await connection.request(HelloFrame(client))
        except TimeoutError:
            connection.abort()
            raise Unreachable(f"{url} did not answer within {timeout_s:g} s") from None
        except BaseException:
            connection.abort()
            raise
        if not isinstance(answer, WelcomeFrame) or answer.version != VERSION:
            connection.abort()
            raise ProtocolViolation(f"{url} speaks another protocol")
        connection.welcome = answer
        return connection

    @property
    def wire(self) -> Wire:
        assert self._wire is not None
        return self._wire

    @property
    def is_open(self) -> bool:
        return self._wire is not None and self._wire.is_open

    def request(self, frame: Frame) -> "asyncio.Future[Frame]":
        """Send `frame` now; the future gets its answer, or a KiteError.

        Values that fit into no frame fail with Invalid, code `unwritable`.
        """
        return self._request(self._next_request(), frame)

    async def call(
        self,
        method: str,
        path: str,
        json: object = None,
        *,
        params: dict[str, Any] | None = None,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> Json:
        """Call an operation of the REST interface, for instance ("GET", "/topics/orders").

        `path` is below `/api/v1`, its parts escaped; the answer is the document of docs/rest.md,
        {} where there is none. Raises Invalid, NotFound, Refused or Busy as the server says,
        Unreachable when the connection is lost, TimedOut after `timeout_s`.
        """
        number = self._next_request()
        answer = self._request(number, call_frame(method, path, json, params))
        try:
            async with asyncio.timeout(timeout_s):
                return document_of(await answer)
        except TimeoutError:
            raise TimedOut(f"{method} {path}: no answer within {timeout_s:g} s") from None
        finally:
            self.forget(number)

    def ask(self, frame: Frame, on_answer: OnAnswer) -> int:
        """The same with a call instead of a future: made while the answer is read, never from here.

        Returns the request's number, for `forget`.
        """
        number = self._next_request()
        self._ask(number, frame, on_answer)
        return number

    def forget(self, number: int) -> None:
        """Do not wait for an answer any longer."""
        self._requests.pop(number, None)

    def subscribe(
        self, frame: Frame, on_deliver: OnDeliver, on_ended: OnEnded
    ) -> "tuple[int, asyncio.Future[Frame]]":
        """Send a SUBSCRIBE; its number, and its answer. Deliveries may come before the answer."""
        number = self._next_request()
        self._subscriptions[number] = (on_deliver, on_ended)
        return number, self._request(number, frame)

    def want_checks(self, group: str, on_check: OnCheck) -> "asyncio.Future[Frame]":
        """Be a live producer of `group`; `on_check` gets its checks while the connection lasts."""
        number = self._next_request()
        self._checks[number] = on_check
        return self._request(number, ChecksWantedFrame(group))

    def tell(self, frame: Frame) -> None:
        """Send a frame that has no answer."""
        self.wire.write(encode(0, frame))

    async def close(self) -> None:
        """Say goodbye; what is still unanswered fails with Unreachable."""
        await self.wire.close()

    def abort(self) -> None:
        """Drop the connection."""
        if self._wire is not None:
            self._wire.abort()

    def _next_request(self) -> int:
        self._last_request = (self._last_request + 1) & REQUEST_MASK or 1
        return self._last_request

    def _request(self, number: int, frame: Frame) -> "asyncio.Future[Frame]":
        future: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()

        def answered(answer: Frame | KiteError) -> None:
            if future.done():
                return
            if isinstance(answer, KiteError):
                future.set_exception(answer)
            else:
                future.set_result(answer)

        self._ask(number, frame, answered)
        return future

    def _ask(self, number: int, frame: Frame, on_answer: OnAnswer) -> None:
        error: KiteError
        if not self.is_open:
            error = Unreachable("the connection is lost")
        else:
            try:
                data = encode(number, frame)
            except ProtocolError as reason:
                error = Invalid(str(reason), code=UNWRITABLE)
            else:
                self._requests[number] = on_answer
                self.wire.write(data)
                return
        asyncio.get_running_loop().call_soon(on_answer, error)

    def _on_message(self, data: bytes) -> None:
        try:
            for number, frame in iter_frames(data, SERVER_FRAMES):
                self._on_frame(number, frame)
        except ProtocolError:
            self.abort()

    def _on_frame(self, number: int, frame: Frame | UnreadableFrame) -> None:
        if isinstance(frame, DeliverFrame):
            calls = self._subscriptions.get(number)
            if calls is not None:
                calls[0](frame)
            return
        if isinstance(frame, CheckFrame):
            on_check = self._checks.get(number)
            if on_check is not None:
                on_check(frame)
            return
        on_answer = self._requests.pop(number, None)
        if isinstance(frame, UnreadableFrame):
            error: KiteError = ProtocolViolation(str(frame))
        elif isinstance(frame, ErrorFrame):
            error = error_of(frame)
        else:
            if on_answer is not None:
                on_answer(frame)
            return
        calls = self._subscriptions.pop(number, None)
        if on_answer is not None:
            on_answer(error)
        elif calls is not None:
            calls[1](error)

    def _on_lost(self, lost: "asyncio.Future[str]") -> None:
        requests, self._requests = self._requests, {}
        self._subscriptions.clear()
        self._checks.clear()
        for on_answer in requests.values():
            on_answer(Unreachable(f"the connection was lost: {lost.result()}"))


def error_of(frame: ErrorFrame) -> KiteError:
    """The SDK's error for an ERROR frame."""
    return rejected(
        frame.code,
        frame.detail,
        field=frame.field,
        remedy=frame.remedy,
        retry_after_s=frame.retry_after_ms / 1000,
    )
