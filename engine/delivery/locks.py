"""Queue locks of orderly pulling consumers: one client at a time reads a queue of a group.

A lock is a lease: its holder renews it before it runs out, and until then no other client gets
the queue. It is the client's part to stop reading when half of the lease has passed without a
renewal, so that two never read at once. Unlike RocketMQ's, locks outlive a restart of the broker.
Source: docs/rocketmq-rules.md#queue-locks.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from engine.clock import Clock
from engine.delivery.group import GroupCatalog
from engine.delivery.receive import check_client
from engine.errors import Busy, Invalid, QueueNotFound
from engine.legality import check_number, check_queue
from engine.service import IDLE_WAIT_MAX_S, Service
from engine.store.journal import Journal, JournalEntry
from engine.topic.catalog import Catalog

BATCH_MAX = 1024
LOCKS_MAX = 100_000
TICK_GROUPS_MAX = 200
CLIENT_SHARE = 0.5  # of the lease, in which the client may go on reading


class LockedQueue(NamedTuple):
    """A queue of a topic."""

    topic: str
    queue: int


class QueueLock(msgspec.Struct, frozen=True):
    """The client that holds a queue alone until `until_ms` (ms since 1970), unless it renews."""

    topic: str
    queue: int
    client: str
    until_ms: int


class LockResult(msgspec.Struct, frozen=True):
    """The queues that the client has now; it may read them until `read_until_ms`."""

    locked: list[LockedQueue]
    lease_s: float
    read_until_ms: int


class QueuesLocked(JournalEntry, frozen=True, tag="queues_locked"):
    """A client got or kept these queues."""

    group: str
    client: str
    until_ms: int
    queues: list[LockedQueue]


class QueuesFreed(JournalEntry, frozen=True, tag="queues_freed"):
    """These queues are free; without any, all of the group's are."""

    group: str
    queues: list[LockedQueue]


class _Lease(NamedTuple):
    client: str
    until_s: float  # by the steady clock: setting the calendar changes no lease


