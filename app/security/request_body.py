"""Bounds a request's body and counts it as it arrives.

An announced length is only compared with the limit. Requests that need no body (those that change
nothing, and public paths) may send a small one. Most small bodies are not counted here but by
`RequestLimits.take_small`.
"""

import asyncio

from starlette.types import Message, Receive, Scope

from app.errors import ProblemError
from app.security.access import principal_of
from app.security.authenticator import is_public
from app.security.byte_budget import ByteReservation, RefusalReason
from app.security.origins import SAFE_METHODS
from app.security.request_limits import RequestLimits

SMALL_BODY_BYTES_MAX = 16 * 1024  # of a login, and of a request that needs no body


class RequestBody:
    """`receive` for one request; `close` it when the request is over."""

    __slots__ = (
        "_address",
        "_caller",
        "_limit_bytes",
        "_limits",
        "_reading",
        "_receive",
        "_reservation",
        "_small_bytes",
        "_was_evicted",
    )  # fmt: skip

    def __init__(self, receive: Receive, limits: RequestLimits, scope: Scope) -> None:
        self._receive = receive
        self._limits = limits
        client = scope.get("client")
        self._address: str = client[0] if client else ""
        self._caller = principal_of(scope).caller
        limit_bytes = limits.request_bytes_max
        if scope["method"] in SAFE_METHODS or is_public(scope["path"]):
            limit_bytes = min(SMALL_BODY_BYTES_MAX, limit_bytes)
        self._limit_bytes = limit_bytes
        self._reservation: ByteReservation | None = None
        self._small_bytes = 0
        self._reading: asyncio.Task[object] | None = None
        self._was_evicted = False

    def check_length(self, length: bytes | None) -> None:
        """Raise a 400 for an invalid Content-Length, a 413 for one over the limit."""
        if length is None:
            return
        if not length.isdigit():
            raise ProblemError(400, "bad_request", "not a length", field="Content-Length")
        digits = length.lstrip(b"0") or b"0"
        # The number of digits first, as Python parses no number of thousands of digits.
        if len(digits) > 18 or int(digits) > self._limit_bytes:
            raise self._limits.too_large(self._limit_bytes)

    async def read(self) -> Message:
        """The next part of the body, which is counted from now on.

        Raises a 413 for a body over the limit, a 429 or a 503 if there is no room for it.
        """
        # Without a reservation there is nothing to evict.
        message = await (self._receive() if self._reservation is None else self._receive_more())
        self._count(len(message.get("body", b"")), is_last=not message.get("more_body"))
        return message

    async def _receive_more(self) -> Message:
        """Receive the next part, unless an eviction ends the wait."""
        if self._was_evicted:
            raise self._limits.full(RefusalReason.EVICTED)
        task = self._reading = asyncio.current_task()
        try:
            return await self._receive()
        except asyncio.CancelledError:
            if not self._was_evicted or task is None or task.uncancel():
                raise  # the server is stopping as well
            raise self._limits.full(RefusalReason.EVICTED) from None
        finally:
            self._reading = None

    def close(self) -> None:
        """Return all bytes at the end of the request."""
        if self._small_bytes:
            self._limits.budget.give_small(self._address, self._caller, self._small_bytes)
            self._small_bytes = 0
        if self._reservation is not None:
            self._reservation.close()

    def _count(self, size_bytes: int, *, is_last: bool) -> None:
        reservation, budget = self._reservation, self._limits.budget
        if reservation is None:
            if size_bytes > self._limit_bytes:
                raise self._limits.too_large(self._limit_bytes)
            if is_last and budget.take_small(self._address, self._caller, size_bytes):
                self._small_bytes += size_bytes
                return
            reservation = self._reservation = budget.reserve(
                self._address, self._caller, self._evict
            )
        if reservation.size_bytes + size_bytes > self._limit_bytes:
            raise self._limits.too_large(self._limit_bytes)
        self._limits.take(reservation, size_bytes)
        if is_last:
            reservation.settle()

    def _evict(self) -> None:
        """End the wait for the rest of the body with a 503."""
        self._was_evicted = True
        if self._reading is not None:
            self._reading.cancel()
