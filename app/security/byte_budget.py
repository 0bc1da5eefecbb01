"""The memory that requests may hold: bytes counted as they arrive, by address, by caller, in all.

REST bodies, WebSocket messages and gRPC requests share one `ByteBudget`. Each request (or
connection) has a `ByteReservation`, which takes bytes when they have arrived and gives them back when they are
no longer needed. What a client only announces costs nothing.

A hold of at most SMALL_BYTES may go beyond each limit by an eighth: a small request is served while
others fill the budget with large ones. When everything is taken, the address that holds the most
loses its largest unfinished request, if that makes room for an address that holds less.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

SMALL_BYTES = 64 * 1024
RESERVED_PART = 8  # small holds may take one such part of each limit more


class RefusalReason(StrEnum):
    """Why bytes were refused, as the metrics name it."""

    ALL = "all"
    ADDRESS = "address"
    CALLER = "caller"
    CONNECTION = "connection"
    SIZE = "size"  # one request or message is larger than allowed
    EVICTED = "evicted"  # it was unfinished, and others needed the room
    SLOW = "slow"  # it did not arrive whole in time


class BudgetExceeded(Exception):
    """There is no room for more bytes; `reason` says whose share is used up."""

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
    """How many bytes may be held: in all, by one address, by one caller (a user or a token).

    `connection_max` is for the unfinished requests of one gRPC connection, which has many calls.
    """

    all_max: int
    address_max: int
    caller_max: int
    connection_max: int


class ByteBudget:
    """The totals; one object for the application, on the event loop's thread only."""

    def __init__(self, limits: ByteLimits) -> None:
        self.limits = limits
        self.held_bytes = 0
        self.refused: Counter[RefusalReason] = Counter()
        self._addresses: dict[str, int] = {}
        self._callers: dict[str, int] = {}
        self._large: dict[str, set[ByteReservation]] = {}  # by address, those that can be evicted
        self._announced_bytes = 0
        self._announced_max = limits.all_max // RESERVED_PART

    @property
    def most_of_one_address(self) -> int:
        """What the address holds that holds the most."""
        return max(self._addresses.values(), default=0)

    def hold(self, address: str, caller: str, evict: Callable[[], None]) -> "ByteReservation":
        """A hold without bytes; `evict` ends its request, or its connection, while unfinished."""
        return ByteReservation(self, address, caller, evict)

    def refuse(self, reason: RefusalReason) -> None:
        """Count a refusal that was decided elsewhere."""
        self.refused[reason] += 1

    def _lacks(self, hold: "ByteReservation", size_bytes: int) -> RefusalReason | None:
        """Whose limit `size_bytes` more would exceed."""
        limits = self.limits
        is_small = hold.size_bytes + size_bytes <= SMALL_BYTES
        if self._addresses.get(hold.address, 0) + size_bytes > _limit(limits.address_max, is_small):
            return RefusalReason.ADDRESS
        if hold.caller and (
            self._callers.get(hold.caller, 0) + size_bytes > _limit(limits.caller_max, is_small)
        ):
            return RefusalReason.CALLER
        if self.held_bytes + size_bytes > _limit(limits.all_max, is_small):
            return RefusalReason.ALL
        return None

    def take_small(self, address: str, caller: str, size_bytes: int) -> bool:
        """Count a small request that has arrived whole, without a hold; False near a limit.

        This is the short way of most requests; `give_small` gives the bytes back.
        """
        limits, addresses = self.limits, self._addresses
        held_bytes = self.held_bytes + size_bytes
        of_address = addresses.get(address, 0) + size_bytes
        if (
            size_bytes > SMALL_BYTES
            or held_bytes > limits.all_max
            or of_address > limits.address_max
        ):
            return False
        if caller:
            of_caller = self._callers.get(caller, 0) + size_bytes
            if of_caller > limits.caller_max:
                return False
            self._callers[caller] = of_caller
        self.held_bytes = held_bytes
        addresses[address] = of_address
        return True

    def give_small(self, address: str, caller: str, size_bytes: int) -> None:
        """Give back what `take_small` took."""
        self.held_bytes -= size_bytes
        _add(self._addresses, address, -size_bytes)
        if caller:
            _add(self._callers, caller, -size_bytes)

    def take_announced(self, size_bytes: int) -> bool:
        """Count a small request that has not arrived yet; `give_announced` gives it back.

        All of them together take an eighth of the budget at most, so that announcements alone fill
        nothing. False where that is taken: it has to be counted as it arrives.
        """
        announced_bytes = self._announced_bytes + size_bytes
        if announced_bytes > self._announced_max:
            return False
        self._announced_bytes = announced_bytes
        self.held_bytes += size_bytes
        return True

    def give_announced(self, size_bytes: int) -> None:
        """Give back what `take_announced` took."""
        self._announced_bytes -= size_bytes
        self.held_bytes -= size_bytes

    def _is_tight(self, hold: "ByteReservation") -> bool:
        limits = self.limits
        return (
            self.held_bytes * 4 > limits.all_max * 3
            or self._addresses.get(hold.address, 0) * 4 > limits.address_max * 3
            or (hold.caller != "" and self._callers.get(hold.caller, 0) * 4 > limits.caller_max * 3)
        )

    def _count(self, hold: "ByteReservation", size_bytes: int) -> None:
        self.held_bytes += size_bytes
        _add(self._addresses, hold.address, size_bytes)
        if hold.caller:
            _add(self._callers, hold.caller, size_bytes)
        if hold.is_unfinished and hold.size_bytes > SMALL_BYTES:
            self._large.setdefault(hold.address, set()).add(hold)
        elif self._large:
            self._unlist(hold)

    def _unlist(self, hold: "ByteReservation") -> None:
        """It cannot be evicted any more, or is not worth it."""
        larges = self._large.get(hold.address)
        if larges is not None:
            larges.discard(hold)
            if not larges:
                del self._large[hold.address]

    def _rename(self, hold: "ByteReservation", caller: str) -> None:
        if hold.caller:
            _add(self._callers, hold.caller, -hold.size_bytes)
        if caller:
            _add(self._callers, caller, hold.size_bytes)

    def _make_room(self, hold: "ByteReservation", size_bytes: int) -> bool:
        """End the largest request of the address that holds the most; whether one was ended.

        Only where that address holds more than the one that asks: nobody gains by asking for more.
        """
        address = max(self._large, key=lambda each: self._addresses[each], default=None)
        wanted = self._addresses.get(hold.address, 0) + size_bytes
        if address is None or self._addresses[address] <= wanted:
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
        self,
        budget: ByteBudget,
        address: str,
        caller: str,
        evict: Callable[[], None],
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
        """Whether three quarters of a share are taken: what can wait had better wait."""
        return self._budget._is_tight(self)

    @property
    def lacks(self) -> RefusalReason | None:
        """Whose limit is exceeded with what is held now."""
        return self._budget._lacks(self, 0)

    def take(self, size_bytes: int) -> None:
        """Hold so many bytes more; Full where there is no room."""
        budget = self._budget
        reason = budget._lacks(self, size_bytes)
        while reason is RefusalReason.ALL and budget._make_room(self, size_bytes):
            reason = budget._lacks(self, size_bytes)
        if reason is not None:
            budget.refused[reason] += 1
            raise BudgetExceeded(reason)
        self.add(size_bytes)

    def add(self, size_bytes: int) -> None:
        """Hold so many bytes more, or fewer, room or not: what is here already is counted."""
        if self._is_open and size_bytes:
            self.size_bytes += size_bytes
            self._budget._count(self, size_bytes)

    def give(self, size_bytes: int) -> None:
        """So many bytes are no longer needed."""
        self.add(-size_bytes)

    def settle(self) -> None:
        """All has arrived, and is worked on: it is not evicted any more."""
        self.is_unfinished = False
        if self.size_bytes > SMALL_BYTES:
            self._budget._unlist(self)

    def name(self, caller: str) -> None:
        """Say whose request it is, once that is known."""
        if caller != self.caller:
            self._budget._rename(self, caller)
            self.caller = caller

    def close(self) -> None:
        """Give everything back; what is added or given later does not count."""
        self.is_unfinished = False
        if self.size_bytes:
            self.add(-self.size_bytes)
        self._is_open = False
        self.evict = _nothing  # its owner knows this hold, and would stay for the collector


def _nothing() -> None:
    """Nothing is left to be evicted."""


def _limit(limit: int, is_small: bool) -> int:
    return limit + limit // RESERVED_PART if is_small else limit


def _add(counter: dict[str, int], name: str, size_bytes: int) -> None:
    left = counter.get(name, 0) + size_bytes
    if left:
        counter[name] = left
    else:
        counter.pop(name, None)
