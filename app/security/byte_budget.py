"""Bounds the bytes of requests in memory: by address, by caller, and in total.

REST bodies, WebSocket messages and gRPC requests share one `ByteBudget`. Each request (or
connection) has a `ByteReservation`, which counts bytes once they have arrived and returns them when
they are no longer needed. Announced bytes are not counted.

A reservation of at most SMALL_BYTES may exceed each limit by an eighth, so that small requests are
served while large ones fill the budget. When the budget is full, the address with the most bytes
loses its largest unfinished request, if that makes room for an address with fewer bytes.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

SMALL_BYTES = 64 * 1024
RESERVED_PART = 8  # small reservations may exceed each limit by this fraction


class RefusalReason(StrEnum):
    """Why bytes were refused, as the metrics name it."""

    ALL = "all"
    ADDRESS = "address"
    CALLER = "caller"
    CONNECTION = "connection"
    SIZE = "size"  # one request or message is larger than allowed
    EVICTED = "evicted"  # it was unfinished, and other requests needed the memory
    SLOW = "slow"  # it did not arrive whole in time


class BudgetExceeded(Exception):
    """There is no room for more bytes; `reason` names the limit."""

    def __init__(self, reason: RefusalReason) -> None:
        super().__init__(DETAILS[reason])
        self.reason = reason


DETAILS = {
    RefusalReason.ALL: "the server holds too many bytes of requests",
    RefusalReason.ADDRESS: "this address holds too many bytes of requests",
    RefusalReason.CALLER: "this caller holds too many bytes of requests",
    RefusalReason.CONNECTION: "this connection holds too many bytes of unfinished requests",
    RefusalReason.SIZE: "the request is too large",
    RefusalReason.EVICTED: "the server needed the memory of this unfinished request for others",
    RefusalReason.SLOW: "the request did not arrive in time",
}


@dataclass(frozen=True, kw_only=True)
class ByteLimits:
    """Limits in bytes: in total, by address, by caller (a user or a token).

    `connection_max` bounds the unfinished requests of one gRPC connection, which has many calls.
    """

    all_max: int
    address_max: int
    caller_max: int
    connection_max: int


class ByteBudget:
    """The counts of the application; used on the event loop's thread only."""

    def __init__(self, limits: ByteLimits) -> None:
        self.limits = limits
        self.used_bytes = 0
        self.refused: Counter[RefusalReason] = Counter()
        self._addresses: dict[str, int] = {}
        self._callers: dict[str, int] = {}
        self._large: dict[str, set[ByteReservation]] = {}  # by address, those that can be evicted
        self._announced_bytes = 0
        self._announced_max = limits.all_max // RESERVED_PART

    @property
    def most_of_one_address(self) -> int:
        """The bytes of the address that holds the most."""
        return max(self._addresses.values(), default=0)

    def reserve(self, address: str, caller: str, evict: Callable[[], None]) -> "ByteReservation":
        """An empty reservation; `evict` ends its unfinished request or connection."""
        return ByteReservation(self, address, caller, evict)

    def refuse(self, reason: RefusalReason) -> None:
        """Count a refusal that another module decided."""
        self.refused[reason] += 1

    def _lacks(self, reservation: "ByteReservation", size_bytes: int) -> RefusalReason | None:
        """The limit that `size_bytes` more would exceed."""
        limits = self.limits
        is_small = reservation.size_bytes + size_bytes <= SMALL_BYTES
        if self._addresses.get(reservation.address, 0) + size_bytes > _limit(
            limits.address_max, is_small
        ):
            return RefusalReason.ADDRESS
        if reservation.caller and (
            self._callers.get(reservation.caller, 0) + size_bytes
            > _limit(limits.caller_max, is_small)
        ):
            return RefusalReason.CALLER
        if self.used_bytes + size_bytes > _limit(limits.all_max, is_small):
            return RefusalReason.ALL
        return None

    def take_small(self, address: str, caller: str, size_bytes: int) -> bool:
        """Count a small, complete request without a reservation; False near a limit.

        This is the fast path of most requests; `give_small` returns the bytes.
        """
        return size_bytes <= SMALL_BYTES and self.take_whole(address, caller, size_bytes)

    def take_whole(self, address: str, caller: str, size_bytes: int) -> bool:
        """The same for several small requests together."""
        limits, addresses = self.limits, self._addresses
        used_bytes = self.used_bytes + size_bytes
        of_address = addresses.get(address, 0) + size_bytes
        if used_bytes > limits.all_max or of_address > limits.address_max:
            return False
        if caller:
            of_caller = self._callers.get(caller, 0) + size_bytes
            if of_caller > limits.caller_max:
                return False
            self._callers[caller] = of_caller
        self.used_bytes = used_bytes
        addresses[address] = of_address
        return True

    def give_small(self, address: str, caller: str, size_bytes: int) -> None:
        """Return the bytes of `take_small`."""
        self.used_bytes -= size_bytes
        _add(self._addresses, address, -size_bytes)
        if caller:
            _add(self._callers, caller, -size_bytes)

    def take_announced(self, size_bytes: int) -> bool:
        """Count a small request before it arrives; `give_announced` returns the bytes.

        Together they take at most an eighth of the budget, so that announcements alone cannot fill
        it. False beyond that: the request has to be counted as it arrives.
        """
        announced_bytes = self._announced_bytes + size_bytes
        if announced_bytes > self._announced_max:
            return False
        self._announced_bytes = announced_bytes
        self.used_bytes += size_bytes
        return True

    def give_announced(self, size_bytes: int) -> None:
        """Return the bytes of `take_announced`."""
        self._announced_bytes -= size_bytes
        self.used_bytes -= size_bytes

    def _is_tight(self, reservation: "ByteReservation") -> bool:
        limits = self.limits
        return (
            self.used_bytes * 4 > limits.all_max * 3
            or self._addresses.get(reservation.address, 0) * 4 > limits.address_max * 3
            or (
                reservation.caller != ""
                and self._callers.get(reservation.caller, 0) * 4 > limits.caller_max * 3
            )
        )

    def _count(self, reservation: "ByteReservation", size_bytes: int) -> None:
        self.used_bytes += size_bytes
        _add(self._addresses, reservation.address, size_bytes)
        if reservation.caller:
            _add(self._callers, reservation.caller, size_bytes)
        if reservation.is_unfinished and reservation.size_bytes > SMALL_BYTES:
            self._large.setdefault(reservation.address, set()).add(reservation)
        elif self._large:
            self._unlist(reservation)

    def _unlist(self, reservation: "ByteReservation") -> None:
        """Remove a reservation from those that can be evicted."""
        larges = self._large.get(reservation.address)
        if larges is not None:
            larges.discard(reservation)
            if not larges:
                del self._large[reservation.address]

    def _rename(self, reservation: "ByteReservation", caller: str) -> None:
        if reservation.caller:
            _add(self._callers, reservation.caller, -reservation.size_bytes)
        if caller:
            _add(self._callers, caller, reservation.size_bytes)

    def _make_room(self, reservation: "ByteReservation", size_bytes: int) -> bool:
        """Evict the largest request of the address that holds the most; True if one was evicted.

        Only if that address holds more than the requester would: asking for more gains nothing.
        """
        address = max(self._large, key=lambda each: self._addresses[each], default=None)
        requested_bytes = self._addresses.get(reservation.address, 0) + size_bytes
        if address is None or self._addresses[address] <= requested_bytes:
            return False
        victim = max(self._large[address], key=lambda each: each.size_bytes)
        self.refused[RefusalReason.EVICTED] += 1
        victim.evict()
        victim.close()
        return True


