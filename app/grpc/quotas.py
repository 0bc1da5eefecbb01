"""Quotas by address and in total, so that no address takes all."""

from collections import Counter

from app.network.connection_limits import GRPC_FILES, ConnectionLimits


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


class ConnectionQuota(AddressQuota):
    """gRPC's connection limits, within those of all ports."""

    def __init__(self, limits: ConnectionLimits, *, each_max: int, all_max: int) -> None:
        super().__init__("connections", each_max=each_max, all_max=all_max)
        self._limits = limits
        self.refusals = limits.refusals

    def take(self, address: str) -> str:
        refusal = super().take(address)
        if not refusal and self._limits.take(address, GRPC_FILES) is None:
            super().give(address)
            return "the server holds too many connections"
        return refusal

    def give(self, address: str) -> None:
        super().give(address)
        self._limits.release_address(address, GRPC_FILES)
