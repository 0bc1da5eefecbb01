"""The parts that nearly every subsystem works with, passed on as one value."""

from dataclasses import dataclass

from engine.clock import Clock
from engine.events import EventBus
from engine.intake import Intake
from engine.store.store import Store
from engine.topic.catalog import Catalog


@dataclass(frozen=True, slots=True)
class EngineContext:
    """The log, its intake, topics, clock and events; `engine.container` builds the only one.

    A constructor takes what it needs out of it, so that no call goes through it later.
    """

    store: Store
    intake: Intake
    catalog: Catalog
    clock: Clock
    events: EventBus
