"""Bounds the bytes of unfinished requests of one gRPC connection.

`PartialMessages` counts the bytes that the relay passes on, in the connection's reservation of the
server's budget. A connection over its limit is paused, and its calls that wait for their requests
end with TOO_MANY_REQUESTS, the newest first, until it fits again. If it does not fit without them,
it is closed with GOAWAY (ENHANCE_YOUR_CALM), as is one whose message is not complete after
ROUNDS_MAX checks.
"""

import asyncio
from collections.abc import Callable

from app.grpc.partial_messages import PartialMessages, goaway_frame
from app.security.byte_budget import DETAILS, BudgetExceeded, ByteBudget, RefusalReason

BEGIN_S = 0.2  # until calls that have arrived wait for their request
SHED_S = 1.0  # until an ended call has left the connection
ROUNDS_MAX = 24  # checks of an incomplete message: two minutes


class PendingCalls:
    """The calls of one connection that wait for their request."""

    def __init__(self) -> None:
        self._limits: dict[asyncio.Timeout, None] = {}
        self._refused: set[asyncio.Timeout] = set()

    def begin(self, limit: asyncio.Timeout) -> None:
        """Add a call that waits until `limit`."""
        self._limits[limit] = None

    def end(self, limit: asyncio.Timeout) -> bool:
        """Remove a call; True if it was refused."""
        self._limits.pop(limit, None)
        was_refused = limit in self._refused
        self._refused.discard(limit)
        return was_refused

    def refuse_newest(self) -> bool:
        """End the newest call; False if there is none."""
        if not self._limits:
            return False
        limit, _ = self._limits.popitem()
        self._refused.add(limit)
        limit.reschedule(asyncio.get_running_loop().time())
        return True


class ConnectionBytes:
    """The byte counts of one relay; call `close` with the connection."""

    def __init__(
        self,
        budget: ByteBudget,
        address: str,
        *,
        set_reading: Callable[[bool], None],
        end: Callable[[bytes], None],
    ) -> None:
        """`set_reading` pauses and resumes reading; `end` writes last bytes and closes."""
        self._budget = budget
        self._reservation = budget.reserve(address, "", lambda: self._end(RefusalReason.EVICTED))
        self._limit_bytes = budget.limits.connection_max
        self._unfinished = PartialMessages()
        self._set_reading = set_reading
        self._end_with = end
        self._is_over = False
        self._was_patient = False
        self._later: asyncio.TimerHandle | None = None
        self._has_ended = False
        self.reading = PendingCalls()

    def name(self, caller: str) -> None:
        """Set the connection's caller; the first one counts."""
        if not self._reservation.caller:
            self._reservation.name(caller)

    def received(self, data: bytes) -> None:
        """Count data from the client."""
        unfinished, reservation = self._unfinished, self._reservation
        unfinished.received(data)
        more_bytes = unfinished.size_bytes - reservation.size_bytes
        if more_bytes <= 0:
            if more_bytes:
                reservation.add(more_bytes)
            return
        try:
            if unfinished.size_bytes > self._limit_bytes:
                self._budget.refuse(RefusalReason.CONNECTION)
                raise BudgetExceeded(RefusalReason.CONNECTION)
            reservation.take(more_bytes)
        except BudgetExceeded as full:
            reservation.add(more_bytes)  # already in memory, so the limit is exceeded by one read
            if not self._is_over:
                self._is_over = True
                self._set_reading(False)
                self._shed(full.reason)

    def sent(self, data: bytes) -> None:
        """Count data from the server."""
        unfinished, reservation = self._unfinished, self._reservation
        ended = unfinished.sent(data)
        if unfinished.size_bytes != reservation.size_bytes:
            reservation.add(unfinished.size_bytes - reservation.size_bytes)
        if ended and self._is_over and not self._has_ended:
            self._check_again()

    def _check_again(self) -> None:
        """After a call has ended or timed out: resume if there is room, else end the next one."""
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if self._has_ended or not self._is_over:
            return
        reason = self._lacks()
        if reason is None:
            self._is_over = self._was_patient = False
            self._set_reading(True)
        else:
            self._shed(reason)

    def grow_older(self) -> None:
        """One check: end the connection if a message takes too long."""
        if self._unfinished.grow_older() > ROUNDS_MAX:
            self._budget.refuse(RefusalReason.SLOW)
            self._end(RefusalReason.SLOW)

    def close(self) -> None:
        """Return all bytes at the end of the connection."""
        self._has_ended = True
        self._reservation.close()
        if self._later is not None:
            self._later.cancel()
            self._later = None

    def _lacks(self) -> RefusalReason | None:
        if self._unfinished.size_bytes > self._limit_bytes:
            return RefusalReason.CONNECTION
        return self._reservation.lacks

    def _shed(self, reason: RefusalReason) -> None:
        """End one call and check again later; without calls, end the connection.

        Calls that have just arrived may not wait for their requests yet.
        """
        has_refused = self.reading.refuse_newest()
        if not has_refused and self._was_patient:
            self._end(reason)
            return
        self._was_patient |= not has_refused
        wait_s = SHED_S if has_refused else BEGIN_S
        self._later = asyncio.get_running_loop().call_later(wait_s, self._check_again)

    def _end(self, reason: RefusalReason) -> None:
        if self._has_ended:
            return
        self.close()
        can_say = self._unfinished.can_say_goodbye
        self._end_with(goaway_frame(DETAILS[reason]) if can_say else b"")
