"""Quotas by address and in total, so that no address takes all."""

from collections import Counter

from app.network.connection_limits import ConnectionLimits, ConnectionSlot
from app.services.rpc_figures import RpcFigures


class AddressQuota:
    """Counts of one kind of thing, named in the plural; used on the event loop's thread only."""

    def __init__(self, things: str, *, each_max: int, all_max: int) -> None:
        self._things = things
        self._each_max = each_max
        self._all_max = all_max
        self._counts: Counter[str] = Counter()
        self.count = 0

    def take(self, address: str) -> str:
        """Count one more; returns "", or the reason for a refusal. Call `give` at its end."""
        if self._counts[address] >= self._each_max:
            return f"one address may hold {self._each_max} {self._things}"
        if self.count >= self._all_max:
            return f"the server holds at most {self._all_max} {self._things}"
        self._counts[address] += 1
        self.count += 1
        return ""

    def give(self, address: str) -> None:
        """Release one that was taken."""
        self.count -= 1
        self._counts[address] -= 1
        if not self._counts[address]:
            del self._counts[address]


class ConnectionQuota:
    """gRPC's connection limits, within those of all ports; counts refusals in `figures`."""

    def __init__(
        self, limits: ConnectionLimits, figures: RpcFigures, *, each_max: int, all_max: int
    ) -> None:
        self._quota = AddressQuota("connections", each_max=each_max, all_max=all_max)
        self._limits = limits
        self._figures = figures
        self.refusals = limits.refusals

    def take(self, address: str) -> ConnectionSlot | None:
        """A slot for a connection from `address`; None if it has to be closed."""
        if not self._quota.take(address):
            slot = self._limits.take(address)
            if slot is not None:
                return GrpcSlot(slot, self._quota)
            self._quota.give(address)
        self._figures.connections_refused += 1
        return None


class GrpcSlot(ConnectionSlot):
    """The slot of a gRPC connection, in both quotas."""

    __slots__ = ("_quota", "_slot")

    def __init__(self, slot: ConnectionSlot, quota: AddressQuota) -> None:
        self._slot: ConnectionSlot | None = slot
        self._quota = quota
        self.address = slot.address

    def release(self) -> None:
        slot, self._slot = self._slot, None
        if slot is not None:
            slot.release()
            self._quota.give(self.address)
