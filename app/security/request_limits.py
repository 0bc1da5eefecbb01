"""Limits requests under way and their bytes, for each client and in total.

A client over its own share gets a 429; all get a 503 while the server is full. Both say when to
try again.
"""

from collections.abc import Callable
from functools import partial

from app.errors import ProblemError
from app.security.byte_budget import (
    DETAILS,
    BudgetExceeded,
    ByteBudget,
    ByteReservation,
    RefusalReason,
)

RETRY_AFTER_S = 1.0
SMALL_DIGITS_MAX = 4  # of the length of a body that is counted when it is announced


class RequestLimits:
    """The counts of the application; used on the event loop's thread only."""

    def __init__(
        self,
        budget: ByteBudget,
        *,
        client_requests_max: int,
        requests_max: int,
        request_bytes_max: int,
    ) -> None:
        self.budget = budget
        self.request_bytes_max = request_bytes_max
        self._client_requests_max = client_requests_max
        self._requests_max = requests_max
        self._clients: dict[str, int] = {}
        self.requests = 0
        self.refused = 0

    @property
    def used_bytes(self) -> int:
        """Bytes of requests held in memory, over every protocol."""
        return self.budget.used_bytes

    def has_room(self, client: str, count: int) -> bool:
        """Whether so many further requests of this client would be counted."""
        under_way = self._clients.get(client, 0)
        return (
            under_way + count <= self._client_requests_max
            and self.requests + count <= self._requests_max
        )

    def enter(self, client: str | None, count: int = 1) -> None:
        """Count a request, or several for which there is room; call `leave` when it is over.

        Requests without a client (None: health and metrics) count and are never refused.
        """
        if client is not None:
            under_way = self._clients.get(client, 0)
            if under_way >= self._client_requests_max:
                raise self._refuse(
                    429, "too_many_requests", "this client has too many requests under way"
                )
            if self.requests >= self._requests_max:
                raise self._refuse(503, "busy", "the server has too many requests under way")
            self._clients[client] = under_way + count
        self.requests += count

    def take_small(self, length: bytes) -> int:
        """Count a small body by its Content-Length; returns its bytes, for `leave`.

        This is the fast path of most requests. 0 if the body has to be counted as it arrives.
        """
        if len(length) > SMALL_DIGITS_MAX or not length.isdigit():
            return 0
        size_bytes = int(length)
        if size_bytes > self.request_bytes_max or not self.budget.take_announced(size_bytes):
            return 0
        return size_bytes

    def leave(self, client: str | None, small_bytes: int = 0, count: int = 1) -> None:
        """End the count of a request or several, and of the bytes of `take_small`."""
        if small_bytes:
            self.budget.give_announced(small_bytes)
        self.requests -= count
        if client is None:
            return
        requests = self._clients[client] - count
        if requests:
            self._clients[client] = requests
        else:
            del self._clients[client]

    def take(self, reservation: ByteReservation, size_bytes: int) -> None:
        """Reserve bytes that have arrived.

        Raises a 429 if the address or the caller is over its limit, a 503 if the server is full.
        """
        try:
            reservation.take(size_bytes)
        except BudgetExceeded as full:
            raise self.full(full.reason) from None

    def too_large(self, limit_bytes: int) -> ProblemError:
        """A 413 for a body that is too large."""
        self.refused += 1
        self.budget.refuse(RefusalReason.SIZE)
        return ProblemError(
            413,
            "body_too_large",
            f"the body is larger than {limit_bytes} bytes",
            field="body",
            remedy="send fewer or smaller messages in one request",
        )

    def hold(self, address: str, caller: str, size_bytes: int) -> Callable[[], None]:
        """Count the bytes of a whole request; the result gives them back.

        Raises a 429 or a 503 like `take`. Nobody evicts a whole request.
        """
        budget = self.budget
        if budget.take_small(address, caller, size_bytes):
            return partial(budget.give_small, address, caller, size_bytes)
        reservation = budget.reserve(address, caller, _nothing)
        reservation.settle()
        self.take(reservation, size_bytes)
        return reservation.close

    def full(self, reason: RefusalReason) -> ProblemError:
        """The answer to a request whose bytes were refused."""
        if reason in (RefusalReason.ADDRESS, RefusalReason.CALLER):
            return self._refuse(429, "too_many_requests", DETAILS[reason])
        return self._refuse(503, "busy", DETAILS[reason])

    def _refuse(self, status: int, code: str, detail: str) -> ProblemError:
        self.refused += 1
        return ProblemError(
            status,
            code,
            detail,
            remedy="try again after the given wait",
            retry_after_s=RETRY_AFTER_S,
        )


def _nothing() -> None:
    """Nothing to evict."""
