"""Callback addresses of producer groups, called when a transaction is checked.

Only the address is kept here; the application calls it.
"""

from collections.abc import Iterable

import msgspec

from engine.errors import Busy, GroupNotFound, Invalid
from engine.legality import check_by
from engine.store.journal import Journal, JournalEntry
from engine.topic.names import check_group_name

CALLBACKS_MAX = 10_000
URL_LENGTH_MAX = 2048
TIMEOUT_MS_MAX = 30_000


class Callback(msgspec.Struct, frozen=True, array_like=True):
    """Callback of a producer group: its address, and the limit for an answer."""

    group: str
    url: str
    timeout_ms: int = 5000


class CallbackSet(JournalEntry, frozen=True, tag="callback_set", array_like=True):
    """A group is to be asked here from now on."""

    callback: Callback


class CallbackDeleted(JournalEntry, frozen=True, tag="callback_deleted", array_like=True):
    """A group is not to be called any more."""

    group: str


class CallbackTable:
    """By producer group, at most 10,000; who makes one keeps it."""

    def __init__(self) -> None:
        self._callbacks: dict[str, Callback] = {}

    def find(self, group: str) -> Callback | None:
        return self._callbacks.get(group)

    def get(self, group: str) -> Callback:
        """GroupNotFound where the group has none."""
        callback = self._callbacks.get(group)
        if callback is None:
            raise GroupNotFound(
                f"the producer group {group!r} has no callback",
                field="group",
                remedy="register one, or check the name",
            )
        return callback

    def all(self) -> list[Callback]:
        """All of them, by group."""
        return [self._callbacks[group] for group in sorted(self._callbacks)]

    def check_new(self, callback: Callback) -> None:
        """Raise Invalid for what cannot be a callback, Busy for one too many."""
        check_callback(callback)
        if callback.group not in self._callbacks and len(self._callbacks) >= CALLBACKS_MAX:
            raise Busy(
                f"{CALLBACKS_MAX} callbacks are the most",
                field="group",
                remedy="delete those that nobody needs",
                retry_after_s=60.0,
            )


class Callbacks(CallbackTable):
    """Those of the engine, kept in the journal."""

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal
        journal.register((CallbackSet, CallbackDeleted), self._apply, self._snapshot, _check)

    def set(self, callback: Callback) -> Callback:
        """Register one, in the place of an older one. Raises Invalid, Busy, DiskFull."""
        self.check_new(callback)
        entry = CallbackSet(callback)
        self._journal.append(entry, is_lasting=True)
        self._apply(entry)
        return callback

    def delete(self, group: str) -> None:
        """Call a group no more; GroupNotFound where it has no callback."""
        self.get(group)
        entry = CallbackDeleted(group)
        self._journal.append(entry, is_lasting=True)
        self._apply(entry)

    def _apply(self, entry: CallbackSet | CallbackDeleted) -> None:
        if isinstance(entry, CallbackSet):
            self._callbacks[entry.callback.group] = entry.callback
        else:
            self._callbacks.pop(entry.group, None)

    def _snapshot(self) -> Iterable[CallbackSet]:
        return map(CallbackSet, self._callbacks.values())


def check_callback(callback: Callback) -> None:
    """Raises Invalid, naming the field, for what cannot be a callback."""
    check_group_name(callback.group)
    if not 0 < len(callback.url) <= URL_LENGTH_MAX:
        raise Invalid(
            f"an address of {len(callback.url)} characters, 1 to {URL_LENGTH_MAX} are allowed",
            field="url",
            remedy="give a shorter address",
        )
    if not 1 <= callback.timeout_ms <= TIMEOUT_MS_MAX:
        raise Invalid(
            f"{callback.timeout_ms} ms to answer, 1 to {TIMEOUT_MS_MAX} are allowed",
            field="timeout_ms",
            remedy="let a slow producer answer later, by a commit or a roll-back",
        )


def _check(entry: CallbackSet | CallbackDeleted) -> None:
    if isinstance(entry, CallbackSet):
        check_by(check_callback, entry.callback)
