"""Broadcast groups: every client has all messages, and progress of its own.

A client's progress is kept under a derived name, "group@client", as if it were a group by itself;
no group's name holds an "@". What a client fails with is dropped, as in RocketMQ. A client that is
not seen for long is forgotten, and begins anew should it come back.
Source: docs/rocketmq-rules.md#retries-and-dead-letters.
"""

from collections.abc import Callable, Iterable, Sequence

from engine.clock import Clock
from engine.delivery.changes import GroupCleared
from engine.delivery.group import GroupCatalog, GroupConfig, Mode
from engine.delivery.message_state import MessageState
from engine.delivery.progress_store import ProgressStore
from engine.delivery.queue_progress import CLIENT_MARK
from engine.delivery.values import Receipt
from engine.errors import Invalid, Refused
from engine.service import IDLE_WAIT_MAX_S, Service

TICK_CLIENTS_MAX = 200
MISSES_MAX = 64


def _never(group: str, client: str) -> bool:
    """Until members.py answers."""
    return False


def _nobody(name: str) -> None:
    """Does nothing, until a callback is set."""


class Broadcasts(Service):
    """The clients of each broadcast group, at most `clients_max` of one group.

    A client counts as seen when it receives, settles, commits, sends a heartbeat or is connected;
    after a restart every client counts as just seen. `on_forgotten` gets a client's progress name.
    """

    name = "broadcast clients"

    def __init__(
        self,
        progress_store: ProgressStore,
        groups: GroupCatalog,
        clock: Clock,
        *,
        clients_max: int,
        timeout_s: float,
    ) -> None:
        super().__init__()
        self._progress_store = progress_store
        self._groups = groups
        self._clock = clock
        self._clients_max = clients_max
        self._timeout_s = timeout_s
        self._clients: dict[str, dict[str, float]] = {}  # by group: client to when it was seen
        self._order: dict[tuple[str, str], None] = {}  # the one that was seen longest ago first
        self.is_connected: Callable[[str, str], bool] = _never
        self.on_forgotten: Callable[[str], None] = _nobody

    def start(self, names: Iterable[str]) -> None:
        """After loading: the clients among all names of progress."""
        for name in sorted(names):
            group, mark, client = name.partition(CLIENT_MARK)
            if mark:
                self._see(group, client)

    def name_of(self, config: GroupConfig, client: str) -> str:
        """The name of the progress that a client of a group works on.

        That is the group itself, unless it broadcasts. Then raises Invalid without a client, and
        Refused for one client too many.
        """
        if config.mode is not Mode.BROADCAST:
            return config.name
        if not client:
            raise Invalid(
                f"the group {config.name!r} broadcasts: each client has its own progress",
                field="client",
                remedy="name the client, always by the same name",
            )
        known = self._clients.get(config.name, {})
        if client not in known and len(known) >= self._clients_max:
            raise Refused(
                f"{len(known)} clients of the group {config.name!r} are known, the most allowed",
                field="client",
                remedy="use fixed client names, or raise broadcast_clients_max",
            )
        self._see(config.name, client)
        return progress_name(config.name, client)

    def holders(self, group: str, receipts: Sequence[Receipt]) -> list[str]:
        """The name of the progress in which each receipt is current; the group's where none is.

        A receipt does not say whose it is. It is looked for with the client before it, then with
        all; after 64 that nobody had, the others are looked for with that client only.
        """
        names: list[str] = []
        last, misses = "", 0
        for receipt in receipts:
            name = last if self._holds(last, receipt) else ""
            if not name and misses < MISSES_MAX:
                name = self._look_for(group, receipt)
                misses += not name
            last = name or last
            names.append(name or group)
        for name in {name for name in names if name != group}:
            self._see(group, name.partition(CLIENT_MARK)[2])
        return names

    def seen(self, group: str, client: str) -> None:
        """A sign of life of a client, if it has any progress."""
        if client in self._clients.get(group, ()):
            self._see(group, client)

    def clients(self, group: str) -> list[str]:
        """The clients of a group whose progress is kept, by name."""
        return sorted(self._clients.get(group, ()))

    def names(self, group: str) -> list[str]:
        """The names of all progress of a group: its own, and its clients'."""
        return [group, *(progress_name(group, client) for client in self.clients(group))]

    def forget(self, group: str) -> None:
        """A group was deleted."""
        for client in self._clients.pop(group, {}):
            self._order.pop((group, client), None)

    def tick(self) -> float:
        """Forget clients that were not seen for long, at most 200."""
        now_s = self._clock.monotonic_s()
        for group, client in list(self._order)[:TICK_CLIENTS_MAX]:
            left_s = self._clients[group][client] + self._timeout_s - now_s
            if left_s > 0:
                return min(left_s, IDLE_WAIT_MAX_S)
            if self.is_connected(group, client):
                self._see(group, client)
            else:
                self._drop(group, client)
        return 0.0 if self._order else IDLE_WAIT_MAX_S

    def _look_for(self, group: str, receipt: Receipt) -> str:
        names = (progress_name(group, client) for client in self._clients.get(group, ()))
        return next((name for name in names if self._holds(name, receipt)), "")

    def _holds(self, name: str, receipt: Receipt) -> bool:
        progress = self._progress_store.find(name, receipt.topic, receipt.queue)
        slot = None if progress is None else progress.slots.get(receipt.offset)
        if slot is None or slot.phase is not MessageState.INFLIGHT:
            return False
        return slot.serial == receipt.serial

    def _see(self, group: str, client: str) -> None:
        self._clients.setdefault(group, {})[client] = self._clock.monotonic_s()
        self._order.pop((group, client), None)
        self._order[group, client] = None

    def _drop(self, group: str, client: str) -> None:
        name = progress_name(group, client)
        self._progress_store.write(GroupCleared(name))
        del self._order[group, client]
        clients = self._clients[group]
        del clients[client]
        if not clients:
            del self._clients[group]
        self.on_forgotten(name)


def progress_name(group: str, client: str) -> str:
    """Under which name the progress of a broadcast client is kept."""
    return f"{group}{CLIENT_MARK}{client}"


def is_broadcast(name: str) -> bool:
    """Whether progress of this name is a broadcast client's."""
    return CLIENT_MARK in name