class ByteReservation:
    """The bytes of one request or connection."""

    __slots__ = (
        "_budget", "_is_open", "address", "caller", "evict", "is_unfinished", "size_bytes",
    )  # fmt: skip

    def __init__(
        self, budget: ByteBudget, address: str, caller: str, evict: Callable[[], None]
    ) -> None:
        self._budget = budget
        self._is_open = True
        self.address = address
        self.caller = caller
        self.evict = evict
        self.is_unfinished = True
        self.size_bytes = 0

    @property
    def is_tight(self) -> bool:
        """Whether three quarters of a limit are used, so that optional work should wait."""
        return self._budget._is_tight(self)

    @property
    def lacks(self) -> RefusalReason | None:
        """The limit that is exceeded now."""
        return self._budget._lacks(self, 0)

    def take(self, size_bytes: int) -> None:
        """Reserve so many more bytes; raises BudgetExceeded."""
        budget = self._budget
        reason = budget._lacks(self, size_bytes)
        while reason is RefusalReason.ALL and budget._make_room(self, size_bytes):
            reason = budget._lacks(self, size_bytes)
        if reason is not None:
            budget.refused[reason] += 1
            raise BudgetExceeded(reason)
        self.add(size_bytes)

    def add(self, size_bytes: int) -> None:
        """Count bytes, or fewer, without checking limits: they are in memory already."""
        if self._is_open and size_bytes:
            self.size_bytes += size_bytes
            self._budget._count(self, size_bytes)

    def give(self, size_bytes: int) -> None:
        """Return so many bytes."""
        self.add(-size_bytes)

    def settle(self) -> None:
        """The request is complete and is being processed: it is no longer evicted."""
        self.is_unfinished = False
        if self.size_bytes > SMALL_BYTES:
            self._budget._unlist(self)

    def name(self, caller: str) -> None:
        """Set the caller, once it is known."""
        if caller != self.caller:
            self._budget._rename(self, caller)
            self.caller = caller

    def close(self) -> None:
        """Return all bytes; later calls have no effect."""
        self.is_unfinished = False
        if self.size_bytes:
            self.add(-self.size_bytes)
        self._is_open = False
        self.evict = _nothing  # breaks the reference cycle with the owner


def _nothing() -> None:
    """Nothing to evict."""


def _limit(limit: int, is_small: bool) -> int:
    return limit + limit // RESERVED_PART if is_small else limit


def _add(counter: dict[str, int], name: str, size_bytes: int) -> None:
    rest = counter.get(name, 0) + size_bytes
    if rest:
        counter[name] = rest
    else:
        counter.pop(name, None)
