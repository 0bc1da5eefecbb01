"""A request's body on its way to the endpoint: bounded, and counted as it arrives.

What is announced is only compared with the limit. A request that needs no body may send a small
one: those that change nothing, and the public paths, which anybody may call. Most small bodies do
not come here: `Load.take_small` counts them with their request.
"""

import asyncio

from starlette.types import Message, Receive, Scope

from app.errors import DoorError
from app.security.access import principal_of
from app.security.authenticator import is_public
from app.security.byte_budget import ByteReservation, RefusalReason
from app.security.origins import SAFE_METHODS
from app.security.request_limits import RequestLimits

SMALL_BODY_BYTES_MAX = 16 * 1024  # of a login, and of a request that needs no body


class RequestBody:
    """`receive` for one request; `close` it when the request is over."""

    __slots__ = (
        "_address", "_caller", "_hold", "_limit_bytes", "_load", "_reading", "_receive",
        "_small_bytes", "_was_evicted",
    )  # fmt: skip

    def __init__(self, receive: Receive, load: RequestLimits, scope: Scope) -> None:
        self._receive = receive
        self._load = load
        client = scope.get("client")
        self._address: str = client[0] if client else ""
        self._caller = principal_of(scope).caller
        limit_bytes = load.request_bytes_max
        if scope["method"] in SAFE_METHODS or is_public(scope["path"]):
            limit_bytes = min(SMALL_BODY_BYTES_MAX, limit_bytes)
        self._limit_bytes = limit_bytes
        self._hold: ByteReservation | None = None
        self._small_bytes = 0
        self._reading: asyncio.Task[object] | None = None
        self._was_evicted = False

    def check_length(self, length: bytes | None) -> None:
        """Refuse an announced length that is none, with a 400, or too large, with a 413."""
        if length is None:
            return
        if not length.isdigit():
            raise DoorError(400, "bad_request", "not a length", field="Content-Length")
        digits = length.lstrip(b"0") or b"0"
        # First how many: Python takes no number of thousands of digits.
        if len(digits) > 18 or int(digits) > self._limit_bytes:
            raise self._load.too_large(self._limit_bytes)

    async def read(self) -> Message:
        """The next part of the body, which is held from now on.

        Raises a 413 where the body grows too large, a 429 or a 503 where there is no room for it.
        """
        # Without a byte held there is nothing to evict.
        message = await (self._receive() if self._hold is None else self._receive_more())
        self._count(len(message.get("body", b"")), is_last=not message.get("more_body"))
        return message

    async def _receive_more(self) -> Message:
        """`receive`, which an eviction ends."""
        if self._was_evicted:
            raise self._load.full(RefusalReason.EVICTED)
        task = self._reading = asyncio.current_task()
        try:
            return await self._receive()
        except asyncio.CancelledError:
            if not self._was_evicted or task is None or task.uncancel():
                raise  # the server stops, too
            raise self._load.full(RefusalReason.EVICTED) from None
        finally:
            self._reading = None

    def close(self) -> None:
        """The request is over: nothing of its body is held."""
        if self._small_bytes:
            self._load.budget.give_small(self._address, self._caller, self._small_bytes)
            self._small_bytes = 0
        if self._hold is not None:
            self._hold.close()

    def _count(self, size_bytes: int, *, is_last: bool) -> None:
        hold, budget = self._hold, self._load.budget
        if hold is None:
            if size_bytes > self._limit_bytes:
                raise self._load.too_large(self._limit_bytes)
            if is_last and budget.take_small(self._address, self._caller, size_bytes):
                self._small_bytes += size_bytes
                return
            hold = self._hold = budget.hold(self._address, self._caller, self._evict)
        if hold.size_bytes + size_bytes > self._limit_bytes:
            raise self._load.too_large(self._limit_bytes)
        self._load.take(hold, size_bytes)
        if is_last:
            hold.settle()

    def _evict(self) -> None:
        """Let the wait for the rest of the body end with a 503."""
        self._was_evicted = True
        if self._reading is not None:
            self._reading.cancel()
