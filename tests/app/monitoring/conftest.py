"""A broker whose minutes pass when the test says so."""

from pathlib import Path

import pytest

from app.engine_administration import EngineAdministration
from app.host import EngineHost
from app.monitoring.meter import Meter
from engine.broker import Broker
from engine.clock import ManualClock
from engine.config import EngineConfig
from engine.store.pool import InlinePool

START_MS = 1_700_000_000_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START_MS)


@pytest.fixture
def broker(clock: ManualClock, tmp_path: Path) -> Broker:
    config = EngineConfig(data=tmp_path, disk_free_min_bytes=0, segment_bytes=8 << 20)
    broker = Broker(config, clock=clock, pool=InlinePool())
    broker.start()
    return broker


class ManualHost(EngineHost):
    """A host whose engine the test ticks itself."""

    def __init__(self, broker: Broker, clock: ManualClock) -> None:
        super().__init__(EngineConfig(), clock=clock)
        self.engine = broker

    @property
    def broker(self) -> Broker:
        return self.engine


@pytest.fixture
def host(broker: Broker, clock: ManualClock) -> EngineHost:
    return ManualHost(broker, clock)


@pytest.fixture
def administration(host: EngineHost) -> EngineAdministration:
    return EngineAdministration(host)


@pytest.fixture
def meter(broker: Broker) -> Meter:
    return Meter(lambda: broker.statistics)
