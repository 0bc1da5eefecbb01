"""Hand-outs of push consumers: kept from running out for as long as their client lives.

Such a consumer names no time for its messages; Apache's proxy renews what it holds, and so do we,
up to three hours for one message. Nothing here is kept over a restart: the engine has the deadline
of every hand-out, and what nobody renews comes back by itself.

A client that lives need not have got an answer: a connection that died silently takes answers
until the server notices. So what a connection carried in its last moments is renewed no more once
it ended. What it carried before that the client has, since a ping was answered after it.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from app.grpc.connection import GrpcConnection
from app.host import EngineHost
from engine.broker import AckResult, Receipt
from engine.errors import EngineError, GroupNotFound

LEASE_S = 60.0
RENEW_BEFORE_S = 30.0
LEASE_MAX_S = 3 * 3600.0
DOUBTFUL_S = 90.0  # a dead connection is noticed within a minute, see server.py and tls_mux.py
SLOW_S = 5.0  # an answer that took longer is marked with the time when it left
ABANDONED_S = 1.0  # then what a client that vanished held comes back, its attempt counted
STEP_MAX = 200  # receipts that are settled or renewed in one turn of the loop
Key = tuple[str, Receipt]  # of which group


class Lease(NamedTuple):
    """One hand-out: whose, by which connection; since when, when it left, until when.

    Times are those of the monotonic clock.
    """

    holder: "LeaseHolder"
    origin: GrpcConnection
    began_s: float
    written_s: float
    until_s: float

    @property
    def is_doubtful(self) -> bool:
        """Whether its answer may never have arrived."""
        ended_s = self.origin.ended_s
        return ended_s is not None and ended_s - self.written_s < DOUBTFUL_S


@dataclass(eq=False)
class LeaseHolder:
    """What one client holds, in the order in which it got it; and how it comes back."""

    keys: dict[Key, None] = field(default_factory=dict)
    gives_back: bool = False


class Leases:
    """By group and receipt; go through `steps` now and then. The engine bounds how many."""

    def __init__(self, host: EngineHost) -> None:
        self._host = host
        self._leases: dict[Key, Lease] = {}  # the one that runs out first comes first
        self._holders: dict[str, LeaseHolder] = {}
        self._gone: deque[LeaseHolder] = deque()

    @property
    def count(self) -> int:
        return len(self._leases)

    def add(
        self, group: str, client: str, origin: GrpcConnection, receipts: Iterable[Receipt]
    ) -> None:
        """A client was handed these for LEASE_S, by an answer over this connection."""
        now_s = self._host.clock.monotonic_s()
        keys = [(group, receipt) for receipt in receipts]
        if not keys:
            return
        holder = self._holders.setdefault(client, LeaseHolder())
        lease = Lease(holder, origin, now_s, now_s, now_s + LEASE_S)
        for key in keys:
            self._leases[key] = lease
            holder.keys[key] = None

    def written(self, group: str, receipts: Iterable[Receipt]) -> None:
        """Their answer has left by now; a client that reads slowly may have held it up for long."""
        now_s = self._host.clock.monotonic_s()
        for receipt in receipts:
            key = (group, receipt)
            lease = self._leases.get(key)
            if lease is not None and now_s - lease.began_s > SLOW_S:
                self._leases[key] = lease._replace(written_s=now_s)

    def drop(self, group: str, receipts: Iterable[Receipt]) -> bool:
        """These are settled; whether any of them was a push consumer's."""
        found = [self._drop((group, receipt)) for receipt in receipts]
        return any(found)

    def give_back(self, client: str) -> None:
        """A client says goodbye: what it did not process is handed out again, the first at once."""
        self._end(client, gives_back=True)

    def abandon(self, client: str) -> None:
        """A client vanished: what it held comes back as failed, else it might kill the next one."""
        self._end(client, gives_back=False)

    def steps(self) -> Iterator[None]:
        """Settle what is left of clients that ended, then renew what runs out soon, bit by bit.

        What was held too long, what is settled and what may never have arrived is let go.
        """
        while self._gone:
            self._settle()
            yield
        now_s = self._host.clock.monotonic_s()
        while due := self._due(now_s):
            if not self._renew(due, now_s):
                return  # the disk is full, say: there is another try before they run out
            yield

    # -- inside ----------------------------------------------------------------------------------

    def _drop(self, key: Key) -> bool:
        lease = self._leases.pop(key, None)
        if lease is None:
            return False
        lease.holder.keys.pop(key, None)
        return True

    def _end(self, client: str, *, gives_back: bool) -> None:
        holder = self._holders.pop(client, None)
        if holder is not None and holder.keys:
            holder.gives_back = gives_back
            self._gone.append(holder)
            self._settle()

    def _settle(self) -> None:
        """Let go of the next part of what clients held that ended."""
        holder = self._gone[0]
        part = [key for key, _ in zip(holder.keys, range(STEP_MAX), strict=False)]
        for key in part:
            self._drop(key)
            holder.keys.pop(key, None)
        if not holder.keys:
            self._gone.popleft()
        broker = self._host.broker
        for group, receipts in _by_group(part).items():
            try:
                if holder.gives_back:
                    broker.release(group, receipts)
                else:
                    broker.extend(group, receipts, ABANDONED_S)
            except EngineError:
                continue  # they run out by themselves

    def _due(self, now_s: float) -> list[Key]:
        due: list[Key] = []
        for key, lease in self._leases.items():
            if len(due) == STEP_MAX or lease.until_s - now_s >= RENEW_BEFORE_S:
                break
            due.append(key)
        return due

    def _renew(self, due: list[Key], now_s: float) -> bool:
        """Renew these, or let go of them; whether the engine took it."""
        kept = []
        for key in due:
            lease = self._leases[key]
            if now_s - lease.began_s >= LEASE_MAX_S or lease.is_doubtful:
                self._drop(key)
            else:
                kept.append(key)
        for group, receipts in _by_group(kept).items():
            try:
                results = self._host.broker.extend(group, receipts, LEASE_S)
            except GroupNotFound:
                self.drop(group, receipts)
                continue
            except EngineError:
                return False
            for receipt, result in zip(receipts, results, strict=True):
                self._renewed((group, receipt), result.result is AckResult.DONE, now_s)
        return True

    def _renewed(self, key: Key, is_held: bool, now_s: float) -> None:
        """Put a lease behind those that run out sooner; or drop it, as the engine has it not."""
        if is_held:
            self._leases[key] = self._leases.pop(key)._replace(until_s=now_s + LEASE_S)
        else:
            self._drop(key)


def _by_group(keys: Iterable[Key]) -> dict[str, list[Receipt]]:
    found: dict[str, list[Receipt]] = {}
    for group, receipt in keys:
        found.setdefault(group, []).append(receipt)
    return found
