"""The engine's parts as all verbs use them."""

from collections.abc import Callable

from engine.container import Container
from engine.errors import EngineError, Stopping


class Verbs:
    """Holds the parts; `_is_running` says whether they may change anything."""

    _is_running: bool
    _refusal: Callable[[], EngineError]  # what they raise where not

    def _use(self, parts: Container) -> None:
        self._parts = parts
        self._store, self._catalog, self._intake = parts.store, parts.catalog, parts.intake
        self._delivery, self._timers = parts.delivery, parts.timers
        self._deliverer, self._timer_deliverer = parts.deliverer, parts.timer_deliverer
        self.events = parts.events
        self.transactions = parts.transactions
        self.requests = parts.requests
        self.replicas = parts.replicas
        self.members = parts.delivery.members
        self.locks = parts.locks
        self.resets = parts.delivery.resets
        self.replays = parts.replay.replays
        self.dead_letters = parts.replay.dead_letters
        self.search = parts.search
        self.traces = parts.traces
        self.statistics = parts.statistics
        self.retention = parts.retention

    def _check_running(self) -> None:
        if not self._is_running:
            raise self._refusal()


def stopping() -> EngineError:
    """What refuses a change before the start and from the end on."""
    return Stopping("the broker is not running", retry_after_s=5.0)
