"""Hand-outs of push consumers: kept from running out for as long as their client lives.

Such a consumer names no time for its messages; Apache's proxy renews what it holds, and so do we,
up to three hours for one message. Nothing here is kept over a restart: the engine has the deadline
of every hand-out, and what nobody renews comes back by itself.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from app.host import EngineHost
from engine.broker import AckResult, Receipt
from engine.errors import EngineError, GroupNotFound

LEASE_S = 60.0
RENEW_BEFORE_S = 30.0
LEASE_MAX_S = 3 * 3600.0
ABANDONED_S = 1.0  # then what a client that vanished held comes back, its attempt counted
RECEIPTS_MAX = 1000  # in one call of the engine


class Lease(NamedTuple):
    """One hand-out: whose, since when, until when; by the monotonic clock."""

    client: str
    began_s: float
    until_s: float


class Leases:
    """By group and receipt; `tick` now and then. The engine bounds how many there can be."""

    def __init__(self, host: EngineHost) -> None:
        self._host = host
        self._leases: dict[str, dict[Receipt, Lease]] = {}

    @property
    def count(self) -> int:
        return sum(map(len, self._leases.values()))

    def add(self, group: str, client: str, receipts: Iterable[Receipt]) -> None:
        """A client was handed these for LEASE_S."""
        now_s = self._host.clock.monotonic_s()
        lease = Lease(client, now_s, now_s + LEASE_S)
        leases = self._leases.setdefault(group, {})
        for receipt in receipts:
            leases[receipt] = lease

    def drop(self, group: str, receipts: Iterable[Receipt]) -> bool:
        """These are settled; whether any of them was a push consumer's."""
        leases = self._leases.get(group)
        if leases is None:
            return False
        found = [leases.pop(receipt, None) for receipt in receipts]
        if not leases:
            del self._leases[group]
        return any(lease is not None for lease in found)

    def give_back(self, client: str) -> None:
        """A client says goodbye: what it did not process is handed out again at once."""
        self._end(client, self._host.broker.release)

    def abandon(self, client: str) -> None:
        """A client vanished: what it held comes back as failed, else it might kill the next one."""
        self._end(client, lambda group, held: self._host.broker.extend(group, held, ABANDONED_S))

    def tick(self) -> None:
        """Renew what runs out soon; let go of what was held too long or is settled."""
        now_s = self._host.clock.monotonic_s()
        for group in list(self._leases):
            leases = self._leases[group]
            due = [
                receipt
                for receipt, lease in leases.items()
                if lease.until_s - now_s < RENEW_BEFORE_S
            ]
            for receipt in [each for each in due if now_s - leases[each].began_s >= LEASE_MAX_S]:
                del leases[receipt]
            self._renew(group, [receipt for receipt in due if receipt in leases], now_s)
            if not leases:
                del self._leases[group]

    def _renew(self, group: str, due: list[Receipt], now_s: float) -> None:
        leases = self._leases[group]
        for start in range(0, len(due), RECEIPTS_MAX):
            part = due[start : start + RECEIPTS_MAX]
            try:
                results = self._host.broker.extend(group, part, LEASE_S)
            except GroupNotFound:
                leases.clear()
                return
            except EngineError:
                return  # the disk is full, say: there is another try before they run out
            for receipt, result in zip(part, results, strict=True):
                if result.result is AckResult.DONE:
                    leases[receipt] = leases[receipt]._replace(until_s=now_s + LEASE_S)
                else:
                    del leases[receipt]

    def _end(self, client: str, settle: Callable[[str, list[Receipt]], object]) -> None:
        for group in list(self._leases):
            leases = self._leases[group]
            held = [receipt for receipt, lease in leases.items() if lease.client == client]
            self.drop(group, held)
            for start in range(0, len(held), RECEIPTS_MAX):
                try:
                    settle(group, held[start : start + RECEIPTS_MAX])
                except EngineError:
                    break  # they run out by themselves