class QueueLocks(Service):
    """Leases in memory, kept in the journal; at most 100,000 over all groups."""

    name = "queue locks"

    def __init__(
        self,
        journal: Journal,
        groups: GroupCatalog,
        catalog: Catalog,
        clock: Clock,
        *,
        lease_s: float,
    ) -> None:
        super().__init__()
        self._journal = journal
        self._groups = groups
        self._catalog = catalog
        self._clock = clock
        self.lease_s = lease_s
        self._leases: dict[str, dict[LockedQueue, _Lease]] = {}
        self._count = 0
        journal.register((QueuesLocked, QueuesFreed), self._apply, self._snapshot, _check)

    def lock(self, group: str, client: str, queues: Sequence[LockedQueue]) -> LockResult:
        """Lock queues for a client, or keep them; the answer leaves out those that others have.

        At most 1,024 at once. Creates the group where that is allowed. Raises Invalid,
        GroupNotFound, TopicNotFound, QueueNotFound (`queues[2].queue`), Busy beyond the bound.
        """
        self._check(client, queues)
        self._groups.ensure(group)
        self._check_exist(queues)
        now_s, now_ms = self._clock.monotonic_s(), self._clock.now_ms()
        leases = self._leases.get(group, {})
        got = [
            queue
            for queue in dict.fromkeys(queues)
            if (lease := leases.get(queue)) is None
            or lease.client == client
            or lease.until_s <= now_s
        ]
        if self._count + sum(queue not in leases for queue in got) > LOCKS_MAX:
            raise Busy(f"there are {self._count} queue locks already", retry_after_s=self.lease_s)
        if got:
            until_ms = now_ms + round(self.lease_s * 1000)
            self._write(QueuesLocked(group, client, until_ms, got))
        read_s = self.lease_s * CLIENT_SHARE
        return LockResult(got, self.lease_s, now_ms + round(read_s * 1000))

    def unlock(self, group: str, client: str, queues: Sequence[LockedQueue]) -> list[LockedQueue]:
        """Give up queues that the client has; which those were. Raises Invalid, GroupNotFound."""
        self._check(client, queues)
        self._groups.get(group)
        leases = self._leases.get(group, {})
        mine = [
            queue
            for queue in dict.fromkeys(queues)
            if (lease := leases.get(queue)) is not None and lease.client == client
        ]
        self._free(group, mine)
        return mine

    def unlock_all(self, group: str, client: str) -> None:
        """A client is gone: others need not wait for its leases to run out."""
        leases = self._leases.get(group)
        if leases:
            self._free(group, [queue for queue, lease in leases.items() if lease.client == client])

    def of(self, group: str) -> list[QueueLock]:
        """The live locks of a group, by topic and queue; GroupNotFound."""
        self._groups.get(group)
        leases = self._leases.get(group, {})
        now_s, now_ms = self._clock.monotonic_s(), self._clock.now_ms()
        return [
            QueueLock(*queue, lease.client, now_ms + round((lease.until_s - now_s) * 1000))
            for queue, lease in sorted(leases.items())
            if lease.until_s > now_s
        ]

    def has_live(self, group: str) -> bool:
        """Whether any client of the group holds a queue."""
        leases = self._leases.get(group)
        if not leases:
            return False
        now_s = self._clock.monotonic_s()
        return any(lease.until_s > now_s for lease in leases.values())

    def forget(self, group: str) -> None:
        """A group was deleted."""
        if group in self._leases:
            self._write(QueuesFreed(group, []))

    def tick(self) -> float:
        """Forget leases that ran out, of at most 200 groups."""
        now_s = self._clock.monotonic_s()
        for group in list(self._leases)[:TICK_GROUPS_MAX]:
            leases = self._leases.pop(group)
            left = {queue: lease for queue, lease in leases.items() if lease.until_s > now_s}
            self._count -= len(leases) - len(left)
            if left:
                self._leases[group] = left  # at the end: the others are looked at before
        return IDLE_WAIT_MAX_S

    # -- inside ----------------------------------------------------------------------------------

    def _check(self, client: str, queues: Sequence[LockedQueue]) -> None:
        if not client:
            raise Invalid("no client is named", field="client", remedy="name the consumer")
        check_client(client)
        if not 1 <= len(queues) <= BATCH_MAX:
            raise Invalid(
                f"{len(queues)} queues", field="queues", remedy=f"name 1 to {BATCH_MAX} queues"
            )

    def _check_exist(self, queues: Sequence[LockedQueue]) -> None:
        for index, (topic, queue) in enumerate(queues):
            config = self._catalog.get(topic)
            if not 0 <= queue < config.read_queues:
                raise QueueNotFound(
                    f"topic {topic!r} has no queue {queue} to read",
                    field=f"queues[{index}].queue",
                    remedy=f"choose 0 to {config.read_queues - 1}",
                )

    def _free(self, group: str, queues: list[LockedQueue]) -> None:
        if queues:
            self._write(QueuesFreed(group, queues))

    def _write(self, entry: QueuesLocked | QueuesFreed) -> None:
        self._journal.append(entry)
        self._apply(entry)

    def _apply(self, entry: QueuesLocked | QueuesFreed) -> None:
        leases = self._leases.setdefault(entry.group, {})
        before = len(leases)
        queues = entry.queues
        if isinstance(entry, QueuesLocked):
            left_s = (entry.until_ms - self._clock.now_ms()) / 1000
            # After a restart the calendar may have been set: no lease is longer than a new one.
            until_s = self._clock.monotonic_s() + min(max(left_s, 0.0), self.lease_s)
            leases.update(dict.fromkeys(queues, _Lease(entry.client, until_s)))
        elif queues:
            for queue in queues:
                leases.pop(queue, None)
        else:
            leases.clear()
        self._count += len(leases) - before
        if not leases:
            del self._leases[entry.group]

    def _snapshot(self) -> Iterable[JournalEntry]:
        now_s, now_ms = self._clock.monotonic_s(), self._clock.now_ms()
        for group, leases in self._leases.items():
            by_lease: dict[_Lease, list[LockedQueue]] = {}
            for queue, lease in leases.items():
                by_lease.setdefault(lease, []).append(queue)
            for lease, queues in by_lease.items():
                until_ms = now_ms + round((lease.until_s - now_s) * 1000)
                yield QueuesLocked(group, lease.client, until_ms, queues)


def _check(entry: QueuesLocked | QueuesFreed) -> None:
    """Raises Illegal for what cannot be a lock."""
    for each in entry.queues:
        check_queue(each.queue)
    if isinstance(entry, QueuesLocked):
        check_number("until_ms", entry.until_ms)
