"""Leases of push consumers: renews the invisible time of their messages while the client is alive.

A push consumer names no invisible time; Apache's proxy renews its messages, and so does this
module, for up to three hours. Leases do not survive a restart: the engine knows each deadline, and
messages that are not renewed are delivered again.

A live client may have missed an answer, because a connection that died silently accepts data until
the server notices. Messages that a connection carried shortly before it ended are therefore not
renewed. Earlier ones have arrived, since the client answered a ping after them.
"""

from collections import deque
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from app import eager
from app.grpc.connection import GrpcConnection
from app.messaging import Messaging
from engine.broker import AckResult, Receipt
from engine.clock import Clock
from engine.errors import EngineError, GroupNotFound

LEASE_S = 60.0
RENEW_BEFORE_S = 30.0
LEASE_MAX_S = 3 * 3600.0
DOUBTFUL_S = 90.0  # a dead connection is noticed within a minute, see http2_connection.py
SLOW_S = 5.0  # an answer that took longer gets the time when it was written
ABANDONED_S = 1.0  # until messages of a lost client are delivered again
STEP_MAX = 200  # receipts in one turn of the event loop
Key = tuple[str, Receipt]  # group and receipt


class Lease(NamedTuple):
    """The lease of a delivery: its holder, connection, begin, time of writing and end.

    Times are monotonic seconds.
    """

    holder: "LeaseHolder"
    origin: GrpcConnection
    began_s: float
    written_s: float
    until_s: float

    @property
    def is_doubtful(self) -> bool:
        """Whether the client may not have received it."""
        ended_s = self.origin.ended_s
        return ended_s is not None and ended_s - self.written_s < DOUBTFUL_S


@dataclass(eq=False)
class LeaseHolder:
    """The leases of one client in order of delivery, and how they end."""

    keys: dict[Key, None] = field(default_factory=dict)
    gives_back: bool = False


class Leases:
    """All leases by group and receipt; run `steps` regularly. The engine bounds their number."""

    def __init__(self, messaging: Messaging, clock: Clock) -> None:
        self._messaging = messaging
        self._clock = clock
        self._leases: dict[Key, Lease] = {}  # the one that runs out first comes first
        self._holders: dict[str, LeaseHolder] = {}
        self._gone: deque[LeaseHolder] = deque()

    @property
    def count(self) -> int:
        return len(self._leases)

    def add(
        self, group: str, client: str, origin: GrpcConnection, receipts: Iterable[Receipt]
    ) -> None:
        """Lease these deliveries to a client for LEASE_S, over this connection."""
        now_s = self._clock.monotonic_s()
        keys = [(group, receipt) for receipt in receipts]
        if not keys:
            return
        holder = self._holders.setdefault(client, LeaseHolder())
        lease = Lease(holder, origin, now_s, now_s, now_s + LEASE_S)
        for key in keys:
            self._leases[key] = lease
            holder.keys[key] = None

    def written(self, group: str, receipts: Iterable[Receipt]) -> None:
        """Note that an answer was written; a slow client may have delayed it."""
        now_s = self._clock.monotonic_s()
        for receipt in receipts:
            key = (group, receipt)
            lease = self._leases.get(key)
            if lease is not None and now_s - lease.began_s > SLOW_S:
                self._leases[key] = lease._replace(written_s=now_s)

    def drop(self, group: str, receipts: Iterable[Receipt]) -> bool:
        """End leases of settled messages; True if any existed."""
        leased = [self._drop((group, receipt)) for receipt in receipts]
        return any(leased)

    def give_back(self, client: str) -> None:
        """Release all messages of a client that ends, for immediate redelivery."""
        self._end(client, gives_back=True)

    def abandon(self, client: str) -> None:
        """End the leases of a lost client; its messages count as failed: one may have killed it."""
        self._end(client, gives_back=False)

    async def steps(self) -> AsyncIterator[None]:
        """End leases of clients that are gone, then renew those that expire soon, in parts.

        Leases that are too old, settled or doubtful are dropped.
        """
        while self._gone:
            self._settle()
            yield
        now_s = self._clock.monotonic_s()
        while due := self._due(now_s):
            if not await self._renew(due, now_s):
                return  # the disk is full, for example; the next round tries again
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
        """Settle the next part of the leases of clients that are gone."""
        holder = self._gone[0]
        part = [key for key, _ in zip(holder.keys, range(STEP_MAX), strict=False)]
        for key in part:
            self._drop(key)
            holder.keys.pop(key, None)
        if not holder.keys:
            self._gone.popleft()
        # What the engine refuses to settle expires by itself.
        for group, receipts in _by_group(part).items():
            if holder.gives_back:
                eager.run(self._messaging.release(group, receipts), eager.ignore)
            else:
                eager.run(self._messaging.extend(group, receipts, ABANDONED_S), eager.ignore)

    def _due(self, now_s: float) -> list[Key]:
        due: list[Key] = []
        for key, lease in self._leases.items():
            if len(due) == STEP_MAX or lease.until_s - now_s >= RENEW_BEFORE_S:
                break
            due.append(key)
        return due

    async def _renew(self, due: list[Key], now_s: float) -> bool:
        """Renew or drop these leases; False if the engine refused."""
        renewable = []
        for key in due:
            lease = self._leases[key]
            if now_s - lease.began_s >= LEASE_MAX_S or lease.is_doubtful:
                self._drop(key)
            else:
                renewable.append(key)
        for group, receipts in _by_group(renewable).items():
            try:
                results = await self._messaging.extend(group, receipts, LEASE_S)
            except GroupNotFound:
                self.drop(group, receipts)
                continue
            except EngineError:
                return False
            for receipt, result in zip(receipts, results, strict=True):
                self._renewed((group, receipt), result.result is AckResult.DONE, now_s)
        return True

    def _renewed(self, key: Key, is_held: bool, now_s: float) -> None:
        """Move a renewed lease to the end of the order; drop one that the engine does not know."""
        lease = self._leases.get(key)
        if lease is None:
            return  # it ended meanwhile
        if is_held:
            del self._leases[key]
            self._leases[key] = lease._replace(until_s=now_s + LEASE_S)
        else:
            self._drop(key)


def _by_group(keys: Iterable[Key]) -> dict[str, list[Receipt]]:
    receipts: dict[str, list[Receipt]] = {}
    for group, receipt in keys:
        receipts.setdefault(group, []).append(receipt)
    return receipts
