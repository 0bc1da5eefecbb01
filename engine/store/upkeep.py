"""Upkeep of the store: moves the checkpoint on and watches the disk."""

from collections.abc import Callable
from typing import Protocol

from engine.service import Service

DISK_CHECK_S = 1.0


class Upkept(Protocol):
    """What these services ask of the store."""

    @property
    def changes(self) -> tuple[int, int]: ...

    def begin_checkpoint(self, finished: Callable[[], None]) -> None: ...

    def watch_disk(self) -> None: ...


class Checkpointer(Service):
    """Moves recovery's starting point on while the log grows."""

    name = "checkpoint"

    def __init__(self, store: Upkept, interval_s: float) -> None:
        super().__init__()
        self._store = store
        self._interval_s = interval_s
        self._is_running = False
        self._finished_changes: tuple[int, int] | None = None

    def tick(self) -> float:
        if self._store.changes != self._finished_changes and not self._is_running:
            self._is_running, self._finished_changes = True, self._store.changes
            try:
                self._store.begin_checkpoint(self._finished)
            except OSError:
                self._is_running, self._finished_changes = False, None
                raise
        return self._interval_s

    def _finished(self) -> None:
        self._is_running = False


class DiskWatch(Service):
    """Measures free disk, so that sends are refused before the disk is really full."""

    name = "disk"

    def __init__(self, store: Upkept) -> None:
        super().__init__()
        self._store = store

    def tick(self) -> float:
        self._store.watch_disk()
        return DISK_CHECK_S
